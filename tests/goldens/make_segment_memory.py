"""Oracle of segment recurrence (Dai et al. 2019, Transformer-XL, section 3.2), computed from its definition in double precision.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 safetensors
    python make_segment_memory.py

A token at position p of its text, in the segment that begins at s, sees in every layer the positions j of the same
document with s - M <= j <= p (with `same_length` also j > p - M). For j < s, the layer gets the hidden state that it read
in the segment of j, without gradient; its norm and projections are the current ones. There is no mask for a padded memory
and no concatenation: keys are listed one by one for every query.

segment_memory_CASE.safetensors, CASE of pre, post, pre_documents, post_documents, same_length with a bias for each distance,
and xl_pre, xl_post_documents with Transformer-XL's positions (section 3.3), u and v shared by the layers: a decoder of two
layers that reads two rows in four segments of five. The second row begins another text with the third segment. Parameters and
gradients are under the paths of formwork's decoder:

* `weight.<path>`; `ids` [4, 2, 5]; `documents` [4, 2, 5] in the cases of that name, numbered within each segment: 0 is
  the document of the token before it.
* `y_weight` [4, 2, 5, vocab]: the loss of a segment is sum(logits * y_weight).
* `<segment>.logits`, `<segment>.grad.<path>`.
"""

import torch
from shared import begin, seeded, write

LAYERS, D, HEADS, FF, VOCAB, BUCKETS = 2, 8, 2, 12, 7, 64
ROWS, SEGMENTS, SEQ = 2, 4, 5
# Where a text begins in a row, in segments, and where documents begin, in tokens of the row.
TEXTS = [[0], [0, 2]]
DOCUMENTS = [[0, 3, 14], [0, 4, 5, 10, 17, 18]]


def parameters(generator, pre, xl):
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    found = {"embedding.weight": draw(VOCAB, D)}
    if xl:
        found |= {f"position.{name}_bias.0": draw(HEADS, D // HEADS) for name in ["content", "distance"]}
        found |= {f"position.projections.{layer}.weight": draw(D, D) * D**-0.5 for layer in range(LAYERS)}
    else:
        found["position.table"] = draw(BUCKETS, HEADS)
    norms = []
    for layer in range(LAYERS):
        block = f"stack.blocks.{layer}."
        maps = {f"attention.{name}": (D, D) for name in ["query", "key", "value", "output"]}
        maps |= {"feed_forward.up": (FF, D), "feed_forward.down": (D, FF)}
        for name, (rows, cols) in maps.items():
            found[f"{block}{name}.weight"] = draw(rows, cols) * 1.3 * cols**-0.5
            found[f"{block}{name}.bias"] = draw(rows) * 0.2
        norms += [f"{block}attention_residual.norm", f"{block}feed_forward_residual.norm"]
    for name in norms + (["stack.final_norm"] if pre else []):
        found[name + ".gamma"] = 1 + 0.2 * draw(D)
        found[name + ".beta"] = 0.2 * draw(D)
    # The file holds exactly the values used for computation.
    return {name: value.float().double().requires_grad_() for name, value in found.items()}


class Reader:
    """A row that is read segment by segment."""

    def __init__(self, p, pre, memory, same_length, xl):
        self.p, self.pre, self.memory, self.same_length, self.xl = p, pre, memory, same_length, xl
        self.begin()

    def begin(self):
        """Begins a new text, of which nothing was read."""
        self.at = 0
        self.documents = []
        self.past = [[] for _ in range(LAYERS)]

    def linear(self, x, name):
        return x @ self.p[name + ".weight"].T + self.p[name + ".bias"]

    def norm(self, x, name):
        x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
        return x * self.p[name + ".gamma"] + self.p[name + ".beta"]

    def seen(self, position, start):
        first = start - self.memory
        if self.same_length:
            first = max(first, position - self.memory + 1)
        return [j for j in range(max(first, 0), position + 1) if self.documents[j] == self.documents[position]]

    def scores(self, layer, head, q, k, distances):
        """Scores of one query and the keys that it sees, given their distances before it."""
        scale = (D // HEADS) ** -0.5
        if not self.xl:
            return k @ q * scale + self.p["position.table"][distances, head]
        angles = torch.tensor(distances, dtype=torch.float64)[:, None] / 10000 ** (torch.arange(0, D, 2) / D)
        sines = torch.cat([angles.sin(), angles.cos()], 1)
        r = (sines @ self.p[f"position.projections.{layer}.weight"].T).unflatten(1, (HEADS, D // HEADS))[:, head]
        u, v = (self.p[f"position.{name}_bias.0"][head] for name in ["content", "distance"])
        return (k @ (q + u) + r @ (q + v)) * scale

    def attend(self, layer, states, start):
        block = f"stack.blocks.{layer}."
        read = lambda x: self.norm(x, block + "attention_residual.norm") if self.pre else x
        outputs = []
        for position in range(start, len(states)):
            q = self.linear(read(states[position]), block + "attention.query")
            seen = self.seen(position, start)
            keys = torch.stack([read(states[j]) for j in seen])
            k, v = (self.linear(keys, block + "attention." + name) for name in ["key", "value"])
            heads = []
            for head in range(HEADS):
                part = slice(head * D // HEADS, (head + 1) * D // HEADS)
                scores = self.scores(layer, head, q[part], k[:, part], [position - j for j in seen])
                heads.append(scores.softmax(0) @ v[:, part])
            outputs.append(self.linear(torch.cat(heads), block + "attention.output"))
        return torch.stack(outputs)

    def around(self, x, layer, name, inner):
        path = f"stack.blocks.{layer}.{name}_residual.norm"
        return x + inner(x) if self.pre else self.norm(x + inner(x), path)

    def read(self, ids, documents):
        start = self.at
        self.documents += documents
        x = self.p["embedding.weight"][ids]
        for layer in range(LAYERS):
            states = self.past[layer] + list(x)
            self.past[layer] = [state.detach() for state in states]
            x = self.around(x, layer, "attention", lambda _: self.attend(layer, states, start))
            block = f"stack.blocks.{layer}."

            def feed(x):
                x = self.norm(x, block + "feed_forward_residual.norm") if self.pre else x
                x = torch.nn.functional.gelu(self.linear(x, block + "feed_forward.up"))
                return self.linear(x, block + "feed_forward.down")

            x = self.around(x, layer, "feed_forward", feed)
        self.at += len(ids)
        x = self.norm(x, "stack.final_norm") if self.pre else x
        return x @ self.p["embedding.weight"].T


def numbered(row, at):
    """The document number of a row's token."""
    return sum(start <= at for start in DOCUMENTS[row])


def case(name, pre, memory, documents=False, same_length=False, xl=False):
    generator = seeded("segment_memory_" + name)
    p = parameters(generator, pre, xl)
    ids = torch.randint(VOCAB, (SEGMENTS, ROWS, SEQ), generator=generator)
    y_weight = torch.randn(SEGMENTS, ROWS, SEQ, VOCAB, generator=generator)
    tensors = {"weight." + path: value.float() for path, value in p.items()}
    tensors |= {"ids": ids, "y_weight": y_weight}
    numbers = torch.zeros(SEGMENTS, ROWS, SEQ, dtype=torch.int64)
    readers = [Reader(p, pre, memory, same_length, xl) for _ in range(ROWS)]
    for segment in range(SEGMENTS):
        results = []
        for row, reader in enumerate(readers):
            from_ = segment * SEQ
            begins = segment in TEXTS[row]
            if begins:
                reader.begin()
            of = [numbered(row, at) if documents else 0 for at in range(from_, from_ + SEQ)]
            open_ = of[0] if begins else (numbered(row, from_ - 1) if documents else 0)
            numbers[segment, row] = torch.tensor(of) - open_
            results.append(reader.read(ids[segment, row], of))
        logits = torch.stack(results)
        for value in p.values():
            value.grad = None
        (logits * y_weight[segment].double()).sum().backward()
        tensors[f"{segment}.logits"] = logits.float()
        tensors |= {f"{segment}.grad.{path}": value.grad.float() for path, value in p.items()}
    if documents:
        tensors["documents"] = numbers
    config = {"memory": memory, "same_length": same_length, "norm_placement": "pre" if pre else "post", "xl": xl}
    write("segment_memory_" + name, tensors, config)


if __name__ == "__main__":
    begin(torch)
    case("pre", True, 7)
    case("post", False, 7)
    case("pre_documents", True, 7, documents=True)
    case("post_documents", False, 12, documents=True)
    case("same_length", True, 4, same_length=True)
    case("xl_pre", True, 7, xl=True)
    case("xl_post_documents", False, 12, documents=True, xl=True)
