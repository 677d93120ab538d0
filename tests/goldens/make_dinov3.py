"""Oracle of DINOv3: dinov3.safetensors.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.24.0 safetensors
    python make_dinov3.py

transformers' `DINOv3ViTModel`, tiny and random, in float32 and in evaluation mode, with a linear head over the class token's state and the
mean over patches (the authors' linear classifier, which transformers lacks); cases, each with a prefix:

    plain   images of 12 by 12, patches of 4, two blocks, two registers; keys without biases
    gated   images of 8 by 12, no registers; gated feed-forward layers and output projections without biases, keys with them;
            another rotary base
    larger  a network made for images of 12 by 12, with one register, that reads images of 20 by 12; queries and values without biases

Residual scales are drawn from 0.3 to 1.3. `<case>.pixels` [2, channels, height, width], `<case>.labels` [2], `<case>.hidden` (after
the final norm, [2, positions, width]), `<case>.logits` [2, 5], `<case>.loss` (the mean cross-entropy), `<case>.grad_pixels`;
`<case>.weight.` and `<case>.grad.` under formwork's paths. The mask token, which image classification never reads, is left out.
"""

import torch
import transformers as hf
from image_classifiers import CLASSES, learned, renamed, start
from shared import redraw, seeded, write

SHAPE = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=12, patch_size=4)
GATED = dict(SHAPE, use_gated_mlp=True, hidden_act="silu", mlp_bias=False, proj_bias=False, key_bias=True, rope_theta=30.0, image_size=[8, 12])
LARGER = dict(SHAPE, num_register_tokens=1, query_bias=False, value_bias=False, num_channels=1)
CASES = {
    "plain": (dict(SHAPE, num_register_tokens=2), [12, 12]),
    "gated": (GATED, [8, 12]),
    "larger": (LARGER, [20, 12]),
}
RENAMED = [
    ("embeddings.cls_token", "model.class_token"),
    ("embeddings.register_tokens", "model.registers"),
    ("embeddings.patch_embeddings", "model.stem.projection"),
    ("model.layer.", "model.stack.blocks."),
    ("attention.q_proj", "attention.query"),
    ("attention.k_proj", "attention.key"),
    ("attention.v_proj", "attention.value"),
    ("attention.o_proj", "attention.output"),
    ("layer_scale1.lambda1", "attention_residual.scale.gain"),
    ("layer_scale2.lambda1", "feed_forward_residual.scale.gain"),
    ("norm1", "attention_residual.norm"),
    ("norm2", "feed_forward_residual.norm"),
    ("mlp.gate_proj", "feed_forward.gate"),
    ("mlp.up_proj", "feed_forward.up"),
    ("mlp.down_proj", "feed_forward.down"),
]
# Number of dimensions here; transformers has further leading ones of length 1.
LEADING = {"model.class_token": 1, "model.registers": 2}


class Classifier(torch.nn.Module):
    """The network with a linear head over the class token's state and the mean of the patches'."""

    def __init__(self, config):
        super().__init__()
        self.network = hf.DINOv3ViTModel(config)
        self.head = torch.nn.Linear(2 * config.hidden_size, CLASSES)
        self.tokens = 1 + config.num_register_tokens

    def forward(self, pixels):
        hidden = self.network(pixels).last_hidden_state
        both = torch.cat([hidden[:, 0], hidden[:, self.tokens :].mean(1)], 1)
        return hidden, self.head(both)


def ours(tensors):
    """Converts tensors to formwork's paths: kernels as matrices, tokens without a leading 1, weights and biases of norms as gamma and beta."""
    found = {}
    for name, tensor in tensors.items():
        if tensor.numel() == 0 or name.endswith("mask_token"):
            continue
        kind, path = name.split(".", 1)
        path = path.removeprefix("network.")
        path = "model.stack.final_" + path if path.startswith("norm.") else path
        path = renamed(path, RENAMED)
        if path in LEADING:
            tensor = tensor.reshape(tensor.shape[-LEADING[path] :])
        found[f"{kind}.{path}"] = tensor.flatten(1) if tensor.dim() == 4 else tensor
    return found


def made(keys, generator):
    config = hf.DINOv3ViTConfig(attn_implementation="eager", **keys)
    model = Classifier(config).eval()
    model.network.embeddings.mask_token.requires_grad_(False)
    if config.num_register_tokens == 0:
        model.network.embeddings.register_tokens.requires_grad_(False)
    redraw(model, generator)
    with torch.no_grad():
        for name, gain in model.named_parameters():
            if name.endswith("lambda1"):
                gain.copy_(0.3 + torch.rand(gain.shape, generator=generator))
            elif name.endswith("register_tokens"):
                gain.copy_(0.5 * torch.randn(gain.shape, generator=generator))
    return model


def main():
    start()
    tensors = {}
    for case, (keys, size) in CASES.items():
        generator = seeded("dinov3 " + case)
        model = made(keys, generator)
        pixels = torch.randn([2, model.network.config.num_channels, *size], generator=generator)
        tensors |= learned(case, model, pixels, model, ours)
    write("dinov3", tensors, {"architectures": ["DINOv3ViTModel"], "cases": list(CASES)})


if __name__ == "__main__":
    main()
