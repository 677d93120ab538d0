"""Runs Taplo, the TOML tool behind editors, over every shipped experiment with the schema that `formwork schema` prints.

pip install taplo==0.9.3; python benches/taplo.py target/release/formwork [--taplo taplo]

Each experiment is copied beside the schema with `#:schema ./formwork.schema.json` as its first line, as a user would
write it. `taplo lint` must accept it, and must reject a few wrong files.
"""

import argparse
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).parent.parent
BASE = (ROOT / "experiments/smoke/tiny.toml").read_text()

# Errors to be found, as (line of the smoke test's experiment, wrong line in its place).
WRONG = [
    ('seed = 3', 'sead = 3'),
    ('seed = 3', 'seed = "three"'),
    ('d_model = 32', 'd_modle = 32'),
    ('d_model = 32', 'd_model = 0'),
    ('dropout = 0.1', 'dropout = 1.0'),
    ('norm = { kind = "rms" }', 'norm = { kind = "rsm" }'),
    ('norm = { kind = "rms" }', 'norm = { kind = "rms", eps = 0.0 }'),
    ('position = { kind = "rotary" }', 'position = { kind = "rotary", thetta = 1.0 }'),
    ('kind = "adamw"', 'kind = "adamww"'),
    ('lr = 3e-3', 'lr = -1.0'),
    ('batch_size = 8', 'batch_size = 0'),
    ('eval_every = 10', 'eval_evry = 10'),
    ('ema = 0.9', 'ema = 1.0'),
]


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("formwork")
    options.add_argument("--taplo", default="taplo")
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        schema = subprocess.run([options.formwork, "schema"], check=True, capture_output=True, text=True).stdout
        (folder / "formwork.schema.json").write_text(schema)

        def lint(texts):
            """Lints the files, given as texts by name; returns Taplo's status and messages."""
            for name, text in texts.items():
                (folder / name).write_text("#:schema ./formwork.schema.json\n" + text)
            run = subprocess.run(
                [options.taplo, "lint", "--no-auto-config", *texts], cwd=folder, capture_output=True, text=True
            )
            return run.returncode, run.stderr

        shipped = sorted((ROOT / "experiments").rglob("*.toml"))
        status, said = lint({str(path.relative_to(ROOT)).replace("/", "-"): path.read_text() for path in shipped})
        assert status == 0, said
        print(f"{len(shipped)} shipped experiments are valid")
        for number, (line, instead) in enumerate(WRONG):
            assert line in BASE, line
            status, said = lint({f"wrong-{number}.toml": BASE.replace(line, instead, 1)})
            assert status != 0, f"{instead} is valid"
            faults = [text for text in said.splitlines() if text.startswith("error")]
            print(f"refused: {instead}: {faults[0] if faults else said.strip().splitlines()[0]}")


if __name__ == "__main__":
    main()
