"""The lines of examples/steps for PyTorch: training steps in eager AMP. `python3 steps.py gpt bf16 [--tiny] [--device cpu]`."""

import argparse
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("model", choices=["gpt", "resnet50"])
parser.add_argument("precision", choices=["f32", "f16", "bf16"])
parser.add_argument("--tiny", action="store_true")
parser.add_argument("--channels-last", action="store_true")
parser.add_argument("--device", default="cuda")
parser.add_argument("--seconds", type=float, default=10)
args = parser.parse_args()
torch.manual_seed(1)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
torch.backends.cudnn.benchmark = True


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(n, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary, context, width, layers, heads):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        h = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


def unit(inputs, outputs, kernel, stride):
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    def __init__(self, inputs, middle, stride):
        super().__init__()
        self.reduce, self.middle = unit(inputs, middle, 1, 1), unit(middle, middle, 3, stride)
        self.expand = unit(middle, 4 * middle, 1, 1)
        reshapes = stride != 1 or inputs != 4 * middle
        self.down = unit(inputs, 4 * middle, 1, stride) if reshapes else nn.Identity()

    def forward(self, x):
        h = self.expand(self.middle(self.reduce(x).relu()).relu())
        return (h + self.down(x)).relu()


class ResNet50(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        blocks, inputs = [], width
        for stage, (count, stride) in enumerate([(3, 1), (4, 2), (6, 2), (3, 2)]):
            for i in range(count):
                blocks.append(Bottleneck(inputs, width << stage, stride if i == 0 else 1))
                inputs = 4 * (width << stage)
        self.stem, self.blocks = unit(3, width, 7, 2), nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x):
        h = F.max_pool2d(self.stem(x).relu(), 3, 2, 1)
        return self.head(self.blocks(h).mean((2, 3)))


device = torch.device(args.device)
cuda = device.type == "cuda"
if args.model == "gpt":
    batch, sizes = (2, (40, 16, 32, 2, 2)) if args.tiny else (8, (50304, 1024, 768, 12, 12))
    model = Gpt(*sizes).to(device)
    tokens = (torch.arange(batch * (sizes[1] + 1)) * 7919 % sizes[0]).reshape(batch, -1).to(device)
    x, y = tokens[:, :-1].contiguous(), tokens[:, 1:].reshape(-1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
else:
    batch, side, width, classes = (2, 32, 4, 10) if args.tiny else (64, 224, 64, 1000)
    model = ResNet50(width, classes).to(device)
    x = torch.randn(batch, 3, side, side, device=device)
    y = torch.arange(batch, device=device) % classes
    if args.channels_last:
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=True)
dtype = {"f32": None, "f16": torch.float16, "bf16": torch.bfloat16}[args.precision]
scaler = torch.amp.GradScaler(device.type, enabled=args.precision == "f16")


def step():
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
        scores = model(x)
        loss = F.cross_entropy(scores.reshape(-1, scores.shape[-1]).float(), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss


for _ in range(4):
    step().item()
spent, steps = 0.0, 0
while spent < args.seconds and steps < 100:
    start = time.perf_counter()
    for _ in range(5):
        step()
    last = step().item()
    spent += time.perf_counter() - start
    steps += 6
seconds = spent / steps
peak = torch.cuda.max_memory_allocated() / 2**20 if cuda else 0
print(f"{args.model} {args.precision},{seconds * 1e3:.3f},{1 / seconds:.2f}", flush=True)
print(f"{args.model} {args.precision} on {device}: last loss {last}, at most {peak:.0f} MiB", file=sys.stderr)
