#!/usr/bin/env python3
"""Learning rates of polynomial decays and of cosines with restarts, for tests/it/schedule.rs. Run by hand; writes schedules.json.

    pip install torch==2.15.0 transformers==5.24.0
    python make_schedules.py

Each case has the `schedule` as in an experiment, the peak learning rate `lr`, the `steps` of the run, and `rates`: the output of
the scheduler `oracle` for the steps 0, 1, 2 … Rates during warmup are null, since those of the oracles begin at 0, and
formwork's above it.
"""
import json
import pathlib

import torch
import transformers
from torch.optim import lr_scheduler

FILE = pathlib.Path(__file__).parent / "schedules.json"
BASE = 0.05


def rates(make, steps):
    """The learning rate of each step under a scheduler; one step more than the run has."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))], lr=BASE)
    scheduler = make(optimizer)
    found = []
    for _ in range(steps + 1):
        found.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return found


def case(oracle, schedule, steps, make, last=True):
    """`last`: whether the oracle has an end, after which it also defines the run's last step."""
    found = rates(make, steps)
    found = found if last else found[:steps]
    warmup = schedule.get("warmup_steps", 0)
    found = [None] * warmup + found[warmup:]
    return {"oracle": oracle, "schedule": schedule, "lr": BASE, "steps": steps, "rates": found}


def polynomial(power, warmup, steps, end):
    schedule = {"kind": "polynomial", "power": power, "warmup_steps": warmup, "min_lr": end}
    return case("transformers.get_polynomial_decay_schedule_with_warmup", schedule, steps, lambda o:
                transformers.get_polynomial_decay_schedule_with_warmup(o, warmup, steps, lr_end=end, power=power))


def polynomial_of_torch(power, steps):
    schedule = {"kind": "polynomial", "power": power}
    return case("torch.PolynomialLR", schedule, steps, lambda o:
                lr_scheduler.PolynomialLR(o, total_iters=steps, power=power))


def restarts(cycles, warmup, steps):
    schedule = {"kind": "cosine_restarts", "cycles": cycles, "warmup_steps": warmup}
    return case("transformers.get_cosine_with_hard_restarts_schedule_with_warmup", schedule, steps, lambda o:
                transformers.get_cosine_with_hard_restarts_schedule_with_warmup(o, warmup, steps, num_cycles=cycles))


def sgdr(first, growth, cycles, low):
    steps = first * sum(growth**k for k in range(cycles))
    schedule = {"kind": "cosine_restarts", "cycles": cycles, "growth": float(growth), "min_lr": low}
    return case("torch.CosineAnnealingWarmRestarts", schedule, steps, lambda o:
                lr_scheduler.CosineAnnealingWarmRestarts(o, T_0=first, T_mult=growth, eta_min=low), last=False)


cases = [
    polynomial(1.0, 10, 60, 1e-3),
    polynomial(2.0, 10, 60, 1e-3),
    polynomial(0.9, 0, 47, 0.0),
    polynomial_of_torch(3.0, 40),
    restarts(1, 5, 45),
    restarts(3, 10, 100),
    restarts(4, 8, 57),
    sgdr(9, 1, 5, 1e-3),
    sgdr(10, 2, 3, 2e-3),
    sgdr(3, 3, 4, 0.0),
]
FILE.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
