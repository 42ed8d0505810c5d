#!/bin/sh
# What expansion costs: 200 functions of 11 operations, annotated and with casts by hand, checked by the compiler alone.
# Run from the repository's root; prints milliseconds of user time for each set and the difference per function.
set -eu
count=200
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cargo build --quiet

functions() {
    echo 'use amp::prelude::*;'
    for i in $(seq "$count"); do
        echo "$1 pub fn f$i(x: &Tensor<F32>, w: &Tensor<F32>, v: &Tensor<F32>) -> Result<Tensor<F32>> { $2 }"
    done
}
functions '#[autocast(f16)]' 'let q = x.matmul(w)?; let k = x.matmul(v)?; let s = q.matmul(&k.t()?)?; let p = s.softmax(-1)?;
    let y = p.matmul(x)?.relu()?; let z = (&y + x)?; let n = z.layer_norm([4], None, None, 1e-5)?; n.matmul(w)?.tanh()' >"$out/region.rs"
functions '' 'let (x16, w16, v16) = (x.to::<F16>()?, w.to::<F16>()?, v.to::<F16>()?); let q = x16.matmul(&w16)?;
    let k = x16.matmul(&v16)?; let s = q.matmul(&k.t()?)?; let p = s.to::<F32>()?.softmax(-1)?;
    let y = p.to::<F16>()?.matmul(&x16)?.relu()?; let z = (&y.to::<F32>()? + x)?;
    let n = z.layer_norm([4], None, None, 1e-5)?; n.to::<F16>()?.matmul(&w16)?.tanh()?.to::<F32>()' >"$out/by_hand.rs"

# The least of five runs, in milliseconds of user time.
measure() {
    for _ in 1 2 3 4 5; do
        bash -c "TIMEFORMAT=%U; time rustc --edition 2024 --crate-type lib --emit metadata --out-dir $out \
            --extern amp=target/debug/libamp.rlib -L dependency=target/debug/deps $out/$1.rs" 2>&1
    done | sort -n | head -n 1 | awk '{ print int($1 * 1000) }'
}
region=$(measure region)
by_hand=$(measure by_hand)
echo "annotated $region ms, by hand $by_hand ms: $(awk "BEGIN { print ($region - $by_hand) / $count }") ms a function"
