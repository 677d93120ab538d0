"""Oracles of the encoders: a tiny random BERT with both of its heads and a tiny RoBERTa of HF transformers.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==4.57.1 safetensors
    python make_encoders.py

Conventions (names, padding, configuration) are those of shared.py. Attention is eager, dropout 0, all in float32.

bert.safetensors, `BertForPreTraining`: `input_ids`, `token_type_ids`, `attention_mask`, `labels` [3, 14] (rows of 14,
11 and 8 tokens: [CLS] = 1, first segment, [SEP] = 2, second segment, [SEP], padding = 0; [MASK] = 3; labels are -100
at positions that are not scored) and `next_sentence_label` [3] (0: the second segment follows, 1: it does not);
`last_hidden_state` [3, 14, 24], `pooler_output` [3, 24] (tanh), `logits` [3, 14, 47] (`prediction_logits` of HF),
`seq_relationship_logits` [3, 2]; `loss_mlm` is the mean over the scored tokens, `loss_nsp` the mean over the rows,
`loss` their sum. The decoder of the MLM head is `bert.embeddings.word_embeddings.weight` with the bias
`cls.predictions.bias`.

roberta.safetensors, `RobertaForMaskedLM`: `input_ids`, `attention_mask`, `position_ids`, `labels` [3, 14] (rows of
14, 12 and 7 tokens: <s> = 0, padding = 1, </s> = 2, <mask> = 46); `position_ids` are what HF makes of the ids: 2, 3,
4, … at tokens and 1 at padding; `last_hidden_state`, `logits`, `loss` (mean over the scored tokens). There is one
token type, whose embedding is added everywhere, and no pooler. The decoder is
`roberta.embeddings.word_embeddings.weight` with `lm_head.bias`.
"""

import torch
import transformers as hf
from shared import at_tokens, begin, gradients, padding, redraw, seeded, weights, write

BATCH, LENGTH, VOCAB = 3, 14, 47
SHAPE = dict(
    vocab_size=VOCAB,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=40,
    max_position_embeddings=20,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    attn_implementation="eager",
)


def masked(ids, candidates, mask_token, generator):
    """Selects 2, 3 and 4 tokens of the rows for scoring: the first is masked, the second replaced by another, the others kept."""
    inputs, labels = ids.clone(), torch.full_like(ids, -100)
    for row in range(BATCH):
        places = candidates[row].nonzero().flatten()
        places = places[torch.randperm(len(places), generator=generator)[: 2 + row]]
        labels[row, places] = ids[row, places]
        inputs[row, places[0]] = mask_token
        inputs[row, places[1]] = 4 + (ids[row, places[1]] + 7) % (VOCAB - 8)
    return inputs, labels


def cross_entropy(logits, labels):
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def bert():
    generator = seeded("bert")
    config = hf.BertConfig(type_vocab_size=2, layer_norm_eps=1e-12, pad_token_id=0, **SHAPE)
    config.architectures = ["BertForPreTraining"]
    model = hf.BertForPreTraining(config).eval()
    redraw(model, generator)
    attention_mask = padding([14, 11, 8], LENGTH)
    ids = torch.randint(4, VOCAB, (BATCH, LENGTH), generator=generator)
    types = torch.zeros_like(ids)
    for row, (length, first) in enumerate([(14, 6), (11, 3), (8, 5)]):
        ids[row, 0], ids[row, first], ids[row, length - 1], ids[row, length:] = 1, 2, 2, 0
        types[row, first + 1 : length] = 1
    inputs, labels = masked(ids, ids >= 4, 3, generator)
    order = torch.tensor([0, 1, 1])
    out = model(inputs, attention_mask, types, labels=labels, next_sentence_label=order)
    body = model.bert(inputs, attention_mask, types)
    loss_mlm = cross_entropy(out.prediction_logits, labels)
    loss_nsp = cross_entropy(out.seq_relationship_logits, order)
    loss = loss_mlm + loss_nsp
    assert torch.equal(loss, out.loss)
    loss.backward()
    tensors = {
        "input_ids": inputs,
        "token_type_ids": types,
        "attention_mask": attention_mask,
        "labels": labels,
        "next_sentence_label": order,
        "last_hidden_state": at_tokens(body.last_hidden_state, attention_mask),
        "pooler_output": body.pooler_output,
        "logits": at_tokens(out.prediction_logits, attention_mask),
        "seq_relationship_logits": out.seq_relationship_logits,
        "loss_mlm": loss_mlm,
        "loss_nsp": loss_nsp,
        "loss": loss,
    }
    write("bert", tensors | weights(model) | gradients(model), config)


def roberta():
    # Version 5 has it elsewhere, and make_roformer.py imports the shapes from this file.
    from transformers.models.roberta.modeling_roberta import create_position_ids_from_input_ids

    generator = seeded("roberta")
    config = hf.RobertaConfig(
        type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1, bos_token_id=0, eos_token_id=2, **SHAPE
    )
    config.architectures = ["RobertaForMaskedLM"]
    model = hf.RobertaForMaskedLM(config).eval()
    redraw(model, generator)
    lengths = [14, 12, 7]
    attention_mask = padding(lengths, LENGTH)
    ids = torch.randint(4, VOCAB - 1, (BATCH, LENGTH), generator=generator)
    for row, length in enumerate(lengths):
        ids[row, 0], ids[row, length - 1], ids[row, length:] = 0, 2, 1
    inputs, labels = masked(ids, ids >= 4, VOCAB - 1, generator)
    out = model(inputs, attention_mask, labels=labels)
    body = model.roberta(inputs, attention_mask)
    out.loss.backward()
    tensors = {
        "input_ids": inputs,
        "attention_mask": attention_mask,
        "position_ids": create_position_ids_from_input_ids(inputs, 1),
        "labels": labels,
        "last_hidden_state": at_tokens(body.last_hidden_state, attention_mask),
        "logits": at_tokens(out.logits, attention_mask),
        "loss": out.loss,
    }
    write("roberta", tensors | weights(model) | gradients(model), config)


if __name__ == "__main__":
    begin(torch, hf)
    bert()
    roberta()
