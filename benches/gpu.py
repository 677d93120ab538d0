#!/usr/bin/env python3
"""Trains small experiments on a GPU and on the CPU, and compares the losses.

    cargo build --release --features wgpu
    FORMWORK_DATA=FOLDER python3 benches/gpu.py [--binary target/release/formwork] [--device wgpu] [--only NAME] [--steps 20]

Every file of experiments/smoke and one more experiment of each task runs for 20 steps on the device and on flex. The journals'
losses, in training and in the final evaluation, must differ by less than 1e-3 (relative to losses above 1). `bench train --json`
then counts the host's reads from the device in 20 steps: there must be none, except for tasks that need numbers on the host.
A second start must find what the first one tuned.

On a machine without a GPU, Mesa's software Vulkan device can be used: `apt-get install mesa-vulkan-drivers`. It is slow;
most of the first minutes is autotuning.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Sections shared by all experiments.
TRAINED = """[optimizer]
kind = "adamw"
lr = 1e-3
[train]
steps = 20
batch_size = 8
log_every = 10
"""

BLOCKS = """attention = { kind = "multi_head", n_heads = 2 }
feed_forward = { kind = "dense", activation = "gelu" }
"""
STACK = "n_layers = 1\nd_model = 32\n" + BLOCKS
SIDES = "n_encoder_layers = 1\nn_decoder_layers = 1\nd_model = 32\n" + BLOCKS

MODELS = {
    "decoder": 'kind = "decoder"\nposition = { kind = "rotary" }\n' + STACK,
    "encoder": 'kind = "encoder"\nposition = { kind = "learned" }\n' + STACK,
    "encoder_decoder": 'kind = "encoder_decoder"\nposition = { kind = "sinusoidal" }\n' + SIDES,
    "vision": 'kind = "vision"\nstem = { kind = "patches", size = 7 }\npooling = "class"\nposition = { kind = "learned" }\n' + STACK,
}

# Small versions of published networks with several parts.
HEADS = 'attention = { n_heads = 2 }\nfeed_forward = { d_ff = 64 }\n'
TWO_TOWERS = ('preset = "clip-vit-b-32"\nd_joint = 32\n[model.image]\nn_layers = 1\nd_model = 32\nstem = { size = 7 }\n' + HEADS
              + "[model.text]\nn_layers = 1\nd_model = 32\n" + HEADS)
DESCRIBES = ('preset = "idefics-9b"\n[model.image]\nn_layers = 1\nd_model = 32\nstem = { size = 7 }\n' + HEADS
             + "[model.resampler]\nn_latents = 4\nn_layers = 1\nattention = { n_heads = 2, d_head = 16 }\nfeed_forward = { d_ff = 64 }\n"
             + "[model.cross_attention]\nevery = 1\n" + HEADS + "[model.text]\nn_layers = 1\nd_model = 32\n" + HEADS)
HEARS = 'preset = "whisper-tiny"\nn_encoder_layers = 1\nn_decoder_layers = 1\nd_model = 32\nposition = { max_len = 16 }\n' + HEADS

PIECES = '[tokenizer]\nkind = "char"\n'
SUMS = 'kind = "arithmetic"\ndigits = 1\noperations = ["+"]\nvalid_items = 16\n'
JUDGED = SUMS.replace("arithmetic", "right_and_wrong")
DRAWN = 'kind = "captioned_shapes"\nsize = 28\ncolours = 4\nshapes = 4\nalone = 0.1\n'

# One small experiment per task that needs no download, in addition to experiments/smoke: the model, the data, the task.
TASKS = {
    "masked_lm": ("encoder", 'kind = "random_tokens"\nvocab_size = 40\ncontext = 16\n', ""),
    "replaced_token": ("encoder", 'kind = "grammar"\ndocuments = 200\nvalid_items = 10\ncontext = 16\n', "generator = { size = 0.5 }\n"),
    "denoising": ("encoder_decoder", 'kind = "grammar"\ndocuments = 200\nvalid_items = 10\n', ""),
    "text_classification": ("encoder", 'kind = "listops"\nvalid_items = 32\n', ""),
    "multi_label_classification": ("encoder", 'kind = "themes"\nvalid_items = 32\n', ""),
    "token_classification": ("encoder", 'kind = "tagged_text"\npath = "tags.conll"\nvalid_fraction = 0.2\ncontext = 32\n' + PIECES, ""),
    "regression": ("encoder", 'kind = "labelled_text"\npath = "scores.jsonl"\ntext = "text"\nscore = "score"\n'
                   "valid_fraction = 0.2\ncontext = 32\n" + PIECES, ""),
    "question_answering": ("encoder", 'kind = "questions"\npath = "questions.json"\nvalid_fraction = 0.2\ncontext = 64\noverlap = 16\n' + PIECES, ""),
    "text_embedding": ("encoder", 'kind = "number_words"\nvalid_items = 32\n', ""),
    "translation": ("encoder_decoder", 'kind = "dates"\n', ""),
    "image_classification": ("vision", 'kind = "shapes"\nvalid_items = 32\n', ""),
    "image_text": (TWO_TOWERS, DRAWN, ""),
    "captioning": (DESCRIBES, DRAWN, ""),
    "transcription": (HEARS, 'kind = "dialled_digits"\nvalid_items = 8\n', ""),
    "sums": ("decoder", SUMS, 'kind = "causal_lm"\n'),
    "reward": ("decoder", JUDGED, ""),
    "preference": ("decoder", JUDGED, ""),
    "grpo": ("decoder", SUMS, 'reward = { kind = "exact" }\ngroup_size = 4\nmax_new_tokens = 3\n'),
    "distillation": ("decoder", SUMS, 'teacher = "RUN"\nof = { kind = "causal_lm" }\n'),
}

# Tasks that begin from a run of the sums.
BEGINS = {"preference", "grpo"}


def experiment(name, sums):
    """Returns the experiment file of a task; `sums` is the folder of a language model's run on sums."""
    model, data, task = TASKS[name]
    if not task.startswith("kind"):
        task = f'kind = "{name}"\n' + task
    data, _, tokenizer = data.partition("[tokenizer]\n")
    parts = [f'name = "{name}"\n', "[model]\n" + MODELS.get(model, model)]
    parts += ["[tokenizer]\n" + tokenizer] if tokenizer else []
    parts += [f'[init]\nfrom = "{sums}"\n'] if name in BEGINS else []
    parts += ["[data]\n" + data, "[task]\n" + task.replace("RUN", str(sums)), TRAINED, "eval_every = 20\n"]
    parts += [] if name == "question_answering" else ["eval_batches = 2\n"]
    return "".join(parts)


def write_texts(folder):
    """Writes small texts with tags, scores and questions."""
    words = ["red", "green", "blue", "one", "two", "three"]
    texts = [[words[(i * k + k) % 6] for k in range(1, 5)] for i in range(40)]
    tags = {word: "B-COLOUR" if n < 3 else "O" for n, word in enumerate(words)}
    (folder / "tags.conll").write_text("\n".join("".join(f"{word} {tags[word]}\n" for word in text) for text in texts))
    scores = [json.dumps({"text": " ".join(text), "score": text.count("red")}) + "\n" for text in texts]
    (folder / "scores.jsonl").write_text("".join(scores))
    asked = []
    for n, text in enumerate(texts):
        answer = {"text": text[2], "answer_start": len(" ".join(text[:2])) + 1}
        asked.append({"title": str(n), "paragraphs": [{"context": " ".join(text), "qas": [
            {"id": str(n), "question": "which is third", "answers": [answer]}]}]})
    (folder / "questions.json").write_text(json.dumps({"version": "1", "data": asked}))


# Tasks that read from the device on every step, and why.
READS = {
    "segments": "rows pass a state on",
    "replaced_token": "the generator's tokens are the discriminator's input",
    "grpo": "completions are written and rewarded",
}


def journal(run):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line.get("loss") is not None]


def called(binary, *arguments, cwd=ROOT):
    began = time.monotonic()
    done = subprocess.run([binary, *arguments], cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"formwork {' '.join(arguments)}: status {done.returncode}\n{done.stderr}")
    return done.stdout, time.monotonic() - began


def compared(binary, name, file, folder, a):
    """Runs one experiment on both devices; returns the seconds on the tested device, and the faults."""
    runs, seconds = {}, {}
    for device in ("flex", a.device):
        run = folder / name.replace("/", "-") / device.replace(":", "-")
        sets = [f"train.steps={a.steps}", "train.log_every=5"]
        sets = [part for one in sets for part in ("--set", one)]
        _, seconds[device] = called(
            binary, "train", str(file), "--quiet", "--device", device, "--run", str(run), *sets, cwd=folder)
        runs[device] = journal(run)
    here, there = runs["flex"], runs[a.device]
    off = max((abs(x["loss"] - y["loss"]) / max(1.0, abs(x["loss"])) for x, y in zip(here, there)), default=float("nan"))
    text, _ = called(binary, "bench", "train", str(file), "--device", a.device, "--steps", "20",
                     "--warmup", "2", "--json", cwd=folder)
    reads = json.loads(text)["host_reads"]
    faults = []
    if not (len(here) == len(there) > 0 and off < 1e-3):
        faults.append(f"{name}: losses differ by {off:.1e}")
    if reads > 0 and not READS.get(name.split("/")[-1]):
        faults.append(f"{name}: {reads:g} reads a step")
    print(f"{name:24}  losses off by {off:.1e}  host_reads {reads:g}  "
          f"{seconds['flex']:.1f} s, {seconds[a.device]:.1f} s{'  FAULT' if faults else ''}", flush=True)
    return seconds[a.device], faults


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--binary", default="target/release/formwork")
    p.add_argument("--device", default="wgpu")
    p.add_argument("--only", help="one experiment by its name")
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--jobs", type=int, default=1, help="experiments side by side, where their times say nothing")
    a = p.parse_args()
    binary = str(Path(a.binary).resolve())
    print(called(binary, "list", "devices")[0].rstrip(), flush=True)
    os.environ.setdefault("FORMWORK_DATA", str(ROOT / "datasets"))
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        files = {f"smoke/{f.stem}": f for f in sorted((ROOT / "experiments/smoke").glob("*.toml"))}
        write_texts(folder)
        sums = folder / "base"
        for name in TASKS:
            files[name] = folder / f"{name}.toml"
            files[name].write_text(experiment(name, sums))
        # Runs that other experiments begin from.
        called(binary, "train", str(files["sums"]), "--quiet", "--run", str(sums), "--set", "train.steps=400", cwd=folder)
        called(binary, "train", str(ROOT / "experiments/smoke/tiny.toml"), "--quiet", cwd=folder)
        files = {name: file for name, file in files.items() if a.only in (None, name)}
        with ThreadPoolExecutor(a.jobs) as pool:
            held = list(pool.map(lambda one: compared(binary, *one, folder, a), files.items()))
        faults = [fault for _, own in held for fault in own]
        if held:
            (name, file), (before, _) = next(iter(files.items())), held[0]
            run = folder / "again"
            _, again = called(binary, "train", str(file), "--quiet", "--device", a.device, "--run", str(run),
                              "--set", f"train.steps={a.steps}", cwd=folder)
            machine = json.loads((run / "machine.json").read_text())
            print(f"{name} again: {again:.1f} s after {before:.1f} s; {json.dumps(machine['gpu'])}")
            if not machine["gpu"]["tuned_before"]:
                faults.append("the second start did not find what the first one tuned")
    for fault in faults:
        print(fault, file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
