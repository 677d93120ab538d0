"""Oracle of the frame that a saved tokenizer.json puts around texts, and of blanks before a mask: the file loaded in Hugging Face
transformers.

Run by hand in this folder, with the program that writes the files; nothing is downloaded:

    pip install transformers==4.57.1
    FORMWORK=../../target/release/formwork python make_tokenizer_frames.py

tokenizer_frames.json is a list of cases: `name`, the `experiment` (its data is `text.txt`, whose content is `text`, or
`pairs.tsv`, its lines twice with a tab and `0` or `1`, or the pair of `text.txt` and itself), the SHA-256 of the
`tokenizer.json` that formwork writes (`digest`), and for each of `texts` and `pairs` the ids of
`PreTrainedTokenizerFast`: `ids` and `pair_ids`.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile

import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
TEXT = "".join(
    f"the {animal} {does} on the {place}, and the {other} {looks} at it.\n"
    for animal, does, place, other, looks in zip(
        ["cat", "old dog", "bird", "small mouse"] * 12,
        ["sits", "sleeps", "sings"] * 16,
        ["mat", "roof", "branch", "floor", "table"] * 10,
        ["child", "woman", "man"] * 16,
        ["looks", "smiles", "points", "laughs"] * 12,
    )
)
TEXTS = ["the cat sits on the mat", "a", "the old dog {mask} on the roof.", "{mask} {mask}, and{mask}"]
PAIRS = [["the cat sits", "the old dog sleeps"], ["a bird {mask}", "{mask} it"]]

MODEL = """
[model]
kind = "{model}"
d_model = 8
{layers}
attention = {{ kind = "multi_head", n_heads = 1 }}
"""
REST = """
[optimizer]
kind = "adamw"
lr = 1e-3
[train]
steps = 1
batch_size = 2
"""
LAYERS = {"encoder_decoder": "n_encoder_layers = 1\nn_decoder_layers = 1"}
READ = '[data]\nkind = "text"\npath = "text.txt"\ncontext = 24\n[task]\nkind = "{task}"\n'
LABELLED = '[data]\nkind = "labelled_text"\npath = "pairs.tsv"\ncontext = 40\n[task]\nkind = "text_classification"\n'
WRITTEN = """[data]
kind = "pairs"
source = "text.txt"
target = "text.txt"
valid_fraction = 0.2
max_len = 60
[task]
kind = "translation"
"""
CASES = [
    ("bpe_masked", "encoder", READ.format(task="masked_lm"), 'kind = "bpe"\nvocab_size = 300'),
    ("unigram_masked", "encoder", READ.format(task="masked_lm"), 'kind = "unigram"\nvocab_size = 120'),
    ("wordpiece_masked", "encoder", READ.format(task="masked_lm"), 'kind = "wordpiece"\nvocab_size = 120'),
    ("char_masked", "encoder", READ.format(task="masked_lm"), 'kind = "char"'),
    ("byte_masked", "encoder", READ.format(task="masked_lm"), 'kind = "byte"'),
    ("bpe_classes", "encoder", LABELLED, 'kind = "bpe"\nvocab_size = 300'),
    ("bpe_translation", "encoder_decoder", WRITTEN, 'kind = "bpe"\nvocab_size = 300'),
    ("wordpiece_translation", "encoder_decoder", WRITTEN, 'kind = "wordpiece"\nvocab_size = 120'),
    ("wordpiece_causal", "decoder", READ.format(task="causal_lm"), 'kind = "wordpiece"\nvocab_size = 120'),
    ("unigram_causal", "decoder", READ.format(task="causal_lm"), 'kind = "unigram"\nvocab_size = 120'),
]


def experiment(name, model, data, tokenizer):
    layers = LAYERS.get(model, "n_layers = 1")
    head = f'name = "{name}"\n' + MODEL.format(model=model, layers=layers)
    return head + data + f"[tokenizer]\n{tokenizer}\n" + REST


def case(folder, name, text):
    path = os.path.join(folder, name + ".toml")
    with open(path, "w") as file:
        file.write(text)
    run = os.path.join(folder, name)
    # Token caches stay out of this folder.
    surroundings = os.environ | {"FORMWORK_CACHE": os.path.join(folder, "cache")}
    command = [os.environ["FORMWORK"], "train", path, "--run", run, "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=surroundings)
    path = os.path.join(run, "tokenizer.json")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=path)
    mask = next((t for t in ["[MASK]", "<mask>"] if t in tokenizer.get_vocab()), "cat")
    texts = [text.format(mask=mask) for text in TEXTS]
    pairs = [[text.format(mask=mask) for text in pair] for pair in PAIRS]
    return {
        "name": name,
        "experiment": text,
        "digest": hashlib.sha256(open(path, "rb").read()).hexdigest(),
        "texts": texts,
        "ids": [tokenizer(text)["input_ids"] for text in texts],
        "pairs": pairs,
        "pair_ids": [tokenizer(*pair)["input_ids"] for pair in pairs],
    }


if __name__ == "__main__":
    print("transformers", transformers.__version__, file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "text.txt"), "w") as file:
            file.write(TEXT)
        with open(os.path.join(folder, "pairs.tsv"), "w") as file:
            file.writelines(f"{line}\t{n % 2}\n" for n, line in enumerate(TEXT.splitlines() * 2))
        cases = [case(folder, c[0], experiment(*c)) for c in CASES]
    with open(os.path.join(HERE, "tokenizer_frames.json"), "w") as file:
        json.dump({"text": TEXT, "cases": cases}, file, indent=1)
        file.write("\n")
