"""Oracle of permutation language modelling: HF's `XLNetLMHeadModel` of tests/fixtures/hf/xlnet_1 with a given order.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.24.0 safetensors
    python make_xlnet.py

Conventions (names, padding, configuration) are those of shared.py.

xlnet_order.safetensors: `input_ids`, `token_type_ids`, `attention_mask`, `labels`, `ranks` [3, 12], rows of 12, 12 and 9 tokens (first
segment, <sep> = 4, second segment, <sep>, <cls> = 3 in a segment of its own, padding = 5; labels are -100 where nothing is
predicted). `ranks` are 0 at the tokens of the context, else the place in the order. `perm_mask` and `target_mapping` are made of
them: a token sees the context and what comes before it, a target also its own state in the stream of the tokens. `logits` [n, 37]
are those of the targets row after row, `loss` their mean cross-entropy; `grad.<name>` its gradients.
"""

import os

import torch
import transformers as hf
from shared import HERE, MADE_WITH, begin, gradients, padding, seeded, write

MADE_WITH["transformers"] = "5.24.0"
LENGTHS, FIRST = [12, 12, 9], [5, 3, 2]
SEP, CLS, PAD = 4, 3, 5
# Places in the order of the targets of each row; as many in each, as the class has it.
ORDER = [{1: 2, 2: 4, 7: 1, 8: 3}, {0: 1, 5: 3, 6: 2, 9: 4}, {0: 3, 1: 1, 4: 2, 5: 4}]


def read():
    """Ids, segments, mask, ranks."""
    generator = seeded("xlnet_order ids")
    length = max(LENGTHS)
    ids = torch.randint(9, 37, (len(LENGTHS), length), generator=generator)
    types = torch.zeros_like(ids)
    ranks = torch.zeros_like(ids)
    for row, (tokens, first) in enumerate(zip(LENGTHS, FIRST)):
        ids[row, first], ids[row, tokens - 2], ids[row, tokens - 1] = SEP, SEP, CLS
        ids[row, tokens:] = PAD
        types[row, first + 1 : tokens - 1], types[row, tokens - 1] = 1, 2
        for place, rank in ORDER[row].items():
            assert ids[row, place] >= 9
            ranks[row, place] = rank
    return ids, types, padding(LENGTHS, length), ranks


def main():
    model = hf.XLNetLMHeadModel.from_pretrained(os.path.join(HERE, "..", "fixtures", "hf", "xlnet_1")).eval()
    ids, types, mask, ranks = read()
    rank_of_key, rank_of_query = ranks[:, None, :], ranks[:, :, None]
    seen = (rank_of_key == 0) | (rank_of_key < rank_of_query)
    places = [sorted(order) for order in ORDER]
    mapping = torch.nn.functional.one_hot(torch.tensor(places), ids.shape[1]).float()
    targets = torch.gather(ids, 1, torch.tensor(places))
    labels = torch.full_like(ids, -100).scatter(1, torch.tensor(places), targets)
    read_by = dict(input_ids=ids, token_type_ids=types, attention_mask=mask.float(), use_mems=False)
    logits = model(**read_by, perm_mask=(~seen).float(), target_mapping=mapping).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss.backward()
    tensors = {
        "input_ids": ids,
        "token_type_ids": types,
        "attention_mask": mask,
        "labels": labels,
        "ranks": ranks,
        "logits": logits.flatten(0, 1),
        "loss": loss,
    }
    write("xlnet_order", tensors | gradients(model), model.config)


if __name__ == "__main__":
    begin(torch, hf)
    main()
