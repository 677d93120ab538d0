"""Oracle of denoising: 50 steps of a tiny `BartForConditionalGeneration` on texts with noise, in PyTorch.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.23.0 safetensors numpy==2.4.6
    python make_denoising_trajectory.py

trajectory_denoising.safetensors is as make_trajectories.py says: `start.`, `end.`, `losses`, `norms`, `rates`, and the
batches as I8, [50, 2, 6, token]. The model is that of bart.safetensors with V 32. A text is one to three sentences that
count upwards from a random word and end in a full stop; in its source, 30 % of the words are masked in spans of Poisson length 3
and the sentences are permuted, by the noises of make_denoising.py. `input_ids` is <s> = 0, the source, </s> = 2;
`labels` is <s>, the text, </s>; `decoder_input_ids` begins with </s>, as BART's do. Padding is 1, and -100 in labels.
loss = sum of the cross-entropy / targets of the step. AdamW, betas (0.9, 0.999), epsilon 1e-6, a decay of 0.1 on
matrices, the rate of `cosine`.
"""

import torch
import transformers as hf
from make_denoising import MASK, Stream, infill, permute
from make_encoder_decoder import SHAPE
from make_trajectories import DECAY, MICRO, STEPS, cosine, fresh, record, scored, summed
from shared import begin, seeded

ROWS, VOCAB, LONGEST = 6, 32, 12
BOS, PAD, EOS, STOP, FIRST = 0, 1, 2, 4, 5


def text(generator, micro):
    """Ids and the ends of the sentences; texts of the second micro-batch are longer."""
    draw = lambda low, high: int(torch.randint(low, high, (), generator=generator))
    ids, ends = [], []
    for _ in range(draw(1, 3) + micro):
        first = draw(0, VOCAB - FIRST)
        ids += [FIRST + (first + i) % (VOCAB - FIRST) for i in range(draw(2, 4))] + [STOP]
        ends.append(len(ids))
    assert len(ids) <= LONGEST
    return ids, ends


def main():
    generator = seeded("trajectory_denoising")
    config = hf.BartConfig(
        activation_function="gelu",
        scale_embedding=False,
        bos_token_id=BOS,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=EOS,
        forced_eos_token_id=EOS,
        **SHAPE | {"vocab_size": VOCAB},
    )
    config.architectures = ["BartForConditionalGeneration"]
    count = STEPS * MICRO * ROWS
    source = torch.full((count, LONGEST + 3), PAD)
    inputs = torch.full((count, LONGEST + 2), PAD)
    labels = torch.full((count, LONGEST + 2), -100)
    for row in range(count):
        ids, ends = text(generator, row // ROWS % MICRO)
        stream = Stream(50, row)
        permuted = permute({"ids": ids, "ends": ends, "share": 1.0}, stream)
        words = [[i, i + 1] for i in range(len(ids))]
        noise = {"ids": permuted, "words": words, "share": 0.3, "mean_span": 3.0, "random": 0.0}
        noisy = [BOS, *infill(noise, stream).tolist(), EOS]
        assert len(noisy) <= source.shape[1]
        target = [BOS, *ids, EOS]
        source[row, : len(noisy)] = torch.tensor(noisy)
        labels[row, : len(target)] = torch.tensor(target)
        inputs[row, : len(target)] = torch.tensor([EOS, *target[:-1]])
    assert (source == MASK).any(dim=1).all()
    batches = {
        "input_ids": source,
        "attention_mask": (source != PAD).long(),
        "decoder_input_ids": inputs,
        "labels": labels,
    }
    batches = {name: array.reshape(STEPS, MICRO, ROWS, -1) for name, array in batches.items()}
    counts = (batches["labels"] != -100).sum(dim=(2, 3))
    assert (counts[:, 0] != counts[:, 1]).all()

    def terms(model, batch, step):
        out = model(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            decoder_input_ids=batch["decoder_input_ids"],
            use_cache=False,
        )
        return [summed(out.logits, batch["labels"]) / scored(step["labels"])]

    model = fresh(hf.BartForConditionalGeneration(config), generator)
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            module.padding_idx = None
    record("denoising", model, config, batches, terms, cosine, decay=DECAY, betas=(0.9, 0.999), eps=1e-6)


if __name__ == "__main__":
    begin(torch, hf)
    main()
