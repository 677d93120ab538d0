#!/usr/bin/env python3
"""Times PyTorch's scaled_dot_product_attention on the shapes of `formwork bench attention`: forward, and forward with
backward, medians in milliseconds. Formwork's figures also include the small projections of a layer.

    python3 benches/torch_attention.py [--context 1024,2048,4096] [--batch 1] [--heads 8] [--head-width 64] [--rounds 5]
        [--threads 2] [--flash]

With `--flash` only PyTorch's tiled kernel is allowed, not the formula with all scores in memory.

Needs torch (measured with 2.15.0).
"""
import argparse
import contextlib
import json
import statistics
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


def median_ms(rounds, work):
    work()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--context", default="1024,2048,4096")
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--heads", type=int, default=8)
    p.add_argument("--head-width", type=int, default=64)
    p.add_argument("--bidirectional", action="store_true")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=int)
    p.add_argument("--flash", action="store_true")
    a = p.parse_args()
    torch.manual_seed(0)
    if a.threads:
        torch.set_num_threads(a.threads)
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION]) if a.flash else contextlib.nullcontext():
        measure(a)


def measure(a):
    for context in map(int, a.context.split(",")):
        q, k, v = (torch.randn(a.batch, a.heads, context, a.head_width, requires_grad=True) for _ in range(3))

        def forward():
            with torch.no_grad():
                scaled_dot_product_attention(q, k, v, is_causal=not a.bidirectional)

        def both():
            q.grad = k.grad = v.grad = None
            scaled_dot_product_attention(q, k, v, is_causal=not a.bidirectional).sum().backward()

        alone = median_ms(a.rounds, forward)
        print(json.dumps({
            "kind": "multi_head",
            "engine": f"torch {torch.__version__}",
            "context": context,
            "forward_ms": round(alone, 2),
            "backward_ms": round(median_ms(a.rounds, both) - alone, 2),
        }))


if __name__ == "__main__":
    main()
