#!/usr/bin/env python3
"""Sends LoRA adapters through Formwork and `peft`, both ways: the logits must be the same in both.

    python3 benches/peft_roundtrip.py [--formwork target/release/formwork] [--seed 0] [--tolerance 1e-4] [FOLDER…]

For each folder of a Hugging Face model (some of tests/fixtures/hf unless some are named):

    import    `peft` puts adapters with random factors on the model and saves them; formwork import FOLDER RUN --adapter
              reads them, and formwork infer RUN gives the logits of `peft`
    export    formwork export RUN BASE --base and formwork export RUN ADAPTER --adapter; PeftModel.from_pretrained puts
              ADAPTER on the model in BASE, which gives the same logits as before
    merged    formwork export RUN MERGED: transformers without peft gives the same logits for that folder
    trained   for causal language models: a few steps of Formwork on random tokens with [lora] and [init] from the imported
              model; formwork infer is compared with PeftModel.from_pretrained of the exported adapter on FOLDER itself

Prints the largest differences from peft's logits; the exit status is 1 if a folder fails or a difference is above the
tolerance. Needs torch, transformers (written for 5.23.0), peft (0.21.2) and safetensors; nothing is downloaded.

Measured 2026-11-23, commit bf1ef89, --seed 7: 10 folders, 0 failed, 1.4e-5 at most.
"""

import argparse
import datetime
import os
import sys
import tempfile
import warnings

import hf_reference
import hf_roundtrip
import peft
import torch
import transformers
from hf_roundtrip import Failed, command, far
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
FIXTURES = hf_roundtrip.FIXTURES
FOLDERS = ["gpt2_1", "gpt2_2", "llama_1", "llama_2", "bert_1", "bert_2", "gpt_neox_1", "falcon_2", "qwen3_1", "t5_1"]
RANK, ALPHA = 3, 5

EXPERIMENT = """
name = "peft-roundtrip"
seed = 5
{model}
[init]
from = "{base}"
[lora]
rank = 2
alpha = 6.0
[data]
kind = "random_tokens"
vocab_size = {vocab}
context = {context}
valid_items = 0
[task]
kind = "causal_lm"
[optimizer]
kind = "adamw"
lr = 0.1
[train]
steps = 5
batch_size = 4
"""


def linear_modules(model):
    """Returns the names of the weight matrices inside the blocks of any model family."""
    kinds = (torch.nn.Linear, transformers.pytorch_utils.Conv1D)
    return [name for name, x in model.named_modules() if isinstance(x, kinds) and any(p.isdigit() for p in name.split("."))]


def logits(model, inputs):
    return hf_reference.compute(model, inputs)


def infer(formwork, run, inputs_file, outputs_file):
    command(formwork, "infer", run, "--inputs", inputs_file, "--outputs", outputs_file)
    return load_file(outputs_file)


def with_adapter(folder, adapter):
    return peft.PeftModel.from_pretrained(hf_reference.load(folder), adapter).eval().get_base_model()


def model_tables(run):
    """Returns the [model] tables of a run, to train its model further."""
    with open(os.path.join(run, "resolved.toml")) as file:
        text = file.read()
    kept, keep = [], False
    for line in text.splitlines():
        if line.startswith("["):
            keep = line.lstrip("[").startswith("model")
        if keep:
            kept.append(line)
    return "\n".join(kept)


def trained(folder, formwork, work, inputs, inputs_file, outputs_file):
    base, run, adapter = (os.path.join(work, name) for name in ("base_run", "trained", "trained_adapter"))
    command(formwork, "import", folder, base)
    experiment = os.path.join(work, "experiment.toml")
    config = transformers.AutoConfig.from_pretrained(folder)
    # A learned position table must be as long as the context.
    context = getattr(config, "n_positions", 12)
    with open(experiment, "w") as file:
        file.write(EXPERIMENT.format(model=model_tables(base), base=base, vocab=config.vocab_size, context=context))
    command(formwork, "train", experiment, "--run", run, "--quiet")
    command(formwork, "export", run, adapter, "--adapter")
    theirs = logits(with_adapter(folder, adapter), inputs)
    plain = logits(hf_reference.load(folder), inputs)
    if far(theirs, plain, inputs)[0] < 1e-3:
        raise Failed("training did not move the adapters")
    return far(infer(formwork, run, inputs_file, outputs_file), theirs, inputs)[0]


def round_trip(folder, formwork, seed, work):
    at = lambda name: os.path.join(work, name)
    inputs_file, outputs_file = at("in.safetensors"), at("out.safetensors")
    model = hf_reference.load(folder)
    inputs = hf_roundtrip.draw(model, folder, seed)
    save_file({name: x.contiguous() for name, x in inputs.items()}, inputs_file)
    conv = any(isinstance(x, transformers.pytorch_utils.Conv1D) for x in model.modules())
    config = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=linear_modules(model), fan_in_fan_out=conv)
    plain = logits(model, inputs)
    adapted = peft.get_peft_model(model, config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in adapted.parameters():
            if parameter.requires_grad:
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    adapted.save_pretrained(at("peft"))
    theirs = logits(adapted.eval().get_base_model(), inputs)
    if far(theirs, plain, inputs)[0] < 1e-2:
        raise Failed("the adapters change nothing")
    command(formwork, "import", folder, at("run"), "--adapter", at("peft"))
    found = {"import": far(infer(formwork, at("run"), inputs_file, outputs_file), theirs, inputs)[0]}
    command(formwork, "export", at("run"), at("base"), "--base")
    command(formwork, "export", at("run"), at("adapter"), "--adapter")
    found["export"] = far(logits(with_adapter(at("base"), at("adapter")), inputs), theirs, inputs)[0]
    command(formwork, "export", at("run"), at("merged"))
    found["merged"] = far(logits(hf_reference.load(at("merged")), inputs), theirs, inputs)[0]
    if "CausalLM" in type(model).__name__ or "LMHead" in type(model).__name__:
        found["trained"] = trained(folder, formwork, work, inputs, inputs_file, outputs_file)
    return found


def main():
    p = argparse.ArgumentParser(description="Adapters of LoRA through Formwork and peft, both ways.")
    p.add_argument("folders", nargs="*", metavar="FOLDER")
    p.add_argument("--formwork", default=os.path.join(HERE, "..", "target", "release", "formwork"))
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--tolerance", type=float, default=1e-4)
    a = p.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    folders = a.folders or [os.path.join(FIXTURES, name) for name in FOLDERS]
    versions = f"peft {peft.__version__}, transformers {transformers.__version__}, torch {torch.__version__}"
    print(f"{datetime.date.today()}  {versions}  seed {a.seed}  tolerance {a.tolerance:g}")
    ways = ["import", "export", "merged", "trained"]
    print(f"{'folder':16} " + " ".join(f"{way:>9}" for way in ways) + "  note")
    failures = 0
    for folder in folders:
        name, found, note = os.path.basename(os.path.normpath(folder)), {}, ""
        try:
            with tempfile.TemporaryDirectory() as work:
                found = round_trip(os.path.abspath(folder), a.formwork, a.seed, work)
            above = [way for way, x in found.items() if not x <= a.tolerance]
            note = "FAILED: " + ", ".join(above) if above else ""
        except Exception as error:  # one folder that fails does not hide the others
            said = str(error).splitlines()[0] if isinstance(error, Failed) else repr(error)
            note = f"FAILED: {said}"
        failures += bool(note)
        shown = (f"{found[way]:9.1e}" if way in found else " " * 9 for way in ways)
        print(f"{name:16} " + " ".join(shown) + f"  {note}", flush=True)
    print(f"{len(folders)} folders, {failures} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
