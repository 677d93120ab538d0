#!/usr/bin/env python3
"""Tests runs of several processes under mpirun: the same bits for 1, 2 and 4 ranks, signals and kills, other rank counts on resume.

    cargo build --release --features mpi
    python3 benches/mpi.py [--binary target/release/formwork] [--kills 50] [--speed] [--exchange mpi|nccl]

Needs only an MPI library: the data is generated. Result of 2026-11-25 (commit bb22a1b), Open MPI 4.1.4, 2 cores of an AMD EPYC beside
a build: equal hashes of weights, moments, averages, carried states and journals for 1, 2 and 4 ranks in all six cases. Each of ten
requests to stop was saved and reported once and ended with its status; 4 ranks continued to the same bits. 51 signals and kills over
32 runs lost nothing. Speed (quiet, alternating, four times): 2 ranks of 1 thread ran at 0.92 to 1.06 times the speed of 1 rank of 2
threads, with 3 to 4 % of the time moving bytes and 2 to 4 % waiting. mpirun ends with status 1 if it is sent SIGTERM or SIGINT, and
waits for the whole time that it gives its ranks before it passes SIGTERM on. A rank that is signalled in its first moments ends with
143, and there is nothing to save. One of the 51 ended with 1 and reported no interruption; its run still ended with the right bytes.
On 2026-11-30 (commit e1b049a1, beside a build) all held again, with 14 signals and kills over 4 runs.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LM = """name = "lm"
seed = 3
[model]
kind = "decoder"
n_layers = 2
d_model = 64
position = { kind = "rotary" }
attention = { kind = "multi_head", n_heads = 4 }
feed_forward = { kind = "gated" }
dropout = 0.1
[data]
kind = "reverse"
length = 6
symbols = 8
valid_items = 100
[task]
kind = "causal_lm"
[optimizer]
kind = "adamw"
lr = 3e-3
[train]
steps = 60
batch_size = 16
micro_batch_size = 4
eval_every = 20
eval_batches = 3
checkpoint_every = 7
log_every = 5
ema = 0.9
[diagnostics]
every = 10
"""

TRANSLATION = """name = "translation"
seed = 1
[model]
kind = "encoder_decoder"
n_encoder_layers = 1
n_decoder_layers = 1
d_model = 64
dropout = 0.1
position = { kind = "learned" }
attention = { kind = "multi_head", n_heads = 4 }
feed_forward = { kind = "dense", activation = "relu" }
[data]
kind = "dates"
valid_items = 60
[task]
kind = "translation"
[optimizer]
kind = "adamw"
lr = 3e-3
[train]
steps = 40
batch_tokens = 600
micro_batch_size = 5
eval_every = 20
log_every = 5
best_by = "exact_match"
[decode]
metrics = ["exact_match"]
"""

VIT = """name = "vit"
seed = 2
[model]
kind = "vision"
n_layers = 2
d_model = 64
stem = { kind = "patches", size = 4 }
pooling = "class"
dropout = 0.1
position = { kind = "learned" }
attention = { kind = "multi_head", n_heads = 4 }
feed_forward = { kind = "dense", activation = "gelu" }
[data]
kind = "images"
path = "images"
labels = "labels"
valid_fraction = 0.3
augment = { flip = true, crop = 1, mixup = 0.4 }
[task]
kind = "image_classification"
[optimizer]
kind = "adamw"
lr = 1e-3
[train]
steps = 40
batch_size = 16
micro_batch_size = 4
eval_every = 20
log_every = 5
"""

XL = """name = "xl"
seed = 4
[model]
kind = "decoder"
n_layers = 2
d_model = 64
dropout = 0.1
position = { kind = "transformer_xl" }
attention = { kind = "multi_head", n_heads = 4, memory = 32 }
[tokenizer]
kind = "byte"
[data]
kind = "text"
path = "text.txt"
context = 32
windows = "contiguous"
[task]
kind = "causal_lm"
[optimizer]
kind = "adamw"
lr = 3e-3
[train]
steps = 50
batch_size = 8
micro_batch_size = 2
carry_state = true
eval_every = 25
checkpoint_every = 6
log_every = 5
"""

SHARDED = LM.replace("[train]", "[train]\nshard_optimizer = true")
LANES = XL.replace("[train]", "[train]\neval_batch_size = 8")
CASES = {"lm": LM, "sharded": SHARDED, "translation": TRANSLATION, "vit": VIT, "xl": XL, "lanes": LANES}
SIGKILL_TIMEOUT = 5
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "odls_base_sigkill_timeout", str(SIGKILL_TIMEOUT)]
WEIGHTS = ["model.safetensors", "optimizer.bpk", "ema.safetensors", "state.safetensors"]
TIMING = ["items_per_s", "elapsed_s", "memory_mb"]


def data(folder):
    """Writes the data files and experiments of all cases."""
    draw = random.Random(1)
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]
    (folder / "text.txt").write_text(" ".join(draw.choice(words) for _ in range(6000)))
    pixels = bytes(draw.randrange(256) for _ in range(200 * 64))
    (folder / "images").write_bytes(struct.pack(">IIII", 0x803, 200, 8, 8) + pixels)
    labels = bytes(i % 4 for i in range(200))
    (folder / "labels").write_bytes(struct.pack(">II", 0x801, 200) + labels)
    for name, toml in CASES.items():
        (folder / f"{name}.toml").write_text(toml)


def launch(ranks, arguments, before=()):
    """Starts a command on `ranks` ranks in a new session and captures its output."""
    command = [BINARY, *map(str, arguments)]
    if ranks > 1:
        command = [*before, *MPIRUN, "-np", str(ranks), *command, "--exchange", EXCHANGE]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)


def run(ranks, arguments):
    process = launch(ranks, arguments)
    said, _ = process.communicate(timeout=600)
    return process.returncode, said


def content(folder):
    """Returns hashes of weights, moments, average and carried state, and of the journals without times."""
    newest = sorted(p for p in (folder / "steps").iterdir() if p.name.isdigit())[-1]
    found = {"step": newest.name}
    for name in WEIGHTS:
        if (newest / name).exists():
            found[name] = hashlib.sha256((newest / name).read_bytes()).hexdigest()
    for name in ["metrics.jsonl", "diagnostics.jsonl"]:
        if (folder / name).exists():
            lines = [json.loads(line) for line in (folder / name).read_text().splitlines()]
            lines = [{k: v for k, v in line.items() if k not in TIMING} for line in lines]
            found[name] = hashlib.sha256(json.dumps(lines).encode()).hexdigest()
    return found


def require(ok, what, said=""):
    if not ok:
        sys.exit(f"FAILED: {what}\n{said}")


def equal_bits(folder):
    whole = {}
    for name in CASES:
        for ranks in [1, 2, 4]:
            out = folder / f"{name}-{ranks}"
            status, said = run(ranks, ["train", folder / f"{name}.toml", "--quiet", "--run", out])
            require(status == 0, f"{name} on {ranks} ranks ends with {status}", said)
            found = content(out)
            whole.setdefault(name, found)
            require(found == whole[name], f"{name} on {ranks} ranks: {found} and not {whole[name]}")
        print(f"{name}: 1, 2 and 4 ranks give {whole[name]}", flush=True)
    require(whole["sharded"] == whole["lm"], "sharded moments change bits")
    changed = [name for name in whole["xl"] if whole["xl"][name] != whole["lanes"][name]]
    require(changed == ["metrics.jsonl"], f"more lanes of an evaluation change {changed}")
    return whole


def pids(process, ranks):
    """Returns the process ids by rank; empty unless all ranks are found."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent != process.pid:
                continue
            environment = dict(
                line.split("=", 1) for line in (entry / "environ").read_text().split("\0") if "=" in line
            )
            found[int(environment["OMPI_COMM_WORLD_RANK"])] = int(entry.name)
        except (OSError, KeyError, ValueError, IndexError):
            continue
    return found if len(found) == ranks else {}


def kills(folder, whole, count):
    """Sends signals at random moments to random processes; every run is resumed by a random number of ranks until it ends."""
    draw = random.Random(7)
    done, ended, statuses = 0, 0, {}
    while done < count:
        name = ["lm", "xl"][ended % 2]
        out = folder / f"killed-{ended}"
        while True:
            ranks = draw.choice([2, 4])
            process = launch(ranks, ["train", folder / f"{name}.toml", "--quiet", "--resume", "--run", out])
            wait = draw.uniform(0.3, 3.0)
            try:
                process.wait(timeout=wait)
                whom = None
            except subprocess.TimeoutExpired:
                which = draw.choice(["launcher", "handed on", "rank", "rank", "killed", "killed rank"])
                number = draw.choice([signal.SIGTERM, signal.SIGINT])
                each = pids(process, ranks)
                if which == "launcher" or not each:
                    whom, which = process.pid, f"{number.name} to mpirun"
                elif which == "handed on":
                    whom, number, which = process.pid, signal.SIGUSR1, "SIGUSR1 to mpirun"
                elif which == "rank":
                    rank = draw.randrange(ranks)
                    whom, which = each[rank], f"{number.name} to a rank"
                elif which == "killed rank":
                    rank = draw.randrange(ranks)
                    whom, number, which = each[rank], signal.SIGKILL, "SIGKILL to a rank"
                else:
                    whom, number, which = process.pid, signal.SIGKILL, "SIGKILL to mpirun"
                try:
                    os.kill(whom, number)
                    done += 1
                except ProcessLookupError:
                    whom = None
            said, _ = process.communicate(timeout=120)
            if whom is None:
                require(process.returncode == 0, f"{name} ends with {process.returncode}", said)
                break
            statuses.setdefault(which, {}).setdefault(process.returncode, 0)
            statuses[which][process.returncode] += 1
            if "interrupted at step" in said:
                wanted = 1 if "mpirun" in which and number != signal.SIGUSR1 else 130
                require(process.returncode == wanted, f"{which}: {process.returncode}", said)
                require(said.count("interrupted at step") == 1, f"{which}: told once", said)
            if which == "SIGKILL to a rank" and process.returncode != 0:
                require(f"rank {rank} with PID" in said, "the killed rank is not named", said)
            if which == "SIGKILL to mpirun":
                # The ranks notice with a delay that their launcher is gone.
                wait_for_ranks(each)
        found = content(out)
        require(found == whole[name], f"{name} after kills: {found} and not {whole[name]}")
        shutil.rmtree(out)
        ended += 1
    print(f"{done} signals and kills over {ended} runs lost nothing; statuses of mpirun: {statuses}", flush=True)


def wait_for_ranks(each):
    until = time.time() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in each.values()):
        require(time.time() < until, "ranks outlive their launcher")
        time.sleep(0.1)


# A job script that passes requests to stop on as SIGUSR1, which ends neither mpirun nor its ranks.
HANDING_ON = """setsid "$@" & run=$!
trap 'kill -USR1 $run; again=1' INT TERM
again=1
while [ $again ]; do again=; wait $run; status=$?; done
exit $status
"""


def long_run(folder):
    """Trains `long.toml` and returns its content. mpirun waits for the whole SIGKILL_TIMEOUT before it passes SIGTERM on, and the run
    must still be going then, so this function chooses the number of steps by the machine's speed."""
    steps, out = 400, folder / "long"
    while True:
        (folder / "long.toml").write_text(XL.replace("steps = 50", f"steps = {steps}"))
        start = time.time()
        status, said = run(2, ["train", folder / "long.toml", "--quiet", "--run", out])
        require(status == 0, f"the long run: {status}", said)
        if time.time() - start > 3 * SIGKILL_TIMEOUT:
            return content(out)
        shutil.rmtree(out)
        steps *= 2


def asked_to_stop(folder, whole):
    """One signal, to any process, saves once and ends all ranks with 130; another number of ranks continues the run. mpirun itself ends
    with 130, unless it is sent SIGTERM or SIGINT: Open MPI settles on status 1 before any rank hears of it."""
    asked = [
        (signal.SIGTERM, "rank 0", 130),
        (signal.SIGTERM, "rank 1", 130),
        (signal.SIGINT, "rank 0", 130),
        (signal.SIGINT, "rank 1", 130),
        (signal.SIGUSR1, "rank 1", 130),
        (signal.SIGUSR1, "mpirun", 130),
        (signal.SIGTERM, "mpirun", 1),
        (signal.SIGINT, "mpirun", 1),
        (signal.SIGTERM, "job script", 130),
        (signal.SIGINT, "job script", 130),
    ]
    whole = {"xl": whole["xl"], "long": long_run(folder)}
    for number, whom, wanted in asked:
        out = folder / "stopped"
        name = "long" if wanted == 1 else "xl"
        arguments = ["train", folder / f"{name}.toml", "--run", out]
        process = launch(2, arguments, ["sh", "-c", HANDING_ON, "job"] if whom == "job script" else [])
        while not (out / "steps" / "00000006").exists() and process.poll() is None:
            time.sleep(0.01)
        what = f"{number.name} to {whom}"
        if whom.startswith("rank"):
            each = pids(process, 2)
            require(each, "the ranks are not found")
            os.kill(each[int(whom[-1])], number)
        else:
            os.kill(process.pid, number)
        said, _ = process.communicate(timeout=120)
        require(process.returncode == wanted, f"{what}: status {process.returncode}", said)
        require(said.count("interrupted at step") == 1, f"{what}: the interruption is told once", said)
        status, said = run(4, ["resume", out, "--quiet"])
        require(status == 0, f"{what}, resumed by 4 ranks: {status}", said)
        require(content(out) == whole[name], f"{what}, resumed by 4 ranks")
        shutil.rmtree(out)
        print(f"{what}: saved and told once, status {wanted}; 4 ranks go on to the same bits", flush=True)


def refused(folder):
    """Starts must be refused if ranks have different experiments or cannot share a step."""
    out = folder / "refused"
    both = []
    for steps in [60, 61]:
        both.append(["-np", "1", BINARY, "train", str(folder / "lm.toml"), "--run", str(out), "--set", f"train.steps={steps}"])
    said = subprocess.run([*MPIRUN, *both[0], ":", *both[1]], capture_output=True, text=True)
    text = said.stdout + said.stderr
    require(said.returncode == 2 and "rank 1 has a different experiment" in text, f"status {said.returncode}", text)
    for ranks, wanted in [(3, "take 2"), (8, "take 4, or set train.micro_batch_size = 2 for 8")]:
        status, text = run(ranks, ["train", folder / "lm.toml", "--run", out])
        require(status == 2 and wanted in text, f"{ranks} ranks: {status}", text)
        require(text.count("error:") == 1, "the error is told once", text)
    require(not out.exists(), "a refused run leaves a folder")
    print("refused with status 2, told once: another experiment on a rank; 3 and 8 ranks for 4 micro-batches", flush=True)


def speed(folder):
    """Measures the throughput of 2 ranks with 1 thread each against 1 rank with 2 threads."""
    toml = LM.replace("d_model = 64", "d_model = 256").replace("n_layers = 2", "n_layers = 4")
    toml = toml.replace('kind = "reverse"\nlength = 6\nsymbols = 8', 'kind = "random_tokens"\nvocab_size = 512\ncontext = 128')
    toml = toml.replace("valid_items = 100\n", "").replace("eval_every = 20\neval_batches = 3\n", "")
    toml = toml.replace("checkpoint_every = 7", "checkpoint_every = 1000")
    (folder / "speed.toml").write_text(toml)
    for ranks, threads in [(1, 2), (2, 1), (1, 2), (2, 1)]:
        out = folder / "speed"
        environment = {**os.environ, "RAYON_NUM_THREADS": str(threads)}
        command = [BINARY, "train", str(folder / "speed.toml"), "--plain", "--fresh", "--run", str(out)]
        if ranks > 1:
            command = [*MPIRUN, "-np", str(ranks), *command]
        said = subprocess.run(command, capture_output=True, text=True, env=environment)
        require(said.returncode == 0, "the speed is not measured", said.stdout + said.stderr)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        rates = sorted(line["items_per_s"] for line in lines if line.get("items_per_s"))
        note = [line for line in said.stderr.splitlines() if line.startswith("rank 0 of")]
        print(f"{ranks} x {threads} threads: {rates[len(rates) // 2]:.0f} tokens/s  {' '.join(note)}", flush=True)


parser = argparse.ArgumentParser()
parser.add_argument("--binary", default="target/release/formwork")
parser.add_argument("--kills", type=int, default=50)
parser.add_argument("--speed", action="store_true")
parser.add_argument("--exchange", choices=["mpi", "nccl"], default="mpi")
given = parser.parse_args()
EXCHANGE = given.exchange
BINARY = str(Path(given.binary).resolve())
with tempfile.TemporaryDirectory() as place:
    place = Path(place)
    data(place)
    if given.speed:
        speed(place)
    else:
        bits = equal_bits(place)
        refused(place)
        asked_to_stop(place, bits)
        kills(place, bits, given.kills)
