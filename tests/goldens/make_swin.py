"""Oracle of the Swin Transformer: swin.safetensors.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.24.0 safetensors
    python make_swin.py

transformers' `SwinForImageClassification`, tiny and random, in float32 and without dropout; cases, each with a prefix:

    shifted  images of 16 by 16, patches of 2, windows of 4: a map of 8 by 8 with shifted windows, then one of 4 by 4, a single window
    smaller  images of 8 by 16, patches of 1, windows of 4: maps of 8 by 16 and of 4 by 8, then one of 2 by 4, smaller than a window;
             feed-forward layers of twice the width
    filled   images of 10 by 14, patches of 2, windows of 3: a map of 5 by 7, padded with zeros for windows and for patch
             merging, then one of 3 by 4; queries, keys and values without biases

`<case>.pixels` [2, channels, height, width], `<case>.labels` [2], `<case>.hidden` (the last map after its norm), `<case>.logits`
[2, 5], `<case>.loss` (the mean cross-entropy), `<case>.grad_pixels`; `<case>.weight.` and `<case>.grad.` under formwork's paths.

In a stage whose map is smaller than a window, the window is the map's shorter side, with a relative position table of that size, as in
the authors' code (Liu et al. 2021). transformers' class has the large table there and fails; here it is given the small one.
"""

import torch
import transformers as hf
from image_classifiers import CLASSES, learned, renamed, start, states_and_logits
from shared import redraw, seeded, write
from transformers.models.swin.modeling_swin import SwinRelativePositionBias

CASES = {
    "shifted": dict(image_size=16, patch_size=2, embed_dim=8, depths=[2, 1], num_heads=[2, 4], window_size=4),
    "smaller": dict(image_size=[8, 16], patch_size=1, embed_dim=4, depths=[2, 2, 1], num_heads=[1, 2, 2], window_size=4, mlp_ratio=2.0),
    "filled": dict(image_size=[10, 14], patch_size=2, embed_dim=4, depths=[2, 2], num_heads=[2, 2], window_size=3, qkv_bias=False, num_channels=1),
}
RENAMED = [
    ("swin.embeddings.patch_embeddings", "model.stem"),
    ("swin.embeddings.norm", "model.stem_norm"),
    ("swin.encoder.layers.", "model.stages."),
    ("swin.layernorm", "model.norm"),
    ("downsample.", "merging."),
    ("attention.q_proj", "attention.query"),
    ("attention.k_proj", "attention.key"),
    ("attention.v_proj", "attention.value"),
    ("attention.o_proj", "attention.output"),
    ("attention.relative_position_bias.relative_position_bias_table", "position.table"),
    ("layernorm_before", "attention_residual.norm"),
    ("layernorm_after", "feed_forward_residual.norm"),
    ("mlp.fc1", "feed_forward.up"),
    ("mlp.fc2", "feed_forward.down"),
    ("classifier", "head"),
]


def ours(tensors):
    """Converts tensors to formwork's paths: kernels as matrices, weights and biases of norms as gamma and beta."""
    found = {}
    for name, tensor in tensors.items():
        name = renamed(name, RENAMED)
        found[name] = tensor.flatten(1) if tensor.dim() == 4 else tensor
    return found


def made(config):
    model = hf.SwinForImageClassification(config).eval()
    for number, stage in enumerate(model.swin.encoder.layers):
        side = min(-(-n // config.patch_size // 2**number) for n in sides(config))
        for block in stage.blocks:
            if side < config.window_size:
                block.attention.relative_position_bias = SwinRelativePositionBias(config.num_heads[number], (side, side))
    return model


def sides(config):
    return config.image_size if isinstance(config.image_size, (list, tuple)) else [config.image_size] * 2


def main():
    start()
    tensors = {}
    for case, keys in CASES.items():
        generator = seeded("swin " + case)
        config = hf.SwinConfig(num_labels=CLASSES, attn_implementation="eager", **keys)
        model = made(config)
        redraw(model, generator)
        pixels = torch.randn([2, config.num_channels, *sides(config)], generator=generator)
        tensors |= learned(case, model, pixels, states_and_logits(model), ours)
    write("swin", tensors, {"architectures": ["SwinForImageClassification"], "cases": list(CASES)})


if __name__ == "__main__":
    main()
