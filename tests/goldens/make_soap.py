#!/usr/bin/env python3
"""A trajectory of SOAP, for tests/it/optim/soap.rs. Run by hand; writes soap.safetensors.

Versions: Python 3.11 or later, torch 2.15.0, pytorch_optimizer 4.1.0, numpy 2, safetensors 0.5 or later.

Five parameters take 20 steps along the gradients of make_optimizers.py: of a quadratic bowl plus noise. The optimizer is
pytorch_optimizer's SOAP, in float64; it makes orthogonal factors in float32. Eigenbases are updated at every third step, and the longest
dimension that has one is 5: a square matrix has two, a wide and a tall one have one each, a kernel of three dimensions has
three, a vector has none. The first gradient is of full rank in each, since eigenvectors of equal eigenvalues are arbitrary.
Weight decay acts on all parameters except the vector. The file has the parameters after steps 1, 2, 5 and 20.
"""
import pathlib

import numpy as np
import torch
from pytorch_optimizer import SOAP
from safetensors.numpy import save_file

STEPS, KEPT = 20, (1, 2, 5, 20)
SHAPES = {"square": (5, 5), "wide": (3, 7), "tall": (7, 4), "kernel": (2, 3, 4), "bias": (4,)}
LR, DECAY = 3e-2, 0.1

random = np.random.default_rng(11)
START = {n: random.normal(size=s).astype(np.float32) for n, s in SHAPES.items()}
TARGET = {n: random.normal(size=s).astype(np.float32) for n, s in SHAPES.items()}
NOISE = {n: random.normal(size=(STEPS, *s)).astype(np.float32) * 0.3 for n, s in SHAPES.items()}


def trajectory(dtype):
    p = {n: torch.nn.Parameter(torch.tensor(START[n], dtype=dtype)) for n in SHAPES}
    groups = [
        {"params": [p[n] for n in SHAPES if n != "bias"], "weight_decay": DECAY},
        {"params": [p["bias"]], "weight_decay": 0.0},
    ]
    optimizer = SOAP(
        groups, lr=LR, betas=(0.9, 0.95), eps=1e-8, precondition_frequency=3, max_precondition_dim=5
    )
    kept = {}
    for step in range(STEPS):
        for name in SHAPES:
            now = p[name].detach().numpy()
            g = 0.5 * (now - TARGET[name]) + NOISE[name][step]
            p[name].grad = torch.tensor(g, dtype=dtype)
        for group in optimizer.param_groups:
            group["lr"] = LR * (1.0 - 0.04 * step)
        optimizer.step()
        if step + 1 in KEPT:
            for name in SHAPES:
                kept[f"soap.{name}.{step + 1}"] = p[name].detach().numpy().astype(np.float32)
    return kept


def main():
    out = {f"start.{n}": v for n, v in START.items()}
    out |= {f"target.{n}": v for n, v in TARGET.items()}
    out |= {f"noise.{n}": v for n, v in NOISE.items()}
    kept, rounded = trajectory(torch.float64), trajectory(torch.float32)
    print("float32 is off by", max(np.abs(kept[k] - rounded[k]).max() for k in kept))
    path = pathlib.Path(__file__).with_name("soap.safetensors")
    save_file({k: np.ascontiguousarray(v) for k, v in (out | kept).items()}, path)
    print(path.name, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
