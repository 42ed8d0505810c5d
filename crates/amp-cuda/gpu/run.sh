#!/bin/sh
# Runs on a machine with a GPU, in under 10 minutes, from the folder that gpu/bundle.sh made: conformance on the real
# device, compute-sanitizer over it, the digits example, and throughput next to PyTorch's.
# Results go to record/, which belongs into benches/record/ of the repository.
set -u
cd "$(dirname "$0")"
mkdir -p record
exec 2>&1
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv | tee record/gpu.csv
# The run-time compiler of Python's packages, where the system has none.
folders=$(python3 -c 'import glob, site; print(":".join(d for s in site.getsitepackages() for d in glob.glob(s + "/nvidia/*/lib")))' 2>/dev/null)
export AMP_CUDA_LIB_DIR="${AMP_CUDA_LIB_DIR:-$folders}" AMP_REQUIRE_CUDA=1
status=0
timeout 180 ./conformance --test-threads=4 > record/conformance.txt || status=1
tail -n 3 record/conformance.txt
timeout 60 ./training --test-threads=4 > record/training.txt || status=1
tail -n 3 record/training.txt
if command -v compute-sanitizer > /dev/null; then
    for tool in memcheck racecheck; do
        timeout 120 compute-sanitizer --tool "$tool" --error-exitcode 9 ./conformance --test-threads=1 reductions \
            > "record/$tool.txt" || status=1
        tail -n 2 "record/$tool.txt"
    done
else
    echo "compute-sanitizer is missing: memory and races were not checked on this device"
fi
timeout 120 ./digits > record/digits.txt || status=1
tail -n 5 record/digits.txt
timeout 60 ./throughput > record/throughput-amp.csv || status=1
timeout 60 python3 throughput.py > record/throughput-torch.csv || echo "PyTorch's figures are missing"
paste -d, record/throughput-amp.csv record/throughput-torch.csv
exit $status
