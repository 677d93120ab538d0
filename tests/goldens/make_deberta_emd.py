"""The oracle of DeBERTa's enhanced mask decoder, which transformers lacks: its definition on top of HF's DeBERTa.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.23.0 safetensors
    python make_deberta_emd.py

He et al. 2021, section 3.2, as Microsoft's released masked language model (DeBERTa/apps/models/masked_language_model.py)
defines it: H is the input of the last layer. The queries begin as H plus absolute position embeddings and go
through the last layer twice; its keys and values are computed from H both times, and residual connections follow the
queries. The head (dense, GELU, norm, product with the embedding table, bias) reads the result. The last layer's own
output is not read at all.

Conventions (names, padding, configuration) are those of shared.py; sizes those of make_deberta.py. Each file has
`input_ids`, `attention_mask`, `labels` [3, 14], `last_hidden_state` (of the encoder as HF computes it, that is the last
layer over H), `logits`, `loss`, and `flops` of a forward pass over one row of 14 tokens without the head (PyTorch's counter).

deberta_emd.safetensors is for DeBERTa with separate position projections (distances clipped to 5),
deberta_v2_emd.safetensors for DeBERTa-v2 with attention's own projections.
`weight.deberta.embeddings.position_embeddings.weight` has the absolute positions.
"""

import torch
import transformers as hf
from make_deberta import RELATIVE, SIZES, inputs
from shared import at_tokens, gradients, redraw, seeded, weights, write
from torch.utils.flop_counter import FlopCounterMode

STEPS = 2


class Head(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = torch.nn.Linear(config.hidden_size, config.hidden_size)
        self.LayerNorm = torch.nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.bias = torch.nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, x, table):
        x = torch.nn.functional.gelu(self.dense(x))
        return self.LayerNorm(x) @ table.T + self.bias


def projections(attention, queries, hidden):
    """Queries of one stream, keys and values of the other, `[batch, heads, tokens, width]`."""
    heads = attention.num_attention_heads
    split = lambda x: x.unflatten(-1, (heads, -1)).transpose(1, 2)
    if hasattr(attention, "in_proj"):
        # For each head in turn, the rows of its query, its key and its value.
        rows = attention.in_proj.weight.unflatten(0, (heads, 3, -1))
        q, k, v = (rows[:, place].flatten(0, 1) for place in range(3))
        return split(queries @ q.T + attention.q_bias), split(hidden @ k.T), split(hidden @ v.T + attention.v_bias)
    made = attention.query_proj(queries), attention.key_proj(hidden), attention.value_proj(hidden)
    return tuple(split(x) for x in made)


def vectors(attention, table):
    """Relative position embeddings projected as keys and as queries, `[heads, rows, width]`."""
    split = lambda x: x.unflatten(-1, (attention.num_attention_heads, -1)).transpose(0, 1)
    if hasattr(attention, "in_proj"):
        return split(attention.pos_proj(table)), split(attention.pos_q_proj(table))
    return split(attention.key_proj(table)), split(attention.query_proj(table))


def layer(block, queries, hidden, mask, rows, table):
    """One run of a layer: `rows` [tokens, tokens] is the row of each distance from query to key."""
    attention = block.attention.self
    q, k, v = projections(attention, queries, hidden)
    keys, asking = vectors(attention, table)
    every = rows.expand(len(q), q.shape[1], *rows.shape)
    content = (q @ keys.transpose(-1, -2)).gather(-1, every)
    position = (k @ asking.transpose(-1, -2)).gather(-1, every.transpose(-1, -2)).transpose(-1, -2)
    scores = (q @ k.transpose(-1, -2) + content + position) / (3 * q.shape[-1]) ** 0.5
    scores = scores.masked_fill(mask[:, None, None, :] == 0, float("-inf"))
    read = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
    x = block.attention.output(read, queries)
    return block.output(block.intermediate(x), x)


class Masked(torch.nn.Module):
    def __init__(self, body, rows):
        super().__init__()
        self.deberta, self.rows = body, rows
        config = body.config
        places = torch.nn.Embedding(config.max_position_embeddings, config.hidden_size)
        body.embeddings.position_embeddings = places
        self.lm_head = Head(config)

    def decoded(self, ids, mask):
        encoder = self.deberta.encoder
        x = self.deberta.embeddings(ids, mask=mask)
        tokens = ids.shape[1]
        behind = torch.arange(tokens)[:, None] - torch.arange(tokens)[None]
        rows, table = self.rows(behind), encoder.get_rel_embedding()
        for block in encoder.layer[:-1]:
            x = layer(block, x, x, mask, rows, table)
        queries = x + self.deberta.embeddings.position_embeddings.weight[:tokens]
        for _ in range(STEPS):
            queries = layer(encoder.layer[-1], queries, x, mask, rows, table)
        return queries, layer(encoder.layer[-1], x, x, mask, rows, table)

    def forward(self, ids, mask):
        return self.lm_head(self.decoded(ids, mask)[0], self.deberta.embeddings.word_embeddings.weight)


def flops(model):
    """FLOPs of the layers that prediction needs: all except the last once, the last one for each step."""
    ids = torch.ones([1, 14], dtype=torch.long)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.decoded(ids, torch.ones_like(ids))
    one = FlopCounterMode(display=False)
    with torch.no_grad(), one:
        x = torch.zeros([1, 14, model.deberta.config.hidden_size])
        rows, table = model.rows(torch.zeros([14, 14], dtype=torch.long)), model.deberta.encoder.get_rel_embedding()
        layer(model.deberta.encoder.layer[-1], x, x, torch.ones_like(ids), rows, table)
    return torch.tensor(counter.get_total_flops() - one.get_total_flops())


def named(tensors):
    """The head's parameters under the names that DebertaForMaskedLM has."""
    head = "cls.predictions."
    for old, new in [("lm_head.bias", "bias"), ("lm_head.", "transform.")]:
        tensors = {name.replace(old, head + new): x for name, x in tensors.items()}
    return tensors


def make(name, body, config, rows):
    generator = seeded(name)
    model = Masked(body, rows).eval()
    redraw(model, generator)
    ids, attention_mask, labels = inputs(generator)
    logits = model(ids, attention_mask)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    # HF's own forward pass checks the rebuilt layers.
    last = body(ids, attention_mask).last_hidden_state
    rebuilt = model.decoded(ids, attention_mask)[1]
    assert (at_tokens(last, attention_mask) - at_tokens(rebuilt, attention_mask)).abs().max() < 1e-5
    loss.backward()
    tensors = {
        "input_ids": ids,
        "attention_mask": attention_mask,
        "labels": labels,
        "last_hidden_state": at_tokens(last, attention_mask),
        "logits": at_tokens(logits, attention_mask),
        "loss": loss,
        "flops": flops(model),
    }
    config.architectures = ["DebertaForMaskedLM"]
    write(name, tensors | named(weights(model)) | named(gradients(model)), config)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = hf.DebertaConfig(max_relative_positions=5, type_vocab_size=0, **RELATIVE, **SIZES)
    make("deberta_emd", hf.DebertaModel(config), config, lambda behind: (behind + 5).clamp(0, 9))
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

    config = hf.DebertaV2Config(
        max_relative_positions=10, position_buckets=6, share_att_key=True, norm_rel_ebd="layer_norm", type_vocab_size=0,
        **RELATIVE, **SIZES,
    )  # fmt: skip
    rows = lambda behind: (make_log_bucket_position(behind, 6, 10).long() + 6).clamp(0, 11)
    make("deberta_v2_emd", hf.DebertaV2Model(config), config, rows)


if __name__ == "__main__":
    main()
