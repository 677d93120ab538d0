#!/usr/bin/env python3
"""Measures greedy decoding with Hugging Face `generate` and its cache, for a GPT-2 of the size of experiments/bench/lm_m.toml
(10.8 million parameters, float32): tokens per second, median of the rounds.

    python3 benches/hf_generate.py [--batch 1] [--prompt 16] [--tokens 128] [--rounds 3]

Needs torch and transformers (measured with 2.15.0 and 4.57.1).
"""
import argparse
import json
import statistics
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--prompt", type=int, default=16)
    p.add_argument("--tokens", type=int, default=128)
    p.add_argument("--rounds", type=int, default=3)
    a = p.parse_args()
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=65, n_positions=256, n_embd=384, n_layer=6, n_head=6, bos_token_id=0, eos_token_id=None)
    model = GPT2LMHeadModel(config).eval()
    prompt = torch.randint(0, 65, (a.batch, a.prompt))
    speeds = []
    for counted in range(a.rounds + 1):
        began = time.perf_counter()
        with torch.no_grad():
            out = model.generate(
                prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=a.tokens,
                min_new_tokens=a.tokens, use_cache=True, pad_token_id=0,
            )
        assert out.shape == (a.batch, a.prompt + a.tokens)
        if counted:
            speeds.append(a.batch * a.tokens / (time.perf_counter() - began))
    print(json.dumps({
        "case": "gpt2 of 10.8M",
        "engine": f"transformers on torch {torch.__version__}",
        "params": sum(x.numel() for x in model.parameters()),
        "batch": a.batch,
        "tokens_per_s": round(statistics.median(speeds), 1),
    }))


if __name__ == "__main__":
    main()
