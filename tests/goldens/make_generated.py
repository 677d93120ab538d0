"""Texts that Hugging Face's `generate` writes with tiny random encoder-decoders: generated.safetensors, for
tests/it/beam/folders.rs.

Run by hand, on the CPU, in this folder, after make_hf_folders.py; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.24.0 safetensors
    python make_generated.py

The models are folders of tests/fixtures/hf. For each of them `FOLDER.input_ids`, `FOLDER.attention_mask` [16, 9], and for a
beam of 1 (greedy) and of 4 `FOLDER.ids.BEAM` [16, beam, LIMIT] (I8: tokens with their end token, then -1), for a beam of 4 also
`FOLDER.scores` [16, beam] (log-probability over length). At the last position, only the end token is
allowed; the padding id is never written. For each of WAYS `FOLDER.BEAM_EARLY_FIRST_LAST_NGRAM` [16, beam, LIMIT]
has the texts under transformers' own rule at the limit, where EARLY is `early_stopping` (`full` for true, `unlikely` for false,
`settled` for "never"), FIRST the `forced_bos_token_id` (-1 for none), LAST says whether the end token is the
`forced_eos_token_id`, and NGRAM is the `no_repeat_ngram_size`; `FOLDER.scores.BEAM_EARLY_FIRST_LAST_NGRAM` has the scores of beams. `FOLDER.ids` has the begin, end and padding
ids, `FOLDER.bias` [1] the constant that is added to the end token's logit.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "benches"))

import hf_reference
import torch
import transformers as hf
from shared import padding, seeded, write

# Added to each model's end token before every softmax, so that texts end at different lengths.
FOLDERS = {"t5_1": 0.3, "t5_2": 2.5, "mt5_1": 2.5, "mt5_2": 1.0, "bart_1": 4.0, "bart_2": 2.5}
SOURCES, LONGEST, LIMIT, VOCAB = 16, 9, 10, 37
EARLY = {"full": True, "unlikely": False, "settled": "never"}
WAYS = [(1, "unlikely", -1, 0, 0), (1, "unlikely", 5, 0, 0), (1, "unlikely", -1, 1, 0)]
WAYS += [(4, early, -1, 0, 0) for early in EARLY] + [(4, "full", 5, 0, 0), (4, "unlikely", 7, 1, 0), (4, "settled", 5, 1, 0)]
WAYS += [(1, "unlikely", -1, 0, 1), (1, "unlikely", 5, 1, 2), (4, "settled", -1, 0, 2), (4, "unlikely", 5, 1, 2), (4, "full", -1, 0, 3)]


class Ends(hf.LogitsProcessor):
    """Adds `bias` to the end token before the softmax, excludes padding, and ends texts that are one token from the limit."""

    def __init__(self, end, pad, bias, at_limit=True):
        self.end, self.pad, self.bias, self.at_limit = end, pad, bias, at_limit

    def __call__(self, ids, scores):
        # The input is logits in greedy search and log-probabilities in beam search: the softmax of both is the same.
        scores = scores.clone()
        scores[:, self.end] += self.bias
        scores = scores.log_softmax(-1)
        if self.pad != self.end:
            scores[:, self.pad] = -torch.inf
        if self.at_limit and ids.shape[1] >= LIMIT:
            ended = torch.full_like(scores, -torch.inf)
            ended[:, self.end] = scores[:, self.end]
            return ended
        return scores


def generated(name, bias):
    model = hf_reference.load(os.path.join(HERE, "..", "fixtures", "hf", name))
    config, settings = model.config, model.generation_config
    start, end, pad = config.decoder_start_token_id, config.eos_token_id, config.pad_token_id
    settings.forced_eos_token_id = settings.forced_bos_token_id = None
    generator = seeded(name)
    ids = torch.randint(4, VOCAB, (SOURCES, LONGEST), generator=generator)
    mask = padding(torch.randint(2, LONGEST + 1, (SOURCES,), generator=generator).tolist(), LONGEST)
    ids = torch.where(mask == 1, ids, pad)
    found = {"ids": torch.tensor([start, end, pad]), "input_ids": ids, "attention_mask": mask, "bias": torch.tensor([bias])}
    for beam in (1, 4):
        out = model.generate(
            input_ids=ids,
            attention_mask=mask,
            num_beams=beam,
            num_return_sequences=beam,
            early_stopping="never" if beam > 1 else False,
            length_penalty=1.0,
            max_new_tokens=LIMIT,
            max_length=None,
            do_sample=False,
            # The cache of T5's class has as many layers as its encoder (5.23).
            use_cache=False,
            return_dict_in_generate=True,
            output_scores=True,
            logits_processor=hf.LogitsProcessorList([Ends(end, pad, bias)]),
        )
        texts = torch.full((SOURCES * beam, LIMIT), -1, dtype=torch.int8)
        for row, text in enumerate(out.sequences[:, 1:].tolist()):
            text = text[: text.index(end) + 1]
            texts[row, : len(text)] = torch.tensor(text, dtype=torch.int8)
        found[f"ids.{beam}"] = texts.reshape(SOURCES, beam, LIMIT)
        if beam > 1:
            found["scores"] = out.sequences_scores.reshape(SOURCES, beam)
        lengths = (texts >= 0).sum(1).float()
        print(f"{name:8} beam {beam}: lengths {lengths.min():.0f} to {lengths.max():.0f}, {lengths.mean():.1f} on average")
    cut, repeated = 0, 0
    for beam, early, first, last, ngram in WAYS:
        # After Ends, whose softmax would otherwise share the probability of the excluded tokens among the others.
        processors = [Ends(end, pad, bias, at_limit=False)] + ([hf.NoRepeatNGramLogitsProcessor(ngram)] if ngram else [])
        # One row at a time, since some searches end before others.
        texts, scores = torch.full((SOURCES, beam, LIMIT), -1, dtype=torch.int8), torch.zeros(SOURCES, beam)
        for row in range(SOURCES):
            out = model.generate(
                input_ids=ids[row : row + 1, : int(mask[row].sum())],
                num_beams=beam,
                num_return_sequences=beam,
                early_stopping=EARLY[early],
                length_penalty=1.0,
                max_new_tokens=LIMIT,
                max_length=None,
                do_sample=False,
                forced_bos_token_id=first if first >= 0 else None,
                forced_eos_token_id=end if last else None,
                use_cache=False,
                return_dict_in_generate=True,
                output_scores=True,
                logits_processor=hf.LogitsProcessorList(processors),
            )
            for place, text in enumerate(out.sequences[:, 1:].tolist()):
                text = text[: text.index(end) + 1] if end in text else text
                cut += end not in text
                repeated += ngram == 0 and len(set(zip(text, text[1:]))) < len(text) - 1
                assert len(text) == LIMIT or text[-1] == end
                texts[row, place, : len(text)] = torch.tensor(text, dtype=torch.int8)
            if beam > 1:
                scores[row] = out.sequences_scores
        way = f"{beam}_{early}_{first}_{last}_{ngram}"
        found[way] = texts
        if beam > 1:
            found[f"scores.{way}"] = scores
    differ = int((found["4_full_-1_0_0"] != found["4_settled_-1_0_0"]).any(2).any(1).sum())
    print(f"{name:8} {cut} texts have no end; {differ} sources of {SOURCES} have other texts when a search is over early")
    print(f"{name:8} {repeated} texts repeat a pair of tokens unless that is excluded")
    assert cut and repeated
    return {f"{name}.{key}": value for key, value in found.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    tensors = {}
    with torch.no_grad():
        for name, bias in FOLDERS.items():
            tensors |= generated(name, bias)
    write("generated", tensors, {"limit": LIMIT})
