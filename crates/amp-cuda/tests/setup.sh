#!/bin/sh
# Installs the run-time compiler that tests/nvrtc.rs compiles the kernels with, below the workspace's target folder.
# 12.9 is the last release that knows every architecture from sm_70 to sm_120. No GPU and no toolkit is needed.
set -eu
cd "$(dirname "$0")/../../.."
version=12.9.86
if [ -d "target/nvrtc/nvidia_cuda_nvrtc_cu12-$version.dist-info" ]; then exit 0; fi
python3 -m pip install --quiet --no-deps --upgrade --target target/nvrtc "nvidia-cuda-nvrtc-cu12==$version"
