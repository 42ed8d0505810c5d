#!/usr/bin/env python3
"""Writes torch.safetensors: what PyTorch computes, for tests/golden.rs to compare with.

    pip install torch==2.15.0 numpy safetensors
    python tests/golden/generate.py            # writes torch.safetensors beside this file

The committed file was written by PyTorch 2.15.0 on a CPU, one thread. Every case is evaluated twice, in F32 and in F64
on the same F32 inputs. The F64 results, rounded to F32, are what is stored: they are the true values. The script fails
if PyTorch's own F32 results lie further from them than `F32_AGREES`, so that agreement with the file is agreement with
PyTorch in F32 to float tolerance.

Tensors of a case are named `<op>/<case>/<what>`:

    in0, in1, ..        inputs in the order of PyTorch's arguments (F32, or I64 labels and indices, or BOOL masks)
    out0, out1, ..      outputs
    grad_out0, ..       the fixed gradient that is handed to autograd for a float output
    d_in0, d_in1, ..    the resulting gradient of each float input

The metadata entry `cases` is a JSON object: case name to its options (stride, axis, ..), `torch` the version.
A case draws its random inputs from a seed made of its name, so adding a case leaves the others as they are.
"""

import json
import math
import pathlib

import torch
from safetensors.torch import save_file

import elementwise
import layers
import losses
import modules
import products
import reductions
import shapes
import training
from record import CASES, TENSORS


def cases_as_json():
    """JSON has no infinities: they are written as the strings "inf" and "-inf"."""
    plain = lambda value: str(value) if isinstance(value, float) and math.isinf(value) else value
    return json.dumps({name: {k: plain(v) for k, v in o.items()} for name, o in CASES.items()}, sort_keys=True)


def main():
    torch.set_num_threads(1)
    for family in (
        *(elementwise.unary, elementwise.pointwise, elementwise.pairs, elementwise.compare),
        *(products.products, products.convolutions, products.attention),
        *(reductions.reductions, reductions.scans, reductions.softmaxes),
        *(layers.norms, layers.pools),
        *(shapes.shapes, losses.losses),
        *(modules.modules, modules.initialisations),
        *(training.optimizers, training.muon, training.lbfgs, training.schedules, training.plateaus, training.scaler),
    ):
        family()
    path = pathlib.Path(__file__).with_name("torch.safetensors")
    save_file(TENSORS, path, metadata={"torch": "2.15.0", "cases": cases_as_json()})
    print(f"{len(CASES)} cases, {len(TENSORS)} tensors, {path.stat().st_size} bytes, PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
