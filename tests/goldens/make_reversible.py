"""Oracle of reversible stacks: Hugging Face's Reformer, whose backward pass recomputes activations.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.23.0 safetensors
    python make_reversible.py

reversible.safetensors: a `ReformerModelWithLMHead` of two blocks with local attention (its chunk is longer than the text, so
that every position sees all earlier ones), 2 heads of 8, width 16, feed-forward 32 with ReLU, learned positions, 13 tokens in
the vocabulary, no dropout. `weight.<parameter>` are its weights, drawn here; `input_ids` [2, 10]; `hidden` [2, 10, 32] the states
after the last norm, `logits` [2, 10, 13], `loss` the mean cross-entropy of the next tokens and `grad.<parameter>` its
gradients, made by Reformer's own `_ReversibleFunction`. `head` is only `lm_head.decoder.weight`: Reformer never adds
its bias.
"""

import torch
from safetensors.torch import save_file
from transformers import ReformerConfig, ReformerModelWithLMHead
from shared import HERE, seeded


def main():
    config = ReformerConfig(
        attn_layers=["local", "local"],
        local_attn_chunk_length=64,
        local_num_chunks_before=1,
        local_num_chunks_after=0,
        attention_head_size=8,
        num_attention_heads=2,
        hidden_size=16,
        feed_forward_size=32,
        hidden_act="relu",
        axial_pos_embds=False,
        max_position_embeddings=10,
        vocab_size=13,
        is_decoder=True,
        hidden_dropout_prob=0.0,
        local_attention_probs_dropout_prob=0.0,
        tie_word_embeddings=False,
        use_cache=False,
    )
    model = ReformerModelWithLMHead(config)
    with torch.no_grad():
        for name, x in sorted(model.named_parameters()):
            x.copy_(torch.randn(x.shape, generator=seeded(name)) * 0.3)
            if "layer_norm.weight" in name:
                x.add_(1.0)
    model.train()
    ids = torch.randint(0, 13, (2, 10), generator=seeded("ids"))
    hidden = model.reformer(ids).last_hidden_state
    logits = model(ids).logits
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, 13), ids[:, 1:].reshape(-1))
    loss.backward()
    file = {"input_ids": ids, "hidden": hidden, "logits": logits, "loss": loss.reshape(1)}
    for name, x in model.named_parameters():
        if x.grad is None:
            print("no gradient:", name)
            continue
        file[f"weight.{name}"] = x
        file[f"grad.{name}"] = x.grad
    save_file({name: x.detach().contiguous() for name, x in file.items()}, f"{HERE}/reversible.safetensors")
    for name, x in file.items():
        print(name, tuple(x.shape))


main()
