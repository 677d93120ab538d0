"""Oracle of BEiT: beit.safetensors.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.24.0 safetensors
    python make_beit.py

transformers' `BeitForImageClassification`, tiny and random, in float32 and without dropout, on images of 12 by 12 in patches of 4, two
blocks; cases, each with a prefix:

    own     a relative position table in each layer, residual scales, the mean over patches with a separate norm
    shared  one table for all layers, no scales, the class token after the final norm
    learned an absolute position table instead, the mean as in `own`

Residual scales are drawn from 0.3 to 1.3. `<case>.pixels` [2, channels, 12, 12], `<case>.labels` [2], `<case>.hidden` (after the final
norm, or after the last block if the mean has the norm, [2, 10, 16]), `<case>.logits` [2, 5], `<case>.loss` (the mean cross-entropy),
`<case>.grad_pixels`; `<case>.weight.` and `<case>.grad.` under formwork's paths.
"""

import torch
import transformers as hf
from image_classifiers import CLASSES, learned, renamed, start, states_and_logits
from shared import redraw, seeded, write

SHAPE = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=12, patch_size=4)
CASES = {
    "own": dict(SHAPE, use_relative_position_bias=True),
    "shared": dict(SHAPE, use_shared_relative_position_bias=True, use_mean_pooling=False, layer_scale_init_value=0.0, num_channels=1),
    "learned": dict(SHAPE, use_absolute_position_embeddings=True),
}
RENAMED = [
    ("beit.embeddings.cls_token", "model.class_token"),
    ("beit.embeddings.position_embeddings", "model.position.table"),
    ("beit.embeddings.patch_embeddings", "model.stem"),
    ("beit.shared_position_bias.relative_position_bias_table", "model.position.table"),
    ("beit.pooler.layernorm", "model.pooled_norm"),
    ("beit.layernorm", "model.stack.final_norm"),
    ("beit.layers.", "model.stack.blocks."),
    ("attention.q_proj", "attention.query"),
    ("attention.k_proj", "attention.key"),
    ("attention.v_proj", "attention.value"),
    ("attention.o_proj", "attention.output"),
    ("lambda_1", "attention_residual.scale.gain"),
    ("lambda_2", "feed_forward_residual.scale.gain"),
    ("layernorm_before", "attention_residual.norm"),
    ("layernorm_after", "feed_forward_residual.norm"),
    ("mlp.fc1", "feed_forward.up"),
    ("mlp.fc2", "feed_forward.down"),
    ("classifier", "head"),
]


def ours(tensors):
    """Converts tensors to formwork's paths: kernels as matrices, tokens without a leading 1, weights and biases of norms as gamma and beta."""
    found = {}
    for name, tensor in tensors.items():
        name = renamed(name, RENAMED)
        module, kind = name.rsplit(".", 1)
        if kind == "relative_position_bias_table":
            layer = module.split(".")[4]
            name = f"{name.split('.', 1)[0]}.model.position.layers.{layer}.table"
        elif kind == "class_token":
            tensor = tensor.flatten()
        elif name.endswith("position.table"):
            tensor = tensor.reshape(tensor.shape[-2:])
        found[name] = tensor.flatten(1) if tensor.dim() == 4 else tensor
    return found


def made(keys, generator):
    config = hf.BeitConfig(num_labels=CLASSES, attn_implementation="eager", **keys)
    model = hf.BeitForImageClassification(config).eval()
    redraw(model, generator)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lambda_" in name:
                parameter.copy_(0.3 + torch.rand(parameter.shape, generator=generator))
            elif name.endswith("relative_position_bias_table"):
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model


def main():
    start()
    tensors = {}
    for case, keys in CASES.items():
        generator = seeded("beit " + case)
        model = made(keys, generator)
        pixels = torch.randn([2, model.config.num_channels, 12, 12], generator=generator)
        tensors |= learned(case, model, pixels, states_and_logits(model), ours)
    write("beit", tensors, {"architectures": ["BeitForImageClassification"], "cases": list(CASES)})


if __name__ == "__main__":
    main()
