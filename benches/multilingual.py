#!/usr/bin/env python3
"""Sends multilingual translation models through Formwork and back: checks the exported folder in transformers.

    python3 benches/multilingual.py [--formwork target/release/formwork] [FOLDER…]

For each folder of tests/fixtures/multilingual (made by tests/goldens/make_multilingual.py), or those that are named: `formwork
import` and `formwork export`, then transformers with the exported folder. Compared with the original folder: the ids of each text of
expected.json in each language (only in the folder's own language if the exported tokenizer is of the general class, which has one
language), the logits, and what `generate` writes in each language. Prints a table with the date and the versions; the exit status is
1 if anything differs.

Needs torch, transformers (written for 5.24.0) and sentencepiece; nothing is downloaded. Not run yet.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
FIXTURES = os.path.join(HERE, "..", "tests", "fixtures", "multilingual")
TOLERANCE = 1e-4


def opened(folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return tokenizer, transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()


def code(name, token):
    """Returns a tokenizer class's name for the language of a token."""
    return token.strip("_") if name == "M2M100Tokenizer" else token


def compared(folder, exported):
    """Returns the number of texts, the largest difference of logits, the tokenizer class, and the differences."""
    (one, before), (other, after) = opened(folder), opened(exported)
    with open(os.path.join(folder, "expected.json")) as file:
        sources = json.load(file)["sources"]
    languages = list(dict.fromkeys(row[0] for row in sources))
    chooses = hasattr(other, "set_src_lang_special_tokens")
    own = one.convert_ids_to_tokens(one("")["input_ids"][0])
    far, faults, count = 0.0, [], 0
    for language, text, wanted in sources:
        if not chooses and language != own:
            continue
        count += 1
        one.src_lang = code(type(one).__name__, language)
        if chooses:
            other.src_lang = code(type(other).__name__, language)
        ids, ours = one(text, return_tensors="pt"), other(text)["input_ids"]
        if ours != wanted or ids["input_ids"][0].tolist() != wanted:
            faults.append(f"{text!r} in {language} has the ids {ours}, not {wanted}")
        for target in languages:
            begin = torch.tensor([[before.config.decoder_start_token_id, one.convert_tokens_to_ids(target)]])
            with torch.no_grad():
                scores = [model(**ids, decoder_input_ids=begin).logits for model in (before, after)]
                texts = [model.generate(**ids, forced_bos_token_id=int(begin[0, 1]), num_beams=1).tolist() for model in (before, after)]
            far = max(far, (scores[0] - scores[1]).abs().max().item())
            if texts[0] != texts[1]:
                faults.append(f"{text!r} into {target} becomes {texts[1]}, not {texts[0]}")
    return count, far, type(other).__name__, faults


def main():
    p = argparse.ArgumentParser(description="Models that translate between languages through Formwork and back.")
    p.add_argument("folders", nargs="*", metavar="FOLDER")
    p.add_argument("--formwork", default=os.path.join(HERE, "..", "target", "release", "formwork"))
    a = p.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    print(f"{datetime.date.today()}  transformers {transformers.__version__}, torch {torch.__version__}")
    failed = False
    for folder in a.folders or sorted(os.path.join(FIXTURES, name) for name in os.listdir(FIXTURES)):
        with tempfile.TemporaryDirectory() as work:
            run, exported = os.path.join(work, "run"), os.path.join(work, "exported")
            for words in (["import", folder, run], ["export", run, exported]):
                subprocess.run([a.formwork, *words], check=True, capture_output=True)
            count, far, name, faults = compared(folder, exported)
        failed |= bool(faults) or far > TOLERANCE
        print(f"{os.path.basename(os.path.normpath(folder)):12} {name:20} {count} texts, logits {far:.1e} apart, {len(faults)} differences")
        for fault in faults[:5]:
            print(f"  {fault}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
