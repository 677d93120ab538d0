#!/usr/bin/env python3
"""Sends sentence-transformers folders through Formwork and back: the same texts must get the same embeddings.

    python3 benches/sentence_embeddings.py [--bin target/release/formwork] [--work FOLDER] [--seed 0] [--tolerance 1e-5]

Small models with random weights and their tokenizers are made here: BERT with WordPiece, RoBERTa with byte-level BPE, and
DistilBERT; pooling by mean or cls, with and without Normalize. One truncates texts to fewer tokens than it has positions, and one
has the files that sentence-transformers 2.2 wrote. For each:

    library   SentenceTransformer of the folder, compared with transformers' model plus the pooling and normalisation written here
    encode    formwork import FOLDER RUN and formwork encode RUN TEXTS, compared with the library's embeddings
    export    formwork export RUN OUT: SentenceTransformer of OUT compared with that of FOLDER, with the same pooling mode,
              Normalize in both or in neither, and texts truncated to the same length

Prints one line per check with the largest difference; the exit status is 1 if one fails. --library runs only the first check,
without Formwork. Needs torch, transformers (written for 5.23.0) and sentence-transformers (6.2.0); nothing is downloaded.

Measured 2026-11-27, only the library check, --seed 0 and --seed 7: 5 folders, 0 failed, 1.1e-6 at most.
"""

import argparse
import datetime
import json
import os
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
HERE = os.path.dirname(os.path.abspath(__file__))

import numpy as np
import sentence_transformers
import torch
import transformers
from hf_roundtrip import Failed, command
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from tokenizers import ByteLevelBPETokenizer

POSITIONS = 64
TEXTS = [
    "a cat sat on the mat",
    "A cat sat on the mat.",
    "the dogs ran home, didn't they?",
    "x",
    "Words without a place in the vocabulary: quixotic Zebras!",
    "na\u00efve caf\u00e9, \u65e5\u672c \u00df",
    "  two  blanks ",
    "the mat the cat the dog " * 4,
    "a text that is longer than the positions of the model " * 12,
]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = "the a cat sat on mat dog ran home text that is long of and in they without ##s ##er ##ing ##ary".split()
LETTERS = [chr(x) for x in range(ord("a"), ord("z") + 1)] + list("0123456789.,:!?'")
SIZES = {"max_position_embeddings": POSITIONS, "initializer_range": 0.2}


def word_pieces(work):
    path = os.path.join(work, "vocab.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(dict.fromkeys(SPECIAL + LETTERS + ["##" + x for x in LETTERS] + WORDS)) + "\n")
    return transformers.BertTokenizerFast(path, model_max_length=POSITIONS)


def byte_pairs(work):
    trained = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained.train_from_iterator(TEXTS, vocab_size=320, min_frequency=1, special_tokens=special, show_progress=False)
    files = trained.save_model(work)
    return transformers.RobertaTokenizerFast(*files, model_max_length=POSITIONS)


def bert(work):
    tokenizer = word_pieces(work)
    blocks = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    return tokenizer, transformers.BertModel(transformers.BertConfig(vocab_size=len(tokenizer), **blocks, **SIZES))


def roberta(work):
    tokenizer = byte_pairs(work)
    blocks = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    # Positions start after the padding id.
    sizes = SIZES | {"max_position_embeddings": POSITIONS + 2, "type_vocab_size": 1}
    special = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    config = transformers.RobertaConfig(vocab_size=len(tokenizer), **blocks, **sizes, **special)
    return tokenizer, transformers.RobertaModel(config)


def distilbert(work):
    tokenizer = word_pieces(work)
    config = transformers.DistilBertConfig(vocab_size=len(tokenizer), dim=32, n_layers=2, n_heads=4, hidden_dim=48, **SIZES)
    return tokenizer, transformers.DistilBertModel(config)


def older(folder):
    """Rewrites the files beside the network as sentence-transformers 2.2 wrote them."""
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    modes = ["cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens"]
    files = {
        "modules.json": [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (path, kind) in enumerate(kinds)
        ],
        "1_Pooling/config.json": {"word_embedding_dimension": 32}
        | {"pooling_mode_" + mode: mode == "mean_tokens" for mode in modes},
        "sentence_bert_config.json": {"max_seq_length": 40, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "__version__": {"sentence_transformers": "2.0.0", "transformers": "4.6.1", "pytorch": "1.8.1"}
        },
    }
    for name, value in files.items():
        with open(os.path.join(folder, name), "w") as file:
            json.dump(value, file, indent=2)
    # The tokenizer's own maximum length was that of the network.
    path = os.path.join(folder, "tokenizer_config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config | {"model_max_length": POSITIONS}, file, indent=2)
    # The folder of Normalize was empty, and git does not keep empty folders.
    os.remove(os.path.join(folder, "2_Normalize", "config.json"))
    os.rmdir(os.path.join(folder, "2_Normalize"))


# Network, pooling mode, whether embeddings have length 1, maximum number of tokens, and a function that changes the saved folder.
CASES = {
    "bert_mean_normalized": (bert, "mean", True, POSITIONS, None),
    "bert_cls": (bert, "cls", False, 24, None),
    "bert_older_files": (bert, "mean", True, 40, older),
    "roberta_mean": (roberta, "mean", False, POSITIONS, None),
    "distilbert_mean": (distilbert, "mean", False, POSITIONS, None),
}


def make(case, folder, work):
    build, mode, unit, longest, change = case
    tokenizer, network = build(work)
    plain = os.path.join(work, "plain")
    tokenizer.save_pretrained(plain)
    network.save_pretrained(plain)
    modules = [Transformer(plain), Pooling(32, mode)] + [Normalize()] * unit
    model = SentenceTransformer(modules=modules, device="cpu")
    model.max_seq_length = longest
    model.save_pretrained(folder, create_model_card=False)
    if change:
        change(folder)


def vectors(folder):
    return SentenceTransformer(folder, device="cpu").encode(TEXTS, show_progress_bar=False)


def defined(case, folder):
    """Returns the embeddings as computed with transformers only, one text at a time."""
    _, mode, unit, longest, _ = case
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    network = transformers.AutoModel.from_pretrained(folder).eval()
    found = []
    for text in TEXTS:
        read = tokenizer(text, truncation=True, max_length=longest, return_tensors="pt")
        with torch.no_grad():
            states = network(**read).last_hidden_state[0]
        vector = states[0] if mode == "cls" else states.mean(0)
        found.append(vector / vector.norm() if unit else vector)
    return torch.stack(found).numpy()


def far(ours, theirs):
    if ours.shape != theirs.shape:
        raise Failed(f"the vectors are {list(ours.shape)}, not {list(theirs.shape)}")
    if not np.isfinite(ours).all():
        raise Failed("there are numbers that are not finite")
    return float(np.abs(ours - theirs).max())


def modules(folder):
    """Returns a folder's pooling modes, whether it has Normalize, and its maximum number of tokens."""
    model = SentenceTransformer(folder, device="cpu")
    pooling = [module.pooling_mode for module in model if isinstance(module, Pooling)]
    return pooling, any(isinstance(module, Normalize) for module in model), model.max_seq_length


def checks(case, formwork, work):
    """Yields the name of each check and its largest difference."""
    at = lambda name: os.path.join(work, name)
    folder = at("folder")
    make(case, folder, work)
    theirs = vectors(folder)
    cosines = np.corrcoef(theirs)[np.triu_indices(len(TEXTS), 1)]
    if np.median(cosines) > 0.99:
        raise Failed("the texts have nearly one vector")
    wanted = ([case[1]], case[2], case[3])
    if modules(folder) != wanted:
        raise Failed(f"the library's folder has {modules(folder)}, not {wanted}")
    yield "library", far(theirs, defined(case, folder))
    if formwork is None:
        return
    with open(at("texts.txt"), "w", encoding="utf-8") as file:
        file.write("".join(text + "\n" for text in TEXTS))
    command(formwork, "import", folder, at("run"))
    command(formwork, "encode", at("run"), at("texts.txt"), "--out", at("v.npy"))
    yield "encode", far(np.load(at("v.npy")), theirs)
    command(formwork, "export", at("run"), at("exported"))
    if modules(at("exported")) != wanted:
        raise Failed(f"the exported folder has {modules(at('exported'))}, not {wanted}")
    yield "export", far(vectors(at("exported")), theirs)


def main():
    p = argparse.ArgumentParser(description="Folders of sentence-transformers through Formwork and back.")
    p.add_argument("--bin", default=os.path.join(HERE, "..", "target", "release", "formwork"))
    p.add_argument("--work", metavar="FOLDER", help="where the folders are made and kept; a temporary one when absent")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--tolerance", type=float, default=1e-5)
    p.add_argument("--library", action="store_true", help="the checks without Formwork")
    a = p.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    versions = f"sentence-transformers {sentence_transformers.__version__}, transformers {transformers.__version__}"
    print(f"{datetime.date.today()}  {versions}, torch {torch.__version__}  seed {a.seed}  tolerance {a.tolerance:g}")
    failures = 0
    with tempfile.TemporaryDirectory() as temporary:
        for name, case in CASES.items():
            work = os.path.join(a.work or temporary, name)
            torch.manual_seed(a.seed)
            try:
                os.makedirs(work)
                for check, x in checks(case, None if a.library else a.bin, work):
                    failed = not x < a.tolerance
                    failures += failed
                    print(f"{name:22} {check:8} {x:9.1e}{'  FAILED' * failed}", flush=True)
            except Exception as error:  # one folder that fails does not hide the others
                failures += 1
                said = str(error) if isinstance(error, Failed) else repr(error)
                print(f"{name:22} {'':8} {'':9}  FAILED: {said}", flush=True)
    print(f"{len(CASES)} folders, {failures} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
