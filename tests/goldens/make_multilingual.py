"""Tiny random models that translate between languages, with their tokenizers, as Hugging Face folders, and their translations:
tests/fixtures/multilingual/. Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.24.0 sentencepiece==0.2.3 safetensors==0.8.0
    python make_multilingual.py [FOLDER…]

* `mbart_50`: a SentencePiece model of the type unigram, read by MBart50Tokenizer; settings of generation that force a language.
* `m2m_100`: a SentencePiece model of the type BPE with vocab.json, read by M2M100Tokenizer. One piece has no id.
* `nllb_200`: a tokenizer.json with four languages, whose template is that of old folders, read by NllbTokenizer.

`expected.json` of each has `sources`, the ids of some texts in some languages, and `written`, the text of each source between two
languages as `generate` writes it greedily: the decoder reads its first token and the target's language, and writes up to 10 tokens,
none of them special except the end token, as `formwork translate` does.
"""

import json
import os
import shutil
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

import sentencepiece
import torch
import transformers as hf
from sentencepiece import sentencepiece_model_pb2 as spm

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "fixtures", "multilingual")
# Sentences written for this file.
TEXTS = [
    "the ship sails at dawn", "a cat sleeps on the mat", "the old man reads a book", "rain falls on the roof", "she sings a song",
    "das Schiff fährt am Morgen", "eine Katze schläft auf der Matte", "der alte Mann liest ein Buch", "Regen fällt auf das Dach",
    "le bateau part à l'aube", "un chat dort sur le tapis", "le vieil homme lit un livre", "la pluie tombe sur le toit",
]  # fmt: skip
ASKED = ["the cat reads a book", "  two  blanks ", "der Mann schläft", "la pluie, unknown: Ω"]
SHAPE = dict(
    d_model=16, encoder_layers=1, decoder_layers=2, encoder_ffn_dim=24, decoder_ffn_dim=24, encoder_attention_heads=2,
    decoder_attention_heads=2, max_position_embeddings=40, scale_embedding=True,
)  # fmt: skip
LONGEST = 10


def trained(folder, kind, size):
    """Trains a small SentencePiece model that contains nothing about this machine."""
    text, prefix = os.path.join(folder, "text"), os.path.join(folder, "m")
    with open(text, "w") as file:
        file.write("\n".join(TEXTS * 3))
    sentencepiece.SentencePieceTrainer.train(
        input=text, model_prefix=prefix, model_type=kind, vocab_size=size, normalization_rule_name="identity", num_threads=1,
        minloglevel=2, hard_vocab_limit=False,
    )  # fmt: skip
    model = spm.ModelProto()
    with open(prefix + ".model", "rb") as file:
        model.ParseFromString(file.read())
    for field in ["input", "model_prefix"]:
        model.trainer_spec.ClearField(field)
    for path in (text, prefix + ".model", prefix + ".vocab"):
        os.remove(path)
    return model


def write(folder, name, value):
    with open(os.path.join(folder, name), "w") as file:
        json.dump(value, file, indent=1, ensure_ascii=False)
        file.write("\n")


def mbart_50(folder):
    model = trained(folder, "unigram", 70)
    with open(os.path.join(folder, "sentencepiece.bpe.model"), "wb") as file:
        file.write(model.SerializeToString())
    write(folder, "tokenizer_config.json", {"tokenizer_class": "MBart50Tokenizer", "src_lang": "de_DE", "tgt_lang": "en_XX"})
    return hf.MBartForConditionalGeneration, hf.MBartConfig, {"forced_bos_token_id": "en_XX"}, ["de_DE", "en_XX", "fr_XX"], str


def m2m_100(folder):
    model = trained(folder, "bpe", 70)
    with open(os.path.join(folder, "sentencepiece.bpe.model"), "wb") as file:
        file.write(model.SerializeToString())
    pieces = [p.piece for p in model.pieces][3:]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *reversed(pieces[:-1])]
    write(folder, "vocab.json", {token: id for id, token in enumerate(tokens)})
    write(folder, "tokenizer_config.json", {"tokenizer_class": "M2M100Tokenizer", "src_lang": None, "tgt_lang": None, "num_madeup_words": 8})
    return hf.M2M100ForConditionalGeneration, hf.M2M100Config, {}, ["en", "de", "fr"], "__{}__".format


def nllb_200(folder):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    pieces = [p.piece for p in trained(folder, "bpe", 70).pieces][3:]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *pieces]
    known = set(pieces)
    merges = [(p[:at], p[at:]) for p in pieces for at in range(1, len(p)) if p[:at] in known and p[at:] in known]
    made = Tokenizer(models.BPE({t: id for id, t in enumerate(tokens)}, merges, unk_token="<unk>", fuse_unk=True))
    made.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    made.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    languages = ["ace_Arab", "deu_Latn", "eng_Latn", "fra_Latn"]
    made.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", *languages, "<mask>"])
    end, last = made.token_to_id("</s>"), made.token_to_id("eng_Latn")
    made.post_processor = processors.TemplateProcessing(
        single="$A </s> eng_Latn", pair="$A $B </s> eng_Latn", special_tokens=[("</s>", end), ("eng_Latn", last)],
    )  # fmt: skip
    made.save(os.path.join(folder, "tokenizer.json"))
    marks = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "sep_token": "</s>", "cls_token": "<s>", "mask_token": "<mask>"}
    write(folder, "tokenizer_config.json", {"tokenizer_class": "NllbTokenizer", "additional_special_tokens": languages, **marks})
    return hf.M2M100ForConditionalGeneration, hf.M2M100Config, {"tokenizer_class": "NllbTokenizer"}, ["eng_Latn", "deu_Latn", "fra_Latn"], str


def redraw(model, generator, sinusoidal):
    """Redraws weights so that translations depend on all of them: layers outweigh the embeddings, so that tokens do not repeat."""
    tables, across, layers, others = (1.0, 2.0, 3.0, 2.5) if sinusoidal else (0.3, 6.0, 3.0, 1.3)
    with torch.no_grad():
        for name, x in model.named_parameters():
            gain = others
            if "shared" in name or "embed_tokens" in name:
                gain = tables
            elif name.endswith(("encoder_attn.out_proj.weight", "embed_positions.weight")):
                gain = across
            elif name.endswith(("out_proj.weight", "fc2.weight")):
                gain = layers
            noise = torch.randn(x.shape, generator=generator)
            scale = 0.2 if x.dim() == 1 else gain * x.shape[-1] ** -0.5
            x.copy_((1.0 if x.dim() == 1 and name.endswith("weight") else 0.0) + scale * noise)


def written(model, tokenizer, tokens, source, target):
    ids = tokenizer(source, return_tensors="pt")
    begin = model.config.decoder_start_token_id
    special = [id for id in sorted(set(tokenizer.all_special_ids) | set(range(tokenizer.vocab_size, tokens))) if id != 2]
    found = model.generate(
        **ids, decoder_input_ids=torch.tensor([[begin, target]]), max_new_tokens=LONGEST, num_beams=1, do_sample=False,
        suppress_tokens=special, forced_bos_token_id=None,
    )[0, 2:].tolist()  # fmt: skip
    assert max(found) < tokens, "a row of no token is written"
    return tokenizer.decode([id for id in found if id != 2], skip_special_tokens=True).strip()


def make(name, of, seed):
    folder = os.path.join(OUT, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    kind, config, keys, languages, token = of(folder)
    write(folder, "config.json", {"model_type": config.model_type, **{k: v for k, v in keys.items() if k == "tokenizer_class"}})
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    ids = {language: tokenizer.convert_tokens_to_ids(token(language)) for language in languages}
    forced = keys.pop("forced_bos_token_id", None)
    # As in released models, there are more rows than tokens. M2M-100's class does not count its 100 languages.
    tokens = len(tokenizer) + (100 if name == "m2m_100" else 0)
    size = tokens + 2
    model = kind(config(vocab_size=size, decoder_start_token_id=2, pad_token_id=1, bos_token_id=0, eos_token_id=2, **SHAPE, **keys)).eval()
    redraw(model, torch.Generator().manual_seed(seed), name != "mbart_50")
    with torch.no_grad():
        model.get_input_embeddings().weight[tokens:] = 0
    # The end token counts, and so does the language token if the folder forces it.
    model.generation_config.max_new_tokens = LONGEST + 1 + (forced is not None)
    model.generation_config.forced_bos_token_id = forced and ids[forced]
    model.save_pretrained(folder)
    model = kind.from_pretrained(folder).eval()
    # The folder forces it, counting the language token; here it would replace the last token.
    model.generation_config.forced_eos_token_id = None
    expected = {"sources": [], "written": []}
    for text in ASKED:
        for language in languages:
            tokenizer.src_lang = language
            expected["sources"].append([token(language), text, tokenizer(text)["input_ids"]])
            for target in languages:
                text_of = written(model, tokenizer, tokens, text, ids[target])
                expected["written"].append([token(language), token(target), text, text_of])
    write(folder, "expected.json", expected)
    texts = {row[3] for row in expected["written"]}
    print(name, tokens, size, f"{len(texts)} of {len(expected['written'])} texts differ", sorted(texts)[:3])
    assert len(texts) > len(expected["written"]) // 4


def main():
    hf.logging.set_verbosity_error()
    hf.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    for name, of, seed in [("mbart_50", mbart_50, 1), ("m2m_100", m2m_100, 5), ("nllb_200", nllb_200, 7)]:
        if not sys.argv[1:] or name in sys.argv[1:]:
            make(name, of, seed)


if __name__ == "__main__":
    main()
