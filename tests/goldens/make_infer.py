"""Oracles of `formwork infer`: tiny random Llama, BERT, T5 and ViT models of HF transformers with all outputs that the command
can write.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.23.0 safetensors
    python make_infer.py

Dropout 0, all in float32, attention computed eagerly. Every file is a reference file: inputs under HF's names (ids and masks
I64, pixels F32), and under `expected.<name>` the model's outputs for them, named as the command names them. `expected.loss` is
the mean cross-entropy, `expected.grad.<parameter>` its gradient; parameters are named and laid out as in formwork, and their
values are `weight.<parameter>`. Outputs at padding mean nothing: they are zero in the file (hidden states and logits by
position, attention weights by query), and the reader zeroes its own before comparing. The metadata has under `config` the
experiment (TOML text) and the shape of its data, as JSON.

infer_decoder.safetensors, `LlamaForCausalLM`: grouped queries, rows of 9, 5 and 7 tokens; labels are the ids, -100 at padding
and at one more position.
infer_encoder.safetensors, `BertForPreTraining`: two segments, rows of 10, 6 and 8 tokens, labels at some of them and
`next_sentence_label`; the loss is the sum of both means.
infer_encoder_decoder.safetensors, `T5ForConditionalGeneration` (v1.0): three layers and two, a relative bias, sources of 8, 5 and 3
tokens, targets of 6, 7 and 2.
infer_vision.safetensors, `ViTForImageClassification`: patches of 4 in images of 8 by 12 pixels.
"""

import torch
import transformers as hf
from shared import MADE_WITH, at_tokens, begin, padding, redraw, seeded, write

VOCAB, WIDTH, HEADS, FEED_FORWARD = 37, 16, 4, 24

REST = """
[optimizer]
kind = "adamw"
lr = 1e-3

[schedule]
kind = "constant"

[train]
steps = 1
batch_size = 2
"""


def linears(theirs, ours, names):
    found = {}
    for name, path in names.items():
        for part in ["weight", "bias"]:
            found[f"{theirs}.{name}.{part}"] = f"{ours}.{path}.{part}"
    return found


def norm(theirs, ours):
    return {f"{theirs}.{part}": f"{ours}.{part}" for part in ["weight", "bias"]}


def ours(model, names, shapes=()):
    """Parameters and gradients by formwork's names."""
    found = {}
    for name, parameter in model.named_parameters():
        path = names.pop(name)
        if path.rsplit(".", 2)[-2].endswith("norm"):
            path = path.removesuffix("weight").removesuffix("bias") + {"t": "gamma", "s": "beta"}[path[-1]]
        for prefix, value in [("weight.", parameter), ("expected.grad.", parameter.grad)]:
            shape = dict(shapes).get(path, parameter.shape)
            found[prefix + path] = torch.zeros(shape) if value is None else value.detach().clone().reshape(shape)
    return found


def states(prefix, all, mask=None):
    return {f"expected.{prefix}hidden_states.{n}": x if mask is None else at_tokens(x, mask) for n, x in enumerate(all)}


def attentions(prefix, all, mask=None):
    """Weights [batch, head, query, key] with zeros at queries that are padding."""
    zeroed = [x if mask is None else x * mask[:, None, :, None].to(x.dtype) for x in all]
    return {f"expected.{prefix}attentions.{n}": x for n, x in enumerate(zeroed)}


def tokens(lengths, generator, pad=0, first=3):
    ids = torch.randint(first, VOCAB, (len(lengths), max(lengths)), generator=generator)
    mask = padding(lengths, max(lengths))
    ids[mask == 0] = pad
    return ids, mask


def decoder():
    generator = seeded("infer_decoder")
    config = hf.LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        intermediate_size=FEED_FORWARD,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        max_position_embeddings=12,
        rms_norm_eps=1e-6,
        tie_word_embeddings=False,
        attn_implementation="eager",
    )
    model = hf.LlamaForCausalLM(config).eval()
    redraw(model, generator)
    ids, mask = tokens([9, 5, 7], generator)
    labels = ids.masked_fill(mask == 0, -100)
    labels[0, 4] = -100
    out = model(
        input_ids=ids, attention_mask=mask, labels=labels, output_hidden_states=True, output_attentions=True
    )
    # The mean that HF computes, written out.
    rows = out.logits[:, :-1].reshape(-1, VOCAB)
    loss = torch.nn.functional.cross_entropy(rows, labels[:, 1:].reshape(-1), ignore_index=-100)
    assert torch.allclose(loss, out.loss), (loss, out.loss)
    loss.backward()
    names = {"model.embed_tokens.weight": "model.embedding.weight", "lm_head.weight": "model.head.weight"}
    names["model.norm.weight"] = "model.stack.final_norm.weight"
    for layer in range(2):
        theirs, block = f"model.layers.{layer}", f"model.stack.blocks.{layer}"
        for name, path in {
            "self_attn.q_proj": "attention.query",
            "self_attn.k_proj": "attention.key",
            "self_attn.v_proj": "attention.value",
            "self_attn.o_proj": "attention.output",
            "mlp.gate_proj": "feed_forward.gate",
            "mlp.up_proj": "feed_forward.up",
            "mlp.down_proj": "feed_forward.down",
            "input_layernorm": "attention_residual.norm",
            "post_attention_layernorm": "feed_forward_residual.norm",
        }.items():
            names[f"{theirs}.{name}.weight"] = f"{block}.{path}.weight"
    hidden = model.model(input_ids=ids, attention_mask=mask).last_hidden_state
    tensors = {
        "input_ids": ids,
        "attention_mask": mask,
        "labels": labels,
        "expected.logits": at_tokens(out.logits, mask),
        "expected.last_hidden_state": at_tokens(hidden, mask),
        "expected.loss": loss,
    }
    tensors |= states("", out.hidden_states, mask) | attentions("", out.attentions, mask) | ours(model, names)
    experiment = f"""name = "golden"
[model]
kind = "decoder"
n_layers = 2
d_model = {WIDTH}
norm = {{ kind = "rms", eps = 1e-6 }}
position = {{ kind = "rotary", theta = 10000.0 }}
attention = {{ kind = "multi_head", n_heads = {HEADS}, n_kv_heads = 2, bias = false }}
feed_forward = {{ kind = "gated", activation = "silu", d_ff = {FEED_FORWARD}, bias = false }}
tie_embeddings = false

[data]
kind = "random_tokens"
vocab_size = {VOCAB}
context = 12

[task]
kind = "causal_lm"
"""
    write("infer_decoder", tensors, {"experiment": experiment + REST, "shape": {"context": 12, "vocab_size": VOCAB}})


def encoder():
    generator = seeded("infer_encoder")
    config = hf.BertConfig(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        intermediate_size=FEED_FORWARD,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        max_position_embeddings=12,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation="eager",
    )
    model = hf.BertForPreTraining(config).eval()
    redraw(model, generator)
    ids, mask = tokens([10, 6, 8], generator)
    segments = (torch.arange(10)[None] >= torch.tensor([[4], [3], [5]])).long() * mask
    scored = (torch.rand(ids.shape, generator=generator) < 0.4) & (mask == 1)
    labels = torch.randint(3, VOCAB, ids.shape, generator=generator).masked_fill(~scored, -100)
    pairs = torch.tensor([0, 1, 1])
    given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}
    out = model(**given, output_hidden_states=True, output_attentions=True)
    mlm = torch.nn.functional.cross_entropy(out.prediction_logits.reshape(-1, VOCAB), labels.reshape(-1))
    loss = mlm + torch.nn.functional.cross_entropy(out.seq_relationship_logits, pairs)
    loss.backward()
    names = {
        "bert.embeddings.word_embeddings.weight": "model.embedding.weight",
        "bert.embeddings.position_embeddings.weight": "model.position.table",
        "bert.embeddings.token_type_embeddings.weight": "model.segments",
        "cls.predictions.bias": "head.bias",
    }
    names |= norm("bert.embeddings.LayerNorm", "model.embedding_norm")
    names |= linears("bert", "model", {"pooler.dense": "pooler"})
    names |= linears("cls", "", {"seq_relationship": "pair_head", "predictions.transform.dense": "head.transform"})
    names |= norm("cls.predictions.transform.LayerNorm", "head.norm")
    for layer in range(2):
        both = {
            "attention.self.query": "attention.query",
            "attention.self.key": "attention.key",
            "attention.self.value": "attention.value",
            "attention.output.dense": "attention.output",
            "attention.output.LayerNorm": "attention_residual.norm",
            "intermediate.dense": "feed_forward.up",
            "output.dense": "feed_forward.down",
            "output.LayerNorm": "feed_forward_residual.norm",
        }
        names |= linears(f"bert.encoder.layer.{layer}", f"model.stack.blocks.{layer}", both)
    names = {theirs: path.lstrip(".") for theirs, path in names.items()}
    base = model.bert(**given)
    tensors = given | {
        "labels": labels,
        "next_sentence_label": pairs,
        "expected.logits": at_tokens(out.prediction_logits, mask),
        "expected.seq_relationship_logits": out.seq_relationship_logits,
        "expected.last_hidden_state": at_tokens(base.last_hidden_state, mask),
        "expected.pooler_output": base.pooler_output,
        "expected.loss": loss,
    }
    tensors |= states("", out.hidden_states, mask) | attentions("", out.attentions, mask) | ours(model, names)
    experiment = f"""name = "golden"
[model]
kind = "encoder"
n_layers = 2
d_model = {WIDTH}
norm = {{ kind = "layer", eps = 1e-12 }}
norm_placement = "post"
embedding_norm = true
pooler = true
position = {{ kind = "learned" }}
attention = {{ kind = "multi_head", n_heads = {HEADS} }}
feed_forward = {{ kind = "dense", activation = "gelu", d_ff = {FEED_FORWARD} }}

[data]
kind = "grammar"
documents = 100

[task]
kind = "masked_lm"
pairs = "next_sentence"
"""
    write("infer_encoder", tensors, {"experiment": experiment + REST, "shape": {"context": 12, "vocab_size": VOCAB}})


def encoder_decoder():
    generator = seeded("infer_encoder_decoder")
    config = hf.T5Config(
        vocab_size=VOCAB,
        d_model=WIDTH,
        d_kv=WIDTH // HEADS,
        d_ff=FEED_FORWARD,
        num_layers=3,
        num_decoder_layers=2,
        num_heads=HEADS,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=16,
        dropout_rate=0.0,
        feed_forward_proj="relu",
        decoder_start_token_id=0,
        attn_implementation="eager",
    )
    model = hf.T5ForConditionalGeneration(config).eval()
    redraw(model, generator)
    ids, mask = tokens([8, 5, 3], generator)
    labels, target_mask = tokens([6, 7, 2], generator, pad=-100)
    inputs = labels.roll(1, dims=1).masked_fill(target_mask == 0, 0)
    inputs[:, 0] = 0
    given = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": inputs, "decoder_attention_mask": target_mask}
    out = model(**given, labels=labels, output_hidden_states=True, output_attentions=True)
    loss = torch.nn.functional.cross_entropy(out.logits.reshape(-1, VOCAB), labels.reshape(-1))
    loss.backward()
    names = {"shared.weight": "model.embedding.weight"}
    for side, layers in [("encoder", 3), ("decoder", 2)]:
        bias = "layer.0.SelfAttention.relative_attention_bias.weight"
        names[f"{side}.block.0.{bias}"] = f"model.{side}.position.table"
        names[f"{side}.final_layer_norm.weight"] = f"model.{side}.stack.final_norm.weight"
        parts = [("SelfAttention", "attention", "attention_residual")]
        if side == "decoder":
            parts.append(("EncDecAttention", "cross.attention", "cross.residual"))
        for layer in range(layers):
            theirs, block = f"{side}.block.{layer}.layer", f"model.{side}.stack.blocks.{layer}"
            for n, (name, path, residual) in enumerate(parts):
                for short, part in [("q", "query"), ("k", "key"), ("v", "value"), ("o", "output")]:
                    names[f"{theirs}.{n}.{name}.{short}.weight"] = f"{block}.{path}.{part}.weight"
                names[f"{theirs}.{n}.layer_norm.weight"] = f"{block}.{residual}.norm.weight"
            n = len(parts)
            names[f"{theirs}.{n}.DenseReluDense.wi.weight"] = f"{block}.feed_forward.up.weight"
            names[f"{theirs}.{n}.DenseReluDense.wo.weight"] = f"{block}.feed_forward.down.weight"
            names[f"{theirs}.{n}.layer_norm.weight"] = f"{block}.feed_forward_residual.norm.weight"
    tensors = given | {
        "labels": labels,
        "expected.logits": at_tokens(out.logits, target_mask),
        "expected.last_hidden_state": at_tokens(out.decoder_hidden_states[-1], target_mask),
        "expected.encoder_last_hidden_state": at_tokens(out.encoder_last_hidden_state, mask),
        "expected.loss": loss,
    }
    tensors |= states("encoder_", out.encoder_hidden_states, mask)
    tensors |= states("decoder_", out.decoder_hidden_states, target_mask)
    tensors |= attentions("encoder_", out.encoder_attentions, mask)
    tensors |= attentions("decoder_", out.decoder_attentions, target_mask)
    tensors |= attentions("cross_", out.cross_attentions, target_mask) | ours(model, names)
    scaled = str(bool(getattr(config, "scale_decoder_outputs", config.tie_word_embeddings))).lower()
    experiment = f"""name = "golden"
[model]
kind = "encoder_decoder"
n_encoder_layers = 3
n_decoder_layers = 2
d_model = {WIDTH}
norm = {{ kind = "rms", eps = 1e-6 }}
head_scale = {scaled}
position = {{ kind = "relative_bias", buckets = 8, max_distance = 16 }}
attention = {{ kind = "multi_head", n_heads = {HEADS}, bias = false, scale = 1.0 }}
feed_forward = {{ kind = "dense", activation = "relu", d_ff = {FEED_FORWARD}, bias = false }}

[data]
kind = "random_pairs"
vocab_size = {VOCAB}
source_len = 12
target_len = 12

[task]
kind = "translation"
"""
    shape = {"context": 12, "vocab_size": VOCAB}
    write("infer_encoder_decoder", tensors, {"experiment": experiment + REST, "shape": shape})


def vision():
    generator = seeded("infer_vision")
    config = hf.ViTConfig(
        image_size=(8, 12),
        patch_size=4,
        num_channels=3,
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        intermediate_size=FEED_FORWARD,
        layer_norm_eps=1e-12,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=5,
        attn_implementation="eager",
    )
    model = hf.ViTForImageClassification(config).eval()
    redraw(model, generator)
    images = torch.randn(3, 3, 8, 12, generator=generator)
    labels = torch.tensor([3, -100, 4])
    out = model(images, output_hidden_states=True, output_attentions=True)
    loss = torch.nn.functional.cross_entropy(out.logits, labels)
    loss.backward()
    embeddings = "vit.embeddings"
    names = {
        f"{embeddings}.cls_token": "model.class_token",
        f"{embeddings}.position_embeddings": "model.position.table",
    }
    names |= linears(embeddings, "model.stem", {"patch_embeddings.projection": "projection"})
    names |= norm("vit.layernorm", "model.stack.final_norm")
    names |= {f"classifier.{part}": f"head.{part}" for part in ["weight", "bias"]}
    parts = {
        "attention.attention.query": "attention.query",
        "attention.attention.key": "attention.key",
        "attention.attention.value": "attention.value",
        "attention.output.dense": "attention.output",
        "attention.q_proj": "attention.query",
        "attention.k_proj": "attention.key",
        "attention.v_proj": "attention.value",
        "attention.o_proj": "attention.output",
        "layernorm_before": "attention_residual.norm",
        "intermediate.dense": "feed_forward.up",
        "output.dense": "feed_forward.down",
        "mlp.fc1": "feed_forward.up",
        "mlp.fc2": "feed_forward.down",
        "layernorm_after": "feed_forward_residual.norm",
    }
    for layer in range(2):
        for theirs in [f"vit.encoder.layer.{layer}", f"vit.layers.{layer}"]:
            names |= linears(theirs, f"model.stack.blocks.{layer}", parts)
    shapes = [
        ("model.class_token", [WIDTH]),
        ("model.position.table", [7, WIDTH]),
        ("model.stem.projection.weight", [WIDTH, 48]),
    ]
    tensors = {
        "pixel_values": images,
        "labels": labels,
        "expected.logits": out.logits,
        "expected.last_hidden_state": model.vit(images).last_hidden_state,
        "expected.loss": loss,
    }
    tensors |= states("", out.hidden_states) | attentions("", out.attentions) | ours(model, names, shapes)
    experiment = f"""name = "golden"
[model]
kind = "vision"
n_layers = 2
d_model = {WIDTH}
norm = {{ kind = "layer", eps = 1e-12 }}
stem = {{ kind = "patches", size = 4 }}
position = {{ kind = "learned" }}
attention = {{ kind = "multi_head", n_heads = {HEADS} }}
feed_forward = {{ kind = "dense", activation = "gelu", d_ff = {FEED_FORWARD} }}

[data]
kind = "random_images"
channels = 3
height = 8
width = 12
classes = 5

[task]
kind = "image_classification"
"""
    shape = {"image": [3, 8, 12], "classes": ["a", "b", "c", "d", "e"]}
    write("infer_vision", tensors, {"experiment": experiment + REST, "shape": shape})


if __name__ == "__main__":
    MADE_WITH["transformers"] = "5.23.0"
    begin(torch, hf)
    decoder()
    encoder()
    encoder_decoder()
    vision()
