#!/usr/bin/env python3
"""Writes kernels/ptx/*.ptx: the kernels as portable code for GPUs from compute capability 7.0 on.

Compiled by NVRTC 12.0, so that every driver from CUDA 12.0 on reads it:

    python3 -m pip install --no-deps --target target/nvrtc12.0 nvidia-cuda-nvrtc-cu12==12.0.140
    python3 crates/amp-cuda/tests/ptx.py target/nvrtc12.0

The first line holds a hash of the sources, which a test compares.
"""

import ctypes
import pathlib
import sys

KERNELS = pathlib.Path(__file__).resolve().parent.parent / "kernels"
HEADERS = ["common.cuh", "gemm.cuh"]


def fnv(data):
    """FNV-1a of 64 bits, as in src/compile.rs."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def text_of(library, program, size, get):
    length = ctypes.c_size_t()
    getattr(library, size)(program, ctypes.byref(length))
    buffer = ctypes.create_string_buffer(length.value)
    getattr(library, get)(program, buffer)
    return buffer.value.decode()


def compiled(library, name, source, headers):
    program = ctypes.c_void_p()
    texts = (ctypes.c_char_p * len(headers))(*headers)
    names = (ctypes.c_char_p * len(headers))(*[h.encode() for h in HEADERS])
    library.nvrtcCreateProgram(ctypes.byref(program), source, name.encode(), len(headers), texts, names)
    options = [b"--gpu-architecture=compute_70", b"--std=c++17", b"--define-macro=COMPACT"]
    status = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    if status != 0:
        sys.exit(name + ": " + text_of(library, program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog"))
    return text_of(library, program, "nvrtcGetPTXSize", "nvrtcGetPTX")


def main():
    found = sorted(pathlib.Path(sys.argv[1]).rglob("libnvrtc.so.12"))
    library = ctypes.CDLL(str(found[0]))
    headers = [(KERNELS / name).read_bytes() for name in HEADERS]
    (KERNELS / "ptx").mkdir(exist_ok=True)
    for file in sorted(KERNELS.glob("*.cu")):
        source = file.read_bytes()
        lines = (line.split("//")[0].rstrip() for line in compiled(library, file.name, source, headers).splitlines())
        body = "\n".join(line for line in lines if line.strip())
        stamp = "// sources %016x\n" % fnv(b"".join([source, *headers]))
        (KERNELS / "ptx" / (file.stem + ".ptx")).write_text(stamp + body + "\n")


main()
