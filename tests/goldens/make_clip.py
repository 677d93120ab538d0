"""The oracle of images and their texts: transformers' CLIPModel, tiny and random.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.23.0 safetensors
    python make_clip.py

clip.safetensors: `weight.<name>`, `pixel_values` [3, 3, 12, 12], `input_ids` and `attention_mask` I64 [3, 7], whose texts end
with the id 30 after 7, 5 and 3 tokens and are padded with it; `image_embeds`, `text_embeds` [3, 12] of length 1,
`logits_per_image` [3, 3], `loss` (image_text_contrastive_loss, mean over the pairs) and `grad.<name>`. The scale is exp(1.5).

All is computed in float32. Without the mask, `text_embeds` are the same: the class finds the end by its id.
"""

import torch
import transformers as hf
from shared import redraw, seeded, write

MADE_WITH = {torch: "2.15.0", hf: "5.23.0"}
END = 30


def model():
    text = dict(
        vocab_size=37, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=9,
        eos_token_id=END, bos_token_id=29,
    )  # fmt: skip
    vision = dict(
        hidden_size=20, intermediate_size=28, num_hidden_layers=2, num_attention_heads=4, image_size=12, patch_size=4, num_channels=3,
    )  # fmt: skip
    config = hf.CLIPConfig(text_config=text, vision_config=vision, projection_dim=12)
    config.architectures = ["CLIPModel"]
    model = hf.CLIPModel(config).eval()
    scale = model.logit_scale
    del model.logit_scale
    redraw(model, seeded("clip"))
    model.logit_scale = torch.nn.Parameter(torch.full_like(scale, 1.5))
    return model


def inputs():
    generator = seeded("clip.inputs")
    ids = torch.randint(0, 29, (3, 7), generator=generator)
    ids[:, 0] = 29
    lengths = torch.tensor([7, 5, 3])
    mask = (torch.arange(7)[None] < lengths[:, None]).long()
    ids[torch.arange(7)[None] >= lengths[:, None] - 1] = END
    return {"pixel_values": torch.randn(3, 3, 12, 12, generator=generator), "input_ids": ids, "attention_mask": mask}


def main():
    torch.set_num_threads(1)
    for module, wanted in MADE_WITH.items():
        found = module.__version__.split("+")[0]
        if found != wanted:
            print(f"warning: the file in the repository was made with {module.__name__} {wanted}, not {found}")
    clip, given = model(), inputs()
    found = clip(**given, return_loss=True)
    found.loss.backward()
    bare = clip(pixel_values=given["pixel_values"], input_ids=given["input_ids"])
    assert torch.allclose(bare.text_embeds, found.text_embeds, atol=1e-6)
    tensors = dict(given) | {name: found[name] for name in ("image_embeds", "text_embeds", "logits_per_image")}
    tensors["loss"] = found.loss.reshape(1)
    for name, parameter in clip.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name
        tensors |= {f"weight.{name}": parameter, f"grad.{name}": parameter.grad}
    tensors = {name: x.detach().clone().contiguous() for name, x in tensors.items()}
    write("clip", tensors, clip.config.to_dict())
    print(f"loss {found.loss.item():.4f}, logits from {found.logits_per_image.min():.2f} to {found.logits_per_image.max():.2f}")


if __name__ == "__main__":
    main()
