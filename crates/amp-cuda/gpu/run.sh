#!/bin/sh
# Runs on a machine with a GPU, in under 10 minutes, from the folder that gpu/bundle.sh made: conformance and kernel tests
# on the real device, compute-sanitizer over the kernel tests, the digits example, and kernels and whole training steps
# next to PyTorch's. Results go to record/, which belongs into benches/record/ of the repository.
#
# The limits add up to less than 10 minutes; what does not end in time counts as failed. TINY=1 tries the script out on a
# machine without a GPU: small models, longer limits, and the stand-in driver where AMP_CUDA_LIB_DIR names its folder.
set -u
cd "$(dirname "$0")" || exit 1
mkdir -p record
exec 2>&1
status=0
tiny=${TINY:+--tiny}
# An emulated device on a busy machine.
slower=1
[ -z "$tiny" ] || slower=20

# Runs a command for at most so many seconds; what it prints goes to record/, its last lines are shown.
record() {
    name=$1 limit=$2
    shift 2
    started=$(date +%s)
    timeout "$((limit * slower))" "$@" > "record/$name.txt" 2>&1
    code=$?
    echo "== $name: exit status $code after $(($(date +%s) - started)) s"
    tail -n 3 "record/$name.txt"
    [ "$code" -eq 0 ] || status=1
}

# As record, for training steps, with the most memory that the driver saw in use meanwhile.
steps() {
    rm -f record/memory.tmp
    if command -v nvidia-smi > /dev/null; then
        nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits --loop-ms=200 > record/memory.tmp &
        watch=$!
    fi
    record "$1" 18 "$2" ${3:+"$3"} "$model" "$precision" ${4:+"$4"} --seconds 4 ${tiny:+"$tiny"}
    if command -v nvidia-smi > /dev/null; then
        kill "$watch"
        wait "$watch" 2> /dev/null
        echo "$1,$(sort -n record/memory.tmp | tail -n 1)" >> record/memory.csv
        rm -f record/memory.tmp
    fi
}

if command -v nvidia-smi > /dev/null; then
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv | tee record/gpu.csv
    echo "name,MiB" > record/memory.csv
fi
# The run-time compiler and cuBLASLt of Python's packages, where the system has none.
folders=$(python3 -c 'import glob, site; print(":".join(d for s in site.getsitepackages() for d in glob.glob(s + "/nvidia/*/lib")))' 2> /dev/null)
export AMP_CUDA_LIB_DIR="${AMP_CUDA_LIB_DIR:-$folders}"
# A real device has one order of threads, its own.
export AMP_SCHEDULES=1
if [ -n "$tiny" ]; then
    export AMP_STANDIN="${AMP_CUDA_LIB_DIR%%:*}"
else
    export AMP_REQUIRE_CUDA=1 AMP_REAL_DEVICE=1
fi

record conformance 60 ./conformance --test-threads=4
record training 30 ./training --test-threads=4
# What checks the driver's own counts, or that its device is never behind, has nothing to check here.
record kernels 60 ./kernels --test-threads=4 --skip mutants:: --skip running_out_of_memory --skip refused_backoffs
if command -v compute-sanitizer > /dev/null; then
    for tool in memcheck racecheck; do
        record "$tool" 90 compute-sanitizer --tool "$tool" --error-exitcode 9 ./kernels --test-threads=1 \
            --skip mutants:: --skip running_out_of_memory --skip refused_backoffs --skip results_are_freed
    done
else
    echo "compute-sanitizer is missing: memory and races were not checked on this device"
fi
record digits 30 ./digits
if [ -z "$tiny" ]; then
    record throughput-amp 20 ./throughput
    record throughput-torch 20 python3 throughput.py
    paste -d, record/throughput-amp.txt record/throughput-torch.txt
fi
device=${tiny:+--device=cpu}
for model in gpt resnet50; do
    for precision in bf16 f16; do
        steps "$model-$precision-amp" ./steps
        steps "$model-$precision-torch" python3 steps.py "$device"
    done
    precision=bf16
    steps "$model-bf16-graph" ./steps "" --graph
done
precision=f32
model=gpt
steps gpt-f32-amp ./steps
cat record/gpt-*.txt record/resnet50-*.txt
if [ -f record/memory.csv ]; then cat record/memory.csv; fi
echo "exit status $status"
exit $status
