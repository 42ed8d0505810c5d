"""The lines of examples/throughput.rs for PyTorch."""

import time

import torch
import torch.nn.functional as F

ROWS, WIDTH, REPEATS = 16384, 4096, 20


def report(name, size, call):
    call()
    call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(REPEATS):
        call()
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / REPEATS
    print(f"{name},{seconds * 1e3:.4f},{size / seconds / 1e9:.0f}", flush=True)


print("name,milliseconds,gigabytes_per_second")
torch.backends.cuda.matmul.allow_tf32 = False
for dtype, name in [(torch.bfloat16, "bf16"), (torch.float16, "f16"), (torch.float32, "f32")]:
    x = torch.randn(ROWS, WIDTH, device="cuda", dtype=dtype)
    size = x.numel() * x.element_size()
    targets = torch.full((ROWS,), 7, device="cuda")
    report(f"copy {name}", 2 * size, lambda: x.clone())
    report(f"gelu {name}", 2 * size, lambda: F.gelu(x))
    report(f"add {name}", 3 * size, lambda: x + x)
    report(f"softmax {name}", 2 * size, lambda: torch.softmax(x, 1))
    report(f"layer_norm {name}", 2 * size, lambda: F.layer_norm(x, (WIDTH,)))
    report(f"cross_entropy {name}", size, lambda: F.cross_entropy(x, targets, reduction="none"))
    a = torch.randn(4096, 4096, device="cuda", dtype=dtype)
    report(f"matmul {name}", 3 * a.numel() * a.element_size(), lambda: a @ a)
    if dtype is torch.float32:
        continue
    q, k, v = (torch.randn(8, 12, 1024, 64, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3))
    size = q.numel() * q.element_size()
    report(f"attention {name}", 4 * size, lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    grad = torch.randn_like(y)
    backward = lambda: torch.autograd.grad(y, (q, k, v), grad, retain_graph=True)
    report(f"attention backward {name}", 8 * size, backward)

grads = [torch.full((1 << 20,), 1e-3, device="cuda") for _ in range(100)]
found, inverse = torch.zeros(1, device="cuda"), torch.ones(1, device="cuda")
size = 100 * (1 << 20) * 4
report("unscale and check f32", size, lambda: torch._amp_foreach_non_finite_check_and_unscale_(grads, found, inverse))
masters = [torch.nn.Parameter(torch.ones(1 << 20, device="cuda")) for _ in range(100)]
for master, grad in zip(masters, grads):
    master.grad = grad
optimizer = torch.optim.AdamW(masters, lr=1e-3, fused=True)
report("adamw f32", 7 * size, optimizer.step)
