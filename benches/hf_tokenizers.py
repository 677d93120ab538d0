#!/usr/bin/env python3
"""Compares the tokenizers of exported folders with those of their runs, using transformers' own classes.

    hf_tokenizers.py FORMWORK TEXT RUN…        (transformers 5.23.0, tokenizers 0.23.3; 2026-11-23)

Each run is exported with `FORMWORK export`. Then the ids of every line of TEXT and of some awkward texts, with and without special
tokens, are compared: the run's tokenizer.json read by the tokenizers library, and the folder read by AutoTokenizer and by
PreTrainedTokenizerFast. The exit status is 1 if any differ.

For `model_type` qwen2, AutoTokenizer applies its own rules around the vocabulary, whatever class a folder names. A tokenizer
that is not Qwen2's therefore differs there, and is right with PreTrainedTokenizerFast.
"""
import pathlib
import subprocess
import sys
import tempfile

import transformers
from tokenizers import Tokenizer

AWKWARD = ["", " ", "a  b", "naïve e\u0301", "日本語 x", "<s> x </s>", "[CLS] a [MASK] b", "x <mask> y", "line\nbreak", "😀 \u200b"]


def differences(ours, theirs, lines):
    for line in lines:
        for framed in [True, False]:
            wanted = ours.encode(line, add_special_tokens=framed).ids
            found = theirs(line, add_special_tokens=framed)["input_ids"]
            if wanted != found:
                yield line, framed, wanted, found


def main():
    formwork, text, *runs = sys.argv[1:]
    lines = pathlib.Path(text).read_text(encoding="utf-8").split("\n") + AWKWARD
    failed = False
    for run in runs:
        ours = Tokenizer.from_file(str(pathlib.Path(run) / "tokenizer.json"))
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch) / "folder"
            subprocess.run([formwork, "export", run, str(folder)], check=True, stdout=subprocess.DEVNULL)
            for name in ["AutoTokenizer", "PreTrainedTokenizerFast"]:
                theirs = getattr(transformers, name).from_pretrained(folder)
                wrong = list(differences(ours, theirs, lines))
                failed |= bool(wrong)
                print(f"{run}  {name} ({type(theirs).__name__}): {len(wrong)} of {2 * len(lines)} differ")
                for line, framed, wanted, found in wrong[:3]:
                    print(f"  {line[:60]!r} framed={framed}: {wanted[:12]} became {found[:12]}")
    sys.exit(failed)


main()
