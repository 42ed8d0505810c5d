"""Optimizers, learning rate schedules, GradScaler."""

import zlib

import torch

from record import inf, ints, record


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of "Symbolic Discovery of Optimization Algorithms" (Chen et al., 2023); PyTorch has no Lion."""

    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                c = beta1 * m + (1 - beta1) * p.grad
                p -= lr * (c.sign() + decay * p)
                m.copy_(beta2 * m + (1 - beta2) * p.grad)


def optimizers():
    """in0: start [N]; in1: gradients [5, N]; out0: the parameter after each step [5, N]."""
    sgd, adam, adamw, rms = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop
    adagrad, adadelta = torch.optim.Adagrad, torch.optim.Adadelta
    radam, nadam, adamax = torch.optim.RAdam, torch.optim.NAdam, torch.optim.Adamax
    table = [
        ("sgd/plain", sgd, dict(lr=0.1)),
        ("sgd/momentum", sgd, dict(lr=0.1, momentum=0.9)),
        ("sgd/dampening", sgd, dict(lr=0.1, momentum=0.9, dampening=0.3)),
        ("sgd/nesterov", sgd, dict(lr=0.1, momentum=0.9, nesterov=True)),
        ("sgd/weight_decay", sgd, dict(lr=0.1, momentum=0.9, weight_decay=0.05)),
        ("sgd/nesterov_weight_decay", sgd, dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.05)),
        ("adam/plain", adam, dict(lr=0.01)),
        ("adam/betas", adam, dict(lr=0.01, betas=[0.8, 0.95], eps=1e-6)),
        ("adam/weight_decay", adam, dict(lr=0.01, weight_decay=0.1)),
        ("adam/amsgrad", adam, dict(lr=0.01, amsgrad=True)),
        ("adamw/plain", adamw, dict(lr=0.01)),
        ("adamw/weight_decay", adamw, dict(lr=0.01, weight_decay=0.2)),
        ("adamw/amsgrad", adamw, dict(lr=0.01, amsgrad=True, weight_decay=0.2)),
        ("rmsprop/plain", rms, dict(lr=0.01)),
        ("rmsprop/momentum", rms, dict(lr=0.01, momentum=0.9, alpha=0.95, eps=1e-6)),
        ("rmsprop/centered", rms, dict(lr=0.01, centered=True)),
        ("rmsprop/weight_decay", rms, dict(lr=0.01, weight_decay=0.1, momentum=0.5, centered=True)),
        ("adadelta/plain", adadelta, dict(lr=1.0)),
        ("adadelta/decay", adadelta, dict(lr=0.5, rho=0.7, eps=1e-3, weight_decay=0.1)),
        ("adagrad/plain", adagrad, dict(lr=0.1)),
        ("adagrad/decay", adagrad, dict(lr=0.1, lr_decay=0.3, weight_decay=0.1)),
        ("adagrad/start", adagrad, dict(lr=0.1, initial_accumulator_value=0.5, eps=1e-3)),
        ("radam/plain", radam, dict(lr=0.1)),
        ("radam/rectified", radam, dict(lr=0.1, betas=[0.8, 0.9], eps=1e-3, weight_decay=0.1)),
        ("radam/decoupled", radam, dict(lr=0.1, betas=[0.8, 0.9], weight_decay=0.1, decoupled_weight_decay=True)),
        ("nadam/plain", nadam, dict(lr=0.01)),
        ("nadam/decay", nadam, dict(lr=0.1, betas=[0.8, 0.9], eps=1e-3, weight_decay=0.1, momentum_decay=2.0)),
        ("nadam/decoupled", nadam, dict(lr=0.1, weight_decay=0.1, decoupled_weight_decay=True)),
        ("adamax/plain", adamax, dict(lr=0.1)),
        ("adamax/decay", adamax, dict(lr=0.1, betas=[0.8, 0.7], eps=1e-3, weight_decay=0.1)),
        ("lion/plain", Lion, dict(lr=0.01)),
        ("lion/decay", Lion, dict(lr=0.1, betas=[0.8, 0.7], weight_decay=0.1)),
    ]
    for name, build, options in table:
        torch.manual_seed(zlib.crc32(name.encode()))
        start, grads = torch.randn(7), torch.randn(5, 7)
        grads[3, 2] = 0.0
        p = start.double().requires_grad_()
        optimizer = build([p], **options)
        steps = []
        for g in grads:
            p.grad = g.double()
            optimizer.step()
            steps.append(p.detach().clone())
        record(f"optim_{name}", dict(in0=start, in1=grads, out0=torch.stack(steps).float()), **options)


def muon():
    """in0: start [M, N]; in1: gradients [4, M, N]; out0: the parameter after each step [4, M, N].

    PyTorch rounds every product to BF16 and so does amp: singular values agree as far as that lets them.
    """
    table = [
        ("tall", (6, 4), dict(lr=0.5)),
        ("wide", (3, 7), dict(lr=0.5)),
        ("plain", (5, 5), dict(lr=0.5, nesterov=False, momentum=0.8, weight_decay=0.0)),
        ("as_adamw", (4, 6), dict(lr=0.5, weight_decay=0.3, adjust_lr_fn="match_rms_adamw")),
        ("settings", (6, 3), dict(lr=0.5, ns_steps=3, ns_coefficients=[2.0, -1.5, 0.5], eps=3.0)),
    ]
    for name, shape, options in table:
        torch.manual_seed(zlib.crc32(name.encode()))
        start, grads = torch.randn(shape), torch.randn(4, *shape)
        p = start.double().requires_grad_()
        optimizer = torch.optim.Muon([p], **options)
        steps = []
        for g in grads:
            p.grad = g.double()
            optimizer.step()
            steps.append(p.detach().clone())
        out = torch.stack(steps).float()
        record(f"optim_muon/{name}", dict(in0=start, in1=grads, out0=out), agrees=2e-2, **options)


def lbfgs():
    """in0: start [N]; in1: how steep the loss is, in2: around where; out0: the parameter after each step, out1: losses before."""
    table = [
        ("fixed", dict(lr=0.6, max_iter=4)),
        ("short_history", dict(lr=0.8, max_iter=6, history_size=2)),
        ("strong_wolfe", dict(lr=1.0, max_iter=3, line_search_fn="strong_wolfe")),
        ("long_first_step", dict(lr=40.0, max_iter=2, max_eval=12, line_search_fn="strong_wolfe")),
    ]
    for name, options in table:
        torch.manual_seed(zlib.crc32(name.encode()))
        start, steep, around = torch.randn(6), torch.rand(6) * 3 + 0.3, torch.randn(6)
        p = start.double().requires_grad_()
        optimizer = torch.optim.LBFGS([p], **options)

        def closure():
            optimizer.zero_grad()
            loss = (steep.double() * (p - around.double()) ** 2 + 0.1 * p**4).sum()
            loss.backward()
            return loss

        steps, losses = [], []
        for _ in range(3):
            losses.append(optimizer.step(closure).item())
            steps.append(p.detach().clone())
        outs = dict(out0=torch.stack(steps).float(), out1=torch.tensor(losses))
        record(f"optim_lbfgs/{name}", dict(in0=start, in1=steep, in2=around, **outs), agrees=1e-3, **options)


def schedules():
    """out0: the learning rate used by each of 20 steps."""
    from torch.optim import lr_scheduler as s

    table = [
        ("step_lr", s.StepLR, dict(step_size=4, gamma=0.5)),
        ("cosine", s.CosineAnnealingLR, dict(T_max=20)),
        ("cosine_eta_min", s.CosineAnnealingLR, dict(T_max=20, eta_min=0.01)),
        ("linear_warmup", s.LinearLR, dict(start_factor=1 / 8, total_iters=7)),
        ("linear", s.LinearLR, dict(start_factor=0.3, end_factor=0.75, total_iters=6)),
        ("constant", s.ConstantLR, dict(factor=0.25, total_iters=6)),
        ("one_cycle", s.OneCycleLR, dict(max_lr=0.1, total_steps=20)),
        ("one_cycle_early_peak", s.OneCycleLR, dict(max_lr=0.1, total_steps=20, pct_start=0.15)),
    ]
    for name, build, options in table:
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
        scheduler = build(optimizer, **options)
        rates = []
        for i in range(20):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            if i < 19:
                scheduler.step()
        record(f"schedule/{name}", dict(out0=torch.tensor(rates)), lr=0.1, **options)


def plateaus():
    """in0: the measure of each of 20 calls; out0: the learning rate after each."""
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau
    torch.manual_seed(4)
    falling = torch.rand(20).sort(descending=True).values + 0.1 * torch.rand(20)
    table = [
        ("plain", falling, dict(factor=0.5, patience=1)),
        ("greater", 1 - falling, dict(mode="max", factor=0.3, patience=0)),
        ("cooldown", falling, dict(factor=0.5, patience=0, cooldown=2, threshold=0.1)),
        ("least", torch.ones(20), dict(factor=0.5, patience=1, min_lr=0.03)),
    ]
    for name, measures, options in table:
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
        scheduler = plateau(optimizer, **options)
        rates = []
        for measure in measures.tolist():
            optimizer.step()
            scheduler.step(measure)
            rates.append(optimizer.param_groups[0]["lr"])
        record(f"plateau/{name}", dict(in0=measures, out0=torch.tensor(rates)), lr=0.1, **options)


def scaler():
    """in0: 1 where the gradient of that step is infinite; out0: scale, out1: growth tracker, out2: the parameter."""
    pattern = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    p = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([p], lr=0.5)
    gs = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
    scales, trackers, params = [], [], []
    for bad in pattern:
        optimizer.zero_grad()
        loss = (p * (inf if bad else 1.0)).sum()
        gs.scale(loss).backward()
        gs.step(optimizer)
        gs.update()
        scales.append(gs.get_scale())
        trackers.append(gs.state_dict()["_growth_tracker"])
        params.append(p.item())
    record(
        "grad_scaler/trace",
        dict(in0=ints(pattern), out0=torch.tensor(scales), out1=ints(trackers), out2=torch.tensor(params)),
        init_scale=1024.0, growth_interval=3, growth_factor=2.0, backoff_factor=0.5, lr=0.5,
    )
