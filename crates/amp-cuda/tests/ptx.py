#!/usr/bin/env python3
"""Writes kernels/ptx/*.ptx: the kernels as portable code for GPUs from compute capability 7.0 on.

Those on tensor cores are for 8.0 on. Compiled by NVRTC 12.0, so that every driver from CUDA 12.0 on reads it:

    python3 -m pip install --no-deps --target target/nvrtc12.0 nvidia-cuda-nvrtc-cu12==12.0.140
    python3 crates/amp-cuda/tests/ptx.py target/nvrtc12.0

The first line holds a hash of the sources, which a test compares.
"""

import ctypes
import pathlib
import sys

KERNELS = pathlib.Path(__file__).resolve().parent.parent / "kernels"
HEADERS = ["conv.cuh", "flash.cuh", "gemm.cuh", "mma.cuh", "attention.cuh"]
HEADERS += ["quads.cuh", "lines.cuh", "common.cuh", "elements.cuh"]
LEAST = {"flash_attention.cu": "80", "flash_attention_grad.cu": "80"}


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


def whole(file):
    """The text with its headers, as Family::source in src/module.rs has it."""
    text = file.read_text()
    for name in HEADERS:
        header = (KERNELS / name).read_text().replace("#pragma once", "")
        text = text.replace('#include "%s"' % name, header, 1)
    return text.encode()


def compiled(library, name, source):
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), source, name.encode(), 0, None, None)
    architecture = "--gpu-architecture=compute_" + LEAST.get(name, "70")
    options = [architecture.encode(), b"--std=c++17", b"--define-macro=COMPACT"]
    status = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    if status != 0:
        sys.exit(name + ": " + text_of(library, program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog"))
    return text_of(library, program, "nvrtcGetPTXSize", "nvrtcGetPTX")


def main():
    found = sorted(pathlib.Path(sys.argv[1]).rglob("libnvrtc.so.12"))
    library = ctypes.CDLL(str(found[0]))
    (KERNELS / "ptx").mkdir(exist_ok=True)
    for file in sorted(KERNELS.glob("*.cu")):
        source = whole(file)
        lines = (line.split("//")[0].rstrip() for line in compiled(library, file.name, source).splitlines())
        body = "\n".join(line for line in lines if line.strip())
        stamp = "// sources %016x\n" % fnv(source)
        (KERNELS / "ptx" / (file.stem + ".ptx")).write_text(stamp + body + "\n")


main()
