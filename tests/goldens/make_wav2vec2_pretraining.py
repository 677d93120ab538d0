"""Oracle of wav2vec 2.0's pretraining without transcripts: wav2vec2_pretraining.safetensors.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.24.0 safetensors
    python make_wav2vec2_pretraining.py

transformers' `Wav2Vec2ForPreTraining`, tiny and random, in float32, attention eager, without dropout and skipped layers. All
parameters are redrawn, so that every bias, gain and table has an effect. Layer norms in all convolutions and pre-norm layers, so that
padding affects no row.

`input_values` [2, 330], `attention_mask` [2, 330], `mask_time_indices` [2, frames], `sampled_negative_indices`
[2, frames, negatives], which count frames through both rows; at least one compared frame has the codes of the frame itself.

    eval.   evaluation, codes of the highest scores
    train.  training at temperature 2 with the Gumbel noise `train.noise` [2·frames·groups, entries]

`loss`, `contrastive_loss`, `diversity_loss` (sums over masked frames) and `codevector_perplexity` under both prefixes, and
`grad.` of the parameters in training. `weight.` under the class's names; config.json in the metadata.
"""

import torch
import transformers as hf
from shared import MADE_WITH, begin, redraw, seeded, weights, write
from transformers.models.wav2vec2.modeling_wav2vec2 import _sample_negative_indices

MADE_WITH["transformers"] = "5.24.0"
SHAPE = dict(
    vocab_size=9, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, conv_dim=[6, 8, 8], conv_kernel=[7, 3, 2],
    conv_stride=[3, 2, 2], num_conv_pos_embeddings=5, num_conv_pos_embedding_groups=2, hidden_dropout=0.0, activation_dropout=0.0,
    attention_dropout=0.0, final_dropout=0.0, feat_quantizer_dropout=0.0, layerdrop=0.0, pad_token_id=0, attn_implementation="eager",
    feat_extract_norm="layer", conv_bias=True, do_stable_layer_norm=True, mask_time_prob=0.5, mask_time_length=2, mask_time_min_masks=2,
    num_codevectors_per_group=4, num_codevector_groups=2, codevector_dim=12, proj_codevector_dim=10, num_negatives=5,
    contrastive_logits_temperature=0.2, diversity_loss_weight=0.3,
)  # fmt: skip
LENGTHS = [330, 250]
MASKED = [[1, 2, 5, 6, 9, 10, 11, 20, 21], [0, 3, 4, 8, 12, 13]]
NAMES = ["loss", "contrastive_loss", "diversity_loss", "codevector_perplexity"]
TEMPERATURE = 2.0


def main():
    import numpy

    begin(torch, hf)
    generator = seeded("wav2vec2_pretraining")
    config = hf.Wav2Vec2Config(**SHAPE)
    model = hf.Wav2Vec2ForPreTraining(config).eval()
    redraw(model, generator)
    with torch.no_grad():
        model.quantizer.codevectors.normal_(generator=generator)
        model.quantizer.weight_proj.weight.normal_(generator=generator)
    values = torch.randn([2, 330], generator=generator)
    mask = (torch.arange(330) < torch.tensor(LENGTHS)[:, None]).long()
    values = values * mask
    frames = int(model._get_feat_extract_output_lengths(torch.tensor(330)))
    masked = torch.zeros([2, frames], dtype=torch.long)
    for row, places in enumerate(MASKED):
        masked[row, places] = 1
    numpy.random.seed(7)
    negatives = _sample_negative_indices((2, frames), config.num_negatives, masked.bool().numpy()).astype(numpy.int64)
    given = dict(
        input_values=values, attention_mask=mask, mask_time_indices=masked.bool(), sampled_negative_indices=torch.tensor(negatives),
    )  # fmt: skip
    found = model(**given)
    tensors = {
        "input_values": values, "attention_mask": mask, "mask_time_indices": masked, "sampled_negative_indices": torch.tensor(negatives),
    } | {f"eval.{name}": found[name].reshape(1) for name in NAMES}  # fmt: skip
    codes = found.projected_quantized_states.reshape(2 * frames, -1)
    same = [(codes[other] == codes[own]).all() for own in masked.flatten().nonzero()[:, 0] for other in negatives.reshape(2 * frames, -1)[own]]
    assert any(same), "no compared frame has the codes of the frame itself"

    shape = [2 * frames * config.num_codevector_groups, config.num_codevectors_per_group]
    noise = -torch.empty(shape).exponential_(generator=generator).log()

    def gumbel_softmax(scores, tau, hard):
        assert hard and tau == TEMPERATURE and list(scores.shape) == shape
        soft = ((scores + noise) / tau).softmax(-1)
        best = torch.zeros_like(soft).scatter_(-1, soft.argmax(-1, keepdim=True), 1.0)
        return best - soft.detach() + soft

    torch.nn.functional.gumbel_softmax = gumbel_softmax
    model.train()
    model.set_gumbel_temperature(TEMPERATURE)
    found = model(**given)
    found.loss.backward()
    tensors |= {f"train.{name}": found[name].reshape(1) for name in NAMES} | {"train.noise": noise}
    tensors |= {f"grad.{name}": weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    tensors |= weights(model)
    print({name: tensors[name].item() for name in tensors if name.startswith(("eval.", "train.")) and tensors[name].numel() == 1 and "grad" not in name})
    write("wav2vec2_pretraining", tensors, config.to_dict() | {"architectures": ["Wav2Vec2ForPreTraining"]})


if __name__ == "__main__":
    main()
