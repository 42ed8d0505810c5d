#!/bin/sh
# Builds everything that gpu/run.sh needs on a machine with a GPU, into the folder out/gpu (no toolkit needed here).
set -eu
cd "$(dirname "$0")/../../.."
cargo build --release -p amp-cuda --example throughput
cargo build --release -p amp --example digits
mkdir -p out/gpu/data
cp target/release/examples/throughput target/release/examples/digits out/gpu/
cp crates/amp-cuda/gpu/run.sh crates/amp-cuda/gpu/throughput.py out/gpu/
[ ! -d data ] || cp -r data/. out/gpu/data/
for test in conformance training; do
    file=$(cargo test --release -p amp --test "$test" --no-run --message-format=json |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
    cp "$file" "out/gpu/$test"
done
echo "out/gpu is ready: copy it to the GPU's machine and run run.sh there"
