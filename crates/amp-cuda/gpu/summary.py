"""Makes one page of what gpu/run.sh left in a folder: figures, targets, and which of them are missing.

`python3 summary.py record` writes record/DATE-gpu.md, which belongs into benches/record/ of the repository. A target whose
figures are missing is no target that was met: the page says so, and nothing else depends on it.
"""

import csv
import datetime
import pathlib
import sys

FOLDER = pathlib.Path(sys.argv[1])
DTYPES = ["bf16", "f16", "f32"]
MEMORY_BOUND = ["add", "gelu", "softmax", "layer_norm", "cross_entropy"]
MODELS = {"gpt": "GPT, 124 M parameters, 8 x 1024 tokens", "resnet50": "ResNet-50, 64 images of 224 x 224"}


def lines(name):
    """Comma-separated fields of a file of the folder, nothing where it is missing."""
    file = FOLDER / name
    return list(csv.reader(file.read_text().splitlines())) if file.exists() else []


def figures(name):
    """Lines of `name,milliseconds,another figure` among whatever else was printed."""
    found = {}
    for fields in lines(name + ".txt"):
        try:
            found[fields[0]] = tuple(float(f) for f in fields[1:3])
        except (ValueError, IndexError):
            continue
    return {key: value for key, value in found.items() if len(value) == 2 and value[0] > 0}


def ratio(above, below):
    return above / below if above and below else None


def shown(value, form="%.2f×"):
    return form % value if value else "missing"


KERNELS = [figures("throughput-amp"), figures("throughput-torch")]
STEPS = {m + "-" + p: next(iter(figures(m + "-" + p).values()), None) for m in MODELS for p in
         [d + "-" + who for d in DTYPES for who in ("amp", "torch", "torch-last", "graph")]}
# PyTorch's images lie as they are fastest.
for last in [name for name in STEPS if name.endswith("-last") and STEPS[name]]:
    name = last.removesuffix("-last")
    STEPS[name] = min(filter(None, (STEPS[name], STEPS[last])))
MEMORY = {fields[0]: float(fields[1]) for fields in lines("memory.csv") if len(fields) == 2 and fields[1].strip().isdigit()}


def milliseconds(of):
    return of[0] if of else None


def kernel(name):
    """How many times as fast as PyTorch's."""
    ours, theirs = (milliseconds(found.get(name)) for found in KERNELS)
    return ratio(theirs, ours)


def step(above, below):
    return ratio(milliseconds(STEPS[above]), milliseconds(STEPS[below]))


def targets():
    """What, the figure, and the least that it has to be."""
    rate = {name: KERNELS[0].get(name + " f32", (None, None))[1] for name in ("unscale and check", "copy")}
    yield "unscale and check, of the bandwidth of a copy", ratio(rate["unscale and check"], rate["copy"]), 0.85
    yield "unscale and check, PyTorch's time over ours", kernel("unscale and check f32"), 1.0
    for dtype in DTYPES:
        for name in MEMORY_BOUND:
            yield f"{name} {dtype}, PyTorch's time over ours", kernel(f"{name} {dtype}"), 1.0
        yield f"matmul {dtype}, PyTorch's time over ours", kernel(f"matmul {dtype}"), 0.97
    for model in MODELS:
        for dtype in ("bf16", "f16"):
            name = f"{model}-{dtype}"
            yield f"{model} step {dtype}, PyTorch's time over ours", step(f"{name}-torch", f"{name}-amp"), 1.0
            memory = ratio(MEMORY.get(f"{name}-torch"), MEMORY.get(f"{name}-amp"))
            yield f"{model} step {dtype}, PyTorch's memory over ours", memory, 1.0
            yield f"{model} step {dtype}, our F32 time over it", step(f"{model}-f32-amp", f"{name}-amp"), 3.0


def table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def verdict(value, least):
    return "missing" if value is None else "met" if value >= least else "NOT MET"


def page():
    gpu = ", ".join(field.strip() for fields in lines("gpu.csv")[:1] for field in fields) or "an unnamed GPU"
    torch = "PyTorch " + "".join(lines("torch.csv")[0]) if lines("torch.csv") else "no PyTorch"
    commit = pathlib.Path("commit").read_text().strip() if pathlib.Path("commit").exists() else "unknown"
    yield f"# GPU, {datetime.date.today()}, {gpu}; {torch}; commit {commit}"
    yield ""
    yield "Memory is the most that the driver saw in use meanwhile, in MiB; pairs are ours / PyTorch."
    yield ""
    yield "### Targets"
    yield ""
    yield from table(["what", "found", "at least", ""], [
        [what, shown(value), shown(least), verdict(value, least)] for what, value, least in targets()])
    yield "### Training steps"
    yield ""
    rows = []
    for model, title in MODELS.items():
        for dtype in DTYPES:
            names = [f"{model}-{dtype}-{who}" for who in ("amp", "graph", "torch")]
            times = [shown(milliseconds(STEPS[name]), "%.3f") for name in names]
            memory = " / ".join(shown(MEMORY.get(name), "%.0f") for name in (names[0], names[2]))
            if any(STEPS[name] for name in names):
                rows.append([f"{title}, {dtype}", *times, shown(step(names[2], names[0])), memory])
    yield from table(["step", "ours ms", "as a graph ms", "PyTorch ms", "ratio", "memory"], rows)
    yield "### Kernels"
    yield ""
    rows = []
    for name, (time, rate) in KERNELS[0].items():
        theirs = KERNELS[1].get(name)
        rows.append([name, "%.4f" % time, shown(milliseconds(theirs), "%.4f"), shown(kernel(name)), "%.0f" % rate])
    yield from table(["kernel", "ours ms", "PyTorch ms", "ratio", "our GB/s"], rows)
    yield "### Parts of the run"
    yield ""
    yield from table(["part", "exit status", "seconds"], lines("parts.csv"))


text = "\n".join(page())
(FOLDER / f"{datetime.date.today()}-gpu.md").write_text(text)
counts = [verdict(value, least) for _, value, least in targets()]
print("targets: " + ", ".join(f"{counts.count(word)} {word}" for word in ("met", "NOT MET", "missing")))
