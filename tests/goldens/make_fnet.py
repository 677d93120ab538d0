"""Oracle of FNet: a tiny random `FNetForPreTraining` of HF transformers, which reads each text alone.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.23.0 safetensors
    python make_fnet.py

Conventions (names, padding, configuration) are those of shared.py; shapes and masks those of make_encoders.py.

fnet.safetensors: `input_ids`, `token_type_ids`, `attention_mask`, `labels` [3, 14] (rows of 14, 11 and 8 tokens: [CLS] = 1,
first segment, [SEP] = 2, second segment, [SEP], padding = 0; [MASK] = 3; labels are -100 at positions that are not scored) and
`next_sentence_label` [3]; `last_hidden_state` [3, 14, 24], `hidden_states.N` of every layer, of which the first is the first
layer's input, `pooler_output` [3, 24], `logits` [3, 14, 47] (`prediction_logits` of HF), `seq_relationship_logits` [3, 2];
`loss_mlm` is the mean over the scored tokens, `loss_nsp` the mean over the rows, `loss` their sum, whose gradients are given.

The class has no mask: it transforms padding as well. So each row was read by itself, cut to its own tokens; at
padding, all values are 0.
"""

import torch
import transformers as hf
from make_encoders import BATCH, LENGTH, SHAPE, VOCAB, cross_entropy, masked
from shared import at_tokens, gradients, padding, redraw, seeded, weights, write

LENGTHS = [14, 11, 8]


def filled(rows):
    """Stacks the outputs of the rows, with zeros at padding."""
    return torch.cat([torch.nn.functional.pad(x, (0, 0, 0, LENGTH - x.shape[1])) for x in rows])


def fnet():
    generator = seeded("fnet")
    unknown = ("num_attention_heads", "attention_probs_dropout_prob", "attn_implementation")
    shape = {key: value for key, value in SHAPE.items() if key not in unknown}
    config = hf.FNetConfig(**shape, type_vocab_size=2, layer_norm_eps=1e-12, pad_token_id=0)
    config.architectures = ["FNetForPreTraining"]
    model = hf.FNetForPreTraining(config).eval()
    redraw(model, generator)
    attention_mask = padding(LENGTHS, LENGTH)
    ids = torch.randint(4, VOCAB, (BATCH, LENGTH), generator=generator)
    types = torch.zeros_like(ids)
    for row, (length, first) in enumerate(zip(LENGTHS, [6, 3, 5])):
        ids[row, 0], ids[row, first], ids[row, length - 1], ids[row, length:] = 1, 2, 2, 0
        types[row, first + 1 : length] = 1
    inputs, labels = masked(ids, ids >= 4, 3, generator)
    order = torch.tensor([0, 1, 1])
    alone = [slice(row, row + 1) for row in range(BATCH)]
    read = [
        model(inputs[row, :length], types[row, :length], output_hidden_states=True)
        for row, length in zip(alone, LENGTHS)
    ]
    bodies = [model.fnet(inputs[row, :length], types[row, :length]) for row, length in zip(alone, LENGTHS)]
    logits = filled([out.prediction_logits for out in read])
    pairs = torch.cat([out.seq_relationship_logits for out in read])
    loss_mlm, loss_nsp = cross_entropy(logits, labels), cross_entropy(pairs, order)
    loss = loss_mlm + loss_nsp
    loss.backward()
    tensors = {
        "input_ids": inputs,
        "token_type_ids": types,
        "attention_mask": attention_mask,
        "labels": labels,
        "next_sentence_label": order,
        "last_hidden_state": at_tokens(filled([body.last_hidden_state for body in bodies]), attention_mask),
        "pooler_output": torch.cat([body.pooler_output for body in bodies]),
        "logits": at_tokens(logits, attention_mask),
        "seq_relationship_logits": pairs,
        "loss_mlm": loss_mlm,
        "loss_nsp": loss_nsp,
        "loss": loss,
    }
    for number in range(config.num_hidden_layers + 1):
        states = filled([out.hidden_states[number] for out in read])
        tensors[f"hidden_states.{number}"] = at_tokens(states, attention_mask)
    write("fnet", tensors | weights(model) | gradients(model), config)


if __name__ == "__main__":
    torch.set_num_threads(1)
    fnet()
