#!/usr/bin/env python3
"""Sends Hugging Face folders through Formwork and back: the logits must be the same in transformers, in Formwork, and in
transformers again from the folder that Formwork exported.

    python3 benches/hf_roundtrip.py [--formwork target/release/formwork] [--seed 0] [--tolerance 1e-4] [FOLDER…]

For each folder (all of tests/fixtures/hf unless some are named):

    import    formwork import FOLDER RUN
    infer     formwork infer RUN on random inputs, compared with transformers on the folder: largest difference of any output
    export    formwork export RUN EXPORTED, and from_pretrained of EXPORTED: its class and configuration, missing or unexpected
              tensors, and the largest difference of any output between both folders in transformers; for Marian's
              folders with tokenizers, also the same ids of sources and of targets (needs sentencepiece)

The inputs are drawn separately for each folder from the seed: three rows of ids or pixels; networks with an encoder get padding
of a different length in each row. Prints a table with the date and the versions; the exit status is 1 if a folder fails or a
difference is above the tolerance. Needs torch, transformers (written for 5.23.0) and safetensors; nothing is downloaded.
hf_reference.py describes what is computed and how.

Measured 2026-11-23, commit bf1ef89, --seed 7: 98 folders, 0 failed, 1.7e-5 at most.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import zlib

import hf_reference
import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
FIXTURES = os.path.join(HERE, "..", "tests", "fixtures", "hf")
ROWS, LENGTH = 3, 15
# Texts for folders with separate tokenizers for sources and targets.
TEXTS = ["The field was four hundred days high.", ">>fr<< A number of classes", "  two  blanks, ", "\u00e9t\u00e9 \u4e2d\u6587 \u2581", "x"]
# Configuration keys that do not describe the network: file names and classes of an older version, how it is stored, and
# keys that version 5 derives from others.
BESIDE = {"transformers_version", "_name_or_path", "dtype", "architectures"}


class Failed(Exception):
    pass


def command(*arguments):
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        raise Failed(f"{arguments[1]} ended with {done.returncode}: {' | '.join(said[:3])}")


def whole_windows(config, length):
    """Returns the maximum number of positions up to `length` that transformers' LED takes: it pads to the widest of its layers'
    windows, and then requires whole windows in every layer."""
    windows = getattr(config, "attention_window", None)
    if not isinstance(windows, list):
        return None
    padded = lambda n: -(-n // max(windows)) * max(windows)
    return max((n for n in range(1, length + 4) if all(padded(n) % w == 0 for w in windows)), default=None)


def draw(model, folder, seed):
    """Draws inputs of the kinds that the model takes, from the seed and the folder's name."""
    generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {os.path.basename(folder)}".encode()))
    length = whole_windows(model.config, LENGTH)
    given = {name: x[:, :length] if name.startswith(("input_ids", "attention_mask", "global_attention")) else x
             for name, x in hf_reference.pattern(model, folder, ROWS, LENGTH).items()}
    reference = os.path.join(folder, "reference.safetensors")
    if "pixel_values" in given and os.path.isfile(reference):
        # ResNet's config.json does not give the image size.
        size = load_file(reference)["pixel_values"].shape[-2:]
        given["pixel_values"] = torch.zeros(ROWS, given["pixel_values"].shape[1], *size)
    found = {}
    for name, pattern in given.items():
        if name == "pixel_values":
            found[name] = torch.randn(pattern.shape, generator=generator)
        elif name == "input_ids" or name == "decoder_input_ids":
            # A permutation of the pattern's own ids, which include no special ones.
            order = torch.randperm(pattern.shape[1] - 1, generator=generator) + 1
            shift = torch.randint(0, pattern.shape[1], (ROWS, 1), generator=generator)
            mixed = pattern[:, order].gather(1, (torch.arange(len(order))[None] + shift) % len(order))
            found[name] = torch.cat([pattern[:, :1], mixed], 1)
        else:
            found[name] = pattern
    if "attention_mask" in found:
        length = found["input_ids"].shape[1]
        lengths = torch.randint(length // 2, length + 1, (ROWS, 1), generator=generator)
        lengths[0] = length
        mask = (torch.arange(length)[None] < lengths).long()
        pad = hf_reference.special(model.config, "pad") or 0
        ordinary = given["input_ids"][0, 0]
        # Replaces the pattern's own padding.
        ids = torch.where(found["input_ids"] == pad, ordinary, found["input_ids"])
        found["input_ids"] = torch.where(mask == 1, ids, pad)
        found["attention_mask"] = mask
        if "token_type_ids" in found:
            found["token_type_ids"] = found["token_type_ids"][:1] * mask
    return found


def at_tokens(name, x, inputs):
    """Returns an output without its rows at padding, which are meaningless."""
    of_decoder = "decoder_input_ids" in inputs and not name.startswith("encoder_")
    mask = inputs.get("decoder_attention_mask" if of_decoder else "attention_mask")
    return x[mask == 1] if mask is not None and x.shape[: mask.dim()] == mask.shape else x


def far(ours, theirs, inputs):
    """Returns the largest difference of any output, and the output's name."""
    lacking = [name for name in theirs if name not in ours]
    if lacking:
        raise Failed(f"no output {', '.join(lacking)}")
    worst = (0.0, "")
    for name, x in theirs.items():
        if ours[name].shape != x.shape:
            raise Failed(f"{name} is {list(ours[name].shape)}, not {list(x.shape)}")
        a, b = at_tokens(name, ours[name], inputs), at_tokens(name, x, inputs)
        if not torch.isfinite(a).all():
            raise Failed(f"{name} has numbers that are not finite")
        worst = max(worst, ((a.float() - b.float()).abs().max().item(), name))
    return worst


def configurations(folder, exported):
    """Returns the network's keys whose values differ between two folders, as transformers reads them."""
    one, other = (transformers.AutoConfig.from_pretrained(f).to_dict() for f in (folder, exported))
    dead = {"use_cache", "is_decoder", "id2label", "label2id"}
    keys = sorted((set(one) & set(other)) - BESIDE - dead)
    return [key for key in keys if one[key] != other[key]]


def unread(name, key):
    """Whether a class has a parameter that it never reads: these BigBird classes have an unused pooler, and so have bodies (BigBirdModel,
    RobertaModel, AlbertModel and the like). Exported folders lack it, and transformers initialises it randomly."""
    of_bird = ("BigBirdForMaskedLM", "BigBirdForSequenceClassification", "BigBirdForTokenClassification")
    return name in of_bird and key.startswith("bert.pooler.") or name.endswith("Model") and key.startswith("pooler.")


def round_trip(folder, formwork, seed, work):
    """Returns the differences of `infer` and `export`, and the keys that differ."""
    run, exported = os.path.join(work, "run"), os.path.join(work, "exported")
    inputs_file, outputs_file = os.path.join(work, "in.safetensors"), os.path.join(work, "out.safetensors")
    model = hf_reference.load(folder)
    inputs = draw(model, folder, seed)
    theirs = hf_reference.compute(model, inputs)
    save_file({name: x.contiguous() for name, x in inputs.items()}, inputs_file)
    command(formwork, "import", folder, run)
    command(formwork, "infer", run, "--inputs", inputs_file, "--outputs", outputs_file)
    inferred = far(load_file(outputs_file), theirs, inputs)
    command(formwork, "export", run, exported)
    config = transformers.AutoConfig.from_pretrained(exported)
    if config.architectures != [type(model).__name__]:
        raise Failed(f"the exported folder names {config.architectures}, not {type(model).__name__}")
    again, report = type(model).from_pretrained(exported, dtype=torch.float32, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        found = [key for key in report[kind] if not unread(type(model).__name__, str(key))]
        if found:
            raise Failed(f"{kind} of the exported folder: {', '.join(map(str, sorted(found)))[:200]}")
    exported_far = far(hf_reference.compute(hf_reference.as_configured(again).eval(), inputs), theirs, inputs)
    if os.path.isfile(os.path.join(folder, "source.spm")):
        same_pairs_of_ids(folder, exported)
    return inferred, exported_far, configurations(folder, exported)


def same_pairs_of_ids(folder, exported):
    """Checks that the source and target tokenizers of both folders give the same ids."""
    one, other = (transformers.AutoTokenizer.from_pretrained(f) for f in (folder, exported))
    if type(one) is not type(other):
        raise Failed(f"the exported folder's tokenizer is a {type(other).__name__}, not a {type(one).__name__}")
    for text in TEXTS:
        for key in ("text", "text_target"):
            theirs, ours = (tokenizer(**{key: text})["input_ids"] for tokenizer in (one, other))
            if theirs != ours:
                raise Failed(f"the exported tokenizer gives {text!r} as {key} the ids {ours}, not {theirs}")


def main():
    p = argparse.ArgumentParser(description="Hugging Face folders through Formwork and back, held against transformers.")
    p.add_argument("folders", nargs="*", metavar="FOLDER")
    p.add_argument("--formwork", default=os.path.join(HERE, "..", "target", "release", "formwork"))
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--tolerance", type=float, default=1e-4)
    p.add_argument("--json", metavar="FILE", help="also the rows as JSON")
    a = p.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    folders = a.folders or sorted(os.path.join(FIXTURES, name) for name in os.listdir(FIXTURES))
    versions = f"transformers {transformers.__version__}, torch {torch.__version__}"
    print(f"{datetime.date.today()}  {versions}  seed {a.seed}  tolerance {a.tolerance:g}")
    print(f"{'folder':18} {'class':32} {'infer':>9} {'export':>9}  note")
    rows, failures = [], 0
    for folder in folders:
        name = os.path.basename(os.path.normpath(folder))
        row = {"folder": name}
        with open(os.path.join(folder, "config.json")) as file:
            row["class"] = (json.load(file).get("architectures") or ["?"])[0]
        try:
            with tempfile.TemporaryDirectory() as work:
                inferred, exported, keys = round_trip(folder, a.formwork, a.seed, work)
            row |= {"infer": inferred[0], "export": exported[0], "keys_that_differ": keys}
            above = [f"{way} {output}" for way, (x, output) in (("infer", inferred), ("export", exported)) if not x <= a.tolerance]
            note = "FAILED: " + ", ".join(above) if above else ("other values: " + ", ".join(keys) if keys else "")
            print(f"{name:18} {row['class']:32} {inferred[0]:9.1e} {exported[0]:9.1e}  {note}", flush=True)
            failures += bool(above)
        except Exception as error:  # one folder that fails does not hide the others
            row["failed"] = str(error) or type(error).__name__
            said = row["failed"].splitlines()[0] if isinstance(error, Failed) else repr(error)
            print(f"{name:18} {row['class']:32} {'':9} {'':9}  FAILED: {said}", flush=True)
            failures += 1
        rows.append(row)
    print(f"{len(folders)} folders, {failures} failed")
    if a.json:
        with open(a.json, "w") as file:
            json.dump({"date": str(datetime.date.today()), "versions": versions, "seed": a.seed, "rows": rows}, file, indent=2)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
