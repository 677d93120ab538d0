"""Adapters of LoRA as `peft` saves them, for three of the folders in tests/fixtures/hf: tests/fixtures/peft/NAME/.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.23.0 peft==0.21.2 safetensors==0.8.0
    python make_peft.py

A folder has its base's name and contains adapter_config.json, adapter_model.safetensors and
`reference.safetensors`: the inputs of benches/hf_reference.py's pattern, and the logits of the base with its adapters in
float32. The factors are random (B, too), and large enough for the adapters to change every logit.

    gpt2_1   `Conv1D` with queries, keys and values in one matrix; another rank and another α by pattern
    llama_1  every linear map of the blocks, rank-stabilised (α/√r), 16-bit factors
    bert_1   queries and values, and a layer of the head trained in full
"""

import json
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "benches"))

import hf_reference
import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

WANTED = {"torch": "2.15.0", "transformers": "5.23.0", "peft": "0.21.2"}
BASES = os.path.join(HERE, "..", "fixtures", "hf")
OUT = os.path.join(HERE, "..", "fixtures", "peft")

ADAPTERS = {
    "gpt2_1": dict(
        task_type="CAUSAL_LM",
        r=3,
        lora_alpha=6,
        target_modules=["c_attn", "attn.c_proj", "c_fc"],
        rank_pattern={"c_fc": 5},
        alpha_pattern={"h.1.attn.c_attn": 9},
        fan_in_fan_out=True,
    ),
    "llama_1": dict(
        task_type="CAUSAL_LM",
        r=4,
        lora_alpha=3,
        target_modules="all-linear",
        use_rslora=True,
        lora_dropout=0.1,
    ),
    "bert_1": dict(
        r=2,
        lora_alpha=8,
        target_modules=["query", "value"],
        modules_to_save=["cls.predictions.transform.dense"],
    ),
}


def make(name, settings):
    base = os.path.join(BASES, name)
    folder = os.path.join(OUT, name)
    shutil.rmtree(folder, ignore_errors=True)
    generator = torch.Generator().manual_seed(len(name) * 1000 + settings["r"])
    model = peft.get_peft_model(hf_reference.load(base), peft.LoraConfig(**settings))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "README.md"))
    config = os.path.join(folder, "adapter_config.json")
    with open(config) as file:
        text = json.load(file)
    text["base_model_name_or_path"] = None
    with open(config, "w") as file:
        json.dump(text, file, indent=2, sort_keys=True)
        file.write("\n")
    if name == "llama_1":
        weights = os.path.join(folder, "adapter_model.safetensors")
        halves = {key: x.to(torch.float16) for key, x in load_file(weights).items()}
        save_file(halves, weights, metadata={"format": "pt"})
    again = peft.PeftModel.from_pretrained(hf_reference.load(base), folder).eval().get_base_model().float()
    inputs = hf_reference.pattern(again, base, 2, 12)
    reference = {key: x.contiguous() for key, x in inputs.items()}
    reference["expected.logits"] = hf_reference.compute(again, inputs)["logits"].float().contiguous()
    plain = hf_reference.compute(hf_reference.load(base), inputs)["logits"]
    change = (plain - reference["expected.logits"]).abs().max().item()
    save_file(reference, os.path.join(folder, "reference.safetensors"))
    print(f"{name}: the adapters move logits by up to {change:.2f}")


for package, version in WANTED.items():
    found = sys.modules[package].__version__.split("+")[0]
    assert found == version, f"{package} is {found}, not {version}"
for name, settings in ADAPTERS.items():
    make(name, settings)
