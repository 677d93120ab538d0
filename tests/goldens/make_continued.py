"""Continuations that transformers' beam search finds with tiny random decoders: continued.safetensors, for
tests/it/continued.rs and tests/it/hf_folders/beams.rs.

Run by hand, on the CPU, in this folder, after make_hf_folders.py; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.24.0 safetensors
    python make_continued.py

The models are folders of tests/fixtures/hf. For each of them `FOLDER.prompts` [6, 5] (I8: two to five tokens, then -1
after the end of a prompt), `FOLDER.ends` [3] (I8: likely tokens, used as end tokens), and for each of WAYS
`FOLDER.BEAM_PENALTY_EARLY_ENDS_REPETITION_NGRAM` [6, beam, LIMIT] (I8: the new tokens with the end token, then -1) and
its `FOLDER.scores.…` [6, beam], best first: all texts that `num_beams = num_return_sequences = BEAM` returns with
`do_sample=False` and `max_new_tokens = LIMIT`. PENALTY is `length_penalty`, EARLY `early_stopping` (`full` for true,
`unlikely` for false, `settled` for "never"), ENDS the number of end tokens in `eos_token_id`, REPETITION the
`repetition_penalty`, NGRAM the `no_repeat_ngram_size`.

Prompts are those of a larger sample whose texts stay the same at every setting if noise of size NOISE is added to the
scores, so that they do not depend on rounding.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "benches"))

import hf_reference
import torch
import transformers as hf
from shared import seeded, write

# Keys and values of all heads, of fewer, of a window; latents; states of scans and of a delta rule.
FOLDERS = ["gpt2_1", "llama_2", "mistral_1", "gemma2_1", "deepseek_v3_1", "mamba_1", "qwen3_next_1"]
PROMPTS, DRAWN, LONGEST, LIMIT, VOCAB = 6, 40, 5, 7, 37
NOISE = 3e-4
EARLY = {"full": True, "unlikely": False, "settled": "never"}
WAYS = [(2, 1.0, "unlikely", 1, 1.0, 0), (3, 1.0, "unlikely", 1, 1.0, 0), (4, 1.0, "unlikely", 3, 1.0, 0)]
WAYS += [(4, 0.0, "settled", 1, 1.0, 0), (3, 2.0, "settled", 3, 1.0, 0), (4, 0.5, "full", 3, 1.0, 0), (3, -0.5, "unlikely", 1, 1.0, 0)]
WAYS += [(3, 1.0, "unlikely", 1, 1.3, 0), (3, 1.0, "settled", 3, 1.0, 1), (2, 0.0, "unlikely", 1, 1.2, 2)]


class Noise(hf.LogitsProcessor):
    """Simulates other rounding, many times larger."""

    def __init__(self, generator):
        self.generator = generator

    def __call__(self, ids, scores):
        return scores + NOISE * torch.randn(scores.shape, generator=self.generator)


def searched(model, prompt, ends, way, noise):
    beam, penalty, early, count, repetition, ngram = way
    out = model.generate(
        input_ids=torch.tensor([prompt]),
        num_beams=beam,
        num_return_sequences=beam,
        length_penalty=penalty,
        early_stopping=EARLY[early],
        repetition_penalty=repetition,
        no_repeat_ngram_size=ngram,
        eos_token_id=ends[:count],
        pad_token_id=ends[0],
        max_new_tokens=LIMIT,
        max_length=None,
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
        logits_processor=hf.LogitsProcessorList([Noise(noise)] if noise else []),
    )
    texts = []
    for text in out.sequences[:, len(prompt) :].tolist():
        last = next((place for place, token in enumerate(text) if token in ends[:count]), len(text) - 1)
        texts.append(text[: last + 1] + [-1] * (LIMIT - last - 1))
    return texts, out.sequences_scores.tolist()


def likely(model, prompts):
    """The most frequent tokens of greedy texts from their second token on; texts end at these."""
    counts = torch.zeros(VOCAB)
    for prompt in prompts:
        text = model.generate(torch.tensor([prompt]), max_new_tokens=LIMIT, max_length=None, do_sample=False, eos_token_id=None, pad_token_id=0)
        first = text[0, len(prompt)]
        for token in set(text[0, len(prompt) + 1 :].tolist()) - {int(first)}:
            counts[token] += 1
    return counts.topk(3).indices.tolist()


def continued(name):
    model = hf_reference.load(os.path.join(HERE, "..", "fixtures", "hf", name))
    generator = seeded("continued " + name)
    drawn = [torch.randint(0, VOCAB, (2 + number % (LONGEST - 1),), generator=generator).tolist() for number in range(DRAWN)]
    ends, kept = likely(model, drawn), []
    for prompt in drawn:
        found = [searched(model, prompt, ends, way, None) for way in WAYS]
        again = [searched(model, prompt, ends, way, generator)[0] for way in WAYS for _ in range(2)]
        if all(texts == again[2 * number] == again[2 * number + 1] for number, (texts, _) in enumerate(found)):
            kept.append((prompt, found))
        if len(kept) == PROMPTS:
            break
    assert len(kept) == PROMPTS, f"{name}: {len(kept)} prompts"
    prompts = [prompt + [-1] * (LONGEST - len(prompt)) for prompt, _ in kept]
    tensors = {"prompts": torch.tensor(prompts, dtype=torch.int8), "ends": torch.tensor(ends, dtype=torch.int8)}
    for number, way in enumerate(WAYS):
        key = "_".join(str(part) for part in way)
        tensors[key] = torch.tensor([found[number][0] for _, found in kept], dtype=torch.int8)
        tensors[f"scores.{key}"] = torch.tensor([found[number][1] for _, found in kept])
        lengths = (tensors[key] >= 0).sum(2)
        cut = (tensors[key][..., -1] >= 0) & ~torch.isin(tensors[key][..., -1], torch.tensor(ends[: way[3]]))
        print(f"{name:14} {key:26} lengths {lengths.min()} to {lengths.max()}, {lengths.float().mean():.1f} on average, {int(cut.sum())} of {cut.numel()} cut")
    return {f"{name}.{key}": value for key, value in tensors.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    tensors = {}
    with torch.no_grad():
        for name in FOLDERS:
            tensors |= continued(name)
    write("continued", tensors, {"limit": LIMIT})
