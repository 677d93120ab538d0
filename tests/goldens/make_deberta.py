"""The oracles of disentangled attention in masked language models: tiny random DeBERTa and DeBERTa-v2 of HF transformers.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.23.0 safetensors
    python make_deberta.py

Conventions (names, padding, configuration) are those of shared.py; shapes and masks those of make_encoders.py.

Each file: `input_ids`, `attention_mask`, `labels` [3, 14] (rows of 14, 10 and 6 tokens; padding is 0), `last_hidden_state`,
`logits`, `loss` (mean over the scored tokens).

deberta_mlm.safetensors, `DebertaForMaskedLM`: both terms, distances clipped to 5, separate position projections in each layer, no
key bias; two segments, so `token_type_ids` too. The decoder is the embedding table with the bias `cls.predictions.bias`.

deberta_v2_mlm.safetensors, `DebertaV2ForMaskedLM`: positions projected by attention's own weights, 6 buckets up to distance 10, a norm on
the relative position embeddings; no segments.
"""

import torch
import transformers as hf
from make_encoders import BATCH, LENGTH, SHAPE, VOCAB, masked
from shared import at_tokens, gradients, padding, redraw, seeded, weights, write

RELATIVE = dict(
    relative_attention=True,
    position_biased_input=False,
    pos_att_type=["c2p", "p2c"],
    layer_norm_eps=1e-7,
    pad_token_id=0,
)
SIZES = {key: value for key, value in SHAPE.items() if key != "attn_implementation"}


def inputs(generator):
    lengths = [14, 10, 6]
    attention_mask = padding(lengths, LENGTH)
    ids = torch.randint(4, VOCAB, (BATCH, LENGTH), generator=generator) * attention_mask
    given, labels = masked(ids, ids >= 4, 3, generator)
    return given, attention_mask, labels


def make(name, model, config, types=None):
    generator = seeded(name)
    config.architectures = [type(model).__name__]
    model = model.eval()
    redraw(model, generator)
    ids, attention_mask, labels = inputs(generator)
    more = {}
    if types is not None:
        more["token_type_ids"] = types * attention_mask
    out = model(ids, attention_mask, labels=labels, **more)
    body = model.deberta(ids, attention_mask, **more)
    out.loss.backward()
    tensors = more | {
        "input_ids": ids,
        "attention_mask": attention_mask,
        "labels": labels,
        "last_hidden_state": at_tokens(body.last_hidden_state, attention_mask),
        "logits": at_tokens(out.logits, attention_mask),
        "loss": out.loss,
    }
    write(name, tensors | weights(model) | gradients(model), config)


def deberta():
    torch.manual_seed(0)
    config = hf.DebertaConfig(max_relative_positions=5, type_vocab_size=2, **RELATIVE, **SIZES)
    types = (torch.arange(LENGTH)[None] >= 5).long().expand(BATCH, LENGTH)
    make("deberta_mlm", hf.DebertaForMaskedLM(config), config, types)


def deberta_v2():
    torch.manual_seed(0)
    config = hf.DebertaV2Config(
        max_relative_positions=10, position_buckets=6, share_att_key=True, norm_rel_ebd="layer_norm", type_vocab_size=0,
        **RELATIVE, **SIZES,
    )  # fmt: skip
    make("deberta_v2_mlm", hf.DebertaV2ForMaskedLM(config), config)


if __name__ == "__main__":
    torch.set_num_threads(1)
    deberta()
    deberta_v2()
