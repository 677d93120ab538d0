"""Tiny random models as Hugging Face folders, unusual in every way that their families allow: tests/fixtures/hf/NAME/.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.23.0 sentence-transformers==6.2.0 safetensors==0.8.0
    python make_hf_folders.py [NAME…]

A folder holds config.json, weights and `reference.safetensors`, which benches/hf_reference.py describes: inputs, and
the outputs of `from_pretrained` of this folder in float32. `FAMILY_1` also has `details.safetensors`, the same
with hidden states and attention weights. Values at padding mean nothing. `WITH_GRADIENTS` have `gradients.safetensors`:
inputs with `labels`, `expected.loss` and `expected.grad.NAME` for each parameter of the class, by transformers' own loss.

Weights are not those of initialisation: every bias, gain, running mean and final_logits_bias is random, and
attention is far from uniform. `FAMILY_2` and higher numbers are other configurations; a word in place of the number
is another form of a folder:

    albert_hub       as bert_hub, with names of today
    bert_hub         names of the oldest files (LayerNorm.gamma), buffers, tied copies, heads that the class lacks
    gpt2_bare        names without `transformer.`, the mask's buffers, a copy of the tied table
    gpt_neo_hub      the mask's buffers, a copy of the tied table, layers only from `attention_types`
    gpt_neox_shards  safetensors in shards                 gpt2_bin        pytorch_model.bin
    mamba_hub        keys of the first converted files, a copy of the tied table
    deepseek_v2_hub, deepseek_v3_hub  keys of the first files, among them those of YaRN
    gpt_oss_hub      keys of the released files
    opt_hub          keys of the first files, names without `model.`, a copy of the tied table
    starcoder2_hub   keys of the released files, some of which the class does not read
    whisper_hub      the files of a model of two languages: tokens, audio and generation settings
    stablelm_hub     keys of version 4: fraction and scaling of rotary positions at the top level
    modernbert_hub   keys of the first files: layer kinds given by a period, two rotary bases
    mamba2_hub       the same; Python's `Infinity` for a step without a limit
    llama_shards_bin pytorch_model.bin in shards           mistral_bf16, qwen2_f16, bart_f16  half precision
    t5_again         an untied T5 as transformers 5 saves it again: `tie_word_embeddings` true, yet an untied head
    deberta_hub      keys of config.json as released files write them
    deberta_new      the head of masked tokens that transformers names after released files (`legacy` false)
    FAMILY_body      the class without a head: its outputs are last_hidden_state and sentence_embedding, the normalised mean.
                     The weights of bert_body and albert_body have a pooler, which nothing reads
    FAMILY_classes   a decoder that classifies from its last token; llama_number predicts a number
    FAMILY_several   multi-label classes: `labels` of their gradients are indicators
    gpt2_sentences, qwen3_sentences  decoders whose embeddings are means, or states of last tokens
    bert_unnamed     a body whose config.json names no class
    bert_sentences   a folder of sentence-transformers as versions before 5 wrote it (mean, Normalize), whose config.json
                     names a class with a head that the weights lack
    roberta_sentences  one as version 6.2.0 writes it (cls), with a pooler. `expected.sentence_embedding` of both is the library's
    clip_3           the older keys text_config_dict and vision_config_dict, from which the class takes every key
    qwen3_next_hub   keys of the released files
    vit_new, deit_new, swin_new, dinov2_new, dinov2_with_registers_new, dinov3_vit_new, beit_new, mixtral_new, deepseek_v3_new, qwen3_next_new     the names of the modules of transformers 5 (save_original_format=False)

`marian_3` has the tokenizers of sources and targets that make_tokenizers.py trains. `alibi_bias_max` of `mpt_3` is treated as
hf_reference.py explains.

`AS_OLD` has configurations as version 4 wrote them: rope_theta at the top level, torch_dtype, generation settings.
"""

import json
import os
import shutil
import sys
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "benches"))

import hf_reference
import sentence_transformers
import torch
import transformers as hf
from hf_folder_cases import CASES, WITH_GRADIENTS
from safetensors.torch import load_file, save_file
from shared import of_states

WANTED = {"torch": "2.15.0", "transformers": "5.23.0", "sentence_transformers": "6.2.0"}
OUT = os.path.join(HERE, "..", "fixtures", "hf")


def redraw(model, generator):
    """Redraws weights, large enough that attention is far from uniform and every bias, gain and table has an effect."""
    with torch.no_grad():
        for name, x in list(model.named_parameters()) + list(model.named_buffers()):
            noise = torch.randn(x.shape, generator=generator)
            state = of_states(name, noise)
            if state is not None:
                x.copy_(state)
            elif name.endswith("running_var"):
                x.copy_(0.5 + noise.abs())
            elif name.endswith("num_batches_tracked"):
                x.fill_(7)
            elif name.endswith("e_score_correction_bias"):
                x.copy_(0.2 * noise)
            elif name.endswith(("running_mean", "final_logits_bias")):
                x.copy_(0.3 * noise)
            elif not isinstance(x, torch.nn.Parameter) or not x.requires_grad:
                continue
            elif name.endswith("normalization.bias"):
                # Few channels before a ReLU: if all were negative, the layer would have no effect.
                x.copy_(0.4 + 0.2 * noise)
            elif x.dim() == 0:
                # The logarithm of CLIP's scale on cosines.
                x.copy_(1.0 + 0.2 * noise)
            elif name.endswith(("lambda1", "lambda_1", "lambda_2")):
                # Residual scales.
                x.copy_(1.0 + 0.3 * noise)
            elif name.endswith(("cls_token", "register_tokens", "position_embeddings")):
                x.copy_(0.5 * noise)
            elif model.config.model_type == "qwen3_next" and name.endswith("norm.weight") and "linear_attn" not in name:
                # The class adds 1; gains around 2 make the experts' outputs large.
                x.copy_(0.2 * noise)
            elif x.dim() == 1:
                x.copy_((1.0 if name.endswith("weight") else 0.0) + 0.2 * noise)
            elif name.endswith("logit_scale"):
                x.copy_(1.5 + 0.3 * noise)
            elif x.dim() == 3:
                x.copy_(noise * 1.3 * x.shape[-1] ** -0.5)
            else:
                x.copy_(noise * 1.3 * x[0].numel() ** -0.5)


def untie(model):
    """Gives a T5 an untied head, which its class does not do by itself."""
    model.lm_head.weight = torch.nn.Parameter(torch.zeros_like(model.lm_head.weight))
    model.all_tied_weights_keys.pop("lm_head.weight", None)


def save(model, folder, case):
    """Saves `model` as a folder in the form that `case` asks for."""
    form = case.get("form", "")
    options = {"max_shard_size": "12KB"} if "shards" in form else {}
    if form == "new":
        options["save_original_format"] = False
    model.save_pretrained(folder, **options)
    if "bin" in form:
        to_bin(folder, model)
    if "tensors" in case:
        path = os.path.join(folder, "model.safetensors")
        tensors = load_file(path)
        case["tensors"](tensors)
        save_file(tensors, path, {"format": "pt"})
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        config = json.load(file)
    for key, value in case.get("config_json", {}).items():
        config.pop(key, None) if value is None else config.update({key: value})
    with open(path, "w") as file:
        json.dump(config, file, indent=2, sort_keys=True)
        file.write("\n")
    for path in case.get("copied", ()):
        shutil.copy(os.path.join(HERE, path), folder)
    for name, content in case.get("files", {}).items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            json.dump(content, file, indent=2, sort_keys=True)
            file.write("\n")


def to_bin(folder, model):
    """Converts the folder's safetensors files to PyTorch's; a single file has tied tensors twice, in one storage."""
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if name.endswith(".safetensors"):
            tensors = model.state_dict() if name == "model.safetensors" else load_file(path)
            torch.save(tensors, os.path.join(folder, "pytorch_" + name[: -len("safetensors")] + "bin"))
            os.remove(path)
        elif name.endswith(".safetensors.index.json"):
            with open(path) as file:
                text = file.read()
            os.remove(path)
            text = text.replace('"model-', '"pytorch_model-').replace(".safetensors", ".bin")
            with open(os.path.join(folder, "pytorch_model.bin.index.json"), "w") as file:
                file.write(text)


def inputs_of(model, folder, case):
    """Inputs by the pattern of hf_reference.py, longer or padded if the case says so."""
    inputs = hf_reference.pattern(model, folder, 2, case.get("length", 9))
    if case.get("pad"):
        inputs["input_ids"], inputs["attention_mask"] = hf_reference.padded(inputs["input_ids"], model.config, 1)
    if case.get("globals"):
        marks = torch.zeros_like(inputs["input_ids"])
        for row, places in enumerate(case["globals"]):
            marks[row, places] = 1
        inputs["global_attention_mask"] = marks
    if case.get("image"):
        model.config.image_size = case["image"]
        inputs = hf_reference.pattern(model, folder, 2, 0)
    return inputs


def make(name, case):
    folder = os.path.join(OUT, name)
    shutil.rmtree(folder, ignore_errors=True)
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    torch.manual_seed(0)
    config = getattr(hf, case["class"][1])(**case["config"])
    model = hf_reference.as_configured(getattr(hf, case["class"][0])(config, **case.get("arguments", {}))).eval()
    # A body whose files say how it is pooled.
    model.name_or_path = folder
    if case.get("untied"):
        untie(model)
    redraw(model, generator)
    save(model.to(case.get("dtype", torch.float32)), folder, case)
    loaded = hf_reference.load(folder)
    inputs = inputs_of(loaded, folder, case)
    outputs = hf_reference.compute(loaded, inputs)
    if type(loaded) is type(model):
        before = hf_reference.compute(model.float(), inputs)
        far = max((before[k] - outputs[k]).abs().max().item() for k in outputs)
        # Casting to half precision and back also rounds rotary frequencies, which are in no file.
        assert far < (1e-2 if "dtype" in case else 1e-5), f"{name} is another model: outputs are {far} away"
    expected = outputs | by_library(folder, inputs, outputs) if name.endswith("_sentences") else outputs
    hf_reference.write(os.path.join(folder, "reference.safetensors"), inputs, expected)
    if name.endswith("_1"):
        details = hf_reference.compute(hf_reference.load(folder, details=True), inputs, details=True)
        # At padding whose window contains no token, the two attention implementations differ.
        seen = inputs["attention_mask"].bool() if name == "modernbert_1" else slice(None)
        assert (main_of(details) - main_of(outputs))[seen].abs().max() < 1e-5, f"{name}: two kinds of attention differ"
        hf_reference.write(os.path.join(folder, "details.safetensors"), inputs, details)
    if name in WITH_GRADIENTS:
        gradients(folder, inputs)
    check_weights(name, loaded, inputs, outputs)
    check_config(folder, case, inputs, outputs)
    size = sum(os.path.getsize(os.path.join(inside, file)) for inside, _, files in os.walk(folder) for file in files)
    main = main_of(outputs)
    print(f"{name:18} {size // 1024:4} KB  {list(main.shape)} of size {main.std():.2f}")
    assert size < 120_000, "too large"
    return size


def main_of(outputs):
    """The main output: logits, the first of two, or the hidden states of a body."""
    return next(outputs[name] for name in ("logits", "start_logits", "sentence_embedding", "text_embeds", "last_hidden_state") if name in outputs)


def by_library(folder, inputs, outputs):
    """Embeddings of the folder as computed by the modules of sentence-transformers."""
    features = dict(inputs)
    with torch.no_grad():
        for module in sentence_transformers.SentenceTransformer(folder, device="cpu").eval():
            features = module(features)
    vectors = features["sentence_embedding"]
    far = (vectors - outputs["sentence_embedding"]).abs().max().item()
    assert far < 1e-5, f"{folder}: hf_reference.py's vectors are {far} from the library's"
    return {"sentence_embedding": vectors}


def labels_of(model, inputs, logits):
    """Labels: classes, indicators of classes or numbers for rows; 0 and 1 for tokens; token ids or tags at some positions or, if texts
    are generated, at all."""
    rows, length = (inputs["decoder_input_ids"] if "decoder_input_ids" in inputs else inputs["input_ids"]).shape
    place = torch.arange(rows * length).reshape(rows, length)
    if logits.dim() == 2 and logits.shape[1] == length:
        return (place % 3 == 1).long()
    if logits.dim() == 2 and logits.shape[1] == 1:
        return 0.5 + torch.arange(rows).float()
    if model.config.problem_type == "multi_label_classification":
        return (torch.arange(rows * logits.shape[1]).reshape(rows, -1) % 3 != 1).float()
    if logits.dim() == 2:
        return torch.arange(rows) % logits.shape[1]
    labels = (5 + 7 * place) % logits.shape[2]
    if model.config.is_encoder_decoder:
        labels[-1, -2:] = -100
        return labels
    mask = inputs.get("attention_mask", torch.ones_like(place))
    return torch.where((place % 4 == 1) & (mask == 1), labels, -100)


def gradients(folder, inputs):
    """The loss of the class and its gradients; each parameter that the loss depends on must have one."""
    model = hf_reference.load(folder)
    if model.config.model_type == "rwkv":
        # The class writes states in place, which blocks gradients.
        model.config.use_cache = False
    if type(model).__name__.endswith(("ForQuestionAnswering", "ForQuestionAnsweringSimple")):
        # Without padding, which the class would include in its loss.
        inputs = {name: x[:1] for name, x in inputs.items()}
        labels = {"start_positions": torch.tensor([2]), "end_positions": torch.tensor([5])}
    else:
        labels = {"labels": labels_of(model, inputs, model(**inputs).logits)}
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            # Gradients of the padding token, with which targets begin, are kept as those of other tokens.
            module.padding_idx = None
    loss = model(**inputs, **labels).loss
    loss.backward()
    # Sinusoidal tables, poolers that classes of BigBird and FNet never read, and XLNet's query embedding, which
    # heads for whole texts never read.
    unpooled = type(model).__name__ in hf_reference.UNPOOLED
    idle = ("roformer.encoder.embed_positions", *(["bert.pooler", "fnet.pooler"] if unpooled else []))
    if model.config.model_type == "xlnet":
        idle += ("transformer.mask_emb",)
    if model.config.model_type == "pegasus":
        idle += ("model.encoder.embed_positions", "model.decoder.embed_positions")
    trained = [(name, p.grad) for name, p in model.named_parameters() if p.requires_grad and not name.startswith(idle)]
    for name, grad in trained:
        # A bias of the span head shifts the scores of all tokens alike.
        assert grad is not None and (grad.abs().max() > 0 or name == "qa_outputs.bias"), f"{folder}: `{name}` has no gradient"
    # gpt-oss has them in one tensor in its folders, too.
    parts = by_experts if model.config.model_type != "gpt_oss" else lambda name, x: [(name, x)]
    found = {f"grad.{name}": grad for named, grad in trained for name, grad in parts(named, grad)}
    hf_reference.write(os.path.join(folder, "gradients.safetensors"), inputs | labels, found | {"loss": loss.detach()})


def by_experts(name, x):
    """Splits version 5's single parameter of all experts into those of each expert, under the names in folders."""
    if name.endswith("experts.gate_up_proj"):
        parts = {part: half for part, half in zip(["gate_proj", "up_proj"], x.chunk(2, dim=1))}
    elif name.endswith("experts.down_proj"):
        parts = {"down_proj": x}
    else:
        return [(name, x)]
    body = name.rsplit(".", 1)[0]
    return [(f"{body}.{e}.{part}.weight", x[e].contiguous()) for part, x in parts.items() for e in range(len(x))]


def check_weights(name, model, inputs, outputs):
    """Checks that each weight has an effect: another value gives other outputs."""
    for key, x in model.named_parameters():
        # Weights that no head reads; a loaded class has them even if the file does not.
        if hf_reference.is_body(model) and key.startswith("pooler."):
            continue
        # The scales of CLIP and SigLIP do not affect embeddings; make_clip.py and make_siglip.py cover their logits.
        if key in ("logit_scale", "logit_bias"):
            continue
        if key.endswith(("embed_positions.weight", "position_embeddings.weight", "wpe.weight")):
            continue
        before = x.data.clone()
        x.data = before.roll(1, -1) - 0.05
        after = hf_reference.compute(model, inputs)
        x.data = before
        if all(torch.equal(after[k], outputs[k]) for k in outputs):
            print(f"  {name}: `{key}` changes no output")


def check_config(folder, case, inputs, outputs):
    """Checks that the unusual keys have an effect: with a plain value, the same weights give other outputs."""
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        text = file.read()
    try:
        for key, plain in case.get("plain", {}).items():
            with open(path, "w") as file:
                json.dump(json.loads(text) | {key: plain}, file)
            other = hf_reference.compute(hf_reference.load(folder), inputs)
            far = (main_of(other) - main_of(outputs)).abs().max().item()
            assert far > 1e-2, f"{key} changes logits by {far} alone"
    finally:
        with open(path, "w") as file:
            file.write(text)


def main():
    hf.logging.set_verbosity_error()
    hf.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    for module in (torch, hf, sentence_transformers):
        found, wanted = module.__version__.split("+")[0], WANTED[module.__name__]
        if found != wanted:
            print(f"warning: the folders in the repository were made with {module.__name__} {wanted}, not {found}")
    names = sys.argv[1:] or list(CASES)
    total = sum(make(name, CASES[name]) for name in names)
    print(f"{len(names)} folders, {total // 1024} KB")


if __name__ == "__main__":
    main()
