"""Oracles of replaced-token detection: HF's ElectraForMaskedLM and ElectraForPreTraining with one module of embeddings.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.23.0 safetensors
    python make_replaced_token.py

Conventions (names, padding, configuration) are those of shared.py. Attention is eager, dropout 0, all in float32. Names
begin with `discriminator.` or `generator.`; the embeddings are the discriminator's, and the generator's LM head is
tied to their table. The generator is half as wide as the discriminator, with half the heads. The samples are drawn by
formwork's own draws: `uniform` is its counter-based generator (Philox 4 x 32 with 10 rounds; seed 0, purpose 11,
coordinates (step, row of the step, 0)), one draw for each scored position of a row, and the sample is the first token whose
cumulative probability exceeds the draw.

replaced_token.safetensors and replaced_token_wide.safetensors (whose embeddings are as wide as the discriminator): one step.
`input_ids`, `token_type_ids`, `attention_mask`, `labels` [3, 14] as in bert.safetensors, all scored tokens masked;
`replaced_ids` and `replaced` [3, 14], the discriminator's input and whether each token differs from the text's; `logits` [3, 14]
are the discriminator's. `loss_mlm` is the mean over the scored tokens, `loss_rtd` the mean over all tokens, `loss` =
loss_mlm + 50 * loss_rtd. `flops` F64 [3] are PyTorch's counts for the discriminator with its head and for the
generator's network on a text of 16 tokens, and for the generator's head at one position.

trajectory_replaced_token.safetensors: 50 steps of the same (16 words, texts as in trajectory_mlm.safetensors), recorded and
trained as make_trajectories.py says of mlm; `losses` = `losses_mlm` + 50 * `losses_rtd`, and `replaced` F64 [50], the number of
replaced tokens in each step.
"""

import copy

import torch
import transformers as hf
from make_encoders import BATCH, LENGTH, VOCAB
from make_trajectories import DECAY, MICRO, STEPS, cosine, fresh, scored, summed, train, two_segments
from shared import at_tokens, begin, gradients, padding, redraw, seeded, weights, write
from torch.utils.flop_counter import FlopCounterMode

WEIGHT = 50.0
WORD = (1 << 64) - 1


def mix(z):
    z = (z + 0x9E3779B97F4A7C15) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


# Known answers of Random123.
assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def uniform(step, row, count):
    """The first draws of a row of a step."""
    key, at = mix(mix(mix(0) ^ 11) ^ step), mix(mix(row) ^ 0)
    halves = lambda word: [word & 0xFFFFFFFF, word >> 32]
    words = [w for block in range(-(-count // 4)) for w in philox(halves(block) + halves(at), halves(key))]
    return [(word >> 8) / 16777216 for word in words[:count]]


class Both(torch.nn.Module):
    def __init__(self, vocab, length, embedding):
        super().__init__()
        common = dict(
            vocab_size=vocab,
            embedding_size=embedding,
            num_hidden_layers=2,
            max_position_embeddings=length,
            type_vocab_size=2,
            layer_norm_eps=1e-12,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            pad_token_id=0,
            attn_implementation="eager",
        )
        self.config = hf.ElectraConfig(hidden_size=24, num_attention_heads=4, intermediate_size=40, **common)
        narrow = hf.ElectraConfig(hidden_size=12, num_attention_heads=2, intermediate_size=20, **common)
        self.discriminator = hf.ElectraForPreTraining(self.config)
        self.generator = hf.ElectraForMaskedLM(narrow)
        shared = self.discriminator.electra.embeddings
        # A sample may be the padding token, whose embedding row learns like any other.
        shared.word_embeddings.padding_idx = None
        self.generator.electra.embeddings = shared
        self.generator.generator_lm_head.weight = shared.word_embeddings.weight

    def forward(self, batch, step, first_row):
        """Sums of both losses, the discriminator's input, which of its tokens are replaced, and its logits."""
        inputs, mask, types, labels = (
            batch[name] for name in ("input_ids", "attention_mask", "token_type_ids", "labels")
        )
        scores = self.generator(inputs, mask, types).logits
        replaced = inputs.clone()
        with torch.no_grad():
            below = scores.softmax(-1).cumsum(-1)
            for row, targets in enumerate(labels):
                places = (targets != -100).nonzero().flatten().tolist()
                for place, draw in zip(places, uniform(step, first_row + row, len(places))):
                    lot = torch.tensor(draw, dtype=below.dtype) * below[row, place, -1]
                    replaced[row, place] = min(int((below[row, place] <= lot).sum()), scores.shape[-1] - 1)
                    self.margin = min(self.margin, (below[row, place] - lot).abs().min().item())
        verdicts = ((replaced != labels) & (labels != -100)).long()
        logits = self.discriminator(replaced, mask, types).logits
        told = torch.nn.functional.binary_cross_entropy_with_logits(
            logits[mask == 1], verdicts[mask == 1].to(logits.dtype), reduction="sum"
        )
        return summed(scores, labels), told, replaced, verdicts, logits

    margin = 1.0


def flops(model):
    ids = torch.full((1, 16), 5)

    def count(work):
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            work()
        return counter.get_total_flops()

    generator = model.generator
    body = count(lambda: generator.electra(ids))
    states = torch.zeros(1, 1, generator.config.hidden_size)
    head = count(lambda: generator.generator_lm_head(generator.generator_predictions(states)))
    return torch.tensor([count(lambda: model.discriminator(ids)), body, head], dtype=torch.float64)


def one_step(name, embedding):
    generator = seeded(name)
    model = Both(VOCAB, 20, embedding).eval()
    redraw(model, generator)
    lengths = [14, 11, 8]
    mask = padding(lengths, LENGTH)
    ids = torch.randint(4, VOCAB, (BATCH, LENGTH), generator=generator)
    types, labels = torch.zeros_like(ids), torch.full_like(ids, -100)
    for row, (length, first) in enumerate(zip(lengths, [6, 3, 5])):
        ids[row, 0], ids[row, first], ids[row, length - 1], ids[row, length:] = 1, 2, 2, 0
        types[row, first + 1 : length] = 1
        places = (ids[row] >= 4).nonzero().flatten()
        places = places[torch.randperm(len(places), generator=generator)[: 3 + row]]
        labels[row, places] = ids[row, places]
    batch = {
        "input_ids": torch.where(labels == -100, ids, 3),
        "token_type_ids": types,
        "attention_mask": mask,
        "labels": labels,
    }
    # One sample of each row is the text's own token.
    for row, replaced in enumerate(model(batch, 0, 0)[2]):
        place = (labels[row] != -100).nonzero()[1, 0]
        labels[row, place] = replaced[place]
    guessed, told, replaced, verdicts, logits = model(batch, 0, 0)
    loss_mlm, loss_rtd = guessed / scored(labels), told / mask.sum()
    loss = loss_mlm + WEIGHT * loss_rtd
    loss.backward()
    assert model.margin > 1e-4 and 0 < verdicts.sum() < scored(labels), (model.margin, verdicts.sum())
    tensors = batch | {
        "replaced_ids": replaced,
        "replaced": verdicts,
        "logits": at_tokens(logits[..., None], mask)[..., 0],
        "loss_mlm": loss_mlm,
        "loss_rtd": loss_rtd,
        "loss": loss,
        "flops": flops(model),
    }
    write(name, tensors | weights(model) | gradients(model), model.config)
    print(f"  {verdicts.sum()} of {scored(labels)} samples differ, margin {model.margin:.1e}")


def texts(generator, rows, length, vocab):
    """The texts of trajectory_mlm.safetensors, with as many masks, and no random token in place of one."""
    ids, types, mask, chosen, _ = two_segments(generator, rows, length, vocab)
    labels = torch.where(chosen, ids, -100)
    batches = {
        "input_ids": torch.where(chosen, 3, ids),
        "token_type_ids": types,
        "attention_mask": mask,
        "labels": labels,
    }
    batches = {name: array.reshape(STEPS, MICRO, rows, length) for name, array in batches.items()}
    counts = (batches["labels"] != -100).sum(dim=(2, 3))
    assert (counts > 0).all() and (counts[:, 0] != counts[:, 1]).all()
    return batches


def trajectory(attempt):
    generator = seeded(f"trajectory_replaced_token {attempt}")
    rows, length, vocab = 8, 16, 16
    batches = texts(generator, rows, length, vocab)
    # The number of a batch, which determines its draws.
    number = torch.arange(STEPS * MICRO).reshape(STEPS, MICRO)
    model = fresh(Both(vocab, length, 16), generator)
    seen = []

    def terms(model, batch, step):
        at = int(batch["number"])
        guessed, told, replaced, verdicts, _ = model(batch, at // MICRO, at % MICRO * rows)
        seen.append((replaced, verdicts))
        return [guessed / scored(step["labels"]), WEIGHT * told / step["attention_mask"].sum()]

    tensors = weights(model, "start.")
    exact = copy.deepcopy(model).double()
    given = batches | {"number": number}
    optimizer = dict(decay=DECAY, betas=(0.9, 0.98), eps=1e-6)
    losses, norms = train(model, given, terms, cosine, **optimizer)
    ours, seen = seen, []
    exact_losses, exact_norms = train(exact, given, terms, cosine, **optimizer)
    same = all(torch.equal(a[0], b[0]) for a, b in zip(ours, seen))
    print(f"  attempt {attempt}: margin {model.margin:.1e}, samples in float64 {'equal' if same else 'differ'}")
    if not same or model.margin < 2e-5:
        return False
    tensors |= weights(model, "end.")
    total = losses.sum(dim=1)
    counts = torch.stack([verdicts.sum() for _, verdicts in ours]).reshape(STEPS, MICRO).sum(dim=1)
    tensors |= {
        "losses": total,
        "losses_mlm": losses[:, 0],
        "losses_rtd": losses[:, 1] / WEIGHT,
        "replaced": counts.double(),
        "norms": norms,
        "rates": torch.tensor([cosine(step) for step in range(STEPS)], dtype=torch.float64),
    }
    tensors |= {name: array.to(torch.int8) for name, array in batches.items()}
    write("trajectory_replaced_token", tensors, model.config)
    ends = dict(exact.named_parameters())
    apart = {n: (p - ends[n]).abs().max().item() / ends[n].abs().max().item() for n, p in model.named_parameters()}
    worst = sorted(apart, key=apart.get, reverse=True)
    off, norm_off = (total - exact_losses.sum(dim=1)).abs().max(), (norms / exact_norms - 1).abs().max()
    print(f"  {total[0]:.3f} -> {total[-5:].mean():.3f}; float64: losses {off:.0e} and norms {norm_off:.0e} away")
    print(f"  ends: {[f'{n} {apart[n]:.0e}' for n in worst[:6]]}")
    for curve in [losses[:, 0], losses[:, 1] / WEIGHT, counts, norms]:
        print("  " + " ".join(f"{x:.2f}" for x in curve))
    return True


if __name__ == "__main__":
    begin(torch)
    if hf.__version__ != "5.23.0":
        print(f"warning: the files in the repository were made with transformers 5.23.0, not {hf.__version__}")
    one_step("replaced_token", 16)
    one_step("replaced_token_wide", 24)
    next(attempt for attempt in range(100) if trajectory(attempt))
