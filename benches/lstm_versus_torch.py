#!/usr/bin/env python3
"""Times training steps of two recurrent layers, 512 units, batch 32, 128 positions: `cargo bench --bench recurrent` against
PyTorch's nn.RNN, nn.GRU and nn.LSTM (forward, backward of the mean square of the outputs, AdamW), alternating.

    python3 benches/lstm_versus_torch.py [--rounds 3] [--threads N]

Needs torch (measured with 2.15.0). Prints medians in milliseconds and the ratio of PyTorch's time to ours.

Measured 2026-11-23, two threads of an otherwise idle AMD EPYC with AVX-512, alternating, commit 9f3644d: elman 163, 199 and 167 ms
(PyTorch: 282 and 282), gru 536, 466 and 537 (724 and 876), lstm 617, 674 and 644 (847 and 884). By the medians, the LSTM runs at
1.34 times PyTorch's speed.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

BATCH, SEQ, D, WARMUP, STEPS = 32, 128, 512, 3, 15


def ours(threads):
    env = dict(os.environ, RAYON_NUM_THREADS=str(threads))
    out = subprocess.run(["cargo", "bench", "--bench", "recurrent"], env=env, check=True, capture_output=True, text=True)
    lines = [json.loads(line) for line in out.stdout.splitlines() if line.startswith("{")]
    return {line["cell"]: line["step_ms_median"] for line in lines}


def torchs(threads):
    out = subprocess.run([sys.executable, __file__, "--torch", "--threads", str(threads)], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


def torch_steps(threads):
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    import torch
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    found = {}
    for name, kind in {"elman": torch.nn.RNN, "gru": torch.nn.GRU, "lstm": torch.nn.LSTM}.items():
        net = kind(D, D, 2, batch_first=True)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
        x = torch.randn(BATCH, SEQ, D)
        times = []
        for _ in range(WARMUP + STEPS):
            began = time.perf_counter()
            optimizer.zero_grad(set_to_none=True)
            y, _ = net(x)
            y.square().mean().backward()
            optimizer.step()
            times.append((time.perf_counter() - began) * 1e3)
        found[name] = statistics.median(times[WARMUP:])
    print(json.dumps(found))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--torch", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.torch:
        return torch_steps(a.threads)
    rounds = [(ours(a.threads), torchs(a.threads)) for _ in range(a.rounds)]
    print(f"{'cell':<8}{'ours, ms':>12}{'PyTorch, ms':>14}{'ratio':>8}")
    for cell in rounds[0][0]:
        mine = statistics.median(r[0][cell] for r in rounds)
        theirs = statistics.median(r[1][cell] for r in rounds)
        ratio = statistics.median(r[1][cell] / r[0][cell] for r in rounds)
        print(f"{cell:<8}{mine:>12.1f}{theirs:>14.1f}{ratio:>8.2f}")


if __name__ == "__main__":
    main()
