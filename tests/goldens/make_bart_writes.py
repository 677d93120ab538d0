"""A tiny BART that fills masks, and the texts that Hugging Face's `generate` writes with it: tests/fixtures/bart_writes, for
tests/it/commands/denoising.rs.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.23.0 tokenizers safetensors
    python make_bart_writes.py

The folder is written by `save_pretrained`: config.json, generation_config.json, model.safetensors and a tokenizer with the frame
<s> ... </s>. The model learned, in 300 steps, to write runs of eight consecutive words, one to three of which were replaced by a
mask. Its decoder begins with </s>, and texts with <s>, as `forced_bos_token_id` demands. `written.json` has `sources` and what
greedy search (`greedy`) and a beam of 4 (`beam`) write for them. Without <s> before a source, the model writes other texts, which is
asserted.
"""

import json
import os

import torch
import transformers as hf
from shared import HERE, begin
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = "north east south west up down left right red green blue white one two three four".split()
SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
BOS, PAD, EOS, UNK, MASK = range(5)
FIRST, LENGTH = len(SPECIALS), 8
FOLDER = os.path.join(HERE, "..", "fixtures", "bart_writes")


def tokenizer():
    made = Tokenizer(models.WordLevel({w: i for i, w in enumerate(SPECIALS + WORDS)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(SPECIALS)
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B:1 </s>:1",
        special_tokens=[("<s>", BOS), ("</s>", EOS)],
    )
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>"}
    return hf.PreTrainedTokenizerFast(tokenizer_object=made, **names, cls_token="<s>", sep_token="</s>")


def texts(generator, rows):
    """Whole framed texts, and sources in which a run of words is replaced by one mask."""
    sources, targets = [], []
    for _ in range(rows):
        start, hidden, span = (int(torch.randint(n, (), generator=generator)) for n in (len(WORDS), LENGTH - 2, 3))
        words = [FIRST + (start + i) % len(WORDS) for i in range(LENGTH)]
        sources.append([BOS, *words[:hidden], MASK, *words[hidden + span + 1 :], EOS])
        targets.append([BOS, *words, EOS])
    width = max(map(len, sources))
    ids = torch.tensor([row + [PAD] * (width - len(row)) for row in sources])
    return ids, torch.tensor(targets)


def main():
    torch.manual_seed(20)
    generator = torch.Generator().manual_seed(20)
    config = hf.BartConfig(
        vocab_size=len(SPECIALS + WORDS),
        d_model=24,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=20,
        dropout=0.0,
        init_std=0.2,
        bos_token_id=BOS,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=EOS,
        forced_bos_token_id=BOS,
        forced_eos_token_id=EOS,
    )
    model = hf.BartForConditionalGeneration(config).train()
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for step in range(300):
        ids, labels = texts(generator, 32)
        loss = model(input_ids=ids, attention_mask=(ids != PAD).long(), labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")
    model.eval()
    settings = {"max_length": 14, "forced_bos_token_id": BOS, "decoder_start_token_id": EOS, "eos_token_id": EOS}
    settings |= {"bos_token_id": BOS, "pad_token_id": PAD, "do_sample": False}
    model.generation_config = hf.GenerationConfig(**settings)
    words = tokenizer()
    ids, _ = texts(generator, 24)
    # Written as words, so that both programs use their tokenizers; some of them are no runs of consecutive words.
    sources = [" ".join((SPECIALS + WORDS)[i] for i in row if i not in (BOS, PAD, EOS)) for row in ids.tolist()]
    sources += ["<mask>", "red <mask> red", "one north <mask> green", "four three two one"]
    written = {"sources": sources, "greedy": [], "beam": []}
    framed = 0
    with torch.no_grad():
        for source in sources:
            read = words(source, return_tensors="pt")
            for name, beams in [("greedy", 1), ("beam", 4)]:
                out = model.generate(read.input_ids, num_beams=beams)[0].tolist()
                assert out[:2] == [EOS, BOS] and out[-1] == EOS
                written[name].append(words.decode(out, skip_special_tokens=True))
            bare = model.generate(read.input_ids[:, 1:], num_beams=1)[0].tolist()
            framed += words.decode(bare, skip_special_tokens=True) != written["greedy"][-1]
    assert framed >= 4, framed
    for source, text in list(zip(sources, written["greedy"]))[-8:]:
        print(f"{source}  ->  {text}")
    print(framed, "texts differ without <s>;", sum(a != b for a, b in zip(written["greedy"], written["beam"])), "with a beam")
    model.save_pretrained(FOLDER)
    words.save_pretrained(FOLDER)
    with open(os.path.join(FOLDER, "written.json"), "w") as file:
        json.dump(written, file, indent=0)
    for name in sorted(os.listdir(FOLDER)):
        os.chmod(os.path.join(FOLDER, name), 0o644)
        print(name, os.path.getsize(os.path.join(FOLDER, name)))


if __name__ == "__main__":
    begin(torch, hf)
    main()
