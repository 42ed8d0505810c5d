#!/bin/sh
# Builds everything that gpu/run.sh needs on a machine with a GPU, into the folder out/gpu (no toolkit needed here).
set -eu
# In the profile of benches every dependency is optimised, the bindings of the driver too.
cd "$(dirname "$0")/../../.."
target="${CARGO_TARGET_DIR:-target}"
mkdir -p out/gpu/data
cargo build --profile bench -p amp-cuda --example throughput
cargo build --profile bench -p amp --example digits --example steps
for example in throughput digits steps; do
    cp "$target/release/examples/$example" out/gpu/
done
for test in "amp conformance" "amp training" "amp-cuda kernels"; do
    package=${test% *} name=${test#* }
    file=$(cargo test --profile bench -p "$package" --test "$name" --no-run --message-format=json |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
    cp "$file" "out/gpu/$name"
done
cp crates/amp-cuda/gpu/run.sh crates/amp-cuda/gpu/*.py out/gpu/
[ ! -d data ] || cp -r data/. out/gpu/data/
echo "out/gpu is ready: copy it to the GPU's machine and run run.sh there"
