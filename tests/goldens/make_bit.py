"""Oracle of pre-activation residual networks: bit.safetensors.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 timm==1.0.31 safetensors
    python make_bit.py

timm's `ResNetV2` as in `resnetv2_50x1_bit` (preact True, stem "fixed", StdConv2d with eps 1e-8, group norm), 8 channels wide
with stages of 2 and 1 bottleneck blocks and 5 classes, with sides of both parities: `pixels` [2, 3, 21, 18], `logits` [2, 5],
`loss` (the mean cross-entropy of `labels`); `weight.` and `grad.` of it, under formwork's paths, and `grad_pixels`.
`plain.` is the same without standardised weights and with batch norm in evaluation mode (He et al.'s second version): `plain.logits`,
`plain.loss`, `plain.weight.`, `plain.grad.`.
"""

import os
import zlib
from functools import partial

import torch
from safetensors.torch import save_file
from timm.layers import BatchNormAct2d, GroupNormAct, StdConv2d, create_conv2d
from timm.models.resnetv2 import ResNetV2

HERE = os.path.dirname(os.path.abspath(__file__))


def ours(name):
    """Formwork's path of a parameter or running average of timm."""
    parts = name.split(".")
    kind = {"weight": "gamma", "bias": "beta"}.get(parts[-1], parts[-1])
    if parts[0] == "head":
        return f"head.{parts[-1]}"
    if parts[0] == "norm":
        return f"model.norm.{kind}"
    if parts[0] == "stem":
        return "model.stem.convolution.weight"
    at = f"model.stages.{parts[1]}.blocks.{parts[3]}"
    if parts[4] == "downsample":
        return f"{at}.shortcut.convolution.weight"
    layer = f"{at}.layers.{int(parts[4][-1]) - 1}"
    return f"{layer}.convolution.weight" if parts[4].startswith("conv") else f"{layer}.norm.{kind}"


def case(prefix, **parts):
    generator = torch.Generator().manual_seed(zlib.crc32(b"bit" + prefix.encode()))
    model = ResNetV2(
        layers=(2, 1), channels=(32, 64), stem_chs=8, num_classes=5, preact=True, stem_type="fixed", **parts
    ).eval()
    with torch.no_grad():
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            if not value.is_floating_point():
                continue
            noise = torch.randn(value.shape, generator=generator)
            if name.endswith("running_var"):
                value.copy_(0.5 + noise.abs())
            elif value.dim() > 1:
                value.copy_(noise / value[0].numel() ** 0.5)
            else:
                value.copy_((1.0 if name.endswith("weight") else 0.0) + 0.3 * noise)
    pixels = torch.randn(2, 3, 21, 18, generator=generator).requires_grad_()
    labels = torch.tensor([1, 4])
    logits = model(pixels)
    loss = torch.nn.functional.cross_entropy(logits, labels)
    loss.backward()
    found = {"pixels": pixels, "logits": logits, "loss": loss, "labels": labels, "grad_pixels": pixels.grad}
    flat = lambda name, value: value.reshape(value.shape[0], -1) if name.startswith("head") and value.dim() > 1 else value
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        if value.is_floating_point():
            found["weight." + ours(name)] = flat(name, value)
    for name, value in model.named_parameters():
        found["grad." + ours(name)] = flat(name, value.grad)
    return {prefix + name: value.detach().contiguous().clone() for name, value in found.items()}


if __name__ == "__main__":
    group = partial(GroupNormAct, num_groups=4)
    tensors = case("", conv_layer=partial(StdConv2d, eps=1e-8), norm_layer=group)
    tensors |= case("plain.", conv_layer=create_conv2d, norm_layer=BatchNormAct2d)
    save_file(tensors, os.path.join(HERE, "bit.safetensors"))
