"""Oracles of positions on a grid, and of the hybrid's residual network: axial.safetensors, hybrid.safetensors.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 torchvision==0.29.2 transformers==5.23.0 timm==1.0.31 safetensors
    python make_axial.py

axial.safetensors: `query` [2, 3, 13, 8], a class token before a grid of 3 rows and 4 columns; `rotated` is the same with
the patches rotated by timm's `RotaryEmbeddingCat` as in RoPE-ViT's models (in_pixels False, temperature 100,
grid_indexing "xy"). `beit.table` [38, 3] and `beit.bias` [3, 13, 13]: HF's `BeitRelativePositionBias`' index of that grid (not its forward pass, which
reshapes tables of grids that are not square by the wrong sides);
`swin.table` [35, 3] and `swin.bias` [3, 12, 12]: timm's index of the grid without a class token.

hybrid.safetensors: timm's `ResNetV2(preact=False, stem_type="same", conv_layer=StdConv2dSame with eps 1e-8)` with group
norm, as in `vit_small_r26_s32_224`, 8 channels wide with stages of 1 and 2 blocks, in a `VisionTransformer` of one block
of width 24. `pixels` [2, 3, 30, 37] (both parities of a side at every stride), `hidden` [2, 21, 24] after the last norm,
the class token first, `loss` = sum(hidden * cotangent); `weight.` and `grad.` of it, under formwork's paths.
"""

import os
import zlib
from functools import partial

os.environ["HF_HUB_OFFLINE"] = "1"

import timm
import torch
from safetensors.torch import save_file
from timm.layers import GroupNormAct, StdConv2dSame
from timm.layers.pos_embed_rel import gen_relative_position_index
from timm.layers.pos_embed_sincos import RotaryEmbeddingCat, apply_rot_embed_cat
from timm.models.resnetv2 import ResNetV2
from timm.models.vision_transformer import VisionTransformer
from timm.models.vision_transformer_hybrid import HybridEmbed
from transformers.models.beit.modeling_beit import BeitRelativePositionBias

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS, COLS, HEADS, D_HEAD = 3, 4, 3, 8


def seeded(name):
    return torch.Generator().manual_seed(zlib.crc32(name.encode()))


def axial():
    generator = seeded("axial")
    query = torch.randn(2, HEADS, 1 + ROWS * COLS, D_HEAD, generator=generator)
    rope = RotaryEmbeddingCat(
        D_HEAD, in_pixels=False, temperature=100.0, feat_shape=[ROWS, COLS], grid_indexing="xy"
    )
    turned = apply_rot_embed_cat(query[:, :, 1:], rope.get_embed())
    tensors = {"query": query, "rotated": torch.cat([query[:, :, :1], turned], dim=2)}
    table = torch.randn([(2 * ROWS - 1) * (2 * COLS - 1) + 3, HEADS], generator=generator)
    index = BeitRelativePositionBias.generate_relative_position_index((ROWS, COLS))
    tensors["beit.table"] = table
    tensors["beit.bias"] = table[index.reshape(-1)].reshape(*index.shape, HEADS).permute(2, 0, 1)
    index = gen_relative_position_index((ROWS, COLS), class_token=False)
    table = torch.randn([(2 * ROWS - 1) * (2 * COLS - 1), HEADS], generator=generator)
    tensors["swin.table"] = table
    tensors["swin.bias"] = table[index.reshape(-1)].reshape(*index.shape, HEADS).permute(2, 0, 1)
    save_file({k: v.detach().contiguous() for k, v in tensors.items()}, os.path.join(HERE, "axial.safetensors"))


def path(name):
    """Formwork's path of a timm parameter, and a conversion of its value."""
    kind = name.rsplit(".", 1)[-1]
    if name == "cls_token":
        return "class_token", lambda x: x.reshape(-1)
    if name == "pos_embed":
        return "position.table", lambda x: x[0]
    backbone = "patch_embed.backbone."
    if name.startswith(backbone):
        rest = name.removeprefix(backbone).split(".")
        at = "stem.network."
        if rest[0] == "stem":
            at, layer = at + "stem", rest[1]
        else:
            at += f"stages.{rest[1]}.blocks.{rest[3]}."
            layer = rest[4]
            if layer == "downsample":
                at, layer = at + "shortcut", rest[5]
            else:
                at += f"layers.{int(layer[-1]) - 1}"
        part = "convolution.weight" if layer.startswith("conv") else {"weight": "norm.gamma", "bias": "norm.beta"}[kind]
        return f"{at}.{part}", lambda x: x
    if name.startswith("patch_embed.proj"):
        return f"stem.projection.{kind}", lambda x: x.reshape(x.shape[0], -1) if x.dim() > 1 else x
    norm = {"weight": "gamma", "bias": "beta"}[kind]
    if name.startswith("norm."):
        return f"stack.final_norm.{norm}", lambda x: x
    block = "stack.blocks.0."
    part = name.split(".")[2:-1]
    ours = {
        ("norm1",): f"attention_residual.norm.{norm}",
        ("norm2",): f"feed_forward_residual.norm.{norm}",
        ("attn", "proj"): f"attention.output.{kind}",
        ("mlp", "fc1"): f"feed_forward.up.{kind}",
        ("mlp", "fc2"): f"feed_forward.down.{kind}",
        ("attn", "qkv"): kind,
    }[tuple(part)]
    return block + ours, lambda x: x


def ours(tensors, prefix):
    found = {}
    for name, value in tensors.items():
        renamed, change = path(name)
        value = change(value.detach())
        if ".attn.qkv." in name:
            kind = renamed.rsplit(".", 1)[-1]
            for part, third in zip(["query", "key", "value"], value.chunk(3)):
                found[f"{prefix}stack.blocks.0.attention.{part}.{kind}"] = third.clone().contiguous()
        else:
            found[prefix + renamed] = value.clone().contiguous()
    return found


def hybrid():
    timm.layers.set_fused_attn(False)
    generator = seeded("hybrid")
    backbone = ResNetV2(
        layers=(1, 2),
        channels=(32, 64),
        stem_chs=8,
        num_classes=0,
        global_pool="",
        preact=False,
        stem_type="same",
        conv_layer=partial(StdConv2dSame, eps=1e-8),
        norm_layer=partial(GroupNormAct, num_groups=4),
    )
    model = VisionTransformer(
        img_size=(30, 37),
        patch_size=1,
        embed_layer=partial(HybridEmbed, backbone=backbone),
        embed_dim=24,
        depth=1,
        num_heads=4,
        mlp_ratio=2.0,
        num_classes=0,
        global_pool="token",
    ).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if name in ["cls_token", "pos_embed"]:
                parameter.copy_(0.5 * noise)
            elif parameter.dim() == 1:
                parameter.copy_((1.0 if name.endswith("weight") else 0.0) + 0.2 * noise)
            else:
                # Not of mean 0, so that standardisation has an effect.
                parameter.copy_((noise + 0.3) * 1.3 * parameter[0].numel() ** -0.5)
    pixels = torch.randn(2, 3, 30, 37, generator=generator)
    hidden = model.forward_features(pixels)
    cotangent = torch.randn(hidden.shape, generator=generator)
    loss = (hidden * cotangent).sum()
    loss.backward()
    named = dict(model.named_parameters())
    tensors = {"pixels": pixels, "hidden": hidden.detach(), "cotangent": cotangent, "loss": loss.detach()}
    tensors |= ours(named, "weight.") | ours({n: p.grad for n, p in named.items()}, "grad.")
    save_file(tensors, os.path.join(HERE, "hybrid.safetensors"))
    print(hidden.shape, [f"{n}: {os.path.getsize(os.path.join(HERE, n))}" for n in ["axial.safetensors", "hybrid.safetensors"]])


if __name__ == "__main__":
    torch.set_num_threads(1)
    axial()
    hybrid()
