#!/bin/sh
# Builds everything that gpu/run.sh needs on a machine with a GPU, into the folder out/gpu and an archive of it (no toolkit
# needed here). That machine needs the processor's family of this one and a C library as new.
set -eu
# What is timed is built in the profile of benches: every dependency is optimised, the bindings of the driver too. Tests are
# built as they always are.
cd "$(dirname "$0")/../../.."
target="${CARGO_TARGET_DIR:-target}"
rm -rf out/gpu out/gpu.tar.gz
mkdir -p out/gpu/data
cargo build --locked --profile bench -p amp-cuda --example throughput
cargo build --locked --profile bench -p amp --example digits --example steps
for example in throughput digits steps; do
    cp "$target/release/examples/$example" out/gpu/
done
for test in "amp conformance" "amp zoo" "amp-cuda kernels" "amp-cuda products" "amp-cuda convolutions" "amp-cuda replay" \
    "amp-cuda training"; do
    package=${test% *} name=${test#* }
    cargo test --locked -p "$package" --test "$name" --no-run --message-format=json > out/gpu/messages
    file=$(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' out/gpu/messages | tail -n 1)
    cp "$file" "out/gpu/$name"
done
rm out/gpu/messages
# Names of functions are half of it.
! command -v strip > /dev/null || find out/gpu -maxdepth 1 -type f -exec strip {} +
cp data/digits.csv.gz out/gpu/data/
cp crates/amp-cuda/gpu/run.sh crates/amp-cuda/gpu/*.py out/gpu/
git rev-parse --short HEAD > out/gpu/commit 2> /dev/null || echo unknown > out/gpu/commit
tar -C out -czf out/gpu.tar.gz gpu
echo "out/gpu is ready, and packed in out/gpu.tar.gz ($(du -h out/gpu.tar.gz | cut -f 1)): run its run.sh on the GPU's machine"
