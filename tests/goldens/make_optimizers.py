#!/usr/bin/env python3
"""Trajectories of the optimizers, for tests/it/optim.rs. Run by hand; writes optimizers.safetensors.

Versions: Python 3.11 or later, torch 2.15.0, schedulefree 1.4.1, pytorch_optimizer 4.1.0, numpy 2, safetensors 0.5 or later.

Three parameters (a wide and a tall matrix, a vector) take 20 steps along gradients that are the same
for every optimizer: of a quadratic bowl plus noise, g = scale * (p - target) + noise[step], so that a
wrong step changes later gradients. The learning rate changes with the step. Weight decay acts on the
matrices only. The file has the parameters after steps 1, 2, 5 and 20.

AdamW, Adam, SGD, Adafactor, Muon, RAdam and NAdam are torch.optim's, in float32. Muon's Newton-Schulz iteration runs
in bfloat16 there; it is given float32 here, by replacing that one dtype. Adafactor gets eps1 = 1e-15: the
paper's 1e-30 would be squared to 0. Lion, LAMB, ADOPT and AdEMAMix follow their papers in numpy, in float64. On the
day they were written these last two agreed with their authors' code (iShohei220/adopt, apple/ml-ademamix), and
AdEMAMix with pytorch_optimizer 4.1.0, whose ADOPT decays weights and counts the clipping's steps from the first one.
Schedule-free AdamW is its authors' reference, whose training weights are stored like any optimizer's, and whose evaluation weights as
`average`; after warmup its rate is the base instead of rate(). The cautious forms are pytorch_optimizer's: Lion, and AdamP
with delta = 0, with which it projects nothing and equals AdamW.
"""
import math
import pathlib

import numpy as np
import torch
from pytorch_optimizer import AdamP, Lion
from schedulefree import AdamWScheduleFreeReference
import torch.optim._muon as torch_muon
from safetensors.numpy import save_file

STEPS, KEPT = 20, (1, 2, 5, 20)
SHAPES = {"wide": (3, 5), "tall": (6, 2), "bias": (4,)}
DECAY = {"wide": 1.0, "tall": 1.0, "bias": 0.0}

random = np.random.default_rng(7)
START = {n: random.normal(size=s).astype(np.float32) for n, s in SHAPES.items()}
TARGET = {n: random.normal(size=s).astype(np.float32) for n, s in SHAPES.items()}
NOISE = {n: random.normal(size=(STEPS, *s)).astype(np.float32) * 0.3 for n, s in SHAPES.items()}


def rate(base, step):
    return base * (1.0 - 0.04 * step)


def gradient(name, step, p):
    return 0.5 * (p - TARGET[name]) + NOISE[name][step]


def with_torch(base, make):
    """make(parameters with decay, parameters without) -> optimizers."""
    p = {n: torch.nn.Parameter(torch.tensor(START[n])) for n in SHAPES}
    optimizers = make([p["wide"], p["tall"]], [p["bias"]])
    kept = {}
    for step in range(STEPS):
        for name in SHAPES:
            now = p[name].detach().numpy()
            p[name].grad = torch.tensor(gradient(name, step, now))
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate(group.get("base", base), step)
            optimizer.step()
        if step + 1 in KEPT:
            for name in SHAPES:
                kept[f"{name}.{step + 1}"] = p[name].detach().numpy().copy()
    return kept


def grouped(optimizer, decay, **options):
    def make(decayed, plain):
        groups = [
            {"params": decayed, "weight_decay": decay},
            {"params": plain, "weight_decay": 0.0},
        ]
        return [optimizer(groups, **options)]

    return make


class Float32AsBfloat16:
    """torch, with bfloat16 replaced: for Muon's module only."""

    bfloat16 = torch.float32

    def __getattr__(self, name):
        return getattr(torch, name)


def muon(adjust, decay):
    def make(decayed, plain):
        rest = torch.optim.AdamW(plain, lr=1.0, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)
        rest.param_groups[0]["base"] = 3e-3
        return [
            torch.optim.Muon(decayed, lr=1.0, weight_decay=decay, adjust_lr_fn=adjust),
            rest,
        ]

    return make


def schedule_free(base, changing, **options):
    p = {n: torch.nn.Parameter(torch.tensor(START[n])) for n in SHAPES}
    groups = [
        {"params": [p["wide"], p["tall"]], "weight_decay": 0.1},
        {"params": [p["bias"]], "weight_decay": 0.0},
    ]
    optimizer = AdamWScheduleFreeReference(groups, lr=base, **options)
    optimizer.train()
    kept = {}
    for step in range(STEPS):
        for name in SHAPES:
            p[name].grad = torch.tensor(gradient(name, step, p[name].detach().numpy()))
        for group in optimizer.param_groups:
            group["lr"] = rate(base, step) if changing else base
        optimizer.step()
        if step + 1 in KEPT:
            for name in SHAPES:
                state = optimizer.state[p[name]]
                kept[f"{name}.{step + 1}"] = state["y"].numpy().copy()
                kept[f"{name}.average.{step + 1}"] = state["x"].numpy().copy()
    return kept


def with_numpy(base, step_of):
    kept = {}
    for name in SHAPES:
        p = START[name].astype(np.float64)
        state = {}
        for step in range(STEPS):
            g = gradient(name, step, p.astype(np.float32)).astype(np.float64)
            p = step_of(p, g, state, step + 1, rate(base, step), DECAY[name])
            if step + 1 in KEPT:
                kept[f"{name}.{step + 1}"] = p.astype(np.float32)
    return kept


def lion(p, g, state, t, lr, decays, b1=0.9, b2=0.99, decay=0.3):
    """Chen et al. 2023, algorithm 2."""
    m = state.get("m", np.zeros_like(p))
    update = np.sign(b1 * m + (1 - b1) * g)
    state["m"] = b2 * m + (1 - b2) * g
    return p - lr * (update + decay * decays * p)


def lamb(p, g, state, t, lr, decays, b1=0.9, b2=0.999, eps=1e-6, decay=0.1):
    """You et al. 2020, algorithm 2, with the identity for phi."""
    m = state["m"] = b1 * state.get("m", 0.0) + (1 - b1) * g
    v = state["v"] = b2 * state.get("v", 0.0) + (1 - b2) * g * g
    r = (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps) + decay * decays * p
    norm_p, norm_r = math.sqrt((p * p).sum()), math.sqrt((r * r).sum())
    ratio = norm_p / norm_r if norm_p > 0 and norm_r > 0 else 1.0
    return p - lr * ratio * r


def adopt(p, g, state, t, lr, decays, b1=0.9, b2=0.99, eps=1e-6, decay=0.1):
    """Taniguchi et al. 2024, algorithm 2: nothing moves at first, and t counts from the second gradient."""
    if t == 1:
        state["m"], state["v"] = np.zeros_like(p), g * g
        return p
    limit = (t - 1) ** 0.25
    normed = np.clip(g / np.maximum(np.sqrt(state["v"]), eps), -limit, limit)
    state["m"] = b1 * state["m"] + (1 - b1) * normed
    state["v"] = b2 * state["v"] + (1 - b2) * g * g
    return p - lr * decay * decays * p - lr * state["m"]


def ademamix(warmup):
    """Pagliardini et al. 2024, algorithm 1, with both schedulers over `warmup` steps, or without."""

    def step(p, g, state, t, lr, decays, b1=0.9, b2=0.99, b3=0.999, alpha=8.0, eps=1e-8, decay=0.1):
        if warmup:
            part = t / warmup
            fast, slow = math.log(b1), math.log(b3)
            b3 = min(math.exp(fast * slow / ((1 - part) * slow + part * fast)), b3)
            alpha = min(part * alpha, alpha)
        m1 = state["m1"] = b1 * state.get("m1", 0.0) + (1 - b1) * g
        m2 = state["m2"] = b3 * state.get("m2", 0.0) + (1 - b3) * g
        v = state["v"] = b2 * state.get("v", 0.0) + (1 - b2) * g * g
        along = m1 / (1 - b1**t) + alpha * m2
        return p - lr * (along / (np.sqrt(v / (1 - b2**t)) + eps) + decay * decays * p)

    return step


def main():
    out = {f"start.{n}": v for n, v in START.items()}
    out |= {f"target.{n}": v for n, v in TARGET.items()}
    out |= {f"noise.{n}": v for n, v in NOISE.items()}
    torch_muon.torch = Float32AsBfloat16()
    cases = {
        "adamw": with_torch(3e-2, grouped(torch.optim.AdamW, 0.1, betas=(0.9, 0.95), eps=1e-8)),
        "adamw_slow": with_torch(1e-2, grouped(torch.optim.AdamW, 0.01)),
        "adam": with_torch(3e-2, grouped(torch.optim.Adam, 0.1)),
        "sgd": with_torch(1e-1, grouped(torch.optim.SGD, 0.1, momentum=0.9)),
        "sgd_nesterov": with_torch(5e-2, grouped(torch.optim.SGD, 0.0, momentum=0.9, nesterov=True)),
        "sgd_plain": with_torch(1e-1, grouped(torch.optim.SGD, 0.0)),
        "adafactor": with_torch(1e-1, grouped(torch.optim.Adafactor, 0.1, eps=(1e-15, 1e-3))),
        "muon": with_torch(2e-2, muon("original", 0.1)),
        "muon_rms": with_torch(2e-2, muon("match_rms_adamw", 0.1)),
        "lion": with_numpy(1e-2, lion),
        "lamb": with_numpy(1e-2, lamb),
        "radam": with_torch(
            3e-2, grouped(torch.optim.RAdam, 0.1, betas=(0.9, 0.99), decoupled_weight_decay=True)
        ),
        "nadam": with_torch(3e-2, grouped(torch.optim.NAdam, 0.1, decoupled_weight_decay=True)),
        "adopt": with_numpy(3e-2, adopt),
        "ademamix": with_numpy(1e-2, ademamix(12)),
        "ademamix_whole": with_numpy(1e-2, ademamix(0)),
        "schedule_free": schedule_free(3e-2, True, betas=(0.9, 0.99)),
        "schedule_free_warm": schedule_free(3e-2, False, betas=(0.8, 0.99), warmup_steps=7),
        "adamw_cautious": with_torch(
            3e-2,
            grouped(AdamP, 0.1, betas=(0.9, 0.95), eps=1e-8, delta=0.0, weight_decouple=True, cautious=True),
        ),
        "lion_cautious": with_torch(1e-2, grouped(Lion, 0.3, weight_decouple=True, cautious=True)),
    }
    for case, kept in cases.items():
        out |= {f"{case}.{k}": v for k, v in kept.items()}
    path = pathlib.Path(__file__).with_name("optimizers.safetensors")
    save_file({k: np.ascontiguousarray(v) for k, v in out.items()}, path)
    print(path.name, path.stat().st_size, "bytes,", len(out), "tensors")


if __name__ == "__main__":
    main()
