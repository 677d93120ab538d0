#!/usr/bin/env python3
"""Times PyTorch's training step against ours on one GPU, alternating: a character model, GPT-2 of 124M, BERT-base and ViT-B/16.

    cargo build --release --features cuda
    python3 benches/torch_gpu.py --device cuda [--case gpt2] [--mode eager] [--dtype bf16] [--rounds 3] [--steps 20]

For each case, mode and number format it alternates

    formwork bench train experiments/bench/CASE.toml --device cuda --json
    the same model in PyTorch: forward, backward, clipping at 1, AdamW (fused)

and prints the mean step time of both (medians over rounds), the ratio of speeds (above 1 is faster than PyTorch) and the peak of
PyTorch's device memory. Modes: `eager` (attention as PyTorch chooses it), `compile` (torch.compile), `flash` (only the flash
kernel; bf16 only). In f32 both use TF32 where allowed (`--no-tf32` forbids it, except for our convolutions). Parameter counts must
be equal, or the exit status is 1. `--replay` replays our steps, `--torch-only` leaves them out; `--device cpu --batch 1 --steps 1`
checks the script on a machine without a GPU.

On 2026-11-27 it ran on an NVIDIA H200 in parts (docs/gpus.md has the figures). On 2026-11-25 the counts of all four cases equalled
those of `formwork plan` on a CPU (torch 2.15.0).
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

ROOT = Path(__file__).resolve().parent.parent
MASK = 0.15


class Shape:
    """The sizes of a case, as in its experiment file."""

    def __init__(self, kind, layers, d, heads, context, outputs, batch, dropout=0.0, tied=False, post=False, head=False):
        self.kind, self.layers, self.d, self.heads, self.context = kind, layers, d, heads, context
        self.outputs, self.batch, self.dropout, self.tied, self.post, self.head = outputs, batch, dropout, tied, post, head


CASES = {
    "lm_m": Shape("decoder", 6, 384, 6, 256, 65, 8),
    "gpt2": Shape("decoder", 12, 768, 12, 1024, 50257, 8, dropout=0.1, tied=True),
    "bert_base": Shape("encoder", 12, 768, 12, 128, 30522, 32, dropout=0.1, tied=True, post=True, head=True),
    "vit_b": Shape("vision", 12, 768, 12, 197, 1000, 64),
}


class Block(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s = s
        self.norms = nn.ModuleList(nn.LayerNorm(s.d) for _ in range(2))
        self.qkv, self.out = nn.Linear(s.d, 3 * s.d), nn.Linear(s.d, s.d)
        self.up, self.down = nn.Linear(s.d, 4 * s.d), nn.Linear(4 * s.d, s.d)

    def attend(self, x):
        s = self.s
        batch, seq, _ = x.shape
        q, k, v = self.qkv(x).view(batch, seq, 3, s.heads, s.d // s.heads).permute(2, 0, 3, 1, 4)
        p = s.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=s.kind == "decoder")
        return self.out(y.transpose(1, 2).reshape(batch, seq, s.d))

    def feed(self, x):
        return self.down(F.gelu(self.up(x), approximate="tanh" if self.s.tied and not self.s.head else "none"))

    def forward(self, x):
        for norm, part in zip(self.norms, (self.attend, self.feed)):
            if self.s.post:
                x = norm(x + F.dropout(part(x), self.s.dropout, self.training))
            else:
                x = x + F.dropout(part(norm(x)), self.s.dropout, self.training)
        return x


class Model(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s = s
        if s.kind == "vision":
            self.stem = nn.Conv2d(3, s.d, 16, 16)
            self.token = nn.Parameter(torch.zeros(1, 1, s.d))
        else:
            self.embedding = nn.Embedding(s.outputs, s.d)
        self.position = nn.Parameter(torch.randn(s.context, s.d) * 0.02)
        if s.head:
            self.segments = nn.Embedding(2, s.d)
            self.transform, self.head_norm = nn.Linear(s.d, s.d), nn.LayerNorm(s.d)
            self.head_bias = nn.Parameter(torch.zeros(s.outputs))
        self.blocks = nn.ModuleList(Block(s) for _ in range(s.layers))
        # Post-norm stacks have a norm on the embeddings instead of one at the end.
        self.norm = nn.LayerNorm(s.d)
        if not s.tied:
            self.head = nn.Linear(s.d, s.outputs, bias=s.kind == "vision")

    def forward(self, x, targets, scored=None):
        s = self.s
        if s.kind == "vision":
            x = self.stem(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        else:
            x = self.embedding(x)
        x = x + self.position
        if s.head:
            x = self.norm(x + self.segments.weight[0])
        x = F.dropout(x, s.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        if not s.post:
            x = self.norm(x)
        if s.kind == "vision":
            x = x[:, 0]
        else:
            x = x.flatten(0, 1)
            x = x if scored is None else x[scored]
        if s.head:
            x = self.head_norm(F.gelu(self.transform(x)))
        logits = F.linear(x, self.embedding.weight, self.head_bias if s.head else None) if s.tied else self.head(x)
        return F.cross_entropy(logits.float(), targets)


def batch_of(s, rows, device):
    if s.kind == "vision":
        return torch.randn(rows, 3, 224, 224, device=device), torch.randint(s.outputs, (rows,), device=device), None
    ids = torch.randint(s.outputs, (rows, s.context), device=device)
    if s.kind == "decoder":
        return ids, torch.randint(s.outputs, (rows * s.context,), device=device), None
    scored = torch.randperm(rows * s.context, device=device)[: int(MASK * rows * s.context)]
    return ids, ids.flatten()[scored], scored


def theirs(s, a, mode, dtype):
    """Returns the mean step time in milliseconds, the parameter count, and the peak of the device's memory in MB."""
    device = torch.device(a.device)
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest" if a.no_tf32 else "high")
    model = Model(s).to(device)
    params = sum(p.numel() for p in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device.type == "cuda")
    run = torch.compile(model) if mode == "compile" else model

    def settings():
        """Returns the context managers for one step."""
        kernels = sdpa_kernel([SDPBackend.FLASH_ATTENTION]) if mode == "flash" else contextlib.nullcontext()
        mixed = torch.autocast(device.type, torch.bfloat16) if dtype == "bf16" else contextlib.nullcontext()
        return kernels, mixed

    def wait():
        if device.type == "cuda":
            torch.cuda.synchronize()

    # As in our measurement: the time of all steps together, with one synchronisation at the end.
    batches = [batch_of(s, a.batch or s.batch, device) for _ in range(2)]
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    for step in range(a.warmup + a.steps):
        batch = batches[step % 2]
        if step == a.warmup:
            wait()
            began = time.perf_counter()
        kernels, mixed = settings()
        with kernels, mixed:
            loss = run(*batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    wait()
    took = (time.perf_counter() - began) * 1e3 / a.steps
    peak = torch.cuda.max_memory_allocated() / 1e6 if device.type == "cuda" else None
    return {"step_ms": took, "params": params, "peak_mb": peak}


def ours(case, a, dtype):
    command = [a.binary, "bench", "train", f"experiments/bench/{case}.toml", "--steps", a.steps, "--warmup", a.warmup, "--json"]
    command += ["--device", "flex" if a.device == "cpu" else a.device]
    command += ["--set", f"train.dtype={'mixed_bf16' if dtype == 'bf16' else 'f32'}"]
    if a.no_tf32 and dtype == "f32":
        command += ["--set", "train.tf32=false"]
    if a.batch:
        command += ["--set", f"train.batch_size={a.batch}"]
    if a.replay:
        command += ["--set", "train.replay=true"]
    done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--case", choices=CASES, action="append")
    p.add_argument("--mode", choices=["eager", "compile", "flash"], action="append")
    p.add_argument("--dtype", choices=["f32", "bf16"], action="append")
    p.add_argument("--device", default="cuda")
    p.add_argument("--binary", default=str(ROOT / "target/release/formwork"))
    p.add_argument("--batch", type=int, help="rows, where a case's own do not fit")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--replay", action="store_true", help="our steps are replayed")
    p.add_argument("--no-tf32", action="store_true")
    p.add_argument("--torch-only", action="store_true")
    a = p.parse_args()
    name = torch.cuda.get_device_name() if a.device.startswith("cuda") else "the processor"
    print(f"torch {torch.__version__} on {name}", flush=True)
    differ = False
    for case in a.case or CASES:
        for dtype in a.dtype or ["f32", "bf16"]:
            for mode in a.mode or ["eager", "compile", "flash"]:
                if mode == "flash" and dtype == "f32":
                    continue
                rounds = [(None if a.torch_only else ours(case, a, dtype), theirs(CASES[case], a, mode, dtype)) for _ in range(a.rounds)]
                there = statistics.median(t["step_ms"] for _, t in rounds)
                line = f"{case:10} {dtype:4} {mode:8} torch {there:9.2f} ms"
                peak = rounds[0][1]["peak_mb"]
                line += f"  {peak:7.0f} MB" if peak else ""
                if not a.torch_only:
                    here = statistics.median(o["step_ms_median"] for o, _ in rounds)
                    ratio = statistics.median(t["step_ms"] / o["step_ms_median"] for o, t in rounds)
                    line += f"  formwork {here:9.2f} ms  ratio {ratio:5.2f}"
                    counts = rounds[0][0]["params"], rounds[0][1]["params"]
                    if counts[0] != counts[1]:
                        differ = True
                        line += f"  PARAMETERS DIFFER: {counts[0]:,} and {counts[1]:,}"
                print(line, flush=True)
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
