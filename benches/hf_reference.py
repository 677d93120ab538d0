#!/usr/bin/env python3
"""Computes a model folder with Hugging Face transformers and writes its inputs and outputs as one safetensors file, which
`formwork import --reference FILE` compares with Formwork's own outputs.

    python3 hf_reference.py HF_DIR OUT.safetensors [--inputs FILE] [--text TEXT]… [--batch 2] [--length 12] [--details]

`formwork import HF_DIR RUN --python PATH` runs this script with the interpreter PATH. Needs torch, transformers and
safetensors; nothing is downloaded. The class is the one that config.json names under `architectures`. A sentence-transformers
folder (with modules.json) is read as its body, whatever class it names, and so is an encoder that names no class and has no
masked-LM head.

Inputs are, in this order of preference, the tensors of `--inputs` (except those named `expected.…`), the texts of `--text` through
the folder's own tokenizer, or a fixed pattern of ids, pixels or audio features that depends only on the sizes in config.json.
In the pattern, the last row of an encoder or an encoder-decoder ends in padding, except for classes without a mask.

The file holds the inputs under their own names (integers as I64, pixels as F32) and, all in F32,

    expected.logits                     of BertForPreTraining and AlbertForPreTraining: their prediction_logits
    expected.seq_relationship_logits    of BertForPreTraining
    expected.start_logits, expected.end_logits    of …ForQuestionAnswering, instead of logits
    expected.sop_logits                 of AlbertForPreTraining
    expected.last_hidden_state          of the network below the head; of its decoder if it has an encoder
    expected.encoder_last_hidden_state, expected.pooler_output
    expected.sentence_embedding         of an encoder without a head: the embedding of each text, pooled as the folder's
                                        sentence-transformers files say; without those the mean over the tokens, of length 1

    expected.image_embeds, expected.text_embeds    of CLIPModel and SiglipModel: unit vectors, row n of both being a pair

if the model has them (a pooler output that BigBird's heads do not read, or that no head reads, is left out). `--details` adds
expected.hidden_states.N (for Mamba, Mamba-2 and RWKV numbered as for the others), expected.attentions.N and their forms with
encoder_, decoder_ and cross_. The weights are cast to float32 and dropout is off. Values at padding (attention_mask or
decoder_attention_mask 0) are meaningless and should not be compared.
"""

import argparse
import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from safetensors.torch import load_file, save_file

SINGLE = ["logits", "start_logits", "end_logits", "seq_relationship_logits", "sop_logits", "last_hidden_state", "encoder_last_hidden_state", "pooler_output", "sentence_embedding", "image_embeds", "text_embeds"]
TOKENIZERS = ["tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "tokenizer.model", "source.spm"]
# Classes whose head does not read the pooler of the network below it: Formwork has none, or a different one. The pooler output of
# DINOv2 and DINOv3 is the first vector of last_hidden_state.
UNPOOLED = [
    "BigBirdForMaskedLM", "BigBirdForSequenceClassification", "BigBirdForTokenClassification", "ViTModel", "DeiTModel", "Dinov2Model",
    "Dinov2ForImageClassification", "Dinov2WithRegistersModel", "Dinov2WithRegistersForImageClassification", "DINOv3ViTModel",
    "BeitModel", "BeitForImageClassification", "FNetForMaskedLM", "FNetForTokenClassification", "FNetForQuestionAnswering",
]  # fmt: skip
# Text encoders, which also exist without a head.
ENCODERS = [
    "albert", "bert", "big_bird", "camembert", "deberta", "deberta-v2", "distilbert", "electra", "fnet", "longformer", "modernbert",
    "roberta", "roformer", "xlm-roberta", "xlnet",
]  # fmt: skip
# Model types whose positions start after the padding id.
FROM_PAD = ["roberta", "longformer", "xlm-roberta", "camembert"]
# Classes without attention weights and without a mask, which read padding like text.
UNMASKED = ["fnet"]
# Classes without attention weights, whose hidden states are numbered differently.
RECURRENT = ["mamba", "mamba2", "rwkv"]
STATES = ["hidden_states", "encoder_hidden_states", "decoder_hidden_states"]
ATTENTIONS = ["attentions", "encoder_attentions", "decoder_attentions", "cross_attentions"]


def load(folder, details=False):
    """Loads the model of a folder in float32, ready to evaluate.

    Only the eager implementation gives attention weights. Other outputs come from the implementation that transformers
    chooses, because the eager one adds Falcon's linear biases twice (5.23).
    """
    if not os.path.isfile(os.path.join(folder, "config.json")):
        sys.exit(f"error: {folder}: has no config.json")
    config = transformers.AutoConfig.from_pretrained(folder)
    choice = {"attn_implementation": "eager"} if details and config.model_type != "resnet" else {}
    model = class_of(folder, config).from_pretrained(folder, dtype=torch.float32, **choice)
    return as_configured(model).eval()


def class_of(folder, config):
    """Returns the class that reads a folder."""
    if os.path.isfile(os.path.join(folder, "modules.json")):
        return transformers.AutoModel
    names = config.architectures or []
    if names and hasattr(transformers, names[0]):
        return getattr(transformers, names[0])
    if not names and config.model_type in ENCODERS:
        # Released weights have the masked-LM head, or no head.
        model, report = transformers.AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
        whole = all(key.startswith(model.base_model_prefix + ".") for key in report["missing_keys"])
        return transformers.AutoModelForMaskedLM if whole else transformers.AutoModel
    found = f"names {names[0]}, which transformers {transformers.__version__} has not" if names else "names no class"
    sys.exit(f"error: {os.path.join(folder, 'config.json')}: `architectures` {found}")


def is_body(model):
    """Whether a model is an encoder without a head, or a decoder whose folder says that it gives text embeddings."""
    of_vectors = os.path.isfile(os.path.join(model.name_or_path, "modules.json"))
    return (model.config.model_type in ENCODERS or of_vectors) and model.base_model is model


def pooling_of(folder):
    """Returns the pooling, "mean", "cls" or "lasttoken", and whether embeddings have length 1, by the sentence-transformers files."""
    path = os.path.join(folder, "modules.json")
    if not os.path.isfile(path):
        return "mean", True
    with open(path) as file:
        steps = json.load(file)
    kinds = [step["type"].rsplit(".", 1)[-1] for step in steps]
    if kinds[:2] != ["Transformer", "Pooling"] or kinds[2:] not in ([], ["Normalize"]):
        sys.exit(f"error: {path}: the modules {', '.join(kinds)} are not Transformer, Pooling and perhaps Normalize")
    path = os.path.join(folder, steps[1]["path"], "config.json")
    with open(path) as file:
        config = json.load(file)
    # Either today's single key, or an earlier version's key per mode.
    earlier = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens", "lasttoken": "pooling_mode_lasttoken"}
    found = config.get("pooling_mode") or [key for key, on in config.items() if key.startswith("pooling_mode_") and on is True]
    found = [found] if isinstance(found, str) else found or ["mean"]
    for mode, key in earlier.items():
        if found in ([mode], [key]):
            return mode, len(steps) == 3
    sys.exit(f"error: {path}: pools by {', '.join(found)}, neither by mean nor by cls nor by lasttoken alone")


def pooled(states, inputs, mode, unit):
    """Returns the embedding of each text."""
    mask = inputs.get("attention_mask", torch.ones(states.shape[:2]))[:, :, None].to(states.dtype)
    if mode == "lasttoken":
        last = mask[:, :, 0].sum(1).long() - 1
        vectors = states[torch.arange(len(states)), last]
    else:
        vectors = states[:, 0] if mode == "cls" else (states * mask).sum(1) / mask.sum(1)
    return torch.nn.functional.normalize(vectors, dim=1) if unit else vectors


def as_configured(model):
    """Returns the model with a setting that its class ignores: MPT's slope function takes `alibi_bias_max`, as in MosaicML's
    code, but the class calls it without (5.23), that is with 8."""
    if model.config.model_type == "mpt":
        slopes, most = type(model.transformer).build_mpt_alibi_tensor, model.config.attn_config.alibi_bias_max
        model.transformer.build_mpt_alibi_tensor = lambda heads, length, device=None: slopes(
            model.transformer, heads, length, most, device
        )
    return model


def special(config, name):
    """Returns the id of a special token, or None."""
    return getattr(config, name + "_token_id", None)


def pattern_of_ids(config, batch, length):
    """Returns ids that differ between rows and positions and avoid the special tokens."""
    taken = set()
    for name in ["pad", "bos", "eos", "decoder_start"]:
        found = special(config, name)
        taken |= set(found) if isinstance(found, list) else {found}
    ordinary = [i for i in range(config.vocab_size) if i not in taken and i >= min(4, config.vocab_size // 4)]
    row = torch.arange(batch)[:, None]
    place = torch.arange(length)[None]
    return torch.tensor(ordinary)[(7 + 131 * row + 37 * place + 11 * place * place * (row + 1)) % len(ordinary)]


def first_of_decoder(config):
    """Returns the id that a decoder begins with."""
    start = special(config, "decoder_start")
    return (special(config, "pad") or 0) if start is None else start


def padded(ids, config, least):
    """Returns ids whose last row ends in padding, and their mask."""
    mask = torch.ones_like(ids)
    mask[-1, max(least, ids.shape[1] * 2 // 3) :] = 0
    return torch.where(mask == 1, ids, special(config, "pad") or 0), mask


def image_size(config, folder):
    """Returns the height and width of the model's input images."""
    size = getattr(config, "image_size", None)
    processor = os.path.join(folder, "preprocessor_config.json")
    if size is None and os.path.isfile(processor):
        with open(processor) as file:
            found = json.load(file)
        size = found.get("crop_size") or found.get("size")
        if isinstance(size, dict):
            size = [size["height"], size["width"]] if "height" in size else size.get("shortest_edge")
    size = 64 if size is None else size
    return tuple(size) if isinstance(size, (list, tuple)) else (size, size)


def pattern_of_pixels(config, folder, batch):
    """Returns images that differ between rows and pixels."""
    shape = (batch, config.num_channels, *image_size(config, folder))
    count = torch.arange(torch.tensor(shape).prod().item(), dtype=torch.float64)
    return {"pixel_values": torch.sin(0.7 * count + 0.013 * count % 5).float().reshape(shape)}


def ended(config, batch, length):
    """Returns texts for CLIP, the last of which ends early: with the end id, or with the largest id if the end id is 2."""
    ids = pattern_of_ids(config, batch, min(length, config.max_position_embeddings))
    end = config.vocab_size - 1 if config.eos_token_id == 2 else config.eos_token_id
    ids = ids.clamp(max=config.vocab_size - 2) if config.eos_token_id == 2 else ids
    last = torch.full([batch], ids.shape[1] - 1)
    last[-1] = ids.shape[1] * 2 // 3
    places = torch.arange(ids.shape[1])[None]
    ids = torch.where(places == last[:, None], end, ids)
    return {"input_ids": ids, "attention_mask": (places <= last[:, None]).long()}


def filled(config, batch):
    """Returns texts for SigLIP of the single length that it reads, the last ending in padding, without a mask."""
    ids = pattern_of_ids(config, batch, config.max_position_embeddings)
    return {"input_ids": padded(ids, config, 1)[0]}


def spoken(config, batch, length):
    """Returns features of recordings, which differ between rows and positions, and the decoder's input ids."""
    shape = (batch, config.num_mel_bins, 2 * config.max_source_positions)
    count = torch.arange(torch.tensor(shape).prod().item(), dtype=torch.float64)
    ids = pattern_of_ids(config, batch, min(length, config.max_target_positions))
    ids[:, 0] = first_of_decoder(config)
    return {"input_features": torch.sin(0.7 * count + 0.013 * count % 5).float().reshape(shape), "decoder_input_ids": ids}


def of_xlnet(model, batch, length):
    """Returns two segments and a last token in a third; all texts have full length if the class reads the last position, padded or not."""
    ids = pattern_of_ids(model.config, batch, length)
    mask = torch.ones_like(ids)
    if type(model).__name__ != "XLNetForSequenceClassification":
        ids, mask = padded(ids, model.config, 1)
    types = (torch.arange(length)[None] >= length // 3).long().expand(batch, -1).clone()
    types[torch.arange(batch), mask.sum(1) - 1] = 2
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types * mask}


def pattern(model, folder, batch, length):
    """Returns inputs that depend only on the sizes in config.json."""
    config = model.config
    if config.model_type == "siglip":
        return pattern_of_pixels(config.vision_config, folder, batch) | filled(config.text_config, batch)
    if config.model_type == "clip":
        return pattern_of_pixels(config.vision_config, folder, batch) | ended(config.text_config, batch, length)
    if config.model_type == "whisper":
        return spoken(config, batch, length)
    if config.model_type == "xlnet":
        return of_xlnet(model, batch, length)
    if model.main_input_name == "pixel_values":
        return pattern_of_pixels(config, folder, batch)
    longest = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if longest and config.model_type in FROM_PAD:
        longest -= special(config, "pad") + 1
    ids = pattern_of_ids(config, batch, min(length, longest or length))
    if config.is_encoder_decoder:
        ids, mask = padded(ids, config, 1)
        decoder = pattern_of_ids(config, batch + 1, max(2, ids.shape[1] * 3 // 4))[1:]
        if getattr(config, "decoder_vocab_size", None):
            decoder = decoder % config.decoder_vocab_size
        decoder[:, 0] = first_of_decoder(config)
        return {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": decoder}
    if not model.can_generate():
        ids, mask = padded(ids, config, 1)
        found = {"input_ids": ids, "attention_mask": mask}
        if config.model_type in UNMASKED:
            mask = torch.ones_like(ids)
            found = {"input_ids": pattern_of_ids(config, *ids.shape)}
        if getattr(config, "type_vocab_size", 1) > 1:
            found["token_type_ids"] = (torch.arange(ids.shape[1])[None] >= ids.shape[1] // 3).long() * mask
        return found
    return {"input_ids": ids}


def from_texts(model, folder, texts):
    """Tokenizes texts with the folder's tokenizer."""
    # For a folder without one, transformers makes a tokenizer that knows no words.
    if not any(os.path.isfile(os.path.join(folder, name)) for name in TOKENIZERS):
        sys.exit(f"error: {folder}: has no tokenizer for --text (none of {', '.join(TOKENIZERS)})")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    found = dict(tokenizer(texts, return_tensors="pt", padding=True, padding_side="right", truncation=True))
    if model.config.is_encoder_decoder:
        first = torch.full_like(found["input_ids"][:, :1], first_of_decoder(model.config))
        found["decoder_input_ids"] = torch.cat([first, found["input_ids"][:, :-1]], 1)
        found["decoder_attention_mask"] = torch.cat([torch.ones_like(first), found["attention_mask"][:, :-1]], 1)
    return found


def renumbered(config, read, given):
    """Renumbers hidden states of Mamba, Mamba-2 and RWKV like those of other classes: `read` by the first block, then each block's
    output, the last one after the norm.

    Their classes leave out the first and give the last one before and after the norm. RWKV halves the residual stream every
    `rescale_every` blocks.
    """
    every = getattr(config, "rescale_every", 0)
    states = [read, *given[:-2], given[-1]]
    if every > 0:
        states[:-1] = [x * 2.0 ** (blocks // every) for blocks, x in enumerate(states[:-1])]
    return states


def compute(model, inputs, details=False):
    """Returns the outputs of `model` for `inputs`, named as in the file but without `expected.`."""
    captured, first = {}, []

    def keep(_module, _arguments, output):
        captured.update({name: output[name] for name in SINGLE if output.get(name) is not None})

    # The class of a whole T5 is its own base model.
    under_head = model.get_decoder() if model.config.is_encoder_decoder else model.base_model
    handles = [under_head.register_forward_hook(keep)]
    recurrent = model.config.model_type in RECURRENT
    if recurrent:
        entry = under_head.blocks[0].pre_ln if model.config.model_type == "rwkv" else under_head.embeddings
        handles.append(entry.register_forward_hook(lambda _module, _arguments, output: first.append(output)))
    asked = {}
    if details:
        asked["output_hidden_states"] = True
        # Attention weights of windowed attention have another layout.
        if model.config.model_type not in ("resnet", "swin", "swinv2", "longformer", "led", *RECURRENT, *UNMASKED):
            asked["output_attentions"] = True
    with torch.no_grad():
        output = model(**inputs, **asked)
    for handle in handles:
        handle.remove()
    found = {**captured, **{name: output[name] for name in SINGLE if output.get(name) is not None}}
    if output.get("prediction_logits") is not None:
        found["logits"] = output["prediction_logits"]
    if type(model).__name__ in UNPOOLED or is_body(model):
        found.pop("pooler_output", None)
    if is_body(model):
        found["sentence_embedding"] = pooled(found["last_hidden_state"], inputs, *pooling_of(model.name_or_path))
    for name in STATES + ATTENTIONS if details else []:
        states = output.get(name) or ()
        states = renumbered(model.config, *first, states) if recurrent and states else states
        # If some layers have no attention, weights are numbered by their layer.
        kinds = getattr(model.config, "layer_types", None) or [] if name == "attentions" else []
        attending = [layer for layer, kind in enumerate(kinds) if kind != "linear_attention"] or range(len(states))
        for number, tensor in zip(attending, states, strict=True):
            found[f"{name}.{number}"] = tensor
    # Each tensor is copied, because the file format does not allow shared memory.
    return {name: tensor.float().clone().contiguous() for name, tensor in found.items()}


def write(path, inputs, outputs):
    tensors = {name: value.clone().contiguous() for name, value in inputs.items()}
    tensors |= {f"expected.{name}": value for name, value in outputs.items()}
    save_file(tensors, path)


def main():
    p = argparse.ArgumentParser(description="Inputs and outputs of a Hugging Face model folder, as computed by transformers.")
    p.add_argument("folder", metavar="HF_DIR")
    p.add_argument("out", metavar="OUT.safetensors")
    p.add_argument("--inputs", metavar="FILE", help="a safetensors file with the inputs")
    p.add_argument("--text", action="append", default=[], metavar="TEXT", help="a text for the folder's tokenizer (repeatable)")
    p.add_argument("--batch", type=int, default=2, help="rows of the pattern")
    p.add_argument("--length", type=int, default=12, help="most tokens of a row of the pattern")
    p.add_argument("--details", action="store_true", help="also hidden states and attention weights")
    a = p.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    model = load(a.folder, a.details)
    if a.inputs:
        inputs = {name: x for name, x in load_file(a.inputs).items() if not name.startswith("expected.")}
        inputs = {name: x if x.is_floating_point() else x.long() for name, x in inputs.items()}
    elif a.text:
        inputs = from_texts(model, a.folder, a.text)
    else:
        inputs = pattern(model, a.folder, a.batch, a.length)
    outputs = compute(model, inputs, a.details)
    write(a.out, inputs, outputs)
    made = ", ".join(f"{name} {list(x.shape)}" for name, x in outputs.items() if name in SINGLE)
    print(f"{type(model).__name__} of transformers {transformers.__version__}: {made}")


if __name__ == "__main__":
    main()
