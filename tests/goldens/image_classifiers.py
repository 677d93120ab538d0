"""What make_beit.py, make_dinov2.py, make_dinov3.py, make_swin.py and make_swinv2.py share: image classification of two images, with tensors under formwork's paths."""

import torch
import transformers as hf
from shared import MADE_WITH, begin, gradients, weights

MADE_WITH["transformers"] = "5.24.0"
CLASSES = 5


def start():
    begin(torch, hf)


def renamed(name, pairs):
    """Formwork's path: parts renamed, weights and biases of norms as gamma and beta."""
    for old, new in pairs:
        name = name.replace(old, new)
    module, kind = name.rsplit(".", 1)
    if module.endswith("norm"):
        name = module + (".gamma" if kind == "weight" else ".beta")
    return name


def states_and_logits(model):
    """Hidden states of an image model of transformers, and its logits from a separate pass."""
    return lambda pixels: (model.base_model(pixels).last_hidden_state, model(pixels).logits)


def learned(case, model, pixels, read, ours):
    """The tensors of a case: images and classes, outputs and loss, and parameters and gradients converted by `ours`."""
    pixels.requires_grad_()
    labels = torch.tensor([3, 0])
    hidden, logits = read(pixels)
    loss = torch.nn.functional.cross_entropy(logits, labels)
    loss.backward()
    found = {"pixels": pixels, "labels": labels, "hidden": hidden, "logits": logits, "loss": loss, "grad_pixels": pixels.grad}
    found |= ours(weights(model)) | ours(gradients(model))
    return {f"{case}.{name}": tensor for name, tensor in found.items()}
