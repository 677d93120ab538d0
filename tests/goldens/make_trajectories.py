"""Oracles of training: 50 steps of a tiny BERT (MLM and NSP), of nn.Transformer (translation), of a ViT and of a T5 (span
corruption), in PyTorch.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==4.57.1 safetensors
    python make_trajectories.py [mlm] [translation] [vit] [spans]

trajectory_NAME.safetensors holds `start.<weight>` and `end.<weight>` (names and configuration as in bert,
transformer_post and vit.safetensors), the batches as I8, [step, micro-batch, row, …], and of each step, as F64 [50],
`losses`, `norms` before clipping, and `rates`. Dropout 0, all in float32. A step is two micro-batches; a sum over the
step's scored elements is divided by their number in BOTH micro-batches. The gradient is clipped to a global norm of 1:
times min(1, 1 / (norm + 1e-6)). Biases of keys shift all scores of a query alike: their gradients are rounding noise,
which Adam amplifies, so their final values mean nothing (`…key.bias`; the middle third of `in_proj_bias`).

In mlm and vit, AdamW of learning rate 1e-2 and epsilon 1e-6 has two groups: a decay of 0.1 on every `…weight` of two
or more dimensions (tables of embeddings and the patch convolution included), none on gains, biases, and ViT's
`cls_token` and `position_embeddings`. The rate of step i (from 0) is lr*(i+1)/(10+1) for i < 10, then half a cosine
down to 0 at step 50.

mlm: `BertForPreTraining`, betas (0.9, 0.98). `input_ids`, `token_type_ids`, `attention_mask`, `labels` [50, 2, 8, 16]
and `next_sentence_label` [50, 2, 8]. A row is [CLS] = 1, a segment that repeats one of six words, [SEP] = 2, a
segment that repeats one of the same six (label 0) or of six others (label 1), [SEP], padding = 0, one word in ten at
random. [MASK] = 3 stands in the ids; the first micro-batch scores more than the second. loss = MLM sum / scored
tokens of the step + NSP sum / rows of the step (16); `losses_mlm` and `losses_nsp` are its terms.

translation: nn.Transformer, post-LN, as in make_encoder_decoder.py (V 24, d 24, ff 40). `input_ids`, `attention_mask`
[50, 2, 8, 9], `decoder_input_ids`, `labels` [50, 2, 8, 10] (-100 at padding). A target is the source's words, each
plus one, after a word for the parity of their number. loss = sum of the label-smoothed (0.1) cross-entropy / targets
of the step, whose number differs between the micro-batches. AdamW (Adam: no decay), betas (0.9, 0.98), epsilon 1e-9,
noam: step s (from 1) has 0.2 * 24^-0.5 * min(s^-0.5, s * 20^-1.5).

vit: `ViTForImageClassification` (3 x 8 x 8 pixels, patches of 2, d 24, 2 layers, 4 classes), betas (0.9, 0.99).
`pixels` [50, 2, 5, 3, 8, 8], of which the model reads pixels / 64, and `labels` [50, 2, 5]. An image is one of four
patterns of stripes in noise. loss = sum of the label-smoothed (0.1) cross-entropy / rows of the step (10).

spans: `T5ForConditionalGeneration` as in t5.safetensors (V 32, d 24), no decay, betas (0.9, 0.98), epsilon 1e-6, 0.3
times the rate of mlm. `input_ids`, `attention_mask` [50, 2, 6, 22], `decoder_input_ids`, `labels` [50, 2, 6, 10] (-100
at padding). A text of 24 tokens in the first micro-batch and of 16 in the second goes up or down by one from each
word to the next, one word in ten at random; a quarter of it is removed in spans with a mean of 2 tokens, as in
Raffel et al. 2019; 0 pads and starts, 1 ends, sentinels go down from 31. loss = sum of the cross-entropy / targets
of the step.
"""

import copy
import math
import sys

import torch
import transformers as hf
from make_encoder_decoder import Transformer
from shared import begin, padding, seeded, weights, write

STEPS, MICRO = 50, 2
LR, WARMUP, CLIP, DECAY = 1e-2, 10, 1.0, 0.1
SMOOTHING = 0.1
# Maximum number of terms in a loss.
TERMS = 3


def cosine(step):
    if step < WARMUP:
        return LR * (step + 1) / (WARMUP + 1)
    return 0.5 * LR * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))


def noam(width, warmup, factor):
    return lambda step: factor * width**-0.5 * min((step + 1) ** -0.5, (step + 1) * warmup**-1.5)


def fresh(model, generator):
    """Initial weights of a fresh model, with biases and gains that have an effect."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() == 1:
                parameter.copy_((1.0 if name.endswith("weight") else 0.0) + 0.02 * noise)
            else:
                parameter.copy_(0.15 * noise)
    return model.train()


def summed(logits, labels, smoothing=0.0):
    """Sum of the cross-entropy over the labels that are not -100."""
    logits, labels = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1).long()
    return torch.nn.functional.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)


def scored(labels):
    return (labels != -100).sum().item()


def decays(name, parameter):
    return name.endswith("weight") and parameter.dim() > 1


def train(model, batches, terms, rate, decay, betas, eps):
    """Trains and returns the curves; `terms(model, batch, step's labels)` are the terms of a micro-batch's loss."""
    named = list(model.named_parameters())
    groups = [
        {"params": [p for n, p in named if decays(n, p)], "weight_decay": decay},
        {"params": [p for n, p in named if not decays(n, p)], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=0.0, betas=betas, eps=eps, fused=False, foreach=False)
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        whole = {name: array[step] for name, array in batches.items()}
        sums = torch.zeros(TERMS, dtype=torch.float64)
        for micro in range(MICRO):
            parts = terms(model, {name: array[micro] for name, array in whole.items()}, whole)
            sum(parts).backward()
            sums[: len(parts)] += torch.tensor([part.item() for part in parts], dtype=torch.float64)
        losses.append(sums)
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item())
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        optimizer.step()
    return torch.stack(losses), torch.tensor(norms, dtype=torch.float64)


def record(name, model, config, batches, terms, rate, **optimizer):
    """Trains in float32, and again in float64 to report the effect of rounding."""
    tensors = weights(model, "start.")
    exact = copy.deepcopy(model).double()
    wide = {key: array.double() if array.is_floating_point() else array for key, array in batches.items()}
    losses, norms = train(model, batches, terms, rate, **optimizer)
    exact_losses, exact_norms = train(exact, wide, terms, rate, **optimizer)
    tensors |= weights(model, "end.")
    total = losses.sum(dim=1)
    tensors |= {"losses": total, "norms": norms}
    tensors["rates"] = torch.tensor([rate(step) for step in range(STEPS)], dtype=torch.float64)
    if name == "mlm":
        tensors |= {"losses_mlm": losses[:, 0], "losses_nsp": losses[:, 1]}
    for key, array in batches.items():
        key, array = ("pixels", array * 64) if key == "pixel_values" else (key, array)
        tensors[key] = array.to(torch.int8)
        assert torch.equal(tensors[key].to(array.dtype), array)
    write("trajectory_" + name, tensors, config)
    ends = dict(exact.named_parameters())
    apart = {n: (p - ends[n]).abs().max().item() / ends[n].abs().max().item() for n, p in model.named_parameters()}
    worst = sorted(apart, key=apart.get, reverse=True)
    print(f"  {total[0]:.3f} -> {total[-5:].mean():.3f}, {(norms > CLIP).sum()} of {STEPS} steps clipped; float64:")
    off, norm_off = (total - exact_losses.sum(dim=1)).abs().max(), (norms / exact_norms - 1).abs().max()
    print(f"  losses {off:.0e} and norms {norm_off:.0e} away; ends: {[f'{n} {apart[n]:.0e}' for n in worst[:6]]}")
    for curve in [*losses.T, norms]:
        print("  " + " ".join(f"{x:.2f}" for x in curve))


def two_segments(generator, rows, length, vocab):
    """Texts of two segments, each repeating one token except for noise: ids, segments, mask, the tokens to predict, and whether the
    second segment's token is of the other kind."""
    shape = (STEPS * MICRO * rows,)
    draw = lambda low, high: torch.randint(low, high, shape, generator=generator)[:, None]
    kinds, place = (vocab - 4) // 2, torch.arange(length)
    size, split, other = draw(12, length + 1), draw(5, 8), draw(0, 2)
    ids = 4 + torch.where(place < split, draw(0, kinds), draw(0, kinds) + kinds * other)
    noise = torch.randint(4, vocab, ids.shape, generator=generator)
    ids = torch.where(torch.rand(ids.shape, generator=generator) < 0.1, noise, ids)
    types = ((place > split) & (place < size)).long()
    ids[:, 0] = 1
    ids[(place == split) | (place == size - 1)] = 2
    mask = padding(size[:, 0].tolist(), length)
    ids[mask == 0] = 0
    chance = torch.tensor([0.35, 0.1]).repeat_interleave(rows).repeat(STEPS)[:, None]
    chosen = (ids >= 4) & (torch.rand(ids.shape, generator=generator) < chance)
    return ids, types, mask, chosen, other


def mlm():
    generator = seeded("trajectory_mlm")
    rows, length, vocab = 8, 16, 16
    config = hf.BertConfig(
        vocab_size=vocab,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=40,
        max_position_embeddings=length,
        type_vocab_size=2,
        layer_norm_eps=1e-12,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=0,
        attn_implementation="eager",
    )
    config.architectures = ["BertForPreTraining"]
    ids, types, mask, chosen, other = two_segments(generator, rows, length, vocab)
    labels = torch.where(chosen, ids, -100)
    hidden = chosen & (torch.rand(ids.shape, generator=generator) < 0.9)
    inputs = torch.where(hidden, 3, ids)
    batches = {"input_ids": inputs, "token_type_ids": types, "attention_mask": mask, "labels": labels}
    batches = {name: array.reshape(STEPS, MICRO, rows, length) for name, array in batches.items()}
    batches["next_sentence_label"] = other.reshape(STEPS, MICRO, rows)
    counts = (batches["labels"] != -100).sum(dim=(2, 3))
    assert (counts > 0).all() and (counts[:, 0] != counts[:, 1]).all()

    def terms(model, batch, step):
        out = model(batch["input_ids"], batch["attention_mask"], batch["token_type_ids"])
        tokens = summed(out.prediction_logits, batch["labels"]) / scored(step["labels"])
        order = summed(out.seq_relationship_logits, batch["next_sentence_label"])
        return [tokens, order / step["next_sentence_label"].numel()]

    model = fresh(hf.BertForPreTraining(config), generator)
    record("mlm", model, config, batches, terms, cosine, decay=DECAY, betas=(0.9, 0.98), eps=1e-6)


def translation():
    generator = seeded("trajectory_translation")
    rows, longest, vocab, width, warmup, factor = 8, 8, 24, 24, 20, 0.2
    pad, start, end, odd, even, first = 0, 1, 2, 3, 4, 5
    count = STEPS * MICRO * rows
    words = vocab - first
    # Micro-batches of short and of long sentences.
    low = torch.tensor([2, 5]).repeat_interleave(rows).repeat(STEPS)
    sizes = low + torch.randint(0, 4, (count,), generator=generator)
    source = torch.full((count, longest + 1), pad)
    labels = torch.full((count, longest + 2), -100)
    inputs = torch.full((count, longest + 2), pad)
    for row, size in enumerate(sizes.tolist()):
        text = torch.randint(0, words, (size,), generator=generator)
        source[row, :size], source[row, size] = first + text, end
        labels[row, 0], labels[row, size + 1] = odd if size % 2 else even, end
        labels[row, 1 : size + 1] = first + (text + 1) % words
        inputs[row, 0], inputs[row, 1 : size + 2] = start, labels[row, : size + 1]
    mask = (source != pad).long()
    batches = {"input_ids": source, "attention_mask": mask, "decoder_input_ids": inputs, "labels": labels}
    batches = {name: array.reshape(STEPS, MICRO, rows, -1) for name, array in batches.items()}
    counts = (batches["labels"] != -100).sum(dim=(2, 3))
    assert (counts[:, 0] != counts[:, 1]).all()

    def terms(model, batch, step):
        _, _, logits = model(batch["input_ids"], batch["attention_mask"], batch["decoder_input_ids"])
        return [summed(logits, batch["labels"], SMOOTHING) / scored(step["labels"])]

    config = {
        "architectures": ["Transformer"],
        "activation": "relu",
        "d_model": width,
        "dim_feedforward": 40,
        "label_smoothing": SMOOTHING,
        "layer_norm_eps": 1e-5,
        "nhead": 4,
        "norm_first": False,
        "num_decoder_layers": 2,
        "num_encoder_layers": 2,
        "vocab_size": vocab,
    }
    model = fresh(Transformer(norm_first=False, vocab=vocab, width=width), generator)
    rate = noam(width, warmup, factor)
    record("translation", model, config, batches, terms, rate, decay=0.0, betas=(0.9, 0.98), eps=1e-9)


def vit():
    generator = seeded("trajectory_vit")
    rows, size, classes = 5, 8, 4
    config = hf.ViTConfig(
        image_size=size,
        patch_size=2,
        num_channels=3,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=40,
        layer_norm_eps=1e-12,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=classes,
        attn_implementation="eager",
    )
    config.architectures = ["ViTForImageClassification"]
    shape = (STEPS, MICRO, rows)
    labels = torch.randint(0, classes, shape, generator=generator)
    y, x = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    stripes = torch.stack([x // 2 % 2, y // 2 % 2, (x + y) // 2 % 2, (x - y) // 2 % 2]) * 2.0 - 1.0
    colour = 40 * torch.rand((*shape, 3, 1, 1), generator=generator)
    noise = 25 * torch.randn((*shape, 3, size, size), generator=generator)
    pixels = (stripes[labels][..., None, :, :] * colour + noise).round().clamp(-128, 127)
    batches = {"pixel_values": pixels / 64, "labels": labels}

    def terms(model, batch, step):
        logits = model(batch["pixel_values"]).logits
        return [summed(logits, batch["labels"], SMOOTHING) / step["labels"].numel()]

    model = fresh(hf.ViTForImageClassification(config), generator)
    record("vit", model, config, batches, terms, cosine, decay=DECAY, betas=(0.9, 0.99), eps=1e-6)


def segments(count, parts, generator):
    """Lengths of `parts` segments of `count` tokens, cut at random."""
    cuts = 1 + torch.randperm(count - 1, generator=generator)[: parts - 1].sort().values
    edges = [0, *cuts.tolist(), count]
    return [end - begin for begin, end in zip(edges, edges[1:])]


def corrupted(text, share, mean, first, end, generator):
    """A text without its spans, and the spans; both sides with sentinels that count down from `first`."""
    noise = round(len(text) * share)
    parts = round(noise / mean)
    source, target, at = [], [], 0
    lengths = zip(segments(len(text) - noise, parts, generator), segments(noise, parts, generator))
    for number, (kept, taken) in enumerate(lengths):
        source += [*text[at : at + kept], first - number]
        target += [first - number, *text[at + kept : at + kept + taken]]
        at += kept + taken
    return source + [end], target + [end]


def spans():
    generator = seeded("trajectory_spans")
    rows, vocab, words, texts = 6, 32, 24, [24, 16]
    config = hf.T5Config(
        vocab_size=vocab,
        d_model=24,
        d_kv=6,
        d_ff=40,
        num_layers=2,
        num_decoder_layers=2,
        num_heads=4,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=16,
        dropout_rate=0.0,
        feed_forward_proj="relu",
        pad_token_id=0,
        decoder_start_token_id=0,
        eos_token_id=1,
        attn_implementation="eager",
    )
    config.architectures = ["T5ForConditionalGeneration"]
    source = torch.zeros(STEPS, MICRO, rows, 22, dtype=torch.long)
    labels = torch.full((STEPS, MICRO, rows, 10), -100)
    for step in range(STEPS):
        for micro, length in enumerate(texts):
            for row in range(rows):
                start, turn = torch.randint(0, words, (2,), generator=generator).tolist()
                text = 2 + (start + torch.arange(length) * (1 if turn % 2 else -1)) % words
                other = 2 + torch.randint(0, words, (length,), generator=generator)
                text = torch.where(torch.rand(length, generator=generator) < 0.1, other, text)
                read, written = corrupted(text.tolist(), 0.25, 2.0, vocab - 1, 1, generator)
                source[step, micro, row, : len(read)] = torch.tensor(read)
                labels[step, micro, row, : len(written)] = torch.tensor(written)
    inputs = labels.roll(1, dims=-1)
    inputs[..., 0] = 0
    inputs[inputs == -100] = 0
    batches = {
        "input_ids": source,
        "attention_mask": (source != 0).long(),
        "decoder_input_ids": inputs,
        "labels": labels,
    }
    counts = (labels != -100).sum(dim=(2, 3))
    assert (counts[:, 0] != counts[:, 1]).all()

    def terms(model, batch, step):
        logits = model(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            decoder_input_ids=batch["decoder_input_ids"],
            use_cache=False,
        ).logits
        return [summed(logits, batch["labels"]) / scored(step["labels"])]

    model = fresh(hf.T5ForConditionalGeneration(config), generator)
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            module.padding_idx = None
    # Hidden states are scaled down before the product with the embedding table.
    model.shared.weight.data.mul_(4.0)
    rate = lambda step: 0.3 * cosine(step)
    record("spans", model, config, batches, terms, rate, decay=0.0, betas=(0.9, 0.98), eps=1e-6)


MADE = {"mlm": mlm, "translation": translation, "vit": vit, "spans": spans}

if __name__ == "__main__":
    begin(torch, hf)
    for wanted in sys.argv[1:] or MADE:
        MADE[wanted]()
