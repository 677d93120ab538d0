"""Runs of Formwork from Python: tables of runs, journals, weights. Training is the binary's work.

    import formwork
    formwork.runs("checkpoints/*")                 # a pandas table, a row a run
    formwork.journal("checkpoints/quickstart")     # a pandas table, a row a line of metrics.jsonl
    formwork.load("checkpoints/quickstart")        # the weights of the best checkpoint, by name
"""

from __future__ import annotations

import difflib
import glob
import json
import os
import shutil
import subprocess
import sysconfig
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

__all__ = ["binary", "journal", "load", "runs"]

#: The columns that a table of runs has before the settings and the scores.
COLUMNS = ["run", "name", "state", "step", "steps", "seed", "metric", "score", "age_s"]


def binary() -> str:
    """The path of the program: the one beside this module, else the one on the path.

    Raises FileNotFoundError where there is none.
    """
    name = "formwork.exe" if os.name == "nt" else "formwork"
    for folder in [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user")]:
        path = Path(folder) / name
        if path.is_file():
            return str(path)
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError("the program `formwork` is neither beside this module nor on the path")
    return found


def runs(pattern: str | os.PathLike[str] = "checkpoints/*") -> "pandas.DataFrame":
    """A table with a row for each run that `pattern` finds: a folder, or a pattern with `*`, of runs or of folders with runs.

    After COLUMNS it has the settings by dotted key (`model.n_layers`) and the scores (`valid.loss`). A run that cannot be
    read has the state `unreadable`. No run makes an empty table.
    """
    pandas = _needs("pandas", "pandas")
    rows: dict[str, dict[str, Any]] = {}
    for folder in sorted(glob.glob(os.fspath(pattern))):
        if not os.path.isdir(folder):
            continue
        told = subprocess.run([binary(), "runs", folder, "--json"], capture_output=True, text=True, check=False)
        if told.returncode != 0:
            raise ValueError(told.stderr.strip().removeprefix("error: ") or f"{folder} cannot be listed")
        for row in json.loads(told.stdout):
            rows.setdefault(os.path.realpath(row["run"]), row)
    table = [_whole(row) for row in rows.values()]
    frame = pandas.DataFrame(table)
    return frame.reindex(columns=[*COLUMNS, *(c for c in frame.columns if c not in COLUMNS)])


def journal(run: str | os.PathLike[str]) -> "pandas.DataFrame":
    """A table with a row for each line of a run's metrics.jsonl: step, split, loss, metrics, rates, times."""
    pandas = _needs("pandas", "pandas")
    text = (_folder(run) / "metrics.jsonl").read_text(encoding="utf-8")
    # The last line of a run that is at work may be half written.
    whole = text[: text.rfind("\n") + 1]
    return pandas.DataFrame([json.loads(line) for line in whole.splitlines()])


def load(run: str | os.PathLike[str], checkpoint: str | int = "best", framework: str = "numpy") -> dict[str, Any]:
    """The weights of a run's checkpoint by name: `best`, `latest` or a step; as arrays of `numpy` or `torch`."""
    if framework not in ("numpy", "torch"):
        raise ValueError(f"framework {framework!r} is neither 'numpy' nor 'torch'{_near(framework, ['numpy', 'torch'])}")
    folder = _folder(run)
    steps = sorted(path.name for path in (folder / "steps").glob("[0-9]*"))
    if isinstance(checkpoint, int):
        place = folder / "steps" / f"{checkpoint:08d}"
        known = [str(int(step)) for step in steps]
    elif checkpoint in ("best", "latest"):
        place, known = folder / checkpoint, []
    else:
        raise ValueError(f"checkpoint {checkpoint!r} is neither 'best', 'latest' nor a step")
    file = place / "model.safetensors"
    if not file.is_file():
        steps_there = f"; its checkpoints are of the steps {', '.join(known)}" if known else ""
        raise FileNotFoundError(f"{file} is not there{steps_there}")
    module = _needs(f"safetensors.{framework}", framework)
    return module.load_file(file)


def _folder(run: str | os.PathLike[str]) -> Path:
    """The folder of a run."""
    folder = Path(run)
    if (folder / "resolved.toml").is_file():
        return folder
    beside = [path.name for path in folder.parent.glob("*") if (path / "resolved.toml").is_file()]
    raise FileNotFoundError(f"{folder} is not the folder of a run{_near(folder.name, beside)}")


def _near(given: str, known: list[str]) -> str:
    near = difflib.get_close_matches(given, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _whole(row: dict[str, Any]) -> dict[str, Any]:
    """A row with the run's settings and scores."""
    folder = Path(row["run"])
    try:
        settings = tomllib.loads((folder / "resolved.toml").read_text(encoding="utf-8"))
        row = {**row, "name": settings.get("name"), "seed": settings.get("seed"), **_flat(settings)}
    except (OSError, tomllib.TOMLDecodeError):
        return row
    try:
        scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
        row |= {key: value for key, value in _flat(scores).items() if isinstance(value, int | float)}
    except (OSError, json.JSONDecodeError):
        pass
    return row


def _flat(table: dict[str, Any], above: str = "") -> dict[str, Any]:
    """The values of a table of tables by dotted key, without name and seed of the whole."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{above}{key}.")
        elif above or key not in ("name", "seed"):
            flat[above + key] = value
    return flat


def _needs(module: str, extra: str) -> Any:
    """A module that only some functions need."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{module} is not installed: pip install 'formwork[{extra}]'") from error
