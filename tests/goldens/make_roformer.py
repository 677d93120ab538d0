"""The oracle of an encoder with narrow embeddings and rotated values: a tiny random RoFormer of HF transformers.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.23.0 safetensors
    python make_roformer.py

Conventions (names, padding, configuration) are those of shared.py; shapes and masks those of make_encoders.py.

roformer.safetensors, `RoFormerForMaskedLM` with `embedding_size` 16 of `hidden_size` 24 and `rotary_value`: `input_ids`,
`token_type_ids`, `attention_mask`, `labels` [3, 14] (rows of 14, 10 and 6 tokens; padding is 0), `last_hidden_state`,
`logits`, `loss` (mean over the scored tokens). The decoder is `roformer.embeddings.word_embeddings.weight` with the bias
`cls.predictions.bias`.
"""

import torch
import transformers as hf
from make_encoders import BATCH, LENGTH, SHAPE, VOCAB, masked
from shared import at_tokens, gradients, padding, redraw, seeded, weights, write

if __name__ == "__main__":
    torch.set_num_threads(1)
    generator = seeded("roformer")
    config = hf.RoFormerConfig(embedding_size=16, rotary_value=True, layer_norm_eps=1e-12, pad_token_id=0, **SHAPE)
    config.architectures = ["RoFormerForMaskedLM"]
    model = hf.RoFormerForMaskedLM(config).eval()
    redraw(model, generator)
    lengths = [14, 10, 6]
    attention_mask = padding(lengths, LENGTH)
    ids = torch.randint(4, VOCAB, (BATCH, LENGTH), generator=generator) * attention_mask
    types = (torch.arange(LENGTH)[None] >= 5).long() * attention_mask
    inputs, labels = masked(ids, ids >= 4, 3, generator)
    out = model(inputs, attention_mask, types, labels=labels)
    body = model.roformer(inputs, attention_mask, types)
    out.loss.backward()
    tensors = {
        "input_ids": inputs,
        "token_type_ids": types,
        "attention_mask": attention_mask,
        "labels": labels,
        "last_hidden_state": at_tokens(body.last_hidden_state, attention_mask),
        "logits": at_tokens(out.logits, attention_mask),
        "loss": out.loss,
    }
    write("roformer", tensors | weights(model) | gradients(model), config)
