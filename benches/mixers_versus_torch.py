#!/usr/bin/env python3
"""Times training steps of Mamba, Mamba-2 and RWKV: `formwork bench train experiments/bench/{mamba,mamba2,rwkv}.toml` against the same
models of transformers on PyTorch (forward, loss, backward, AdamW), alternating.

    python3 benches/mixers_versus_torch.py [mamba mamba2 rwkv] [--rounds 3] [--threads N] [--bin target/release/formwork]

Needs torch and transformers (measured with 2.15.0 and 5.23.0). Without CUDA the classes of Mamba and RWKV loop over positions in
Python (Mamba would use its associative scan under torch.compile, which is not used here); the class of Mamba-2 multiplies
matrices in chunks. Prints medians in milliseconds and the ratio of PyTorch's time to ours.

Measured on 2 cores of an AMD EPYC with AVX-512, 2026-11-27, commit 7e52fae, one step of PyTorch after one warmup step: Mamba
197 ms against 44.7 s, most of it spent on memory; RWKV 288 ms against 1,037 ms. Without its CUDA kernels the class of Mamba keeps
all states in memory: the ratio shows what a CPU can do today, not the cost of the model. Three rounds of four steps took more than
7 minutes. Mamba-2 on 2 cores of a shared Intel Xeon beside builds, 2026-11-28, three rounds of three steps: 373 ms against 3,690 ms.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

VOCAB, SEQ, BATCH, WIDTH, LAYERS, WARMUP = 512, 256, 8, 256, 4, 1


def ours(name, a):
    env = dict(os.environ, RAYON_NUM_THREADS=str(a.threads))
    command = [a.bin, "bench", "train", f"experiments/bench/{name}.toml", "--steps", str(a.steps), "--json"]
    out = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    return json.loads(out.stdout)["step_ms_median"]


def torchs(name, a):
    command = [sys.executable, __file__, "--torch", name, "--threads", str(a.threads), "--steps", str(a.steps)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def torch_steps(a):
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    import torch
    import transformers as hf
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    size = dict(vocab_size=VOCAB, hidden_size=WIDTH, num_hidden_layers=LAYERS, use_cache=False, tie_word_embeddings=False)
    net = {
        "mamba": lambda: hf.MambaForCausalLM(hf.MambaConfig(**size)),
        "mamba2": lambda: hf.Mamba2ForCausalLM(hf.Mamba2Config(num_heads=2 * WIDTH // 64, head_dim=64, n_groups=1, **size)),
        "rwkv": lambda: hf.RwkvForCausalLM(hf.RwkvConfig(context_length=SEQ, **size)),
    }[a.torch]()
    net.train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    times = []
    for _ in range(WARMUP + a.steps):
        x = torch.randint(0, VOCAB, (BATCH, SEQ))
        began = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        net(input_ids=x, labels=x).loss.backward()
        optimizer.step()
        times.append((time.perf_counter() - began) * 1e3)
    print(json.dumps(statistics.median(times[WARMUP:])))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("models", nargs="*", default=["mamba", "mamba2", "rwkv"])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--bin", default="target/release/formwork")
    p.add_argument("--torch", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.torch:
        return torch_steps(a)
    print(f"{'model':<8}{'ours, ms':>12}{'PyTorch, ms':>14}{'ratio':>8}")
    for name in a.models:
        rounds = [(ours(name, a), torchs(name, a)) for _ in range(a.rounds)]
        mine, theirs = (statistics.median(r[i] for r in rounds) for i in (0, 1))
        ratio = statistics.median(r[1] / r[0] for r in rounds)
        print(f"{name:<8}{mine:>12.1f}{theirs:>14.1f}{ratio:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
