"""Statistics of the initial weights of Hugging Face's classes: initial_weights.json, for tests/it/initial_weights.rs.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.23.0
    python make_initial_weights.py

For each model its `config` (config.json) and `weights`: for each parameter except the head its mean, its standard deviation (the
mean over 16 models) and the number of its elements.

Version 5 ties the head of a new T5 whatever its configuration says; `_init_weights` would draw an untied one with a
standard deviation of 1. BERT and its relatives are initialised as by the class,
normal with 0.02; the released code of BERT and ELECTRA truncates at two standard deviations. The padding row is 0
in tables with a `padding_idx`.
"""

import json
import os

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers as hf

MODELS = 16
ENCODER = dict(vocab_size=211, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=20)
T5 = dict(vocab_size=211, d_model=64, d_kv=8, d_ff=160, num_layers=2, num_decoder_layers=2, num_heads=4)
GATED = dict(T5, feed_forward_proj="gated-gelu")
SIDES = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in dict(layers=2, attention_heads=4, ffn_dim=160).items()}

DISTANCES = dict(
    hidden_size=64, intermediate_size=160, relative_attention=True, position_biased_input=False, pos_att_type=["c2p", "p2c"], **ENCODER
)  # fmt: skip

CASES = {
    "t5": ("T5ForConditionalGeneration", hf.T5Config(**T5)),
    "t5_gated": ("T5ForConditionalGeneration", hf.T5Config(**GATED)),
    "mt5": ("MT5ForConditionalGeneration", hf.MT5Config(**GATED)),
    "bart": ("BartForConditionalGeneration", hf.BartConfig(vocab_size=211, d_model=64, max_position_embeddings=20, **SIDES)),
    "falcon": (
        "FalconForCausalLM",
        hf.FalconConfig(
            vocab_size=211, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_kv_heads=2, new_decoder_architecture=True
        ),
    ),
    "bert": ("BertForMaskedLM", hf.BertConfig(hidden_size=64, intermediate_size=160, **ENCODER)),
    "roformer": ("RoFormerForMaskedLM", hf.RoFormerConfig(hidden_size=64, intermediate_size=160, embedding_size=64, **ENCODER)),
    "electra": ("ElectraForMaskedLM", hf.ElectraConfig(hidden_size=64, intermediate_size=160, embedding_size=32, **ENCODER)),
    "distilbert": (
        "DistilBertForMaskedLM",
        hf.DistilBertConfig(vocab_size=211, dim=64, hidden_dim=160, n_layers=2, n_heads=4, max_position_embeddings=20),
    ),
    "deberta": ("DebertaForMaskedLM", hf.DebertaConfig(**DISTANCES, max_relative_positions=32)),
    "deberta_v2": (
        "DebertaV2ForMaskedLM",
        hf.DebertaV2Config(**DISTANCES, position_buckets=32, max_relative_positions=64, share_att_key=True, norm_rel_ebd="layer_norm"),
    ),
}  # fmt: skip


def measured(name, config):
    config.architectures = [name]
    found = {}
    for seed in range(MODELS):
        torch.manual_seed(seed)
        model = getattr(hf, name)(config)
        for key, x in model.named_parameters():
            head = key.startswith(("cls.", "vocab_", "generator_")) or "embed_positions" in key and not x.requires_grad
            if not head:
                found.setdefault(key, []).append((x.mean().item(), x.std().item(), x.numel()))
    mean = lambda numbers: sum(numbers) / len(numbers)
    rows = {key: [round(mean(column), 6) for column in zip(*rows)] for key, rows in found.items()}
    return {"config": json.loads(config.to_json_string()), "weights": rows}


if __name__ == "__main__":
    torch.set_num_threads(1)
    made = {name: measured(*case) for name, case in CASES.items()}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "initial_weights.json")
    with open(path, "w") as file:
        json.dump(made, file, indent=1)
        file.write("\n")
    for name, case in made.items():
        print(name, len(case["weights"]), os.path.getsize(path))
