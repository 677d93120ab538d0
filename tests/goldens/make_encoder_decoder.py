"""Oracles of the encoder-decoders: torch's nn.Transformer and tiny random Marian, BART and T5 models of HF
transformers.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==4.57.1 safetensors
    python make_encoder_decoder.py

Conventions (names, padding, configuration) are those of shared.py. Dropout 0, all in float32. Every file has
`input_ids`, `attention_mask` [3, 11] (sources of 11, 8 and 5 tokens), `decoder_input_ids`, `decoder_attention_mask`,
`labels` [3, 9] (targets of 6, 9 and 4 tokens; labels are -100 at padding), `encoder_last_hidden_state` [3, 11, 24],
`decoder_last_hidden_state` [3, 9, 24], `logits` [3, 9, 47], `loss`, and `positions`, a table of fixed positions [20,
24], where the model has one. `decoder_input_ids` are the labels shifted to the right, after a start token.

transformer_post.safetensors and transformer_pre.safetensors: nn.Transformer with norm_first False and True, two
layers and two, ReLU, epsilon 1e-5. Sources and targets share `embedding.weight` [47, 24], times √24, plus interleaved
sinusoids (`positions`: sin at even, cos at odd dimensions); the output projection is the embedding, without scale and
without bias. nn.Transformer ALWAYS has a norm after the last layer of the encoder and of the decoder
(`transformer.encoder.norm`, `transformer.decoder.norm`), also after post-LN layers, where the paper has none.
`in_proj_weight` [72, 24] and `in_proj_bias` hold query, key and value in this order; norm1, norm2, norm3 of a decoder
layer belong to self-attention, cross-attention and feed-forward. Keys at source padding are blocked in the encoder
and in cross-attention; the decoder is causal and needs no other mask. `loss` is the SUM over the non-padding targets
of the label-smoothed cross-entropy (0.9 of the target's plus 0.1 of the mean over all 47 words), `loss_mean` the mean
over them; gradients are of `loss`. Tokens: 0 pads, 1 starts, 2 ends.

marian.safetensors, `MarianMTModel`: post-LN layers without final norms and without a norm on the embeddings; shared
embeddings times √24 (not on the output); `positions` are Marian's sinusoids, the sines in the first half of the
dimensions and the cosines in the second; swish; `weight.final_logits_bias` [1, 47] is added to the logits and not
trained (no `grad.`). Padding = 46 is the decoder's start token too, as in every Marian model; 0 ends.

bart.safetensors, `BartForConditionalGeneration`: post-LN layers, a norm on the embeddings (`layernorm_embedding`),
learned positions whose first two rows are not used (position p is row p + 2), embeddings not scaled, erf GELU,
`weight.final_logits_bias` as in Marian. <s> = 0, padding = 1, </s> = 2, which starts the decoder too.

t5.safetensors, `T5ForConditionalGeneration` (v1.0): pre-norm layers of RMS norms (epsilon 1e-6) without biases, a norm
after each stack, scores without 1/sqrt(d), a relative bias of 8 buckets up to a distance of 16 for each stack, which
its first layer holds and only self-attention adds; hidden states times 24^-0.5 before the product with the shared
embeddings; no logits bias. 0 pads and starts, 1 ends.

In these three, the embeddings are made without `padding_idx`, which would drop the padding row's gradient, where Marian's
start token has its own. `loss` is the mean cross-entropy over the non-padding labels, no smoothing.
"""

import math

import torch
import transformers as hf
from shared import at_tokens, begin, gradients, padding, redraw, seeded, weights, write

VOCAB, WIDTH, HEADS, LAYERS, FEED_FORWARD, POSITIONS = 47, 24, 4, 2, 40, 20
SOURCES, TARGETS = [11, 8, 5], [6, 9, 4]
SMOOTHING = 0.1


class Transformer(torch.nn.Module):
    """nn.Transformer between shared embeddings."""

    def __init__(self, norm_first, vocab=VOCAB, width=WIDTH, heads=HEADS, layers=LAYERS, feed_forward=FEED_FORWARD):
        super().__init__()
        self.embedding = torch.nn.Embedding(vocab, width)
        self.transformer = torch.nn.Transformer(
            width, heads, layers, layers, feed_forward, dropout=0.0, batch_first=True, norm_first=norm_first
        )
        self.register_buffer("positions", sinusoids(POSITIONS, width))

    def embed(self, ids):
        return self.embedding(ids) * math.sqrt(self.embedding.embedding_dim) + self.positions[: ids.shape[1]]

    def forward(self, source, source_mask, target):
        """The encoder's output, the decoder's, and logits."""
        blocked = source_mask == 0
        memory = self.transformer.encoder(self.embed(source), src_key_padding_mask=blocked)
        causal = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        hidden = self.transformer.decoder(
            self.embed(target), memory, tgt_mask=causal, memory_key_padding_mask=blocked
        )
        return memory, hidden, hidden @ self.embedding.weight.T


def sinusoids(length, width):
    """sin at even and cos at odd dimensions."""
    angle = torch.arange(length, dtype=torch.float64)[:, None] * 10000.0 ** (-torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).reshape(length, width).float()


def pairs(start, end, pad, first, last, generator):
    """Sources and targets of words from `first` to before `last`, each ended; the decoder's input and labels."""
    source = torch.randint(first, last, (len(SOURCES), max(SOURCES)), generator=generator)
    labels = torch.randint(first, last, (len(TARGETS), max(TARGETS)), generator=generator)
    for row, (s, t) in enumerate(zip(SOURCES, TARGETS)):
        source[row, s - 1], source[row, s:] = end, pad
        labels[row, t - 1], labels[row, t:] = end, -100
    inputs = labels.roll(1, dims=1)
    inputs[:, 0] = start
    masks = padding(SOURCES, max(SOURCES)), padding(TARGETS, max(TARGETS))
    inputs[masks[1] == 0] = pad
    return {
        "input_ids": source,
        "attention_mask": masks[0],
        "decoder_input_ids": inputs,
        "decoder_attention_mask": masks[1],
        "labels": labels,
    }


def outputs(batch, memory, hidden, logits):
    return {
        "encoder_last_hidden_state": at_tokens(memory, batch["attention_mask"]),
        "decoder_last_hidden_state": at_tokens(hidden, batch["decoder_attention_mask"]),
        "logits": at_tokens(logits, batch["decoder_attention_mask"]),
    }


def transformer(name, norm_first):
    generator = seeded(name)
    model = Transformer(norm_first)
    redraw(model, generator)
    batch = pairs(start=1, end=2, pad=0, first=3, last=VOCAB, generator=generator)
    memory, hidden, logits = model(batch["input_ids"], batch["attention_mask"], batch["decoder_input_ids"])
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, VOCAB), batch["labels"].reshape(-1), reduction="sum", label_smoothing=SMOOTHING
    )
    loss.backward()
    config = {
        "architectures": ["Transformer"],
        "activation": "relu",
        "d_model": WIDTH,
        "dim_feedforward": FEED_FORWARD,
        "label_smoothing": SMOOTHING,
        "layer_norm_eps": 1e-5,
        "nhead": HEADS,
        "norm_first": norm_first,
        "num_decoder_layers": LAYERS,
        "num_encoder_layers": LAYERS,
        "vocab_size": VOCAB,
    }
    losses = {"loss": loss, "loss_mean": loss / sum(TARGETS), "positions": model.positions}
    tensors = batch | outputs(batch, memory, hidden, logits) | losses | weights(model) | gradients(model)
    write(name, tensors, config)


def hf_pair(name, model, batch, generator):
    """A model of HF, maybe with a constant bias on its logits."""
    redraw(model, generator)
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            module.padding_idx = None
    constant = {}
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias.copy_(torch.randn(model.final_logits_bias.shape, generator=generator))
        constant = {"weight.final_logits_bias": model.final_logits_bias}
    ids, mask, decoder_ids, decoder_mask, labels = batch.values()
    shifted = model.prepare_decoder_input_ids_from_labels(labels)
    assert torch.equal(shifted * decoder_mask, decoder_ids * decoder_mask), f"{name} shifts its labels otherwise"
    out = model(
        input_ids=ids,
        attention_mask=mask,
        decoder_input_ids=decoder_ids,
        decoder_attention_mask=decoder_mask,
        labels=labels,
        output_hidden_states=True,
        use_cache=False,
    )
    out.loss.backward()
    tensors = batch | outputs(batch, out.encoder_last_hidden_state, out.decoder_hidden_states[-1], out.logits)
    tensors |= weights(model) | gradients(model)
    return tensors | {"loss": out.loss} | constant


SHAPE = dict(
    vocab_size=VOCAB,
    d_model=WIDTH,
    encoder_layers=LAYERS,
    decoder_layers=LAYERS,
    encoder_attention_heads=HEADS,
    decoder_attention_heads=HEADS,
    encoder_ffn_dim=FEED_FORWARD,
    decoder_ffn_dim=FEED_FORWARD,
    max_position_embeddings=POSITIONS,
    dropout=0.0,
    attention_dropout=0.0,
    activation_dropout=0.0,
    attn_implementation="eager",
)


def marian():
    generator = seeded("marian")
    config = hf.MarianConfig(
        activation_function="swish",
        scale_embedding=True,
        static_position_embeddings=True,
        share_encoder_decoder_embeddings=True,
        pad_token_id=VOCAB - 1,
        decoder_start_token_id=VOCAB - 1,
        bos_token_id=None,
        eos_token_id=0,
        forced_eos_token_id=0,
        **SHAPE,
    )
    config.architectures = ["MarianMTModel"]
    model = hf.MarianMTModel(config).eval()
    batch = pairs(start=VOCAB - 1, end=0, pad=VOCAB - 1, first=1, last=VOCAB - 1, generator=generator)
    tensors = hf_pair("marian", model, batch, generator)
    encoder, decoder = model.model.encoder.embed_positions.weight, model.model.decoder.embed_positions.weight
    assert torch.equal(encoder, decoder) and abs(encoder[1, 0] - math.sin(1.0)) < 1e-6 and encoder[0, -1] == 1.0
    write("marian", tensors | {"positions": encoder}, config)


def bart():
    generator = seeded("bart")
    config = hf.BartConfig(
        activation_function="gelu",
        scale_embedding=False,
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=2,
        forced_eos_token_id=2,
        **SHAPE,
    )
    config.architectures = ["BartForConditionalGeneration"]
    model = hf.BartForConditionalGeneration(config).eval()
    batch = pairs(start=2, end=2, pad=1, first=3, last=VOCAB, generator=generator)
    for key in ["input_ids", "labels"]:
        batch[key][:, 0] = 0
    batch["decoder_input_ids"][:, 1] = 0
    write("bart", hf_pair("bart", model, batch, generator), config)


def t5():
    generator = seeded("t5")
    config = hf.T5Config(
        vocab_size=VOCAB,
        d_model=WIDTH,
        d_kv=WIDTH // HEADS,
        d_ff=FEED_FORWARD,
        num_layers=LAYERS,
        num_decoder_layers=LAYERS,
        num_heads=HEADS,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=16,
        dropout_rate=0.0,
        feed_forward_proj="relu",
        pad_token_id=0,
        decoder_start_token_id=0,
        eos_token_id=1,
        attn_implementation="eager",
    )
    config.architectures = ["T5ForConditionalGeneration"]
    model = hf.T5ForConditionalGeneration(config).eval()
    batch = pairs(start=0, end=1, pad=0, first=2, last=VOCAB, generator=generator)
    write("t5", hf_pair("t5", model, batch, generator), config)


if __name__ == "__main__":
    begin(torch, hf)
    transformer("transformer_post", norm_first=False)
    transformer("transformer_pre", norm_first=True)
    marian()
    bart()
    t5()
