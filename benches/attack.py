#!/usr/bin/env python3
"""2026-11-23: attacks the program and counts panics, wrong exits and differences; any finding ends it with status 1.

    benches/attack.py [--full] [--seed N] [--only PART ...] [--binary target/release/formwork]

Parts, with the number of attempts by default and with --full (as in an audit of 2026-11):
    signals      SIGTERM, SIGINT or SIGKILL at a random moment, then `resume`, until the run is done; its weights and
                 journal equal those of an undisturbed run                                                12 | 424
    corruption   a byte flipped, a range zeroed, a file cut or emptied in a finished run, then `eval`, `resume` or
                 `generate`: an error, or the same scores and weights as before                           40 | 420
    files        experiments, texts, tables, tokenizers, configs and journals mutated, then `check`, `train --set
                 train.steps=1` or `compare`: a result or a clean error                                  150 | 3659
    folders      links, pipes, devices and folders where a run's files belong: nothing outside is written    all | all

A clean error is status 1, 2 or 130 with a line that begins with `error:`, without `panicked` and without a signal. All random
draws follow from the seed. Only Python's standard library is used.
"""

import argparse
import hashlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
COUNTS = {"signals": (12, 424), "corruption": (40, 420), "files": (150, 3659), "folders": (1, 1)}
SECONDS = 30
MEMORY = 6 << 30

EXPERIMENT = """name = "attacked"
seed = 5
[model]
kind = "decoder"
n_layers = 1
d_model = 16
attention = {{ kind = "multi_head", n_heads = 2 }}
dropout = 0.1
[tokenizer]
kind = "char"
[data]
kind = "text"
path = {path}
context = 24
valid_fraction = 0.1
[task]
kind = "causal_lm"
[optimizer]
kind = "adamw"
lr = 3e-3
[train]
steps = 60
batch_size = 6
micro_batch_size = 3
eval_every = 15
checkpoint_every = 4
log_every = 2
ema = 0.9
sample = {{ prompt = "the ", tokens = 12 }}
"""

TABLE = """name = "table"
[model]
kind = "encoder"
n_layers = 1
d_model = 16
attention = {{ kind = "multi_head", n_heads = 2 }}
[tokenizer]
kind = "char"
[data]
kind = "labelled_text"
path = {path}
valid_fraction = 0.2
max_len = 40
[task]
kind = "text_classification"
[optimizer]
kind = "adamw"
lr = 1e-3
[train]
steps = 1
batch_size = 2
"""


class Attack:
    def __init__(self, arguments, folder):
        self.binary, self.folder = arguments.binary, folder
        self.full, self.seed = arguments.full, arguments.seed
        self.findings, self.done = [], {}
        self.environment = dict(os.environ, FORMWORK_CACHE=str(folder / "cache"), RAYON_NUM_THREADS="2")
        words = "the a of in cat dog runs sleeps near far old new, and but. ".split(" ")
        draws = random.Random(self.seed)
        self.text = folder / "text.txt"
        self.text.write_text("\n".join(" ".join(draws.choices(words, k=9)) for _ in range(400)) + "\n")
        self.table = folder / "table.tsv"
        rows = (f"{' '.join(draws.choices(words, k=6))}\t{draws.choice(['good', 'bad'])}" for _ in range(60))
        self.table.write_text("text\tlabel\n" + "\n".join(rows) + "\n")
        self.file = folder / "attacked.toml"
        self.file.write_text(EXPERIMENT.format(path=json.dumps(str(self.text))))
        self.table_file = folder / "table.toml"
        self.table_file.write_text(TABLE.format(path=json.dumps(str(self.table))))

    def count(self, part):
        return COUNTS[part][self.full]

    def run(self, *arguments):
        """Returns status, standard output and standard error of a command; the status is None if it does not end."""
        try:
            ended = subprocess.run([self.binary, *map(str, arguments)], capture_output=True, stdin=subprocess.DEVNULL,
                                   timeout=SECONDS, env=self.environment, cwd=ROOT, preexec_fn=bounded)
        except subprocess.TimeoutExpired:
            return None, b"", b""
        return ended.returncode, ended.stdout, ended.stderr

    def find(self, part, what):
        self.findings.append(f"{part}: {what}")
        print(f"FOUND {part}: {what}", flush=True)

    def clean(self, part, what, ended):
        """Returns True if a command succeeded and False for a clean error; records anything else as a finding."""
        status, _, error = ended
        text = error.decode("utf-8", "replace")
        last = text.strip().splitlines()[-1:] or [""]
        if status is None:
            self.find(part, f"{what}: does not end in {SECONDS} s")
        elif "panicked" in text or "RUST_BACKTRACE" in text:
            self.find(part, f"{what}: panic: {text.strip()[:300]}")
        elif status < 0:
            self.find(part, f"{what}: ended by signal {-status}")
        elif status not in (0, 1, 2, 130):
            self.find(part, f"{what}: status {status}: {last[0]}")
        elif status and not any(line.startswith("error:") for line in text.splitlines()):
            self.find(part, f"{what}: status {status} without an error: {last[0]}")
        return status == 0


def bounded():
    """Limits the memory of a command, in case it reads without end."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def outcome(run):
    """Returns what must be equal in two runs: weights, averages, samples, and the journal without times."""
    latest = run / "latest"
    # Parts that a command tolerates, such as a damaged journal, are compared as raw text.
    def loaded(text):
        try:
            return json.loads(text)
        except ValueError:
            return {"unreadable": text}

    state = loaded((latest / "state.json").read_text(errors="replace"))
    timed = ("items_per_s", "elapsed_s", "memory_mb", "time")
    lines = []
    for line in (run / "metrics.jsonl").read_text(errors="replace").splitlines():
        entry = loaded(line)
        if "note" not in entry:
            lines.append({key: value for key, value in entry.items() if key not in timed})
    weights = [digest(latest / name) for name in ("model.safetensors", "ema.safetensors") if (latest / name).exists()]
    samples = (run / "samples.jsonl").read_text(errors="replace") if (run / "samples.jsonl").exists() else ""
    return state.get("step"), weights, lines, samples


def signals(attack):
    whole = attack.folder / "whole"
    attack.clean("signals", "the run without signals", attack.run("train", attack.file, "--run", whole, "--quiet"))
    wanted = outcome(whole)
    began = time.monotonic()
    attack.clean("signals", "its time", attack.run("train", attack.file, "--run", whole, "--quiet", "--fresh"))
    length = time.monotonic() - began
    sent = run_number = 0
    while sent < attack.count("signals"):
        draws = random.Random(f"{attack.seed} signals {run_number}")
        run = attack.folder / f"signalled-{run_number}"
        run_number += 1
        for attempt in range(200):
            # After some kills a run may finish.
            kill = sent < attack.count("signals") and attempt < 12
            command = [attack.binary, "train", str(attack.file), "--run", str(run), "--resume", "--quiet"]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, env=attack.environment, cwd=ROOT)
            if kill:
                time.sleep(draws.uniform(0, length))
                which = draws.choice([signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
                process.send_signal(which)
                sent += 1
                if draws.random() < 0.2:
                    time.sleep(draws.uniform(0, 0.02))
                    process.send_signal(signal.SIGTERM)
            try:
                _, error = process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                attack.find("signals", f"run {run_number}: does not end after a signal")
                break
            text = error.decode("utf-8", "replace")
            if "panicked" in text:
                attack.find("signals", f"run {run_number}: {text[:300]}")
                break
            # A signal ends a process that has not installed its handler yet.
            if process.returncode not in (0, 130, -signal.SIGTERM, -signal.SIGINT, -signal.SIGKILL):
                attack.find("signals", f"run {run_number}: status {process.returncode}: {text[:300]}")
                break
            if process.returncode == 0:
                if outcome(run) != wanted:
                    attack.find("signals", f"run {run_number}: differs from the run without signals ({run})")
                break
        if not attack.findings:
            shutil.rmtree(run, ignore_errors=True)
    attack.done["signals"] = sent


def values(printed):
    """Returns the part of `eval --json` that depends only on the model."""
    return {key: value for key, value in json.loads(printed).items() if key != "run" and not key.endswith("_s")}


def damage(draws, path):
    """Damages a file and returns a description of the change."""
    content = bytearray(path.read_bytes())
    way = draws.choice(["flip", "zero", "cut", "empty", "swap", "grow"]) if content else "grow"
    at = draws.randrange(len(content)) if content else 0
    if way == "flip":
        content[at] ^= 1 << draws.randrange(8)
    elif way == "zero":
        end = min(len(content), at + draws.randrange(1, 200))
        content[at:end] = bytes(end - at)
    elif way == "cut":
        del content[at:]
    elif way == "empty":
        content.clear()
    elif way == "swap":
        other = draws.randrange(len(content))
        content[at], content[other] = content[other], content[at]
    else:
        content += bytes(draws.randrange(256) for _ in range(draws.randrange(1, 60)))
    path.write_bytes(content)
    return f"{way} at {at}"


def corruption(attack):
    whole = attack.folder / "kept"
    attack.clean("corruption", "the run", attack.run("train", attack.file, "--run", whole, "--quiet"))
    scores = values(attack.run("eval", whole, "--json")[1])
    text = attack.run("generate", whole, "--prompt", "the ", "--tokens", "8")[1]
    wanted = outcome(whole)
    for number in range(attack.count("corruption")):
        draws = random.Random(f"{attack.seed} corruption {number}")
        run = attack.folder / "corrupted"
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(whole, run, symlinks=True)
        names = sorted(p for p in run.rglob("*") if p.is_file() and not p.is_symlink() and "cache" not in p.name)
        path = draws.choice(names)
        what = f"{number}: {path.relative_to(run)}, {damage(draws, path)}"
        command = draws.choice(["eval", "resume", "generate"])
        if command == "resume":
            ended = attack.run("resume", run, "--quiet")
            if attack.clean("corruption", what, ended) and outcome(run)[:2] != wanted[:2]:
                attack.find("corruption", f"{what}: another result without a word")
        elif command == "eval":
            ended = attack.run("eval", run, "--json")
            if attack.clean("corruption", what, ended) and not ended[2] and values(ended[1]) != scores:
                attack.find("corruption", f"{what}: other scores without a word")
        else:
            ended = attack.run("generate", run, "--prompt", "the ", "--tokens", "8")
            if attack.clean("corruption", what, ended) and not ended[2] and ended[1] != text:
                attack.find("corruption", f"{what}: another text without a word")
    attack.done["corruption"] = attack.count("corruption")


HOSTILE = [b"\0", b"\xff\xfe", b"999999999999999999999", b"-1", b"nan", b"1e400", b"{" * 300, b"[" * 300, b'"', b"\r\n", b"\t",
           b"=cmd|' /C calc'!A0", "\u202e\u0301é日本".encode(), b"../../../../etc/passwd", b"18446744073709551616", b" " * 3000]


def mutate(draws, content):
    content = bytearray(content)
    for _ in range(draws.randrange(1, 5)):
        at = draws.randrange(len(content) + 1)
        way = draws.randrange(6)
        if way == 0 and content:
            content[at % len(content)] = draws.randrange(256)
        elif way == 1:
            content[at:at] = draws.choice(HOSTILE)
        elif way == 2:
            del content[at : at + draws.randrange(1, 30)]
        elif way == 3:
            end = at + draws.randrange(1, 60)
            content[at:at] = content[at:end]
        elif way == 4:
            lines = bytes(content).split(b"\n")
            draws.shuffle(lines)
            content = bytearray(b"\n".join(lines))
        else:
            numbers = [i for i, byte in enumerate(content) if 48 <= byte <= 57]
            if numbers:
                at = draws.choice(numbers)
                content[at : at + 1] = draws.choice([b"0", b"99999999", b"-3", b"0.5", b"1e9"])
    return bytes(content)


def files(attack):
    run = attack.folder / "read"
    attack.clean("files", "the run", attack.run("train", attack.file, "--run", run, "--quiet"))
    shipped = sorted((ROOT / "experiments").rglob("*.toml"))
    for number in range(attack.count("files")):
        draws = random.Random(f"{attack.seed} files {number}")
        kind = draws.choice(["experiment", "experiment", "text", "table", "tokenizer", "journal"])
        target = attack.folder / "mutated"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        if kind == "experiment":
            source = draws.choice([attack.file, attack.table_file, *shipped])
            path = target / "x.toml"
            path.write_bytes(mutate(draws, source.read_bytes()))
            command = ["check", path]
        elif kind in ("text", "table"):
            source, file = (attack.text, attack.file) if kind == "text" else (attack.table, attack.table_file)
            path = target / source.name
            path.write_bytes(mutate(draws, source.read_bytes()))
            command = ["train", file, "--run", target / "run", "--quiet", "--set", f"data.path={json.dumps(str(path))}",
                       "--set", "train.steps=1"]
        elif kind == "tokenizer":
            path = target / "tokenizer.json"
            path.write_bytes(mutate(draws, (run / "tokenizer.json").read_bytes()))
            table = f'{{ kind = "pretrained", path = {json.dumps(str(path))} }}'
            command = ["train", attack.file, "--run", target / "run", "--quiet", "--set", f"tokenizer={table}",
                       "--set", "train.steps=1"]
        else:
            copy = target / "run"
            shutil.copytree(run, copy, symlinks=True)
            path = draws.choice([copy / "metrics.jsonl", copy / "machine.json", copy / "scores.json", copy / "resolved.toml"])
            if path.exists():
                path.write_bytes(mutate(draws, path.read_bytes()))
            command = ["compare", copy, run]
        kept = path.read_bytes() if path.exists() else b""
        before = len(attack.findings)
        attack.clean("files", f"{number}: {kind}", attack.run(*command))
        if len(attack.findings) > before:
            found = attack.folder / f"found-{number}{path.suffix}"
            found.write_bytes(kept)
            print(f"      kept in {found}: {' '.join(map(str, command))}")
    attack.done["files"] = attack.count("files")


def folders(attack):
    run = attack.folder / "given"
    attack.clean("folders", "the run", attack.run("train", attack.file, "--run", run, "--quiet"))
    names = sorted(p.relative_to(run) for p in run.rglob("*") if p.is_file() and not p.is_symlink())
    names = [name for name in names if "steps" not in name.parts] + [pathlib.Path("latest/optimizer.bpk")]
    done = 0
    for name in names:
        for way in ("link", "pipe", "folder", "zeros", "nothing"):
            hostile, outside = attack.folder / "hostile", attack.folder / "outside.txt"
            shutil.rmtree(hostile, ignore_errors=True)
            shutil.copytree(run, hostile, symlinks=True)
            outside.write_text("not to be written\n")
            path = hostile / name
            path.unlink()
            if way == "link":
                path.symlink_to(outside)
            elif way == "pipe":
                os.mkfifo(path)
            elif way == "folder":
                path.mkdir()
            elif way == "zeros":
                path.symlink_to("/dev/zero")
            for command in (["resume", hostile, "--set", "train.steps=62", "--quiet"], ["eval", hostile], ["compare", hostile, run]):
                attack.clean("folders", f"{name} is {way}, {command[0]}", attack.run(*command))
                done += 1
            if outside.read_text() != "not to be written\n":
                attack.find("folders", f"{name}: written through a link")
    attack.done["folders"] = done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=COUNTS, default=list(COUNTS))
    parser.add_argument("--binary", default=str(ROOT / "target/release/formwork"))
    arguments = parser.parse_args()
    arguments.binary = str(pathlib.Path(arguments.binary).resolve())
    folder = pathlib.Path(tempfile.mkdtemp(prefix="attack-"))
    attack = Attack(arguments, folder)
    for part in arguments.only:
        began = time.monotonic()
        {"signals": signals, "corruption": corruption, "files": files, "folders": folders}[part](attack)
        print(f"{part}: {attack.done[part]} in {time.monotonic() - began:.0f} s", flush=True)
    if attack.findings:
        print(f"{len(attack.findings)} findings; what made them is in {folder}")
        return 1
    shutil.rmtree(folder)
    print(f"nothing found: {attack.done}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
