"""Oracle for tests/it/trajectory.rs: 50 training steps of a tiny GPT-2 in PyTorch.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==4.57.1 safetensors
    python make_trajectory.py

A step is two micro-batches with unequal numbers of scored tokens (targets of -100 are not scored), the gradient of the
mean over the tokens of both, clipped to a global norm of 1, and AdamW with three groups: token embeddings at half the
learning rate with a decay of 0.02, other matrices with 0.1, gains and biases with none. The learning rate of step i
(from 0) is lr*(i+1)/(warmup+1) during the warm-up, then half a cosine down to min_lr.

trajectory.safetensors holds `start.<weight>` and `end.<weight>` under HF's names, `inputs` and `targets`
[step, micro-batch, row, token] (I8), `losses`, `norms` before clipping and `rates` of each step (F64), and
config.json in the metadata (key `config`).
"""

import math
import os

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers as hf
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, MICRO, ROWS, LENGTH, VOCAB = 50, 2, 10, 16, 31
LR, MIN_LR, WARMUP, CLIP = 1e-2, 1e-3, 10, 1.0


def rate(step):
    if step < WARMUP:
        return LR * (step + 1) / (WARMUP + 1)
    done = (step - WARMUP) / (STEPS - WARMUP)
    return MIN_LR + 0.5 * (1 + math.cos(math.pi * done)) * (LR - MIN_LR)


def batches(generator):
    """Rows that step through the vocabulary with different strides, one token in ten at random."""
    shape = (STEPS, MICRO, ROWS)
    first = torch.randint(0, VOCAB, (*shape, 1), generator=generator)
    stride = torch.randint(1, 4, (*shape, 1), generator=generator)
    tokens = (first + stride * torch.arange(LENGTH + 1)) % VOCAB
    noise = torch.randint(0, VOCAB, tokens.shape, generator=generator)
    tokens = torch.where(torch.rand(tokens.shape, generator=generator) < 0.1, noise, tokens)
    inputs, targets = tokens[..., :-1].contiguous(), tokens[..., 1:].clone()
    # In the second micro-batch, only a few tokens of each row are scored.
    scored = torch.randint(9, LENGTH + 1, (*shape, 1), generator=generator)
    scored[:, 1] = torch.randint(1, 5, (STEPS, ROWS, 1), generator=generator)
    targets[torch.arange(LENGTH) >= scored] = -100
    return inputs, targets


def model_of(generator):
    config = hf.GPT2Config(
        vocab_size=VOCAB,
        n_positions=LENGTH,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_inner=64,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        attn_implementation="eager",
    )
    config.architectures = ["GPT2LMHeadModel"]
    model = hf.GPT2LMHeadModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model.train()


def optimizer_of(model):
    named = list(model.named_parameters())
    embeddings = [p for n, p in named if n.endswith("wte.weight")]
    matrices = [p for n, p in named if p.dim() > 1 and not n.endswith("wte.weight")]
    vectors = [p for _, p in named if p.dim() == 1]
    groups = [
        {"params": embeddings, "weight_decay": 0.02, "scale": 0.5},
        {"params": matrices, "weight_decay": 0.1, "scale": 1.0},
        {"params": vectors, "weight_decay": 0.0, "scale": 1.0},
    ]
    return torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.95), eps=1e-8, fused=False, foreach=False)


def weights(model, prefix):
    return {prefix + name: p.detach().clone().contiguous() for name, p in model.named_parameters()}


def main():
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(2026)
    inputs, targets = batches(generator)
    model = model_of(generator)
    optimizer = optimizer_of(model)
    tensors = weights(model, "start.")
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        scored = (targets[step] != -100).sum().item()
        loss_sum = 0.0
        for micro in range(MICRO):
            logits = model(input_ids=inputs[step, micro], use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(
                logits.reshape(-1, VOCAB), targets[step, micro].reshape(-1), ignore_index=-100, reduction="sum"
            )
            (loss / scored).backward()
            loss_sum += loss.item()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item())
        for group in optimizer.param_groups:
            group["lr"] = rate(step) * group["scale"]
        optimizer.step()
        losses.append(loss_sum / scored)
    tensors |= weights(model, "end.")
    tensors["inputs"] = inputs.to(torch.int8)
    tensors["targets"] = targets.to(torch.int8)
    tensors["losses"] = torch.tensor(losses, dtype=torch.float64)
    tensors["norms"] = torch.tensor(norms, dtype=torch.float64)
    tensors["rates"] = torch.tensor([rate(step) for step in range(STEPS)], dtype=torch.float64)
    path = os.path.join(HERE, "trajectory.safetensors")
    save_file(tensors, path, {"config": model.config.to_json_string(use_diff=True)})
    clipped = sum(norm > CLIP for norm in norms)
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}, {clipped} of {STEPS} steps clipped, {os.path.getsize(path) // 1024} KB")
    print(" ".join(f"{x:.2f}" for x in losses))
    print(" ".join(f"{x:.2f}" for x in norms))


if __name__ == "__main__":
    main()
