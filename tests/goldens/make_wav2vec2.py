"""Oracle of wav2vec 2.0 and HuBERT under CTC: wav2vec2.safetensors, wav2vec2_stable.safetensors, hubert.safetensors.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.24.0 safetensors
    python make_wav2vec2.py

transformers' `Wav2Vec2ForCTC` and `HubertForCTC`, tiny and random, in float32, attention eager, without dropout, masks and
skipped layers. All parameters are redrawn, so that every bias, gain and table has an effect.

    wav2vec2         group norm after the first convolution, post-norm layers, an even position kernel, summed losses
    wav2vec2_stable  layer norms and biases in all convolutions, pre-norm layers, an odd position kernel, mean losses
    hubert           as wav2vec2, without a norm of the features, mean losses

`input_values` [3, 330], `attention_mask` [3, 330] and `labels` [3, 4] padded with -100; `logits`, zero at padding,
`loss`, and `weight.` and `grad.` of all trainable parameters under the class's names; config.json in the metadata. `wav2vec2_stable`
reads the rows as one batch. The others would let padding affect a batch, so that each of their rows is read alone,
without a mask.
"""

import torch
import transformers as hf
from shared import MADE_WITH, begin, gradients, redraw, seeded, weights, write

MADE_WITH["transformers"] = "5.24.0"
SHAPE = dict(
    vocab_size=9, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, conv_dim=[6, 8, 8], conv_kernel=[7, 3, 2],
    conv_stride=[3, 2, 2], num_conv_pos_embeddings=6, num_conv_pos_embedding_groups=2, hidden_dropout=0.0, activation_dropout=0.0,
    attention_dropout=0.0, final_dropout=0.0, layerdrop=0.0, mask_time_prob=0.0, pad_token_id=0, attn_implementation="eager",
)  # fmt: skip
CASES = {
    "wav2vec2": (hf.Wav2Vec2Config, hf.Wav2Vec2ForCTC, dict(SHAPE)),
    "wav2vec2_stable": (
        hf.Wav2Vec2Config,
        hf.Wav2Vec2ForCTC,
        dict(
            SHAPE, feat_extract_norm="layer", conv_bias=True, do_stable_layer_norm=True, ctc_loss_reduction="mean", pad_token_id=3,
            num_conv_pos_embeddings=5, num_conv_pos_embedding_groups=4, hidden_act="relu",
        ),
    ),
    "hubert": (hf.HubertConfig, hf.HubertForCTC, dict(SHAPE, feat_proj_layer_norm=False, ctc_loss_reduction="mean")),
}  # fmt: skip
LENGTHS = [330, 250, 130]


def main():
    begin(torch, hf)
    for case, (settings, network, keys) in CASES.items():
        generator = seeded(case)
        config = settings(**keys)
        model = network(config).eval()
        redraw(model, generator)
        values = torch.randn([3, 330], generator=generator)
        mask = (torch.arange(330) < torch.tensor(LENGTHS)[:, None]).long()
        values = values * mask
        pad = config.pad_token_id
        ids = [4, 5, 5, 7, 1, 6, 8, 2]
        labels = torch.tensor([ids[:4], [*ids[4:7], -100], [8, -100, -100, -100]])
        assert pad not in labels
        if config.feat_extract_norm == "layer":
            found = model(input_values=values, attention_mask=mask, labels=labels)
            logits, loss = found.logits, found.loss
        else:
            rows = [model(input_values=values[row : row + 1, :n], labels=labels[row : row + 1]) for row, n in enumerate(LENGTHS)]
            longest = rows[0].logits.shape[1]
            logits = [torch.nn.functional.pad(row.logits, [0, 0, 0, longest - row.logits.shape[1]]) for row in rows]
            logits, losses = torch.cat(logits), torch.stack([row.loss for row in rows])
            loss = losses.sum() if config.ctc_loss_reduction == "sum" else losses.mean()
        loss.backward()
        frames = model._get_feat_extract_output_lengths(torch.tensor(LENGTHS))
        own = torch.arange(logits.shape[1]) < frames[:, None]
        tensors = {
            "input_values": values, "attention_mask": mask, "labels": labels, "logits": logits * own[..., None], "loss": loss.reshape(1),
        }  # fmt: skip
        tensors |= weights(model) | gradients(model)
        write(case, tensors, config.to_dict() | {"architectures": [network.__name__]})


if __name__ == "__main__":
    main()
