"""Oracle of beam search: Hugging Face's, with `early_stopping="never"`, on the tiny random Marian model of
marian.safetensors (make_encoder_decoder.py).

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==4.57.1 safetensors
    python make_beam.py

beam.safetensors has sources `input_ids`, `attention_mask` [inputs, 11] and, for every set of settings
`<beam>_<length penalty>_<limit>`, `ids.<set>` [inputs, beam, limit] (I8: the tokens with their end token, then -1) and
`scores.<set>` [inputs, beam] (log-probability over length to the power of the penalty), best first: all texts that
`num_beams = num_return_sequences = beam` returns. `final_logits_bias` is the model's plus END_BIAS for the end token,
so that texts end after at least three tokens (MIN_NEW); token 46, the padding, is never written.

A text that reaches the limit (`max_new_tokens`) is cut off by Hugging Face; here, as in fairseq, the last token that the
limit allows is the end token, with its own score (the class EndAtLimit). Limit 18 is hardly ever reached: the sources are those
of a larger sample for which Hugging Face gives the same ids and scores without EndAtLimit, at every setting. Limit 5
is reached by most texts.
"""

import json
import os

import torch
import transformers as hf
from safetensors import safe_open
from shared import HERE, begin, padding, seeded, write

MIN_NEW = 3
INPUTS, DRAWN, LONGEST, PAD, END = 128, 400, 11, 46, 0
END_BIAS = 3.0
SETTINGS = [(beam, penalty, 18) for beam in [2, 3, 4, 5, 8] for penalty in [0.0, 0.5, 1.0]]
SETTINGS += [(beam, penalty, 5) for beam in [2, 4] for penalty in [0.0, 1.0]]


class EndAtLimit(hf.LogitsProcessor):
    """Allows only the end token if one more token is left."""

    def __init__(self, limit):
        self.limit = limit

    def __call__(self, ids, scores):
        if ids.shape[1] < self.limit:
            return scores
        ended = torch.full_like(scores, -torch.inf)
        ended[:, END] = scores[:, END]
        return ended


def model():
    with safe_open(os.path.join(HERE, "marian.safetensors"), "pt") as file:
        config = hf.MarianConfig(**json.loads(file.metadata()["config"]))
        weights = {name.removeprefix("weight."): file.get_tensor(name) for name in file.keys() if name.startswith("weight.")}
    model = hf.MarianMTModel(config).eval()
    bias = weights.pop("final_logits_bias")
    bias[0, END] += END_BIAS
    missing, unknown = model.load_state_dict(weights, strict=False)
    assert not unknown and all(any(s in name for s in ["embed", "lm_head", "logits_bias"]) for name in missing), missing
    model.tie_weights()
    model.final_logits_bias.copy_(bias)
    model.generation_config.forced_eos_token_id = None
    return model, bias


def sources(generator):
    lengths = torch.randint(3, LONGEST + 1, (DRAWN,), generator=generator).tolist()
    ids = torch.randint(1, PAD, (DRAWN, LONGEST), generator=generator)
    for row, length in enumerate(lengths):
        ids[row, length - 1], ids[row, length:] = END, PAD
    return ids, padding(lengths, LONGEST)


def found(model, ids, mask, beam, penalty, limit, processors):
    out = model.generate(
        input_ids=ids,
        attention_mask=mask,
        num_beams=beam,
        num_return_sequences=beam,
        length_penalty=penalty,
        early_stopping="never",
        max_new_tokens=limit,
        min_new_tokens=MIN_NEW,
        max_length=None,
        bad_words_ids=[[PAD]],
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
        logits_processor=hf.LogitsProcessorList(processors),
    )
    texts = torch.full((len(ids) * beam, limit), -1, dtype=torch.int8)
    new = out.sequences[:, 1:]
    for row, text in enumerate(new.tolist()):
        text = text[: text.index(END) + 1] if END in text else [t for t in text if t != PAD]
        texts[row, : len(text)] = torch.tensor(text, dtype=torch.int8)
    return texts.reshape(len(ids), beam, limit), out.sequences_scores.reshape(len(ids), beam)


if __name__ == "__main__":
    begin(torch, hf)
    with torch.no_grad():
        model, bias = model()
        ids, mask = sources(seeded("beam"))
        results, same = {}, torch.ones(DRAWN, dtype=torch.bool)
        for beam, penalty, limit in SETTINGS:
            ended = found(model, ids, mask, beam, penalty, limit, [EndAtLimit(limit)])
            results[f"{beam}_{penalty:.1f}_{limit}"] = ended
            if limit == 18:
                cut = found(model, ids, mask, beam, penalty, limit, [])
                same &= (ended[0] == cut[0]).all(2).all(1) & ((ended[1] - cut[1]).abs() < 1e-5).all(1)
        rows = same.nonzero()[:INPUTS, 0]
        print(f"{int(same.sum())} of {DRAWN} sources do not reach the limit")
        assert len(rows) == INPUTS
        tensors = {"input_ids": ids[rows].to(torch.int8), "attention_mask": mask[rows].to(torch.int8), "final_logits_bias": bias}
        for name, (texts, scores) in results.items():
            assert (texts[rows, 0] == END).any(1).all()
            tensors |= {f"ids.{name}": texts[rows], f"scores.{name}": scores[rows]}
            print(f"{name:10} mean length {(texts[rows, 0] >= 0).sum(1).float().mean():.1f}")
        write("beam", tensors, model.config)
