#!/bin/sh
# What expansion costs: 200 functions of 11 operations, annotated and with casts by hand, checked by the compiler alone.
# Run from the repository's root; prints milliseconds of user time for each set and the difference per function, once for
# functions over tensors and once for functions over a model's fields and modules, whose types decide about their casts.
set -eu
count=200
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cargo build --quiet

functions() {
    echo 'use amp::prelude::*;'
    echo 'pub struct B { pub wq: Tensor<F32>, pub wk: Tensor<F32>, pub wv: Parameter, pub fc: amp::nn::Linear, pub up: amp::nn::Linear }'
    for i in $(seq "$count"); do
        echo "$1 pub fn f$i($2) -> Result<Tensor<F32>> { $3 }"
    done
}
tensors='x: &Tensor<F32>, w: &Tensor<F32>, v: &Tensor<F32>'
functions '#[autocast(f16)]' "$tensors" 'let q = x.matmul(w)?; let k = x.matmul(v)?; let s = q.matmul(&k.t()?)?;
    let p = s.softmax(-1)?; let y = p.matmul(x)?.relu()?; let z = (&y + x)?; let n = z.layer_norm([4], None, None, 1e-5)?;
    n.matmul(w)?.tanh()' >"$out/tensors.rs"
functions '' "$tensors" 'let (x16, w16, v16) = (x.to::<F16>()?, w.to::<F16>()?, v.to::<F16>()?); let q = x16.matmul(&w16)?;
    let k = x16.matmul(&v16)?; let s = q.matmul(&k.t()?)?; let p = s.to::<F32>()?.softmax(-1)?;
    let y = p.to::<F16>()?.matmul(&x16)?.relu()?; let z = (&y.to::<F32>()? + x)?;
    let n = z.layer_norm([4], None, None, 1e-5)?; n.to::<F16>()?.matmul(&w16)?.tanh()?.to::<F32>()' >"$out/tensors_by_hand.rs"
functions '#[autocast(f16)]' 'b: &B, x: &Tensor<F32>' 'let q = x.matmul(&b.wq)?; let k = x.matmul(&b.wk)?; let v = x.matmul(&b.wv)?;
    let s = q.matmul(&k.t()?)?; let p = s.softmax(-1)?; let y = p.matmul(&v)?; let h = b.fc.forward(&y)?;
    let z = (&h + x)?; let n = z.layer_norm([4], None, None, 1e-5)?; b.up.forward(&n)?.tanh()' >"$out/model.rs"
functions '' 'b: &B, x: &Tensor<F32>' 'let x16 = x.to::<F16>()?; let q = x16.matmul(&b.wq.to::<F16>()?)?;
    let k = x16.matmul(&b.wk.to::<F16>()?)?; let v = x16.matmul(&b.wv.tensor().to::<F16>()?)?; let s = q.matmul(&k.t()?)?;
    let p = s.to::<F32>()?.softmax(-1)?; let y = p.to::<F16>()?.matmul(&v)?; let h = b.fc.forward(&y)?;
    let z = (&h.to::<F32>()? + x)?; let n = z.layer_norm([4], None, None, 1e-5)?;
    b.up.forward(&n.to::<F16>()?)?.tanh()?.to::<F32>()' >"$out/model_by_hand.rs"

# User time of one check, in milliseconds; a program that does not compile has none.
check() {
    bash -c "TIMEFORMAT=%U; time rustc --edition 2024 --crate-type lib --emit metadata --out-dir $out \
        --extern amp=target/debug/libamp.rlib -L dependency=target/debug/deps $out/$1.rs 2>$out/messages" 2>"$out/time"
    [ ! -s "$out/messages" ] || { cat "$out/messages" >&2; exit 1; }
    awk '{ print int($1 * 1000) }' "$out/time"
}
# Nine runs of each, in turns; the medians, the least and the most of the annotated one.
for set in tensors model; do
    rm -f "$out/region" "$out/by_hand"
    for _ in 1 2 3 4 5 6 7 8 9; do
        check "$set" >>"$out/region"
        check "${set}_by_hand" >>"$out/by_hand"
    done
    sort -n "$out/region" >"$out/sorted"
    region=$(sed -n 5p "$out/sorted")
    by_hand=$(sort -n "$out/by_hand" | sed -n 5p)
    echo "$set: annotated $region ms ($(head -n 1 "$out/sorted") to $(tail -n 1 "$out/sorted")), by hand $by_hand ms:" \
        "$(awk "BEGIN { print ($region - $by_hand) / $count }") ms a function"
done
