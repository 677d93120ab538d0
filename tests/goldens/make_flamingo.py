"""The oracle of decoders that read images: transformers' IdeficsForVisionText2Text, tiny and random.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.23.0 safetensors
    python make_flamingo.py

flamingo_resampled.safetensors (a cross-attention block before every second of four blocks, six latents) and
flamingo_patches.safetensors (one before each of two blocks, over all patches, with norms on queries and keys): `weight.<name>`,
`pixel_values` [3, 3, 12, 12], `input_ids`
and `attention_mask` I64 [3, 7], whose captions have 7, 5 and 3 tokens; `logits` [3, 7, 37], `looked_at` (the image states that
are attended to), `loss` (the mean over the tokens after the first of each caption) and `grad.<name>`. Gates are drawn like all
weights, so that none is 0.

All is computed in float32. Logits after the end of a caption are 0 in the file.
"""

import torch
import transformers as hf
from shared import redraw, seeded, write

MADE_WITH = {torch: "2.15.0", hf: "5.23.0"}
IDLE = "vision_model.post_layernorm"


def model(name, layers, every, resampled):
    vision = dict(
        embed_dim=20, intermediate_size=28, num_hidden_layers=2, num_attention_heads=4, image_size=12, patch_size=4, num_channels=3,
    )  # fmt: skip
    perceiver = dict(
        use_resampler=resampled, resampler_n_latents=6, resampler_depth=1, resampler_n_heads=2, resampler_head_dim=8,
    )  # fmt: skip
    config = hf.IdeficsConfig(
        vocab_size=37, hidden_size=16, intermediate_size=24, num_hidden_layers=layers, num_attention_heads=2,
        max_position_embeddings=9, cross_layer_interval=every, use_resampler=resampled, vision_config=vision,
        perceiver_config=perceiver, qk_layer_norms=not resampled, freeze_text_layers=False, freeze_vision_layers=False,
        bos_token_id=1, eos_token_id=2, pad_token_id=0, attn_implementation="eager",
    )  # fmt: skip
    config.architectures = ["IdeficsForVisionText2Text"]
    model = hf.IdeficsForVisionText2Text(config).eval()
    redraw(model, seeded(name))
    return model


def inputs():
    generator = seeded("flamingo.inputs")
    ids = torch.randint(3, 37, (3, 7), generator=generator)
    ids[:, 0] = 1
    lengths = torch.tensor([7, 5, 3])
    mask = (torch.arange(7)[None] < lengths[:, None]).long()
    ids[mask == 0] = 0
    return {"pixel_values": torch.randn(3, 3, 12, 12, generator=generator), "input_ids": ids, "attention_mask": mask}


def main():
    torch.set_num_threads(1)
    for module, wanted in MADE_WITH.items():
        found = module.__version__.split("+")[0]
        if found != wanted:
            print(f"warning: the file in the repository was made with {module.__name__} {wanted}, not {found}")
    for name, *shape in (("flamingo_resampled", 4, 2, True), ("flamingo_patches", 2, 1, False)):
        network, given = model(name, *shape), inputs()
        ids, mask = given["input_ids"], given["attention_mask"]
        # One image for each text, which all of its tokens see.
        found = network(
            input_ids=ids, attention_mask=mask, pixel_values=given["pixel_values"][:, None],
            image_attention_mask=torch.ones(3, 7, 1, dtype=torch.long), labels=ids.masked_fill(mask == 0, -100), use_cache=False,
        )  # fmt: skip
        found.loss.backward()
        tensors = dict(given) | {"logits": found.logits * mask[..., None], "looked_at": found.image_hidden_states[:, 0]}
        tensors["loss"] = found.loss.reshape(1)
        for path, parameter in network.named_parameters():
            if IDLE in path:
                assert parameter.grad is None, path
                continue
            assert parameter.grad is not None and parameter.grad.abs().max() > 0, path
            tensors |= {f"weight.{path}": parameter, f"grad.{path}": parameter.grad}
        gates = [parameter for path, parameter in network.named_parameters() if "alpha" in path]
        assert gates and all(gate.abs().min() > 0.01 for gate in gates)
        tensors = {path: x.detach().clone().contiguous() for path, x in tensors.items()}
        write(name, tensors, network.config.to_dict())
        print(f"{name}: loss {found.loss.item():.4f}, logits from {found.logits.min():.2f} to {found.logits.max():.2f}")


if __name__ == "__main__":
    main()
