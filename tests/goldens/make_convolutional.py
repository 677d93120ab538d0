"""Oracle of the convolutional text encoder (Kim 2014): torch's nn.Conv1d and max over time, one text at a time.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 safetensors
    python make_convolutional.py

convolutional.safetensors: 4 texts `ids` [4, 9] of lengths 9, 1, 4 and 6, padded with id 0; a vocabulary of 23 tokens, embeddings
of width 6, windows of 1, 2, 3 and 4 tokens, 5 features each, 3 classes. Each text is cut to its length and goes through
`nn.Embedding`, an `nn.Conv1d(padding="same")` with relu for each width, the maximum over its positions, and `nn.Linear`.

* `weight.<name>`: embedding.weight, windows.N.weight [5, 6, width], windows.N.bias, head.weight, head.bias.
* `hidden` [4, 9, 20], zero after a text's end, `pooled` [4, 20], `logits` [4, 3], `labels`; `loss` is the mean cross-entropy.
* `grad.<name>`: the gradient of the loss.
"""

import torch
from shared import begin, gradients, seeded, weights, write

VOCAB, D, WIDTHS, FILTERS, CLASSES = 23, 6, [1, 2, 3, 4], 5, 3
LENGTHS = [9, 1, 4, 6]


class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCAB, D)
        windows = [torch.nn.Conv1d(D, FILTERS, width, padding="same") for width in WIDTHS]
        self.windows = torch.nn.ModuleList(windows)
        self.head = torch.nn.Linear(len(WIDTHS) * FILTERS, CLASSES)

    def features(self, ids):
        x = self.embedding(ids).T[None]
        return torch.cat([window(x).relu() for window in self.windows], 1)[0].T


def main():
    generator = seeded("convolutional")
    model = Reader()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.6)
    ids = torch.randint(1, VOCAB, (len(LENGTHS), max(LENGTHS)), generator=generator)
    labels = torch.tensor([0, 2, 1, 2])
    texts = [model.features(row[:length]) for row, length in zip(ids, LENGTHS)]
    pooled = torch.stack([text.max(0).values for text in texts])
    logits = model.head(pooled)
    loss = torch.nn.functional.cross_entropy(logits, labels)
    loss.backward()
    hidden = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True)
    for row, length in zip(ids, LENGTHS):
        row[length:] = 0
    tensors = weights(model) | gradients(model)
    tensors |= {"ids": ids, "labels": labels, "hidden": hidden, "pooled": pooled, "logits": logits, "loss": loss}
    write("convolutional", tensors, {"lengths": LENGTHS, "widths": WIDTHS, "filters": FILTERS, "d_model": D})


if __name__ == "__main__":
    begin(torch)
    main()
