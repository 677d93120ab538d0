"""The oracles of the sigmoid loss and of SigLIP: torch's logsigmoid in float64, and transformers' SiglipModel, tiny and random.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.24.0 safetensors
    python make_siglip.py

sigmoid_loss.safetensors: `u`, `v` [7, 12], vectors of different norms, row n of both makes a pair; `t` and `b` [1], the logarithm of the
scale on cosines and the bias added to them. Each of these has `.loss` [1], `.grad_u`, `.grad_v`, `.grad_t` and `.grad_b`:

    all         the sum of −ln σ(z·(exp(t)·cos(u, v) + b)) over all pairs of a u and a v, over the 7 rows; z is 1 if both belong to
                one row and −1 otherwise (Zhai et al. 2023, algorithm 1)
    grouped     the same within rows 0..4 and within rows 4..7, over the 7 rows

All is computed in float64 from the float32 values of the file, and rounded to float32 when written.

siglip.safetensors: `weight.<name>`, `pixel_values` [3, 3, 12, 12], `input_ids` I64 [3, 7], whose texts have 7, 5 and 3 tokens
and are padded with the id 1, `attention_mask` I64 [3, 7], which marks the padding and is not given to the class;
`image_embeds`, `text_embeds` [3, 20] of length 1, `logits_per_image` [3, 3], `loss` and `grad.<name>`. The scale is exp(1.5), the bias
−2. In float32.
"""

import torch
import transformers as hf
from shared import padding, redraw, seeded, write

MADE_WITH = {torch: "2.15.0", hf: "5.24.0"}
PAD = 1


def pairwise(u, v, t, b):
    """The sum over all pairs, by definition."""
    cosines = torch.nn.functional.normalize(u, dim=1) @ torch.nn.functional.normalize(v, dim=1).T
    z = 2 * torch.eye(len(u), dtype=u.dtype) - 1
    return -torch.nn.functional.logsigmoid(z * (t.exp() * cosines + b)).sum()


def losses():
    generator = seeded("sigmoid_loss")
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    u, v = draw(7, 12), draw(7, 12)
    v[:5] += 0.8 * u[:5]
    u *= torch.tensor([1.0, 0.5, 2.0, 0.8, 0.1, 3.0, 1.3])[:, None]
    v *= torch.tensor([0.7, 1.6, 1.0, 2.0, 0.9, 0.3, 4.0])[:, None]
    given = {"u": u, "v": v, "t": torch.tensor([2.1]), "b": torch.tensor([-3.5])}
    tensors = dict(given)
    for name, groups in {"all": [slice(0, 7)], "grouped": [slice(0, 4), slice(4, 7)]}.items():
        wide = {key: x.double().requires_grad_() for key, x in given.items()}
        parts = [pairwise(wide["u"][rows], wide["v"][rows], wide["t"], wide["b"]) for rows in groups]
        loss = sum(parts) / 7
        loss.backward()
        assert all((x.grad != 0).all() for x in wide.values())
        tensors |= {f"{name}.loss": loss.reshape(1)} | {f"{name}.grad_{key}": x.grad for key, x in wide.items()}
        print(f"{name}: {loss.item():.4f}")
    write("sigmoid_loss", {name: x.float() for name, x in tensors.items()}, {})


def model():
    text = dict(
        vocab_size=37, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=7,
        pad_token_id=PAD, bos_token_id=0, eos_token_id=PAD, projection_size=20,
    )  # fmt: skip
    vision = dict(
        hidden_size=20, intermediate_size=28, num_hidden_layers=2, num_attention_heads=4, image_size=12, patch_size=4, num_channels=3,
    )  # fmt: skip
    config = hf.SiglipConfig(text_config=text, vision_config=vision)
    config.architectures = ["SiglipModel"]
    model = hf.SiglipModel(config).eval()
    redraw(model, seeded("siglip"))
    with torch.no_grad():
        model.logit_scale.fill_(1.5)
        model.logit_bias.fill_(-2.0)
    return model


def inputs():
    generator = seeded("siglip.inputs")
    ids = torch.randint(2, 37, (3, 7), generator=generator)
    mask = padding([7, 5, 3], 7)
    ids[mask == 0] = PAD
    return {"pixel_values": torch.randn(3, 3, 12, 12, generator=generator), "input_ids": ids}, mask


def siglip():
    network = model()
    given, mask = inputs()
    found = network(**given, return_loss=True)
    found.loss.backward()
    wide = pairwise(*[x.detach().double() for x in (found.image_embeds, found.text_embeds, network.logit_scale, network.logit_bias)])
    assert abs(found.loss.item() - wide.item() / 3) < 1e-5
    tensors = given | {"attention_mask": mask} | {name: found[name] for name in ("image_embeds", "text_embeds", "logits_per_image")}
    tensors["loss"] = found.loss.reshape(1)
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name
        tensors |= {f"weight.{name}": parameter, f"grad.{name}": parameter.grad}
    tensors = {name: x.detach().clone().contiguous() for name, x in tensors.items()}
    write("siglip", tensors, network.config.to_dict())
    print(f"loss {found.loss.item():.4f}, logits from {found.logits_per_image.min():.2f} to {found.logits_per_image.max():.2f}")


def main():
    torch.set_num_threads(1)
    for module, wanted in MADE_WITH.items():
        found = module.__version__.split("+")[0]
        if found != wanted:
            print(f"warning: the files in the repository were made with {module.__name__} {wanted}, not {found}")
    losses()
    siglip()


if __name__ == "__main__":
    main()
