#!/usr/bin/env python3
"""Ids and texts of the SentencePiece library for small models, for tests/it/hf_tokenizers.rs. Run by hand.

Versions: Python 3.11 or later, sentencepiece 0.2.3, protobuf.

    make_sentencepiece.py DATA [FOLDER]

DATA holds `wikitext2/`. Written are, into this folder or FOLDER:

* sentencepiece_alone/: models without other files, trained here, small enough to be kept.
* sentencepiece_alone.json: for each of them, and for sentencepiece/llama, the ids of some lines, and the text of these ids
  unless one of them stands for unknown text, which the library writes as ⁇.
"""
import gzip
import json
import pathlib
import shutil
import sys
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as spm

DATA = pathlib.Path(sys.argv[1])
HERE = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(__file__).parent
TEXT = gzip.open(DATA / "wikitext2/train.txt.gz", "rt", encoding="utf-8", newline="\n").read()
# The symbol for unknown text would depend on the model.
LINES = [line for line in TEXT.replace("<unk>", "word").split("\n")[:3000] if line.strip()]
HARD = [
    "", " ", "   ", "a", " a", "a ", "Hello, World!", "  two  blanks  ", "one   three    four", "tab\there", "line\nbreak\n\nand more\n",
    "naïve café Ünïcödé", "ﬁne ﬂuff", "non\u00a0break", "wait… what…", "e\u0301 and é", "日本語 の テキスト", "Привет, мир", "😀 and 😀",
    "x" * 70, "ab " * 20, "▁ underline ▁▁", "▁", "a▁b", "3.14159 1,000,000 10% $5", "foo", "foo bar", "a foo b", "xfoofoox", "a foo", "foo  foo",
    "a<sep>b <sep> c", "<<user>> here and <<user>>there", "The Man the man THE MAN", "finfish ﬁnﬁsh",
]
# A normalisation map of few rules is small.
RULES = "FB01\t66 69\nA0\t20\n9\t20\nA\t20\n2026\t2E 2E 2E\n65 301\tE9\n"
MODELS = {
    "bpe": dict(model_type="bpe", vocab_size=400),
    "bpe_symbols": dict(model_type="bpe", vocab_size=600, byte_fallback=True,
                        user_defined_symbols=["<sep>", "foo", "\n", "ﬁ", "Man", "a b"], control_symbols=["<ctl>"], pad_id=3),
    "bpe_bytes": dict(model_type="bpe", vocab_size=600, byte_fallback=True, add_dummy_prefix=False, remove_extra_whitespaces=False,
                      allow_whitespace_only_pieces=True, user_defined_symbols=["▁▁", "\n"], rules=""),
    "bpe_across": dict(model_type="bpe", vocab_size=450, split_by_whitespace=False, rules=""),
    "unigram_bytes": dict(model_type="unigram", vocab_size=500, byte_fallback=True),
    "unigram_symbols": dict(model_type="unigram", vocab_size=350, user_defined_symbols=["<sep>", "foo", "\n", "ﬁ"]),
    "suffix": dict(model_type="unigram", vocab_size=200, treat_whitespace_as_suffix=True, rules=""),
}


def trained(path, rules=RULES, **settings):
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        (scratch / "text.txt").write_text("\n".join(LINES))
        (scratch / "rules.tsv").write_text(rules)
        normaliser = (dict(normalization_rule_name="", normalization_rule_tsv=str(scratch / "rules.tsv")) if rules
                      else dict(normalization_rule_name="identity"))
        sentencepiece.SentencePieceTrainer.train(
            input=str(scratch / "text.txt"), model_prefix=str(scratch / "model"), minloglevel=2, num_threads=1,
            input_sentence_size=0, hard_vocab_limit=False, character_coverage=0.99, **normaliser, **settings)
        # The training settings do not affect encoding.
        model = spm.ModelProto()
        model.ParseFromString((scratch / "model.model").read_bytes())
    for field in ["input", "model_prefix"]:
        model.trainer_spec.ClearField(field)
    model.normalizer_spec.ClearField("normalization_rule_tsv")
    path.write_bytes(model.SerializeToString())


def golden(path):
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    found = []
    for text in [*HARD, *LINES[100:112]]:
        ids = model.encode(text)
        found.append([text, ids, None if model.unk_id() in ids else model.decode(ids)])
    return {"tokens": model.vocab_size(), "lines": found}


def main():
    root = HERE / "sentencepiece_alone"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    found = {"versions": {"sentencepiece": sentencepiece.__version__}, "models": {}}
    for name, settings in MODELS.items():
        trained(root / f"{name}.model", **settings)
        if name != "suffix":
            found["models"][name] = golden(root / f"{name}.model")
    found["models"]["llama"] = golden(pathlib.Path(__file__).parent / "sentencepiece/llama/tokenizer.model")
    text = json.dumps(found, ensure_ascii=True, separators=(",", ":"))
    (HERE / "sentencepiece_alone.json").write_text(text + "\n")


main()
