#!/bin/sh
# What casts cost in generated code: functions that are annotated and the same with casts by hand, compiled for release and
# run on tensors of 4 x 4. Run from the repository's root; needs valgrind, which counts exactly what is executed: prints
# instructions and conditional branches of two calls, with everything that is called from them.
set -eu
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cargo build --quiet --release

cat >"$out/release.rs" <<'EOF'
use amp::prelude::*;
pub struct B { pub wq: Tensor<F32>, pub wk: Tensor<F32>, pub wv: Parameter, pub fc: amp::nn::Linear, pub up: amp::nn::Linear }

#[inline(never)]
#[autocast(f16)]
pub fn tensors(x: &Tensor<F32>, w: &Tensor<F32>, v: &Tensor<F32>) -> Result<Tensor<F32>> {
    let q = x.matmul(w)?;
    let k = x.matmul(v)?;
    let s = q.matmul(&k.t()?)?;
    let p = s.softmax(-1)?;
    let y = p.matmul(x)?.relu()?;
    let z = (&y + x)?;
    let n = z.layer_norm([4], None, None, 1e-5)?;
    n.matmul(w)?.tanh()
}
#[inline(never)]
pub fn tensors_by_hand(x: &Tensor<F32>, w: &Tensor<F32>, v: &Tensor<F32>) -> Result<Tensor<F32>> {
    let (x16, w16) = (x.to::<F16>()?, w.to::<F16>()?);
    let q = x16.matmul(&w16)?;
    let k = x16.matmul(&v.to::<F16>()?)?;
    let s = q.matmul(&k.t()?)?;
    let p = s.to::<F32>()?.softmax(-1)?;
    let y = p.to::<F16>()?.matmul(&x16)?.relu()?;
    let z = (&y.to::<F32>()? + x)?;
    let n = z.layer_norm([4], None, None, 1e-5)?;
    n.to::<F16>()?.matmul(&w16)?.tanh()?.to::<F32>()
}

#[inline(never)]
#[autocast(f16)]
pub fn model(b: &B, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let q = x.matmul(&b.wq)?;
    let k = x.matmul(&b.wk)?;
    let v = x.matmul(&b.wv)?;
    let s = q.matmul(&k.t()?)?;
    let p = s.softmax(-1)?;
    let y = p.matmul(&v)?;
    let h = b.fc.forward(&y)?;
    let z = (&h + x)?;
    let n = z.layer_norm([4], None, None, 1e-5)?;
    b.up.forward(&n)?.tanh()
}
#[inline(never)]
pub fn model_by_hand(b: &B, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let x16 = x.to::<F16>()?;
    let q = x16.matmul(&b.wq.to::<F16>()?)?;
    let k = x16.matmul(&b.wk.to::<F16>()?)?;
    let v = x16.matmul(&b.wv.tensor().to::<F16>()?)?;
    let s = q.matmul(&k.t()?)?;
    let p = s.to::<F32>()?.softmax(-1)?;
    let y = p.to::<F16>()?.matmul(&v)?;
    let h = b.fc.forward(&y)?;
    let z = (&h.to::<F32>()? + x)?;
    let n = z.layer_norm([4], None, None, 1e-5)?;
    b.up.forward(&n.to::<F16>()?)?.tanh()?.to::<F32>()
}

#[inline(never)]
#[autocast(bf16)]
pub fn turns(x: &Tensor<F32>, w: &Tensor<F32>, n: usize) -> Result<Tensor<F32>> {
    let mut h = x.matmul(w)?;
    for _ in 0..n {
        h = h.matmul(w)?.gelu()?;
    }
    if n > 3 { h.softmax(-1) } else { Ok(h) }
}
#[inline(never)]
pub fn turns_by_hand(x: &Tensor<F32>, w: &Tensor<F32>, n: usize) -> Result<Tensor<F32>> {
    let w16 = w.to::<BF16>()?;
    let mut h = x.to::<BF16>()?.matmul(&w16)?;
    for _ in 0..n {
        h = h.matmul(&w16)?.gelu()?;
    }
    if n > 3 { h.to::<F32>()?.softmax(-1) } else { Ok(h.to::<F32>()?) }
}

fn main() -> Result<()> {
    let device = Device::cpu();
    let leaf = || Tensor::<F32>::uniform([4, 4], -1.0, 1.0, &device);
    let (x, w, v) = (leaf()?, leaf()?, leaf()?);
    let linear = || amp::nn::Linear::new(4, 4, &device);
    let b = B { wq: leaf()?, wk: leaf()?, wv: Parameter::new(&leaf()?)?, fc: linear()?, up: linear()? };
    let which = std::env::args().nth(1).unwrap_or_default();
    for _ in 0..2 {
        match which.as_str() {
            "tensors" => tensors(&x, &w, &v)?,
            "tensors_by_hand" => tensors_by_hand(&x, &w, &v)?,
            "model" => model(&b, &x)?,
            "model_by_hand" => model_by_hand(&b, &x)?,
            "turns" => turns(&x, &w, 3)?,
            _ => turns_by_hand(&x, &w, 3)?,
        };
    }
    Ok(())
}
EOF
rustc --edition 2024 --crate-name release -C opt-level=3 -C codegen-units=1 --extern amp=target/release/libamp.rlib \
    -L dependency=target/release/deps -o "$out/release" "$out/release.rs"
printf '%-20s %14s %10s\n' function instructions branches
for function in tensors tensors_by_hand model model_by_hand turns turns_by_hand; do
    valgrind --tool=callgrind --branch-sim=yes --collect-atstart=no "--toggle-collect=release::$function" \
        --callgrind-out-file="$out/counts" "$out/release" "$function" 2>"$out/messages"
    awk -v name="$function" '/^summary:|^totals:/ { printf "%-20s %14d %10d\n", name, $2, $3; exit }' "$out/counts"
done
