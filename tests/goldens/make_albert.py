"""Oracles of encoders whose layers share parameters: two tiny random ALBERTs of HF transformers with both of their heads.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.23.0 safetensors
    python make_albert.py

Conventions (names, padding, configuration) are those of shared.py; shapes and masks those of make_encoders.py, except
that `embedding_size` is 16 and `hidden_size` 24.

albert.safetensors and albert_groups.safetensors, `AlbertForPreTraining`: `input_ids`, `token_type_ids`,
`attention_mask`, `labels` [3, 14] (rows of 14, 11 and 8 tokens: [CLS] = 1, first segment, [SEP] = 2, second segment,
[SEP], padding = 0; [MASK] = 3; labels are -100 at positions that are not scored) and `next_sentence_label` [3] (HF's
`sentence_order_label`, 0: in order, 1: swapped); `last_hidden_state` [3, 14, 24], `hidden_states.N` of every layer, of which the
first is the first layer's input, `pooler_output` [3, 24], `logits` [3, 14, 47] (`prediction_logits` of HF),
`seq_relationship_logits` [3, 2] (`sop_logits` of HF); `loss_mlm` is the mean over the scored tokens, `loss_nsp` the mean
over the rows, `loss` their sum. The gradient of a shared parameter is the sum over the layers that share it.

albert has 3 layers with the parameters of one; albert_groups 4 steps in 2 groups of 2 inner layers, 8 layers with the
parameters of 4.
"""

import torch
import transformers as hf
from make_encoders import BATCH, LENGTH, SHAPE, VOCAB, cross_entropy, masked
from shared import at_tokens, gradients, padding, redraw, seeded, weights, write


def albert(name, **keys):
    generator = seeded(name)
    shape = SHAPE | dict(embedding_size=16, hidden_act="gelu_new", layer_norm_eps=1e-12, pad_token_id=0) | keys
    config = hf.AlbertConfig(**shape)
    config.architectures = ["AlbertForPreTraining"]
    model = hf.AlbertForPreTraining(config).eval()
    redraw(model, generator)
    attention_mask = padding([14, 11, 8], LENGTH)
    ids = torch.randint(4, VOCAB, (BATCH, LENGTH), generator=generator)
    types = torch.zeros_like(ids)
    for row, (length, first) in enumerate([(14, 6), (11, 3), (8, 5)]):
        ids[row, 0], ids[row, first], ids[row, length - 1], ids[row, length:] = 1, 2, 2, 0
        types[row, first + 1 : length] = 1
    inputs, labels = masked(ids, ids >= 4, 3, generator)
    order = torch.tensor([1, 0, 1])
    out = model(
        inputs, attention_mask, types, labels=labels, sentence_order_label=order, output_hidden_states=True
    )
    body = model.albert(inputs, attention_mask, types)
    loss_mlm = cross_entropy(out.prediction_logits, labels)
    loss_nsp = cross_entropy(out.sop_logits, order)
    loss = loss_mlm + loss_nsp
    assert torch.equal(loss, out.loss)
    loss.backward()
    layers = config.num_hidden_layers * config.inner_group_num
    assert len(out.hidden_states) == layers + 1
    tensors = {
        "input_ids": inputs,
        "token_type_ids": types,
        "attention_mask": attention_mask,
        "labels": labels,
        "next_sentence_label": order,
        "last_hidden_state": at_tokens(body.last_hidden_state, attention_mask),
        "pooler_output": body.pooler_output,
        "logits": at_tokens(out.prediction_logits, attention_mask),
        "seq_relationship_logits": out.sop_logits,
        "loss_mlm": loss_mlm,
        "loss_nsp": loss_nsp,
        "loss": loss,
    }
    for number, states in enumerate(out.hidden_states):
        tensors[f"hidden_states.{number}"] = at_tokens(states, attention_mask)
    write(name, tensors | weights(model) | gradients(model), config)


if __name__ == "__main__":
    torch.set_num_threads(1)
    albert("albert", num_hidden_layers=3)
    albert("albert_groups", num_hidden_layers=4, num_hidden_groups=2, inner_group_num=2)
