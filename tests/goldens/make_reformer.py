"""Oracles of whole Reformers: HF's ReformerModelWithLMHead in small, in float64, with the backward pass of its reversible layers.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.23.0 safetensors
    python make_reformer.py

Files as those of make_language_models.py: weights under HF's names, `input_ids` [2, 16], `logits`, `loss` (mean next-token
cross-entropy), `grad.<weight>`, config.json in the metadata. In reformer.safetensors one chunk holds the input of the layers
that hash, and blocks of four that of the others. In reformer_hashed.safetensors chunks of four are sorted, and `rotations`
[head, d_head, round, column] are those that `hash_seed` draws in every layer; no bucket depends on rounding.
"""

import torch
import transformers as hf
from safetensors.torch import save_file
from shared import HERE, MADE_WITH, begin, config_text, redraw, seeded
from transformers.models.reformer import modeling_reformer as reformer

MADE_WITH["transformers"] = "5.23.0"
VOCAB, LENGTH, HEADS, HEAD = 23, 16, 2, 6
SHAPE = dict(
    vocab_size=VOCAB, hidden_size=12, num_attention_heads=HEADS, attention_head_size=HEAD, feed_forward_size=20,
    is_decoder=True, max_position_embeddings=LENGTH, axial_pos_shape=[2, 8], axial_pos_embds_dim=[4, 8],
    local_attn_chunk_length=4, hidden_dropout_prob=0.0, lsh_attention_probs_dropout_prob=0.0,
    local_attention_probs_dropout_prob=0.0, layer_norm_eps=1e-6, pad_token_id=None,
)  # fmt: skip
CASES = {
    "reformer": dict(SHAPE, attn_layers=["lsh", "local", "local", "lsh"], lsh_attn_chunk_length=16, chunk_size_feed_forward=8),
    "reformer_hashed": dict(
        SHAPE, attn_layers=["local", "lsh", "lsh"], lsh_attn_chunk_length=4, num_hashes=3, num_buckets=6, hash_seed=5,
        hidden_act="gelu",
    ),
}  # fmt: skip


def config_of(model):
    keys = model.config.to_dict() | {"architectures": ["ReformerModelWithLMHead"], "model_type": "reformer"}
    return config_text({k: v for k, v in keys.items() if v is not None})


def make(name, keys, number):
    config = hf.ReformerConfig(**keys)
    model = hf.ReformerModelWithLMHead(config).train()
    generator = seeded(f"{name} {number}")
    redraw(model, generator)
    with torch.no_grad():
        for table in model.reformer.embeddings.position_embeddings.weights:
            table.copy_(torch.randn(table.shape, generator=generator))
    model = model.double()
    margins = []
    whole = reformer.LSHSelfAttention._hash_vectors

    def watched(self, vectors, *rest, **more):
        torch.manual_seed(self.hash_seed)
        rotations = torch.randn(HEADS, HEAD, config.num_hashes, config.num_buckets // 2, dtype=vectors.dtype)
        rotated = torch.einsum("bmtd,mdhr->bmhtr", vectors.detach(), rotations)
        top = torch.cat([rotated, -rotated], -1).topk(2, -1).values
        margins.append((top[..., 0] - top[..., 1]).min().item())
        watched.rotations = rotations
        return whole(self, vectors, *rest, **more)

    reformer.LSHSelfAttention._hash_vectors = watched
    ids = torch.randint(0, VOCAB, (2, LENGTH), generator=generator)
    # Version 5 of the library has the head's bias and does not add it, unlike earlier versions.
    logits = model(input_ids=ids).logits + model.lm_head.bias
    reformer.LSHSelfAttention._hash_vectors = whole
    if margins and min(margins) < 1e-3:
        return None
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, VOCAB), ids[:, 1:].reshape(-1))
    loss.backward()
    tensors = {"input_ids": ids, "logits": logits, "loss": loss.reshape(1)}
    if margins:
        tensors["rotations"] = watched.rotations
    for path, weight in model.named_parameters():
        assert weight.grad.abs().max() > 0, path
        tensors[path], tensors["grad." + path] = weight, weight.grad
    return config_of(model), tensors


def main():
    begin(torch, hf)
    for name, keys in CASES.items():
        config, tensors = next(made for made in (make(name, keys, i) for i in range(1000)) if made)
        done = {k: (v.detach().float() if v.is_floating_point() else v).clone().contiguous() for k, v in tensors.items()}
        save_file(done, f"{HERE}/{name}.safetensors", {"config": config})
        print(name, sum(v.numel() for v in done.values()))


if __name__ == "__main__":
    main()
