"""Oracles of distillation: its losses with their gradients, and 50 steps of a tiny DistilBERT under a tiny BERT.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.23.0 safetensors
    python make_distillation.py

The losses are DistilBERT's (Sanh et al. 2019) over the masked positions, written here from their definition:

    soft    T^2 * KL(softmax(teacher / T) || softmax(student / T))          torch's kl_div
    hard    cross-entropy of the masked tokens
    cosine  1 - cos(student's last hidden state, the teacher's)             torch's cosine_embedding_loss

distillation_losses.safetensors: logits `student`, `teacher` [6, 9], hidden states `hidden`, `taught` [2, 5, 7], `counted`
[2, 5]; for T in 1, 2, 4 `soft_T` [1] and `soft_T.grad`, `label` (DeiT's cross-entropy against the teacher's most likely
class) and `label.grad`, `cosine` over the counted states and `cosine.grad`. All are sums.

trajectory_distillation.safetensors: `teacher.<weight>` of `BertForMaskedLM` (2 layers), `start.<weight>` and
`end.<weight>` of `DistilBertForMaskedLM` (1 layer), `input_ids`, `attention_mask`, `labels` as I8 [50, 2, 8, 14], and of
each step, as F64 [50], `losses_soft`, `losses_hard`, `losses_cosine`, `losses` (5 soft + 2 hard + 1 cosine), `norms`,
`rates`. T = 2. A step is two micro-batches; sums over positions are divided by the number of the whole step: masked
positions, and for the cosine all tokens. Optimizer, schedule and clipping are those of mlm in make_trajectories.py.
"""

import copy

import torch
import transformers as hf
from make_trajectories import CLIP, DECAY, MICRO, STEPS, cosine, fresh, scored, summed, train
from shared import redraw, seeded, weights, write
from torch.nn import functional

T, SOFT, HARD, COSINE = 2.0, 5.0, 2.0, 1.0
SIZES = {"vocab_size": 16, "max_position_embeddings": 16}


def soft(student, teacher, temperature):
    logs = functional.log_softmax(student / temperature, dim=-1)
    wanted = functional.softmax(teacher / temperature, dim=-1)
    return functional.kl_div(logs, wanted, reduction="sum") * temperature**2


def apart(student, teacher):
    same = student.new_ones(student.shape[0])
    return functional.cosine_embedding_loss(student, teacher, same, reduction="sum")


def losses():
    generator = seeded("distillation_losses")
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    tensors = {"student": 2 * draw(6, 9), "teacher": 3 * draw(6, 9), "hidden": draw(2, 5, 7), "taught": draw(2, 5, 7)}
    counted = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])

    def of(name, start, loss):
        x = tensors[start].clone().requires_grad_()
        value = loss(x)
        value.backward()
        tensors[name], tensors[name + ".grad"] = value.reshape(1), x.grad

    for temperature in (1, 2, 4):
        of(f"soft_{temperature}", "student", lambda x: soft(x, tensors["teacher"], float(temperature)))
    best = tensors["teacher"].argmax(dim=1)
    of("label", "student", lambda x: functional.cross_entropy(x, best, reduction="sum"))
    flags = counted.bool()
    of("cosine", "hidden", lambda x: apart(x[flags], tensors["taught"][flags]))
    tensors["counted"] = counted
    write("distillation_losses", tensors, {})


def texts(generator):
    rows, length, first, words = 8, 14, 4, 12
    count = STEPS * MICRO * rows
    sizes = torch.randint(6, length - 1, (count,), generator=generator)
    ids, mask = torch.zeros(count, length, dtype=torch.long), torch.zeros(count, length, dtype=torch.long)
    for row, size in enumerate(sizes.tolist()):
        start = torch.randint(0, words, (1,), generator=generator)
        # Consecutive words, with an occasional step of two.
        steps = 1 + (torch.rand(size, generator=generator) < 0.2).long()
        ids[row, 0], ids[row, size + 1] = 1, 2
        ids[row, 1 : size + 1] = first + (start + steps.cumsum(0)) % words
        mask[row, : size + 2] = 1
    # The first micro-batch scores more than the second.
    chance = torch.tensor([0.4, 0.15]).repeat_interleave(rows).repeat(STEPS)[:, None]
    chosen = (ids >= first) & (torch.rand(ids.shape, generator=generator) < chance)
    labels = torch.where(chosen, ids, -100)
    batches = {"input_ids": torch.where(chosen, 3, ids), "attention_mask": mask, "labels": labels}
    batches = {name: array.reshape(STEPS, MICRO, rows, length) for name, array in batches.items()}
    counts = (batches["labels"] != -100).sum(dim=(2, 3))
    assert (counts > 0).all() and (counts[:, 0] != counts[:, 1]).all()
    return batches


def trajectory():
    generator = seeded("trajectory_distillation")
    wide = hf.BertConfig(
        **SIZES,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=40,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation="eager",
    )
    config = hf.DistilBertConfig(
        **SIZES, dim=24, n_layers=1, n_heads=4, hidden_dim=40, dropout=0.0, attention_dropout=0.0, attn_implementation="eager"
    )
    config.architectures = ["DistilBertForMaskedLM"]
    teacher = hf.BertForMaskedLM(wide).eval()
    redraw(teacher, generator)
    student = fresh(hf.DistilBertForMaskedLM(config), generator)
    batches = texts(generator)

    def terms_of(teacher):
        def terms(model, batch, step):
            mask, labels = batch["attention_mask"], batch["labels"]
            read = {"input_ids": batch["input_ids"], "attention_mask": mask, "output_hidden_states": True}
            with torch.no_grad():
                theirs = teacher(**read)
            ours = model(**read)
            chosen, tokens = labels != -100, mask.bool()
            count = scored(step["labels"])
            states = [out.hidden_states[-1][tokens] for out in (ours, theirs)]
            return [
                SOFT * soft(ours.logits[chosen], theirs.logits[chosen], T) / count,
                HARD * summed(ours.logits, labels) / count,
                COSINE * apart(*states) / step["attention_mask"].sum().item(),
            ]

        return terms

    tensors = weights(student, "start.") | weights(teacher, "teacher.")
    exact, recipe = copy.deepcopy(student).double(), {"decay": DECAY, "betas": (0.9, 0.98), "eps": 1e-6}
    curves, norms = train(student, batches, terms_of(teacher), cosine, **recipe)
    wide_curves, wide_norms = train(exact, batches, terms_of(copy.deepcopy(teacher).double()), cosine, **recipe)
    tensors |= weights(student, "end.")
    for at, (name, weight) in enumerate({"soft": SOFT, "hard": HARD, "cosine": COSINE}.items()):
        tensors["losses_" + name] = curves[:, at] / weight
    tensors |= {"losses": curves.sum(dim=1), "norms": norms}
    tensors["rates"] = torch.tensor([cosine(step) for step in range(STEPS)], dtype=torch.float64)
    tensors |= {name: array.to(torch.int8) for name, array in batches.items()}
    write("trajectory_distillation", tensors, config)
    off, norm_off = (curves - wide_curves).abs().max(), (norms / wide_norms - 1).abs().max()
    print(f"  {tensors['losses'][0]:.3f} -> {tensors['losses'][-5:].mean():.3f}, {(norms > CLIP).sum()} clipped")
    print(f"  float64: losses {off:.0e}, norms {norm_off:.0e} away")


if __name__ == "__main__":
    torch.set_num_threads(1)
    losses()
    trajectory()
