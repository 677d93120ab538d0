"""Attention by hashing: HF Reformer's LSHSelfAttention with its output projection, in float64.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.23.0 safetensors
    python make_lsh.py

lsh.safetensors has for each case `<case>.<name>`: the input `x` [row, token, d_model], `lengths` [row] (I64), `buckets`
[row, head, round, token] of the tokens padded to whole chunks (I64; the bucket after the last one is padding's), the random
`rotations` [head, d_head, round, column], `weight.<path>` under formwork's paths, the result `y` (zero at padding), and the
gradients `grad.x` and `grad.<path>` of the sum of y times `cotangent`. The metadata's `config` has each case's keys under
formwork's names, and whether it is causal.

A length that is no multiple of the chunk is padded as ReformerModel does it, with tokens of attention mask 0 at the end.
No bucket depends on rounding: each rotated vector's largest element leads by at least 1e-3.
"""

import torch
from safetensors.torch import save_file
from shared import HERE, MADE_WITH, begin, config_text, seeded
import transformers as hf
from transformers.models.reformer.modeling_reformer import ReformerAttention

MADE_WITH["transformers"] = "5.23.0"
D_MODEL, HEADS, HEAD = 12, 2, 6
CASES = {
    "causal": dict(rounds=2, chunk=4, buckets=[4], causal=True, tokens=16, lengths=[16, 16]),
    "both_ways": dict(rounds=3, chunk=4, buckets=[6], causal=False, tokens=16, lengths=[16, 16]),
    "factors": dict(rounds=2, chunk=4, buckets=[2, 4], causal=True, tokens=24, lengths=[24, 17]),
    "padded": dict(rounds=2, chunk=4, buckets=[4], causal=False, tokens=18, lengths=[18, 9]),
    "padded_causal": dict(rounds=1, chunk=4, buckets=[4], causal=True, tokens=13, lengths=[13, 13]),
    "around": dict(rounds=2, chunk=3, buckets=[4], causal=False, tokens=15, lengths=[15, 15], look_back=2, look_ahead=1),
    "short": dict(rounds=2, chunk=16, buckets=[4], causal=True, tokens=16, lengths=[16, 7]),
    "short_both_ways": dict(rounds=2, chunk=16, buckets=[4], causal=False, tokens=11, lengths=[11, 6]),
    "by_length": dict(rounds=2, chunk=4, buckets=None, causal=True, tokens=38, lengths=[38, 38]),
}


def layer(case):
    config = hf.ReformerConfig(
        attn_layers=["lsh"],
        hidden_size=D_MODEL,
        num_attention_heads=HEADS,
        attention_head_size=HEAD,
        num_hashes=case["rounds"],
        num_buckets=None if case["buckets"] is None else case["buckets"][0] if len(case["buckets"]) == 1 else case["buckets"],
        lsh_attn_chunk_length=case["chunk"],
        lsh_num_chunks_before=case.get("look_back", 1),
        lsh_num_chunks_after=case.get("look_ahead", 0),
        is_decoder=case["causal"],
        hash_seed=11,
        max_position_embeddings=64,
    )
    return ReformerAttention(config).double().eval()


def margin(attention, x, rotations, buckets):
    """The smallest lead of a rotated vector's largest element."""
    q = attention.query_key(x).view(*x.shape[:2], HEADS, HEAD).transpose(1, 2)
    rotated = torch.einsum("bmtd,mdhr->bmhtr", q, rotations)
    at, least = 0, float("inf")
    for factor in buckets:
        part = rotated[..., at : at + factor // 2]
        top = torch.cat([part, -part], -1).topk(2, -1).values
        least = min(least, (top[..., 0] - top[..., 1]).min().item())
        at += factor // 2
    return least


def make(name, case, try_number):
    generator = seeded(f"{name} {try_number}")
    draw = lambda *shape: torch.randn(shape, generator=generator, dtype=torch.float64)
    full = layer(case)
    attention, dense = full.self_attention, full.output.dense
    for matrix in [attention.query_key.weight, attention.value.weight, dense.weight]:
        matrix.data = draw(*matrix.shape) * 1.5 * matrix.shape[1] ** -0.5
    tokens, chunk = case["tokens"], case["chunk"]
    padded = tokens if tokens <= chunk else -(-tokens // chunk) * chunk
    x = draw(2, padded, D_MODEL).requires_grad_()
    mask = torch.arange(padded)[None] < torch.tensor(case["lengths"])[:, None]
    given = None if mask.all() else mask.long()
    found = attention(hidden_states=x, attention_mask=given)
    y = dense(found.hidden_states)
    sizes = attention.num_buckets
    sizes = [sizes] if isinstance(sizes, int) else list(sizes)
    torch.manual_seed(11)
    rotations = torch.randn(HEADS, HEAD, case["rounds"], sum(sizes) // 2, dtype=torch.float64)
    if found.buckets is not None and margin(attention, x, rotations, sizes) < 1e-3:
        return None
    y = (y * mask[..., None])[:, :tokens]
    cotangent = draw(2, tokens, D_MODEL) * mask[:, :tokens, None]
    (y * cotangent).sum().backward()
    tensors = {
        "x": x[:, :tokens], "grad.x": x.grad[:, :tokens], "y": y, "cotangent": cotangent, "rotations": rotations,
        "lengths": torch.tensor(case["lengths"]),
    }
    if found.buckets is not None:
        count = torch.tensor(sizes).prod() + int(given is not None)
        tensors["buckets"] = found.buckets - torch.arange(case["rounds"])[:, None] * count
    for path, matrix in [("query_key", attention.query_key), ("value", attention.value), ("output", dense)]:
        tensors[f"weight.{path}.weight"], tensors[f"grad.{path}.weight"] = matrix.weight, matrix.weight.grad
    assert all(x.grad is None or x.grad.abs().max() > 0 for x in full.parameters())
    keys = {"kind": "lsh", "n_heads": HEADS, "d_head": HEAD, "bias": False}
    keys |= {k: case[k] for k in ["rounds", "chunk", "look_back", "look_ahead"] if k in case}
    if case["buckets"]:
        keys["buckets"] = case["buckets"]
    config = {"attention": keys, "causal": case["causal"], "factors": sizes}
    return config, {f"{name}.{k}": v for k, v in tensors.items()}


def main():
    begin(torch, hf)
    configs, all_tensors = {}, {}
    for name, case in CASES.items():
        made = next(made for made in (make(name, case, i) for i in range(1000)) if made)
        configs[name] = made[0]
        all_tensors |= made[1]
        print(name, made[0]["factors"])
    done = {k: (v.detach().float() if v.is_floating_point() else v).clone().contiguous() for k, v in all_tensors.items()}
    save_file(done, f"{HERE}/lsh.safetensors", {"config": config_text(configs)})


if __name__ == "__main__":
    main()
