#!/usr/bin/env python3
"""Trains on a GPU what was trained on the CPU, and holds the losses against each other.

    cargo build --release --features wgpu
    FORMWORK_DATA=FOLDER python3 benches/gpu.py [--binary target/release/formwork] [--device wgpu] [--only NAME] [--steps 20]

Every file of experiments/smoke and one of each task runs for 20 steps on the device and on flex. The losses of the journal, in
training and in the evaluation at the end, differ by less than 1e-3; then `bench train --json` counts how often the host reads in
20 steps: never, but for what needs numbers on the host. A second start must find what the first one tuned.

On a machine without a GPU, Mesa's software Vulkan device takes its place: `apt-get install mesa-vulkan-drivers`. It is slow,
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

# What all of them share.
TRAINED = """[optimizer]
kind = "adamw"
lr = 1e-3
[train]
steps = 20
batch_size = 8
log_every = 10
"""

# One small experiment of each task that needs no download, beside experiments/smoke.
TASKS = {
    "masked_lm": """name = "masked_lm"
[model]
kind = "encoder"
n_layers = 1
d_model = 32
attention = { kind = "multi_head", n_heads = 2 }
position = { kind = "learned" }
feed_forward = { kind = "dense", activation = "gelu" }
[data]
kind = "random_tokens"
vocab_size = 40
context = 16
[task]
kind = "masked_lm"
""" + TRAINED,
    "text_classification": """name = "text_classification"
[model]
kind = "encoder"
n_layers = 1
d_model = 32
attention = { kind = "multi_head", n_heads = 2 }
position = { kind = "learned" }
feed_forward = { kind = "dense", activation = "gelu" }
[data]
kind = "listops"
valid_items = 32
[task]
kind = "text_classification"
""" + TRAINED,
    "translation": """name = "translation"
[model]
kind = "encoder_decoder"
n_encoder_layers = 1
n_decoder_layers = 1
d_model = 32
attention = { kind = "multi_head", n_heads = 2 }
position = { kind = "sinusoidal" }
feed_forward = { kind = "dense", activation = "relu" }
[data]
kind = "dates"
[task]
kind = "translation"
""" + TRAINED + """eval_every = 20
eval_batches = 2
""",
    "image_classification": """name = "image_classification"
[model]
kind = "vision"
n_layers = 1
d_model = 32
stem = { kind = "patches", size = 7 }
pooling = "class"
position = { kind = "learned" }
attention = { kind = "multi_head", n_heads = 2 }
feed_forward = { kind = "dense", activation = "gelu" }
[data]
kind = "shapes"
valid_items = 32
[task]
kind = "image_classification"
""" + TRAINED,
}

# What reads on every step, and why.
READS = {
    "segments": "rows pass a state on",
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
    """One experiment on both devices: the seconds on the one that is held, and the faults."""
    runs, seconds = {}, {}
    for device in ("flex", a.device):
        run = folder / name.replace("/", "-") / device.replace(":", "-")
        sets = [f"train.steps={a.steps}", "train.log_every=5"]
        sets = [part for one in sets for part in ("--set", one)]
        _, seconds[device] = called(
            binary, "train", str(file), "--quiet", "--device", device, "--run", str(run), *sets, cwd=folder)
        runs[device] = journal(run)
    here, there = runs["flex"], runs[a.device]
    off = max((abs(x["loss"] - y["loss"]) for x, y in zip(here, there)), default=float("nan"))
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
        for name, text in TASKS.items():
            files[name] = folder / f"{name}.toml"
            files[name].write_text(text)
        files = {name: file for name, file in files.items() if a.only in (None, name)}
        # What another experiment begins from.
        called(binary, "train", str(ROOT / "experiments/smoke/tiny.toml"), "--quiet", cwd=folder)
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
