#!/usr/bin/env python3
"""Ids of transformers for real vocabularies and small SentencePiece models, for tests/it/hf_tokenizers.rs. Run by hand.

Versions: Python 3.11 or later, transformers 5.23.0, tokenizers 0.23.3, sentencepiece 0.2.3, protobuf, sacremoses.

    make_tokenizers.py DATA [FOLDER]

DATA holds `tokenizers/` and `wikitext2/`. Written are, into this folder or FOLDER:

* tokenizers.json: for each vocabulary the ids of the first 10,000 lines of WikiText-2's training text, framed as
  transformers frames them, as one SHA-256 of the little-endian 32-bit ids for each 100 lines with their number, and
  the ids of some awkward lines in full, with and without the frame.
* sentencepiece/: models that are trained here on the same text, small enough to be kept, as folders.
"""
import gzip
import hashlib
import json
import pathlib
import random
import shutil
import struct
import sys
import tempfile

import sentencepiece
import transformers
from sentencepiece import sentencepiece_model_pb2 as spm
from transformers import AutoTokenizer

DATA = pathlib.Path(sys.argv[1])
HERE = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(__file__).parent
LINES = gzip.open(DATA / "wikitext2/train.txt.gz", "rt", encoding="utf-8", newline="\n").read().split("\n")[:10_000]
HARD = [
    "", " ", "   ", "\t", "\n", "a", " a", "a ", "Hello, World!", "  two  blanks  ", "tab\there", "line\nbreak\r\nand more",
    "naïve café Ünïcödé ÅÄÖ", "e\u0301 and é", "ﬁne ﬂuff ½ ² Ⅳ ™ Å", "日本語 の テキスト", "中文字符abc", "안녕하세요", "Привет, мир",
    "😀 👩‍👧 🇩🇪", "\u200b zero \u200d width \ufeff", "non\u00a0break \u2009thin \u3000ideographic", "don't I'll we've 'S",
    "3.14159 1,000,000 10% $5 €7", "a_b-c/d\\e|f", "``quoted'' \"text\" ‘single’ “double”", "x" * 300, "ab " * 40,
    "\x00\x01\x7f control", "<s> literal </s> <pad> <unk> <mask>", "[CLS] literal [SEP] [MASK] [PAD]", "<|endoftext|>",
    "<extra_id_0> and <extra_id_99>", "word<extra_id_1>word", "▁ underline ▁▁", "ΑΒΓ ß ẞ İ ı", "السلام عليكم", "नमस्ते", "ᚠᛇᚻ", "\U00020000",
    "user_symbol and <<user>>here", ">>fr<< Hello there", "Hello >>fr<< there", "\u0085next\u2028line",
]


def ids_of(tokenizer, text, framed):
    return tokenizer(text, add_special_tokens=framed)["input_ids"]


def digests(tokenizer):
    """Digest and number of ids for each 100 lines."""
    found = []
    for at in range(0, len(LINES), 100):
        digest, count = hashlib.sha256(), 0
        for ids in tokenizer(LINES[at:at + 100])["input_ids"]:
            digest.update(struct.pack(f"<{len(ids)}I", *ids))
            count += len(ids)
        found.append([digest.hexdigest()[:16], count])
    return found


def hard(tokenizer):
    return [[text, ids_of(tokenizer, text, True), ids_of(tokenizer, text, False)] for text in HARD]


def model_proto(pieces, charsmap):
    """A T5 model of pieces; its class adds the sentinels at the end."""
    proto = spm.ModelProto()
    for text, score in pieces:
        if text.startswith("<extra_id_"):
            continue
        piece = proto.pieces.add()
        piece.piece, piece.score = text, score
        piece.type = {"<pad>": 3, "</s>": 3, "<unk>": 2}.get(text, 1)
    spec = proto.trainer_spec
    spec.model_type, spec.unk_id, spec.pad_id, spec.eos_id, spec.bos_id = 1, 2, 0, 1, -1
    proto.normalizer_spec.name = "nmt_nfkc"
    proto.normalizer_spec.precompiled_charsmap = charsmap
    return proto.SerializeToString()


def t5_model(folder):
    import base64
    file = json.loads((DATA / "tokenizers/t5/tokenizer.json").read_text())
    charsmap = base64.b64decode(file["normalizer"]["normalizers"][0]["precompiled_charsmap"])
    (folder / "spiece.model").write_bytes(model_proto(file["model"]["vocab"], charsmap))


def trained(folder, name, **settings):
    """Trains a small SentencePiece model on the first lines."""
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "text.txt"
    text.write_text("\n".join(line for line in LINES[:3000] if line.strip()))
    defaults = dict(input=str(text), model_prefix=str(folder / "model"), minloglevel=2, num_threads=1,
                    normalization_rule_name="identity", input_sentence_size=0, hard_vocab_limit=False)
    sentencepiece.SentencePieceTrainer.train(**{**defaults, **settings})
    # The training settings do not affect encoding.
    model = spm.ModelProto()
    model.ParseFromString((folder / "model.model").read_bytes())
    for field in ["input", "model_prefix"]:
        model.trainer_spec.ClearField(field)
    model.normalizer_spec.ClearField("normalization_rule_tsv")
    (folder / name).write_bytes(model.SerializeToString())
    (folder / "model.model").unlink()
    text.unlink()
    (folder / "model.vocab").unlink()


def write(folder, name, value):
    (folder / name).write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def small_models(root):
    """Folders in the form that transformers expects."""
    shutil.rmtree(root, ignore_errors=True)
    # A single normalisation rule, since its compiled map is small.
    root.mkdir(parents=True)
    rule = root / "rule.tsv"
    rule.write_text("FB01\t66 69\nA0\t20\n2026\t2E 2E 2E\n65 301\tE9\n200B\t\n")
    trained(root / "t5", "spiece.model", model_type="unigram", vocab_size=400, pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
            user_defined_symbols=["<<user>>"], control_symbols=["<ctl>"], normalization_rule_name="",
            normalization_rule_tsv=str(rule))
    write(root / "t5", "config.json", {"model_type": "t5"})
    write(root / "t5", "tokenizer_config.json", {"tokenizer_class": "T5Tokenizer", "extra_ids": 7,
                                                 "model_max_length": 512})
    trained(root / "albert", "spiece.model", model_type="unigram", vocab_size=400, pad_id=0, unk_id=1, bos_id=-1, eos_id=-1,
            control_symbols=["[CLS]", "[SEP]"], user_defined_symbols=["[MASK]"])
    write(root / "albert", "config.json", {"model_type": "albert"})
    trained(root / "deberta_v2", "spm.model", model_type="unigram", vocab_size=400, pad_id=0, bos_id=1, eos_id=2, unk_id=3,
            pad_piece="[PAD]", bos_piece="[CLS]", eos_piece="[SEP]", unk_piece="[UNK]")
    write(root / "deberta_v2", "config.json", {"model_type": "deberta-v2"})
    write(root / "deberta_v2", "tokenizer_config.json", {"do_lower_case": False, "split_by_punct": True})
    bytes_of(root / "deberta")
    trained(root / "xlm_roberta", "sentencepiece.bpe.model", model_type="unigram", vocab_size=400)
    write(root / "xlm_roberta", "config.json", {"model_type": "xlm-roberta"})
    trained(root / "llama", "tokenizer.model", model_type="bpe", vocab_size=600, byte_fallback=True,
            remove_extra_whitespaces=False, split_digits=True, user_defined_symbols=["<<user>>"], character_coverage=0.99)
    write(root / "llama", "config.json", {"model_type": "llama"})
    write(root / "llama", "tokenizer_config.json",
          {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False, "legacy": True,
           "bos_token": {"__type": "AddedToken", "content": "<s>", "lstrip": False, "rstrip": False, "normalized": False,
                         "single_word": False},
           "eos_token": "</s>", "unk_token": "<unk>", "pad_token": None, "chat_template": "{{ messages }}",
           "model_max_length": 1000000000000000019884624838656})
    rule.unlink()
    marian(root / "marian")


def bytes_of(folder):
    """Byte-level BPE as in DeBERTa: small, with its special tokens in the vocabulary."""
    from tokenizers import ByteLevelBPETokenizer

    folder.mkdir(parents=True)
    model = ByteLevelBPETokenizer()
    text = [line for line in LINES[:3000] if line.strip()]
    model.train_from_iterator(text, vocab_size=420, special_tokens=["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"], show_progress=False)
    model.save_model(str(folder))
    write(folder, "config.json", {"model_type": "deberta"})
    write(folder, "tokenizer_config.json", {"do_lower_case": False, "vocab_type": "gpt2"})


def marian(folder):
    for side, size in [("source", 300), ("target", 350)]:
        trained(folder, f"{side}.spm", model_type="unigram", vocab_size=size, character_coverage=0.995)
    pieces = []
    for side in ["source", "target"]:
        model = spm.ModelProto()
        model.ParseFromString((folder / f"{side}.spm").read_bytes())
        pieces += [p.piece for p in model.pieces if p.type == 1 and p.piece not in pieces]
    random.Random(3).shuffle(pieces)
    tokens = ["</s>", "<unk>", ">>fr<<", ">>de<<", *pieces, "ß", "<pad>"]
    write(folder, "vocab.json", {token: id for id, token in enumerate(tokens)})
    write(folder, "config.json", {"model_type": "marian"})
    write(folder, "tokenizer_config.json", {"source_lang": "en", "target_lang": "fr", "tokenizer_class": "MarianTokenizer"})


def main():
    root = HERE / "sentencepiece"
    small_models(root)
    found = {"versions": {"transformers": transformers.__version__}, "vocabularies": {}, "small": {}}
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)

        def folder(name, files, config):
            path = scratch / name
            path.mkdir()
            for source, target in files:
                shutil.copy(DATA / "tokenizers" / source, path / target)
            for file, value in config.items():
                write(path, file, value)
            return path

        folders = {
            "gpt2": folder("gpt2", [("gpt2/encoder.json", "vocab.json"), ("gpt2/vocab.bpe", "merges.txt")],
                           {"config.json": {"model_type": "gpt2"}}),
            "bert_base_uncased": folder("bu", [("bert_base_uncased/vocab.txt", "vocab.txt")],
                                        {"config.json": {"model_type": "bert"}, "tokenizer_config.json": {"do_lower_case": True}}),
            "bert_base_cased": folder("bc", [("bert_base_cased/vocab.txt", "vocab.txt")],
                                      {"config.json": {"model_type": "bert"}, "tokenizer_config.json": {"do_lower_case": False}}),
            "t5": folder("t5", [("t5/tokenizer.json", "tokenizer.json")], {}),
            "t5_model": folder("t5_model", [], {"config.json": {"model_type": "t5"}}),
        }
        t5_model(folders["t5_model"])
        for name, path in folders.items():
            if name == "t5":
                tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(path)
            else:
                tokenizer = AutoTokenizer.from_pretrained(path)
            print(name, type(tokenizer).__name__, len(tokenizer))
            found["vocabularies"][name] = {"tokens": len(tokenizer), "blocks": digests(tokenizer), "hard": hard(tokenizer)}
    for path in sorted(root.iterdir()):
        tokenizer = AutoTokenizer.from_pretrained(path)
        print(path.name, type(tokenizer).__name__, len(tokenizer))
        entry = {"tokens": len(tokenizer), "blocks": digests(tokenizer)[:20], "hard": hard(tokenizer)}
        if path.name == "marian":
            entry["target"] = [[text, tokenizer(text_target=text)["input_ids"]] for text in HARD]
        found["small"][path.name] = entry
    (HERE / "tokenizers.json").write_text(json.dumps(found, ensure_ascii=True, separators=(",", ":")) + "\n")


main()
