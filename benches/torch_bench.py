#!/usr/bin/env python3
"""Peer benchmark: what PyTorch does on this CPU, in f32 and in mixed precision.

    python torch_bench.py --case matmul --precision bf16 --threads 2 --json out.json
    python torch_bench.py --list

Each invocation measures ONE case in ONE precision in ONE fresh process, so that
allocator state, oneDNN primitive caches and peak memory do not leak from one case
to the next.

Cases
    matmul      NxN and skinny / batched products
    conv        conv2d forward and forward+backward, ResNet-18/CIFAR shapes, depthwise
    eltwise     relu, gelu, softmax, layer_norm, cross entropy (forward, forward+backward)
    cast        f32 -> bf16/f16 and back, allocating (.to) and in place (copy_)
    scaler      GradScaler cost on the 62 parameter tensors of a ResNet-18
    step-*      whole training steps under torch.autocast (see STEPS)

Precision
    f32   everything in f32 (autocast disabled)
    bf16  micro cases: tensors in bf16; step cases: torch.autocast('cpu', bfloat16)
    f16   micro cases: tensors in f16;  step cases: autocast + torch.amp.GradScaler

Output: a table on stdout and, with --json, a list of records.  A record has
``ms`` (median), ``ms_min``, ``ms_p90``, ``samples`` and, when meaningful, ``gflops``,
``gbps`` or ``per_s``.  ``foreign`` is the share of the machine's CPU time that OTHER
processes used while the case ran: a run with more than a few percent is not clean.
"""

import argparse
import gc
import json
import os
import resource
import statistics
import time

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler is chatty without a GPU

import torch
import torch.nn as nn
import torch.nn.functional as F

DTYPE = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


# ---------------------------------------------------------------- measuring


class Timer:
    """Median wall time of a callable.

    Every sample lasts at least ``floor`` seconds (short calls are looped), there are at
    least ``repeat`` samples, and sampling goes on until ``budget`` seconds are spent.
    """

    def __init__(self, repeat, budget=0.5, floor=2e-4, ceiling=400):
        self.repeat, self.budget, self.floor, self.ceiling = repeat, budget, floor, ceiling

    def __call__(self, fn):
        t0 = time.perf_counter()
        fn()  # first call: primitive creation, page faults
        once = time.perf_counter() - t0
        if once > 3.0:  # hopeless kernels (f16 convolution gradients): one sample will do
            return summary([once])
        t0 = time.perf_counter()
        fn()
        once = time.perf_counter() - t0
        inner = max(1, int(self.floor / max(once, 1e-9)))
        warm_until = time.perf_counter() + min(0.15, self.budget / 2)
        while time.perf_counter() < warm_until:
            fn()
        samples, start = [], time.perf_counter()
        while len(samples) < self.repeat or (
            time.perf_counter() - start < self.budget and len(samples) < self.ceiling
        ):
            t0 = time.perf_counter()
            for _ in range(inner):
                fn()
            samples.append((time.perf_counter() - t0) / inner)
        return summary(samples)


def summary(samples):
    ordered = sorted(samples)
    return {
        "ms": statistics.median(ordered) * 1e3,
        "ms_min": ordered[0] * 1e3,
        "ms_p90": ordered[int(len(ordered) * 0.9)] * 1e3,
        "samples": len(ordered),
    }


class Machine:
    """CPU seconds used by everybody, and by this process, since construction."""

    def __init__(self):
        self.total, self.own, self.wall = self._total(), self._own(), time.monotonic()

    @staticmethod
    def _total():
        with open("/proc/stat") as f:
            v = [int(x) for x in f.readline().split()[1:]]
        busy = v[0] + v[1] + v[2] + v[5] + v[6] + v[7]  # user nice system irq softirq steal
        return busy / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def _own():
        r = resource.getrusage(resource.RUSAGE_SELF)
        return r.ru_utime + r.ru_stime

    def foreign(self):
        wall = time.monotonic() - self.wall
        others = (self._total() - self.total) - (self._own() - self.own)
        return max(0.0, others / (wall * os.cpu_count()))


def status_kib(field):
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(field + ":"):
                return int(line.split()[1])
    raise KeyError(field)


def reset_peak_rss():
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")


class Report:
    def __init__(self, args):
        self.args, self.records = args, []

    def add(self, name, timing, **extra):
        r = {
            "system": "torch",
            "case": self.args.case,
            "name": name,
            "precision": self.args.precision,
            "threads": self.args.threads,
            "tag": self.args.tag,
            **timing,
            **extra,
        }
        self.records.append(r)
        notes = "  ".join(
            f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}"
            for k, v in extra.items()
            if isinstance(v, (int, float, str))
        )
        print(
            f"{name:46} {self.args.precision:5} t{self.args.threads} "
            f"{r['ms']:10.4f} ms (min {r['ms_min']:.4f})  {notes}",
            flush=True,
        )

    def failed(self, name, error):
        text = str(error).strip().splitlines()[0][:200]
        self.records.append(
            {
                "system": "torch",
                "case": self.args.case,
                "name": name,
                "precision": self.args.precision,
                "threads": self.args.threads,
                "tag": self.args.tag,
                "error": text,
            }
        )
        print(f"{name:46} {self.args.precision:5} t{self.args.threads} FAILED: {text}", flush=True)


# ---------------------------------------------------------------- micro cases


def case_matmul(args, timer, report):
    dtype = DTYPE[args.precision]
    shapes = [(1, n, n, n) for n in (256, 512, 1024, 2048, 4096)]
    shapes += [(1, 128, 768, 3072), (1, 2048, 768, 768), (96, 256, 64, 256)]
    for batch, m, k, n in shapes:
        lead = () if batch == 1 else (batch,)
        a = torch.randn(*lead, m, k).to(dtype)
        b = torch.randn(*lead, k, n).to(dtype)
        bt = b.transpose(-1, -2).contiguous()
        out = torch.empty(*lead, m, n, dtype=dtype)
        flop = 2.0 * batch * m * k * n
        label = f"{'' if batch == 1 else f'{batch}x'}{m}x{k}x{n}"
        wide_a, wide_b = torch.randn(*lead, m, k), torch.randn(*lead, k, n)

        def autocast():
            with torch.autocast("cpu", dtype=dtype, enabled=dtype is not torch.float32):
                return torch.matmul(wide_a, wide_b)

        variants = {
            "nn": lambda: torch.matmul(a, b),
            "nn out=": lambda: torch.matmul(a, b, out=out),
            "nt (weight as in Linear)": lambda: torch.matmul(a, bt.transpose(-1, -2)),
            "autocast": autocast,
        }
        for variant, fn in variants.items():
            try:
                t = timer(fn)
                report.add(f"{label} {variant}", t, gflops=flop / t["ms"] / 1e6)
            except RuntimeError as e:
                report.failed(f"{label} {variant}", e)


CONVS = [
    # label, batch, c_in, c_out, size, kernel, stride, groups
    ("3x3 64ch 32x32", 128, 64, 64, 32, 3, 1, 1),
    ("3x3 128ch 16x16", 128, 128, 128, 16, 3, 1, 1),
    ("3x3 256ch 8x8", 128, 256, 256, 8, 3, 1, 1),
    ("3x3 512ch 4x4", 128, 512, 512, 4, 3, 1, 1),
    ("3x3 stem 3->64 32x32", 128, 3, 64, 32, 3, 1, 1),
    ("1x1/2 64->128 32x32", 128, 64, 128, 32, 1, 2, 1),
    ("1x1/2 128->256 16x16", 128, 128, 256, 16, 1, 2, 1),
    ("1x1/2 256->512 8x8", 128, 256, 512, 8, 1, 2, 1),
    ("depthwise 3x3 64ch 32x32", 128, 64, 64, 32, 3, 1, 64),
    ("depthwise 3x3 256ch 8x8", 128, 256, 256, 8, 3, 1, 256),
]


def case_conv(args, timer, report):
    dtype = DTYPE[args.precision]
    for layout in args.layout.split(","):
        fmt = torch.contiguous_format if layout == "nchw" else torch.channels_last
        for label, batch, c_in, c_out, size, kernel, stride, groups in CONVS:
            x = torch.randn(batch, c_in, size, size).to(dtype).to(memory_format=fmt).requires_grad_()
            w = torch.randn(c_out, c_in // groups, kernel, kernel).to(dtype)
            w = (w * 0.05).to(memory_format=fmt).requires_grad_()
            pad = kernel // 2
            conv = lambda: F.conv2d(x, w, stride=stride, padding=pad, groups=groups)
            out_size = (size + 2 * pad - kernel) // stride + 1
            flop = 2.0 * batch * c_out * (c_in // groups) * kernel * kernel * out_size * out_size
            try:
                with torch.no_grad():
                    t = timer(conv)
                report.add(f"{label} {layout} fwd", t, gflops=flop / t["ms"] / 1e6)
                g = torch.randn(batch, c_out, out_size, out_size).to(dtype).to(memory_format=fmt)
                t = timer(lambda: torch.autograd.grad(conv(), (x, w), g))
                report.add(f"{label} {layout} fwd+bwd", t, gflops=3 * flop / t["ms"] / 1e6)
            except RuntimeError as e:
                report.failed(f"{label} {layout}", e)


def case_eltwise(args, timer, report):
    dtype = DTYPE[args.precision]
    size = dtype.itemsize
    x = torch.randn(4096, 1024).to(dtype).requires_grad_()
    g = torch.randn(4096, 1024).to(dtype)
    weight = torch.ones(1024, dtype=dtype, requires_grad=True)
    bias = torch.zeros(1024, dtype=dtype, requires_grad=True)
    target = torch.randint(0, 1024, (4096,))
    n = x.numel()
    # minimal traffic: forward reads x, writes y; backward reads g and x (or y), writes dx
    ops = {
        "relu [4096,1024]": (lambda: F.relu(x), (x,), g, 2, 5),
        "add [4096,1024]": (lambda: x + g, (x,), g, 3, 3),
        "gelu [4096,1024]": (lambda: F.gelu(x), (x,), g, 2, 5),
        "gelu-tanh [4096,1024]": (lambda: F.gelu(x, approximate="tanh"), (x,), g, 2, 5),
        "softmax [4096,1024]": (lambda: F.softmax(x, -1), (x,), g, 2, 5),
        "layer_norm [4096,1024]": (lambda: F.layer_norm(x, (1024,), weight, bias), (x, weight, bias), g, 2, 5),
        "cross_entropy [4096,1024]": (lambda: F.cross_entropy(x, target), (x,), None, 1, 3),
    }
    big = torch.randn(2048, 50257).to(dtype).requires_grad_()
    big_target = torch.randint(0, 50257, (2048,))
    ops["cross_entropy [2048,50257]"] = (lambda: F.cross_entropy(big, big_target), (big,), None, 1, 3)
    for name, (fn, inputs, grad, traffic_f, traffic_fb) in ops.items():
        count = big.numel() if "50257" in name else n
        try:
            with torch.no_grad():
                t = timer(fn)
            report.add(f"{name} fwd", t, gbps=traffic_f * count * size / t["ms"] / 1e6)
            t = timer(lambda: torch.autograd.grad(fn(), inputs, grad))
            report.add(f"{name} fwd+bwd", t, gbps=traffic_fb * count * size / t["ms"] / 1e6)
        except RuntimeError as e:
            report.failed(name, e)


def case_cast(args, timer, report):
    dtype = DTYPE[args.precision]
    if dtype is torch.float32:
        dtype = torch.float32
    for label, n in (("64K", 1 << 16), ("1M", 1 << 20), ("4M", 1 << 22), ("64M", 1 << 26)):
        wide = torch.randn(n)
        narrow = wide.to(dtype)
        into_narrow, into_wide = torch.empty_like(narrow), torch.empty_like(wide)
        bytes_moved = n * (4 + dtype.itemsize)
        variants = {
            f"f32->{args.precision} {label} .to()": lambda: wide.to(dtype, copy=True),
            f"f32->{args.precision} {label} copy_": lambda: into_narrow.copy_(wide),
            f"{args.precision}->f32 {label} .to()": lambda: narrow.to(torch.float32, copy=True),
            f"{args.precision}->f32 {label} copy_": lambda: into_wide.copy_(narrow),
        }
        for name, fn in variants.items():
            t = timer(fn)
            report.add(name, t, gbps=bytes_moved / t["ms"] / 1e6)


def case_scaler(args, timer, report):
    """GradScaler cost. Scale 1 so that unscaling in place never drives grads to denormals."""
    model = ResNet18()
    params = [p for p in model.parameters()]
    for p in params:
        p.grad = torch.randn_like(p) * 1e-3
    count = sum(p.numel() for p in params)
    scale = torch.ones(())
    found_inf = torch.zeros(())
    inv = torch.ones(())
    grads = [p.grad for p in params]

    t = timer(lambda: torch._amp_foreach_non_finite_check_and_unscale_(grads, found_inf, inv))
    report.add("unscale kernel, 62 tensors", t, gbps=8.0 * count / t["ms"] / 1e6, params=count)
    flat = [torch.randn(count)]
    t = timer(lambda: torch._amp_foreach_non_finite_check_and_unscale_(flat, found_inf, inv))
    report.add("unscale kernel, one flat tensor", t, gbps=8.0 * count / t["ms"] / 1e6)
    tracker = torch.zeros((), dtype=torch.int32)
    t = timer(lambda: torch._amp_update_scale_(scale, tracker, found_inf, 2.0, 0.5, 10**6))
    report.add("update_scale kernel", t)

    kinds = {
        "SGD momentum wd": lambda **kw: torch.optim.SGD(params, lr=1e-9, momentum=0.9, weight_decay=1e-4, **kw),
        "AdamW": lambda **kw: torch.optim.AdamW(params, lr=1e-9, **kw),
    }
    for kind, make in kinds.items():
        for impl, kw in (("loop", {"foreach": False}), ("foreach", {"foreach": True}), ("fused", {"fused": True})):
            opt = make(**kw)
            t = timer(opt.step)
            traffic = (5 if "SGD" in kind else 7) * 4.0 * count
            report.add(f"{kind} {impl}: step", t, gbps=traffic / t["ms"] / 1e6)
            base = t["ms"]
            scaler = torch.amp.GradScaler("cpu", init_scale=1.0, growth_interval=10**9)
            scaler.scale(torch.ones((), requires_grad=True))

            def scaled():
                scaler.unscale_(opt)
                scaler.step(opt)
                scaler.update()

            t = timer(scaled)
            report.add(
                f"{kind} {impl}: unscale_+step+update",
                t,
                overhead_ms=t["ms"] - base,
                overhead=t["ms"] / base - 1,
            )

            def scaled_implicit():
                scaler.step(opt)
                scaler.update()

            t = timer(scaled_implicit)
            report.add(f"{kind} {impl}: step+update", t, overhead_ms=t["ms"] - base, overhead=t["ms"] / base - 1)


# ---------------------------------------------------------------- models


class BasicBlock(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.down = None
        if stride != 1 or c_in != c_out:
            self.down = nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.down is None else self.down(x)))


class ResNet18(nn.Module):
    """ResNet-18 for 32x32 images: 3x3 stem, no max pooling; 11.17 M parameters."""

    def __init__(self, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(64)
        blocks, c_in = [], 64
        for c_out, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [BasicBlock(c_in, c_out, stride), BasicBlock(c_out, c_out, 1)]
            c_in = c_out
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(512, classes)

    def forward(self, x):
        x = self.blocks(F.relu(self.bn(self.stem(x))))
        return self.head(x.mean((2, 3)))


class Attention(nn.Module):
    def __init__(self, d, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, d // self.heads).transpose(1, 2) for z in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.proj(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    """Pre-norm transformer block with a GELU MLP of width 4d."""

    def __init__(self, d, heads, causal):
        super().__init__()
        self.ln1, self.attn = nn.LayerNorm(d), Attention(d, heads, causal)
        self.ln2 = nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocab=256, d=384, layers=6, heads=6, seq=256):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(seq, d)
        self.blocks = nn.Sequential(*[Block(d, heads, True) for _ in range(layers)])
        self.ln, self.head = nn.LayerNorm(d), nn.Linear(d, vocab, bias=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        return self.head(self.ln(self.blocks(x)))


class ViT(nn.Module):
    """Patch 4 on 32x32 (64 tokens), mean pooling instead of a class token."""

    def __init__(self, d=192, layers=12, heads=3, classes=10):
        super().__init__()
        self.patch = nn.Conv2d(3, d, 4, 4)
        self.pos = nn.Parameter(torch.randn(1, 64, d) * 0.02)
        self.blocks = nn.Sequential(*[Block(d, heads, False) for _ in range(layers)])
        self.ln, self.head = nn.LayerNorm(d), nn.Linear(d, classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2) + self.pos
        return self.head(self.ln(self.blocks(x)).mean(1))


def mlp(*sizes):
    layers = []
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        layers.append(nn.Linear(a, b))
        if i < len(sizes) - 2:
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)


def token_loss(logits, y):
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1))


def images(batch):
    return torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,))


def sgd(**kw):
    return lambda params, **impl: torch.optim.SGD(params, **kw, **impl)


def adam(kind, **kw):
    return lambda params, **impl: kind(params, **kw, **impl)


def tokens(batch, seq):
    ids = torch.randint(0, 256, (batch, seq + 1))
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


# name -> (model, batch factory, loss, optimizer factory, items per step, unit)
STEPS = {
    "step-seed": (lambda: nn.Linear(10, 1), lambda: (torch.randn(20, 10), torch.randn(20, 1)),
                  F.mse_loss, sgd(lr=0.01), 20, "samples"),
    "step-mlp-small": (lambda: mlp(8, 16, 16, 1), lambda: (torch.randn(512, 8), torch.randn(512, 1)),
                       F.mse_loss, sgd(lr=0.01), 512, "samples"),
    "step-mlp": (lambda: mlp(784, 1024, 1024, 10), lambda: (torch.randn(256, 784), torch.randint(0, 10, (256,))),
                 F.cross_entropy, adam(torch.optim.Adam, lr=1e-3), 256, "samples"),
    "step-resnet18-b32": (ResNet18, lambda: images(32), F.cross_entropy,
                          sgd(lr=0.05, momentum=0.9, weight_decay=1e-4), 32, "samples"),
    "step-resnet18-b128": (ResNet18, lambda: images(128), F.cross_entropy,
                           sgd(lr=0.05, momentum=0.9, weight_decay=1e-4), 128, "samples"),
    "step-gpt": (GPT, lambda: tokens(8, 256), token_loss, adam(torch.optim.AdamW, lr=3e-4), 8 * 256, "tokens"),
    "step-vit": (ViT, lambda: images(64), F.cross_entropy, adam(torch.optim.AdamW, lr=3e-4), 64, "samples"),
}


def case_step(args, timer, report):
    make_model, make_batch, loss_fn, make_opt, items, unit = STEPS[args.case]
    torch.manual_seed(0)
    model = make_model().train()
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)
    forward = torch.compile(model) if args.compile else model
    params = list(model.parameters())
    impl = {"default": {}, "foreach": {"foreach": True}, "fused": {"fused": True}}[args.optimizer]
    opt = make_opt(params, **impl)
    amp = args.precision != "f32"
    scaler = torch.amp.GradScaler("cpu", enabled=args.precision == "f16")
    batches = [make_batch() for _ in range(4)]
    if args.channels_last:
        batches = [(x.to(memory_format=torch.channels_last), y) for x, y in batches]
    losses, turn = [], [0]

    def step():
        x, y = batches[turn[0] % len(batches)]
        turn[0] += 1
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=DTYPE[args.precision] if amp else torch.bfloat16, enabled=amp):
            loss = loss_fn(forward(x), y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        losses.append(loss.detach())

    gc.collect()
    reset_peak_rss()
    rss_before = status_kib("VmRSS")
    maxrss_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    t0 = time.perf_counter()
    step()
    first_ms = (time.perf_counter() - t0) * 1e3
    for _ in range(0 if args.slow else 2):
        step()
    usage0, n0 = resource.getrusage(resource.RUSAGE_SELF), turn[0]
    if args.slow:
        t0 = time.perf_counter()
        step()
        timing = summary([time.perf_counter() - t0])
    else:
        timing = timer(step)
    usage1, n1 = resource.getrusage(resource.RUSAGE_SELF), turn[0]
    steps = n1 - n0
    peak = status_kib("VmHWM")
    extra = {
        "per_s": items / timing["ms"] * 1e3,
        "unit": unit,
        "params": sum(p.numel() for p in params),
        "first_step_ms": first_ms,
        "rss_growth_mib": (peak - rss_before) / 1024,
        "ru_maxrss_growth_mib": (usage1.ru_maxrss - maxrss_before) / 1024,
        "page_faults_per_step": (usage1.ru_minflt - usage0.ru_minflt) / steps,
        "user_ms_per_step": (usage1.ru_utime - usage0.ru_utime) / steps * 1e3,
        "sys_ms_per_step": (usage1.ru_stime - usage0.ru_stime) / steps * 1e3,
        "ctx_switches_per_step": (usage1.ru_nvcsw - usage0.ru_nvcsw) / steps,
        "loss_first": losses[0].item(),
        "loss_last": statistics.fmean(x.item() for x in losses[-4:]),
    }
    if not args.slow:
        extra.update(profile_step(step))
    report.add(args.case, timing, **extra)
    for name, count, ms in extra.get("top_ops", []):
        print(f"    {name:52} x{count:<5} {ms:9.3f} ms self")


def profile_step(step):
    """One profiled step: how many casts, how many kernels, where the time goes."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as prof:
        step()
    rows = prof.key_averages()
    by_name = {r.key: r for r in rows}
    count = lambda n: by_name[n].count if n in by_name else 0
    self_ms = lambda n: by_name[n].self_cpu_time_total / 1e3 if n in by_name else 0.0
    total = sum(r.self_cpu_time_total for r in rows) / 1e3
    allocated = 0
    for e in prof.events():
        if e.self_cpu_memory_usage > 0:
            allocated += e.self_cpu_memory_usage
    top = sorted(rows, key=lambda r: -r.self_cpu_time_total)[:14]
    return {
        "casts_to_copy": count("aten::_to_copy"),
        "casts_to": count("aten::to"),
        "copy_": count("aten::copy_"),
        "copy_ms": self_ms("aten::copy_"),
        "aten_ops": sum(r.count for r in rows if r.key.startswith("aten::")),
        "profiled_ms": total,
        "allocated_mib": allocated / 2**20,
        "top_ops": [(r.key, r.count, r.self_cpu_time_total / 1e3) for r in top],
    }


# ---------------------------------------------------------------- main

MICRO = {
    "matmul": case_matmul,
    "conv": case_conv,
    "eltwise": case_eltwise,
    "cast": case_cast,
    "scaler": case_scaler,
}


def main():
    p = argparse.ArgumentParser(description="PyTorch peer benchmark", epilog="see the module docstring")
    p.add_argument("--case", choices=[*MICRO, *STEPS])
    p.add_argument("--precision", choices=list(DTYPE), default="f32")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--repeat", type=int, default=7, help="least number of samples")
    p.add_argument("--budget", type=float, default=0.5, help="seconds of samples per measurement")
    p.add_argument("--json", help="write the records to this file")
    p.add_argument("--tag", default="", help="free text copied into every record")
    p.add_argument("--optimizer", choices=["default", "foreach", "fused"], default="default")
    p.add_argument("--channels-last", action="store_true")
    p.add_argument("--compile", action="store_true", help="torch.compile the model (needs g++)")
    p.add_argument("--layout", default="nchw,nhwc", help="layouts of the conv case")
    p.add_argument("--implicit-bf16", action="store_true",
                   help="f32 tensors, bf16 inside oneDNN (torch.backends.mkldnn.*.fp32_precision): AMP without casts")
    p.add_argument("--slow", action="store_true", help="step cases: one warm-up step, one timed step, no profile")
    p.add_argument("--list", action="store_true", help="list the cases")
    args = p.parse_args()
    if args.list or not args.case:
        print("\n".join([*MICRO, *STEPS]))
        return
    torch.set_num_threads(args.threads)
    if args.implicit_bf16:
        torch.backends.mkldnn.matmul.fp32_precision = "bf16"
        torch.backends.mkldnn.conv.fp32_precision = "bf16"
    torch.manual_seed(1)
    machine = Machine()
    report = Report(args)
    MICRO.get(args.case, case_step)(args, Timer(args.repeat, args.budget), report)
    foreign = machine.foreign()
    print(f"# foreign CPU share {foreign:.1%}", flush=True)
    for r in report.records:
        r["foreign"] = foreign
    if args.json:
        with open(args.json, "w") as f:
            json.dump(report.records, f, indent=1)


if __name__ == "__main__":
    main()
