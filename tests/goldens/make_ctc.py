"""Oracle of connectionist temporal classification: ctc.safetensors, from PyTorch's `ctc_loss`.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 safetensors
    python make_ctc.py

`scores` [6, 12, 5] before the softmax, `frames` [6], and `labels` [6, 5] padded with -100; class 2 is the blank. The rows have labels that
differ, labels that repeat, no labels, one for each frame, more labels than frames allow, and a single frame. `losses` [6] in double
precision without a reduction, infinite for the row with too many labels; `grad` [6, 12, 5] is the gradient of their sum weighted by
1, 2 … 6 with `zero_infinity`.
"""

import torch
from shared import begin, seeded, write

BLANK = 2
LABELS = [[0, 1, 3], [1, 1, 4, 4, 4], [], [3, 0, 3, 0], [1, 1, 1], [4]]
FRAMES = [12, 11, 9, 4, 4, 1]


def main():
    begin(torch)
    scores = (2 * torch.randn([6, 12, 5], generator=seeded("ctc"))).requires_grad_()
    labels = torch.tensor([row + [-100] * (5 - len(row)) for row in LABELS])
    flat = torch.tensor([label for row in LABELS for label in row])
    lengths = [torch.tensor(FRAMES), torch.tensor([len(row) for row in LABELS])]
    log_probs = scores.double().log_softmax(-1).transpose(0, 1)

    def losses(zero):
        return torch.nn.functional.ctc_loss(log_probs, flat, *lengths, blank=BLANK, reduction="none", zero_infinity=zero)

    assert losses(False).isinf().tolist() == [False] * 4 + [True, False]
    (losses(True) * torch.arange(1, 7)).sum().backward()
    tensors = {
        "scores": scores, "frames": lengths[0], "labels": labels, "losses": losses(False).float(), "grad": scores.grad,
    }  # fmt: skip
    write("ctc", tensors, {})


if __name__ == "__main__":
    main()
