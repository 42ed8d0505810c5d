"""The lines of examples/throughput.rs for PyTorch. `python3 throughput.py [--tiny] [--device cpu]`."""

import argparse
import time

import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--tiny", action="store_true")
parser.add_argument("--device", default="cuda")
args = parser.parse_args()
ROWS, WIDTH, SIDE, REPEATS = (4, 64, 32, 1) if args.tiny else (16384, 4096, 4096, 20)
ATTENTION = (1, 2, 16, 64) if args.tiny else (8, 12, 1024, 64)
TENSORS, SIZE = (3, 100) if args.tiny else (100, 1 << 20)


def wait():
    if args.device == "cuda":
        torch.cuda.synchronize()


def report(name, size, call):
    call()
    call()
    wait()
    start = time.perf_counter()
    for _ in range(REPEATS):
        call()
    wait()
    seconds = (time.perf_counter() - start) / REPEATS
    print(f"{name},{seconds * 1e3:.4f},{size / seconds / 1e9:.0f}", flush=True)


print("name,milliseconds,gigabytes_per_second")
torch.backends.cuda.matmul.allow_tf32 = False
for dtype, name in [(torch.bfloat16, "bf16"), (torch.float16, "f16"), (torch.float32, "f32")]:
    x = torch.randn(ROWS, WIDTH, device=args.device, dtype=dtype)
    size = x.numel() * x.element_size()
    targets = torch.full((ROWS,), 7, device=args.device)
    report(f"copy {name}", 2 * size, lambda: x.clone())
    report(f"gelu {name}", 2 * size, lambda: F.gelu(x))
    report(f"add {name}", 3 * size, lambda: x + x)
    report(f"softmax {name}", 2 * size, lambda: torch.softmax(x, 1))
    report(f"layer_norm {name}", 2 * size, lambda: F.layer_norm(x, (WIDTH,)))
    report(f"cross_entropy {name}", size, lambda: F.cross_entropy(x, targets, reduction="none"))
    a = torch.randn(SIDE, SIDE, device=args.device, dtype=dtype)
    report(f"matmul {name}", 3 * a.numel() * a.element_size(), lambda: a @ a)
    if dtype is torch.float32:
        continue
    q, k, v = (torch.randn(*ATTENTION, device=args.device, dtype=dtype, requires_grad=True) for _ in range(3))
    size = q.numel() * q.element_size()
    report(f"attention {name}", 4 * size, lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    grad = torch.randn_like(y)
    backward = lambda: torch.autograd.grad(y, (q, k, v), grad, retain_graph=True)
    report(f"attention backward {name}", 8 * size, backward)

grads = [torch.full((SIZE,), 1e-3, device=args.device) for _ in range(TENSORS)]
found, inverse = torch.zeros(1, device=args.device), torch.ones(1, device=args.device)
size = TENSORS * SIZE * 4
report("unscale and check f32", size, lambda: torch._amp_foreach_non_finite_check_and_unscale_(grads, found, inverse))
masters = [torch.nn.Parameter(torch.ones(SIZE, device=args.device)) for _ in range(TENSORS)]
for master, grad in zip(masters, grads):
    master.grad = grad
optimizer = torch.optim.AdamW(masters, lr=1e-3, fused=True)
report("adamw f32", 7 * size, optimizer.step)
