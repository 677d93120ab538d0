"""Probabilities of the next token after transformers' logits processors: warpers.safetensors, for tests/it/warpers.rs.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.24.0 safetensors
    python make_warpers.py

`logits` [6, 40] belong to six rows; row 0 has two equal maxima, row 5 is nearly flat. `tokens` [6, 5] (I64) are the texts
that they follow; their last two tokens are also their first two. For each of WAYS,
`TEMPERATURE_TOPK_TOPP_MINP_PENALTY_NGRAM` [6, 40] has the distribution from which `generate` draws: after the repetition penalty, the
exclusion of n-grams that the text contains (`no_repeat_ngram_size`), the temperature, top-k, top-p and min-p, in the order in which
`GenerationMixin._get_logits_processor` puts them. 0 for top-k and n-grams, 1 for top-p and 0 for min-p mean that the rule is off.
"""

import torch
import transformers as hf
from shared import seeded, write

ROWS, VOCAB, READ = 6, 40, 5
WAYS = [
    (1.0, 0, 1.0, 0.05, 1.0, 0), (1.0, 0, 1.0, 0.3, 1.0, 0), (1.0, 0, 1.0, 1.0, 1.0, 0), (1.7, 0, 1.0, 0.1, 1.0, 0),
    (0.6, 0, 1.0, 0.1, 1.0, 0), (1.3, 12, 0.9, 0.08, 1.0, 0), (1.0, 5, 0.95, 0.02, 1.2, 0), (2.5, 0, 0.8, 0.25, 0.7, 0),
    (1.0, 3, 1.0, 0.5, 1.0, 0), (0.8, 7, 0.6, 0.0, 1.5, 0), (1.0, 0, 1.0, 0.0, 1.0, 1), (0.7, 0, 1.0, 0.0, 1.0, 2),
    (1.2, 9, 0.9, 0.01, 1.3, 3), (1.0, 0, 0.95, 0.0, 1.0, 4),
]  # fmt: skip


class Model(hf.GPT2LMHeadModel):
    """Returns the logits processors of settings, as `generate` builds them."""

    def __init__(self):
        super().__init__(hf.GPT2Config(vocab_size=VOCAB, n_positions=8, n_embd=4, n_layer=1, n_head=1, bos_token_id=0, eos_token_id=0))

    def processors(self, **settings):
        settings = hf.GenerationConfig(do_sample=True, num_beams=1, **settings)
        return self._get_logits_processor(generation_config=settings, input_ids_seq_length=READ, device="cpu")


if __name__ == "__main__":
    torch.set_num_threads(1)
    generator = seeded("warpers")
    logits = 2.0 * torch.randn(ROWS, VOCAB, generator=generator)
    logits[0, logits[0].topk(2).indices] = logits[0].max()
    logits[5] *= 0.1
    tokens = torch.randint(0, VOCAB, (ROWS, READ), generator=generator)
    tokens[:, 3:] = tokens[:, :2]
    model, found = Model(), {"logits": logits, "tokens": tokens}
    for temperature, top_k, top_p, min_p, penalty, ngram in WAYS:
        settings = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "repetition_penalty": penalty}
        settings["no_repeat_ngram_size"] = ngram
        processors = model.processors(**settings)
        chances = processors(tokens, logits.clone()).softmax(-1)
        found[f"{temperature}_{top_k}_{top_p}_{min_p}_{penalty}_{ngram}"] = chances
        names = [type(processor).__name__.removesuffix("LogitsWarper") for processor in processors]
        print(settings, names, (chances > 0).sum(1).tolist())
    write("warpers", found, {})
