"""Oracle of Swin V2: swinv2.safetensors.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.24.0 safetensors
    python make_swinv2.py

transformers' `Swinv2ForImageClassification`, tiny and random, in float32 and without dropout; cases, each with a prefix:

    shifted  images of 16 by 16, patches of 2, windows of 4: a map of 8 by 8 with shifted windows, then one of 4 by 4, a single window; the
             logarithm of a cosine scale in the first block is above its bound
    oblong   images of 8 by 16, patches of 1, windows of 4: maps of 8 by 16 and of 4 by 8, then one of 2 by 4, smaller than a window;
             feed-forward layers of twice the width
    trained  images of 12 by 12, patches of 2, windows of 4: a map of 6 by 6, padded with zeros, then one of 3 by 3; networks of relative
             positions that were trained with windows of 3 and 2; queries and values without biases

`<case>.pixels` [2, channels, height, width], `<case>.labels` [2], `<case>.hidden` (the last map after its norm), `<case>.logits`
[2, 5], `<case>.loss` (the mean cross-entropy), `<case>.grad_pixels`; `<case>.weight.` and `<case>.grad.` under formwork's paths.
"""

import torch
import transformers as hf
from image_classifiers import CLASSES, learned, renamed, start, states_and_logits
from shared import redraw, seeded, write

CASES = {
    "shifted": dict(image_size=16, patch_size=2, embed_dim=8, depths=[2, 1], num_heads=[2, 4], window_size=4),
    "oblong": dict(image_size=[8, 16], patch_size=1, embed_dim=4, depths=[2, 2, 1], num_heads=[1, 2, 2], window_size=4, mlp_ratio=2.0),
    "trained": dict(
        image_size=12, patch_size=2, embed_dim=4, depths=[2, 2], num_heads=[2, 2], window_size=4, qkv_bias=False, num_channels=1,
        pretrained_window_sizes=[3, 2],
    ),  # fmt: skip
}
RENAMED = [
    ("swinv2.embeddings.patch_embeddings", "model.stem"),
    ("swinv2.embeddings.norm", "model.stem_norm"),
    ("swinv2.encoder.layers.", "model.stages."),
    ("swinv2.layernorm", "model.norm"),
    ("downsample.", "merging."),
    ("attention.self.logit_scale", "cosines.logit_scale"),
    ("attention.self.continuous_position_bias_mlp.0", "position.up"),
    ("attention.self.continuous_position_bias_mlp.2", "position.down"),
    ("attention.self.", "attention."),
    ("attention.output.dense", "attention.output"),
    ("layernorm_before", "attention_residual.norm"),
    ("layernorm_after", "feed_forward_residual.norm"),
    ("intermediate.dense", "feed_forward.up"),
    ("output.dense", "feed_forward.down"),
    ("classifier", "head"),
]


def ours(tensors):
    """Converts tensors to formwork's paths: kernels as matrices, weights and biases of norms as gamma and beta, per-head scales as a vector."""
    found = {}
    for name, tensor in tensors.items():
        name = renamed(name, RENAMED)
        if name.endswith(".logit_scale"):
            tensor = tensor.flatten()
        found[name] = tensor.flatten(1) if tensor.dim() == 4 else tensor
    return found


def sides(config):
    return config.image_size if isinstance(config.image_size, (list, tuple)) else [config.image_size] * 2


def made(case, config, generator):
    model = hf.Swinv2ForImageClassification(config).eval()
    redraw(model, generator)
    if case == "shifted":
        with torch.no_grad():
            model.swinv2.encoder.layers[0].blocks[0].attention.self.logit_scale[0] = 4.9
    return model


def main():
    start()
    tensors = {}
    for case, keys in CASES.items():
        generator = seeded("swinv2 " + case)
        config = hf.Swinv2Config(num_labels=CLASSES, **keys)
        model = made(case, config, generator)
        pixels = torch.randn([2, config.num_channels, *sides(config)], generator=generator)
        tensors |= learned(case, model, pixels, states_and_logits(model), ours)
    write("swinv2", tensors, {"architectures": ["Swinv2ForImageClassification"], "cases": list(CASES)})


if __name__ == "__main__":
    main()
