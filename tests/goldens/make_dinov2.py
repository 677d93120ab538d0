"""Oracle of DINOv2: dinov2.safetensors.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.24.0 safetensors
    python make_dinov2.py

transformers' `Dinov2ForImageClassification` and `Dinov2WithRegistersForImageClassification`, tiny and random, in float32 and without
dropout; cases, each with a prefix:

    plain      images of 12 by 12, patches of 4, two blocks
    registers  three registers; gated feed-forward layers; queries, keys and values without biases

Residual scales are drawn from 0.3 to 1.3. `<case>.pixels` [2, channels, 12, 12], `<case>.labels` [2], `<case>.hidden` (after the
final norm, [2, positions, width]), `<case>.logits` [2, 5], `<case>.loss` (the mean cross-entropy), `<case>.grad_pixels`;
`<case>.weight.` and `<case>.grad.` under formwork's paths. The mask token, which image classification never reads, is left out.
"""

import torch
import transformers as hf
from image_classifiers import CLASSES, learned, renamed, start, states_and_logits
from shared import redraw, seeded, write

SHAPE = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=4, mlp_ratio=2, image_size=12, patch_size=4)
CASES = {
    "plain": ("Dinov2", SHAPE),
    "registers": ("Dinov2WithRegisters", dict(SHAPE, num_register_tokens=3, use_swiglu_ffn=True, qkv_bias=False, num_channels=1)),
}
RENAMED = [
    ("dinov2_with_registers.", "dinov2."),
    ("dinov2.embeddings.cls_token", "model.class_token"),
    ("dinov2.embeddings.register_tokens", "model.registers"),
    ("dinov2.embeddings.position_embeddings", "model.position.table"),
    ("dinov2.embeddings.patch_embeddings", "model.stem"),
    ("dinov2.encoder.layer.", "model.stack.blocks."),
    ("dinov2.layernorm", "model.stack.final_norm"),
    ("attention.q_proj", "attention.query"),
    ("attention.k_proj", "attention.key"),
    ("attention.v_proj", "attention.value"),
    ("attention.o_proj", "attention.output"),
    ("layer_scale1.lambda1", "attention_residual.scale.gain"),
    ("layer_scale2.lambda1", "feed_forward_residual.scale.gain"),
    ("norm1", "attention_residual.norm"),
    ("norm2", "feed_forward_residual.norm"),
    ("mlp.fc1", "feed_forward.up"),
    ("mlp.fc2", "feed_forward.down"),
    ("mlp.gate_proj", "feed_forward.gate"),
    ("mlp.up_proj", "feed_forward.up"),
    ("mlp.down_proj", "feed_forward.down"),
    ("classifier", "head"),
]
# Number of dimensions here; transformers has further leading ones of length 1.
LEADING = {"model.class_token": 1, "model.registers": 2, "model.position.table": 2}


def ours(tensors):
    """Converts tensors to formwork's paths: kernels as matrices, tokens without a leading 1, weights and biases of norms as gamma and beta."""
    found = {}
    for name, tensor in tensors.items():
        name = renamed(name, RENAMED)
        path = name.split(".", 1)[1]
        if path in LEADING:
            tensor = tensor.reshape(tensor.shape[-LEADING[path] :])
        found[name] = tensor.flatten(1) if tensor.dim() == 4 else tensor
    return found


def made(kind, keys, generator):
    config = getattr(hf, kind + "Config")(num_labels=CLASSES, attn_implementation="eager", **keys)
    model = getattr(hf, kind + "ForImageClassification")(config).eval()
    redraw(model, generator)
    model.base_model.embeddings.mask_token.requires_grad_(False)
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
    for case, (kind, keys) in CASES.items():
        generator = seeded("dinov2 " + case)
        model = made(kind, keys, generator)
        size = model.config.image_size
        pixels = torch.randn([2, model.config.num_channels, size, size], generator=generator)
        tensors |= learned(case, model, pixels, states_and_logits(model), ours)
    classes = [kind + "ForImageClassification" for kind, _ in CASES.values()]
    write("dinov2", tensors, {"architectures": classes, "cases": list(CASES)})


if __name__ == "__main__":
    main()
