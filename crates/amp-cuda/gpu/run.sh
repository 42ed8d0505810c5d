#!/bin/sh
# Runs on a machine with a GPU, in under 10 minutes, from the folder that gpu/bundle.sh made: conformance and kernel tests
# on the real device, whole training steps and kernels next to PyTorch's, the digits example, and compute-sanitizer over the
# kernel tests. Neither Rust nor a toolkit nor a network is needed there.
#
# record/ gets what each part prints, and one page of figures and targets, which belongs into benches/record/ of the
# repository. A part that fails, or does not end within its time, leaves the others alone; the last line names it, and what
# could not be run for want of a tool. The exit status is 0 when nothing failed and nothing is missing, 2 when something is
# missing only. What is not timed runs side by side, before what is.
#
# AT_MOST=200 gives all parts together so many seconds.
#
# TINY=1 tries the script out on a machine without a GPU: small models, longer limits, and the stand-in driver where
# AMP_CUDA_LIB_DIR names its folder.
set -u
cd "$(dirname "$0")" || exit 1
mkdir -p record
exec 2>&1
tiny=${TINY:+--tiny}
missing=''
# Seconds that a part may take at most, together; in a try-out an emulated device on a busy machine does the work.
slower=1 deadline=$(($(date +%s) + ${AT_MOST:-570}))
[ -z "$tiny" ] || slower=20 deadline=$(($(date +%s) + 86400))

found() {
    command -v "$1" > /dev/null
}

# What cannot be run, and why.
lacks() {
    echo "== $1: not run, $2"
    missing="$missing $1"
}

# Runs a command for at most so many seconds; what it prints goes to record/, its last lines are shown.
record() {
    name=$1 limit=$(($2 * slower))
    shift 2
    started=$(date +%s)
    left=$((deadline - started))
    [ "$limit" -le "$left" ] || limit=$left
    code=124
    if [ "$limit" -gt 0 ]; then
        timeout -k 5 "$limit" "$@" > "record/$name.txt" 2> "record/$name.log"
        code=$?
    else
        echo "no time was left" > "record/$name.txt"
    fi
    spent=$(($(date +%s) - started))
    echo "$name,$code,$spent" >> record/parts.csv
    echo "== $name: exit status $code after $spent s"
    tail -q -n 3 "record/$name.txt" "record/$name.log" 2> /dev/null
}

# Names of the parts that ended otherwise than well.
failures() {
    while IFS=, read -r name code _; do
        [ "$code" -eq 0 ] || printf ' %s' "$name"
    done < record/parts.csv
}

# As record, for training steps, with the most memory that the driver saw in use meanwhile.
steps() {
    name=$1
    shift
    watch=''
    if found nvidia-smi; then
        nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits --loop-ms=100 > record/memory.tmp 2> /dev/null &
        watch=$!
    fi
    record "$name" 40 "$@" --seconds 4 ${tiny:+"$tiny"}
    if [ -n "$watch" ]; then
        kill "$watch" 2> /dev/null
        wait "$watch" 2> /dev/null
        echo "$name,$(sort -n record/memory.tmp | tail -n 1)" >> record/memory.csv
    fi
    rm -f record/memory.tmp
}

rm -f record/*.txt record/*.log record/*.csv
# The run-time compiler, cuBLASLt and cuDNN of Python's packages, where the system has none.
if found python3; then
    folders=$(python3 -c 'import glob, site; print(":".join(d for s in site.getsitepackages() for d in glob.glob(s + "/nvidia/*/lib")))' 2> /dev/null)
    export AMP_CUDA_LIB_DIR="${AMP_CUDA_LIB_DIR:-$folders}"
fi
# A real device has one order of threads, its own.
export AMP_SCHEDULES=1 AMP_REQUIRE_CUDA=1
if [ -n "$tiny" ]; then
    # Its first folder that exists is the stand-in's.
    export AMP_STANDIN="${AMP_CUDA_LIB_DIR%%:*}"
else
    export AMP_REAL_DEVICE=1
fi

for file in throughput digits steps conformance zoo kernels products convolutions replay training; do
    if [ ! -x "$file" ]; then
        echo "$file is missing here: make this folder with gpu/bundle.sh"
        exit 1
    fi
done
if ! ./throughput --check; then
    echo "nothing was run: no GPU can be used on this machine"
    exit 1
fi
if found nvidia-smi; then
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | tee record/gpu.csv
else
    lacks memory "nvidia-smi is not installed"
fi
device=${tiny:+--device=cpu}
torch=''
if ! found python3; then
    lacks torch "python3 is not installed"
elif version=$(timeout 120 python3 -c "import torch; assert '$tiny' or torch.cuda.is_available(), 'it sees no GPU'; print(torch.__version__)" 2>&1); then
    echo "$version" | tail -n 1 | tee record/torch.csv
    torch=yes
else
    lacks torch "$(echo "$version" | tail -n 1)"
fi

counted="--skip mutants:: --skip running_out_of_memory --skip refused_backoffs"
record conformance 150 ./conformance --test-threads=4 &
# shellcheck disable=SC2086
record kernels 90 ./kernels $counted &
{
    record training 60 ./training
    # What makes the device fall behind, or looks at another driver, has nothing to check here.
    record replay 40 ./replay --skip run_far_ahead
    record digits 60 ./digits --data data ${tiny:+--epochs=1}
} &
{
    record products 40 ./products
    record convolutions 40 ./convolutions --skip stay_within_their_memory
    # Models of all kinds take an emulated device too long.
    if [ -z "$tiny" ]; then record zoo 60 ./zoo --test-threads=4; fi
} &
wait
record throughput-amp 40 ./throughput ${tiny:+"$tiny"}
[ -z "$torch" ] || record throughput-torch 40 python3 throughput.py ${tiny:+"$tiny"} ${device:+"$device"}
for model in gpt resnet50; do
    for precision in bf16 f16; do
        steps "$model-$precision-amp" ./steps "$model" "$precision"
        [ -z "$torch" ] || steps "$model-$precision-torch" python3 steps.py "$model" "$precision" ${device:+"$device"}
        [ -z "$torch" ] || [ "$model" = gpt ] ||
            steps "$model-$precision-torch-last" python3 steps.py "$model" "$precision" --channels-last ${device:+"$device"}
    done
    steps "$model-bf16-graph" ./steps "$model" bf16 --graph
    steps "$model-f32-amp" ./steps "$model" f32
done
if found compute-sanitizer; then
    for tool in memcheck racecheck; do
        # shellcheck disable=SC2086
        record "$tool" 150 compute-sanitizer --tool "$tool" --error-exitcode 9 ./kernels $counted --skip results_are_freed
    done
else
    lacks memcheck "compute-sanitizer is not installed"
    lacks racecheck "compute-sanitizer is not installed"
fi
if found python3; then
    record summary 30 python3 summary.py record
else
    lacks summary "python3 is not installed, record/ holds the figures"
fi
failed=$(failures)
echo "failed:${failed:- nothing}; missing:${missing:- nothing}"
[ -z "$failed" ] || exit 1
[ -z "$missing" ] || exit 2
