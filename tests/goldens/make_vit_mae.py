"""Oracles of masked autoencoders: a tiny random `ViTMAEForPreTraining` of HF transformers.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.24.0 safetensors
    python make_vit_mae.py

Conventions (names, configuration) are those of shared.py. All in float32, without dropout. Images are [batch, channel, row,
column], patches and grid positions row by row; the pixels of a patch are in the order row, column, channel.

vit_mae.safetensors: two encoder layers of width 24 and one decoder layer of width 16 (pre-norm, erf GELU, epsilon 1e-6) on
`pixel_values` [3, 3, 12, 12] in patches of 4: 9 patches, of which mask_ratio 0.6 leaves 3. `noise` [3, 9] is given to the model:
the patches of an image with the lowest values stay visible. `position_embeddings` [1, 10, 24] and `decoder_pos_embed` [1, 10, 16]
are its fixed sinusoids. `logits` [3, 9, 48] are the predictions for all patches. For norm_pix_loss false and true,
`<false|true>.loss` is the loss and `<false|true>.grad.<name>` its gradient for every weight. Names are those of version 5 of the
library. The weights are `weight.<name>`; fixed tables are not among them.
"""

import torch
import transformers as hf
from shared import MADE_WITH, begin, gradients, redraw, seeded, weights, write
from transformers.models.vit_mae.modeling_vit_mae import build_2d_sinusoidal_position_embedding

MADE_WITH["transformers"] = "5.24.0"


def main():
    generator = seeded("vit_mae")
    config = hf.ViTMAEConfig(
        image_size=12,
        patch_size=4,
        num_channels=3,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=40,
        layer_norm_eps=1e-6,
        decoder_hidden_size=16,
        decoder_num_hidden_layers=1,
        decoder_num_attention_heads=2,
        decoder_intermediate_size=24,
        mask_ratio=0.6,
        attn_implementation="eager",
    )
    config.architectures = ["ViTMAEForPreTraining"]
    model = hf.ViTMAEForPreTraining(config).eval()
    # A fresh model has zeros in place of the sinusoids; these are those of published models, columns first.
    for fixed in [model.vit.embeddings.position_embeddings, model.decoder.decoder_pos_embed]:
        width = fixed.shape[-1]
        table = build_2d_sinusoidal_position_embedding(3, 3, width, cls_token=True)
        with torch.no_grad():
            fixed.copy_(table.roll(width // 2, dims=-1)[None])
    redraw(model, generator)
    with torch.no_grad():
        model.decoder.mask_token.copy_(0.5 * torch.randn(1, 1, 16, generator=generator))
    images = torch.randn(3, 3, 12, 12, generator=generator)
    noise = torch.rand(3, 9, generator=generator)
    tensors = weights(model) | {"pixel_values": images, "noise": noise}
    tensors["position_embeddings"] = model.vit.embeddings.position_embeddings
    tensors["decoder_pos_embed"] = model.decoder.decoder_pos_embed
    for normalised in [False, True]:
        model.config.norm_pix_loss = normalised
        model.zero_grad()
        output = model(images, noise=noise)
        output.loss.backward()
        prefix = "true." if normalised else "false."
        tensors["logits"] = output.logits
        tensors[prefix + "loss"] = output.loss
        tensors |= gradients(model, prefix + "grad.")
        print(prefix, output.loss.item(), output.mask.sum(1).tolist())
    model.config.norm_pix_loss = False
    write("vit_mae", tensors, config)


if __name__ == "__main__":
    begin(torch, hf)
    main()
