"""Oracle of permutation language modelling: HF's `XLNetLMHeadModel` of tests/fixtures/hf/xlnet_1 with a given order.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.24.0 safetensors
    python make_xlnet.py

Conventions (names, padding, configuration) are those of shared.py.

xlnet_order.safetensors: `input_ids`, `token_type_ids`, `attention_mask`, `labels`, `ranks` [3, 12], rows of 12, 12 and 9 tokens (first
segment, <sep> = 4, second segment, <sep>, <cls> = 3 in a separate segment, padding = 5; labels are -100 at tokens that are not
predicted). `ranks` are 0 for context tokens, otherwise the position in the order. `perm_mask` and `target_mapping` follow from
them: a token sees the context and earlier tokens of the order, a target also its own state in the content stream. `logits` [n, 37]
are those of the targets, row by row, `loss` their mean cross-entropy; `grad.<name>` its gradients.

xlnet_mems.safetensors: three consecutive segments, `<n>.input_ids` … `<n>.logits`, `<n>.loss` as above but with full
rows, each with the `mems` that the class returned for the segment before (`mem_len` = 15, `reuse_len` = 10: without the special
tokens at a row's end), `mems.<n>.<layer>` [row, position, 12] those after it. `loss` is the sum of the three; `grad.<name>` its
gradients, which do not flow through memories.
"""

import os

import torch
import transformers as hf
from shared import HERE, MADE_WITH, begin, gradients, padding, seeded, write

MADE_WITH["transformers"] = "5.24.0"
LENGTHS, FIRST = [12, 12, 9], [5, 3, 2]
SEP, CLS, PAD = 4, 3, 5
# Positions in the order of each row's targets; the class needs the same number in each row.
ORDER = [{1: 2, 2: 4, 7: 1, 8: 3}, {0: 1, 5: 3, 6: 2, 9: 4}, {0: 3, 1: 1, 4: 2, 5: 4}]


def read(name, lengths):
    """Ids, segments, mask, ranks."""
    generator = seeded(name + " ids")
    length = max(lengths)
    ids = torch.randint(9, 37, (len(lengths), length), generator=generator)
    types = torch.zeros_like(ids)
    ranks = torch.zeros_like(ids)
    for row, (tokens, first) in enumerate(zip(lengths, FIRST)):
        ids[row, first], ids[row, tokens - 2], ids[row, tokens - 1] = SEP, SEP, CLS
        ids[row, tokens:] = PAD
        types[row, first + 1 : tokens - 1], types[row, tokens - 1] = 1, 2
        for place, rank in ORDER[row].items():
            assert ids[row, place] >= 9
            ranks[row, place] = rank
    return ids, types, padding(lengths, length), ranks


def scored(model, read, **keys):
    """The tensors of a pass over these inputs, and the memory after it."""
    ids, types, mask, ranks = read
    rank_of_key, rank_of_query = ranks[:, None, :], ranks[:, :, None]
    seen = (rank_of_key == 0) | (rank_of_key < rank_of_query)
    places = [sorted(order) for order in ORDER]
    mapping = torch.nn.functional.one_hot(torch.tensor(places), ids.shape[1]).float()
    targets = torch.gather(ids, 1, torch.tensor(places))
    labels = torch.full_like(ids, -100).scatter(1, torch.tensor(places), targets)
    read_by = dict(input_ids=ids, token_type_ids=types, attention_mask=mask.float())
    output = model(**read_by, perm_mask=(~seen).float(), target_mapping=mapping, **keys)
    loss = torch.nn.functional.cross_entropy(output.logits.flatten(0, 1), targets.flatten())
    tensors = {
        "input_ids": ids,
        "token_type_ids": types,
        "attention_mask": mask,
        "labels": labels,
        "ranks": ranks,
        "logits": output.logits.flatten(0, 1),
        "loss": loss,
    }
    return tensors, output.mems


def opened(**keys):
    return hf.XLNetLMHeadModel.from_pretrained(os.path.join(HERE, "..", "fixtures", "hf", "xlnet_1"), **keys).eval()


def order():
    model = opened()
    tensors, _ = scored(model, read("xlnet_order", LENGTHS), use_mems=False)
    tensors["loss"].backward()
    write("xlnet_order", tensors | gradients(model), model.config)


def mems():
    model, tensors, memory = opened(mem_len=15, reuse_len=10), {}, None
    for number in range(3):
        found, memory = scored(model, read(f"xlnet_mems {number}", [12] * 3), mems=memory, use_mems=True)
        assert len(memory) == 2 and memory[0].shape[0] == min(15, 10 * (number + 1))
        tensors |= {f"{number}.{name}": tensor for name, tensor in found.items()}
        tensors |= {f"mems.{number}.{layer}": states.transpose(0, 1) for layer, states in enumerate(memory)}
    tensors["loss"] = sum(tensors[f"{number}.loss"] for number in range(3))
    tensors["loss"].backward()
    write("xlnet_mems", tensors | gradients(model), model.config)


if __name__ == "__main__":
    begin(torch, hf)
    order()
    mems()
