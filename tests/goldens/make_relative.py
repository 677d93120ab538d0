"""Oracles of schemes with relative position vectors, in whole small models, and of axial positions.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.23.0 safetensors
    python make_relative.py

Each relative_<case>.safetensors is a model: the metadata's `config` has its `model` table in formwork's keys, its
vocabulary size and longest input (`vocab`, `context`) and, if rows are padded, the `lengths`. `ids` [row, token]
(I64); `weight.<path>` are the parameters and `grad.<path>` their gradients under formwork's paths; `hidden`
[row, token, d] the last block's output, zero at padding; the gradients are those of the sum of `hidden` times
`cotangent`.

* `shaw_*`, `xl_*`, `disentangled_*` are brute force in float64: for each query and key, the vector of their distance
  is looked up in a table, so that no shift of scores is involved. A block is x + attention(x), without norms.
* `memtransformer_partial` and `memtransformer_learnable` are the attention of types 0 and 1 of Dai et al.'s released
  mem_transformer.py, rewritten from their formulas: vectors run from the furthest distance to 0, and scores by
  distance are shifted into place; the sum with the input is normalised. Formwork's table for Shaw's positions holds type 1's r_emb.
* `xlnet` is HF's XLNetModel: with distances of both signs. `deberta` and `deberta_v2` are HF's models, the second with
  logarithmic buckets, attention's own projections and a norm on the table.

relative_axial.safetensors: `rows` and `columns`, the tables of HF Reformer's AxialPositionEmbeddings with shape (3, 4) and widths
(2, 4); `whole` and `positions` [1, n, 6], the vectors of 0 … 11 and of 5, 6, 7, 8; the gradients of the sum of `whole`
times `cotangent`. relative_buckets.safetensors: for buckets and furthest distance, `<buckets>.<furthest>` (I64), the
logarithmic buckets of DeBERTa-v2 for distances −700 … 700.
"""

import torch
import transformers as hf
from safetensors.torch import save_file
from shared import HERE, MADE_WITH, begin, config_text, padding, redraw, seeded
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position
from transformers.models.reformer.modeling_reformer import AxialPositionEmbeddings

MADE_WITH["transformers"] = "5.23.0"
ROWS, LENGTH, VOCAB = 2, 7, 11
WIDTH, HEADS, HEAD, LAYERS = 16, 2, 6, 2
IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 5, 8, 9, 7]])


def save(case, config, named, hidden, lengths=None):
    """Writes a model's case: `named` has leaves, or pairs of a leaf and its conversion, under formwork's paths."""
    generator = seeded("cotangent " + case)
    cotangent = torch.randn(hidden.shape, generator=generator, dtype=hidden.dtype)
    if lengths:
        mask = padding(lengths, hidden.shape[1])[..., None].to(hidden.dtype)
        hidden, cotangent = hidden * mask, cotangent * mask
        config = {**config, "lengths": lengths}
    (hidden * cotangent).sum().backward()
    tensors = {"ids": IDS.clone(), "hidden": hidden, "cotangent": cotangent}
    for name, given in named.items():
        leaf, ours = given if isinstance(given, tuple) else (given, lambda x: x)
        assert leaf.grad is not None and leaf.grad.abs().max() > 0, f"{case}: {name} has no gradient"
        tensors["weight." + name], tensors["grad." + name] = ours(leaf.detach()), ours(leaf.grad)
    done = {
        name: (x.detach().float() if x.is_floating_point() else x).clone().contiguous() for name, x in tensors.items()
    }
    save_file(done, f"{HERE}/relative_{case}.safetensors", {"config": config_text(config)})
    print(f"relative_{case}: {len(named)} parameters")


def model(kind, position, attention=None, **more):
    heads = {"kind": "multi_head", "n_heads": HEADS, "d_head": HEAD, **(attention or {})}
    table = {
        "kind": kind,
        "n_layers": LAYERS,
        "d_model": WIDTH,
        "norm": {"kind": "none"},
        "final_norm": False,
        "position": position,
        "layers": [{"attention": heads}],
        **more,
    }
    if kind == "encoder":
        table |= {"segments": 0, "embedding_norm": more.get("embedding_norm", False)}
    return {"model": table, "vocab": VOCAB, "context": LENGTH}


def leaf(name, *shape, std=None):
    std = std or shape[-1] ** -0.5
    return (std * torch.randn(*shape, generator=seeded(name), dtype=torch.float64)).requires_grad_()


def base(case, bias=True):
    """Embeddings and the projections of attention."""
    named = {"embedding.weight": leaf(case + "emb", VOCAB, WIDTH, std=1.0)}
    inner = HEADS * HEAD
    for layer in range(LAYERS):
        for part, d_in, d_out in [("query", WIDTH, inner), ("key", WIDTH, inner), ("value", WIDTH, inner), ("output", inner, WIDTH)]:
            path = f"stack.blocks.{layer}.attention.{part}"
            named[path + ".weight"] = leaf(case + path, d_out, d_in, std=1.3 * d_in**-0.5)
            if bias:
                named[path + ".bias"] = leaf(case + path + "b", d_out, std=0.3)
    return named


def linear(named, path, x):
    out = x @ named[path + ".weight"].T
    return out + named[path + ".bias"] if path + ".bias" in named else out


def by_heads(x):
    return x.unflatten(-1, (HEADS, HEAD)).transpose(-3, -2)


def distances(length=LENGTH):
    place = torch.arange(length)
    return place[:, None] - place[None, :]


def brute(case, config, named, causal, share):
    """x + attention(x) in each layer; `share(layer, q, k, named)` returns scores and the vectors added to each value."""
    behind = distances()
    x = named["embedding.weight"][IDS]
    for layer in range(LAYERS):
        path = f"stack.blocks.{layer}.attention"
        q, k, v = (by_heads(linear(named, f"{path}.{part}", x)) for part in ["query", "key", "value"])
        scores, more = share(layer, q, k, named)
        if causal:
            scores = scores.masked_fill(behind < 0, float("-inf"))
        alpha = scores.softmax(-1)
        values = v[:, :, None] + (0 if more is None else more)
        mixed = (alpha[..., None] * values).sum(3)
        x = x + linear(named, f"{path}.output", mixed.transpose(1, 2).flatten(2))
    # A key bias shifts all scores of a query alike, except those with relative position vectors.
    for name in [n for n in named if n.endswith("key.bias")]:
        if "disentangled" not in case or "c2p" in case:
            del named[name]
    save(case, config, named, x)


def pairs(queries, vectors):
    """q_i · vectors of pair (i, j), of all heads `[Q, K, D]` or of each `[H, Q, K, D]`."""
    return (queries[:, :, :, None] * vectors).sum(-1)


def shaw(case, kind, position):
    causal, clip = kind == "decoder", position["clip"]
    named, rows = base(case), clip + 1 + (0 if kind == "decoder" else clip)
    shared, of_values = position.get("shared_heads", True), position.get("values", True)
    width = HEAD if shared else HEADS * HEAD
    for layer in range(LAYERS):
        named[f"position.keys.{layer}"] = leaf(f"{case}k{layer}", rows, width, std=0.7)
        if of_values:
            named[f"position.values.{layer}"] = leaf(f"{case}v{layer}", rows, width, std=0.7)
        if position.get("content_bias"):
            named[f"position.content_bias.{layer}"] = leaf(f"{case}u{layer}", HEADS, HEAD)
        if position.get("distance_bias"):
            named[f"position.distance_bias.{layer}"] = leaf(f"{case}b{layer}", rows, HEADS)
    row = (-distances()).clamp(-clip, 0 if causal else clip) + clip

    def share(layer, q, k, named):
        def vectors(name):
            table = named[f"position.{name}.{layer}"]
            return table[row] if shared else by_heads(table)[:, row]

        content = q + named[f"position.content_bias.{layer}"][:, None] if position.get("content_bias") else q
        scores = content @ k.transpose(2, 3) + pairs(q, vectors("keys"))
        if position.get("distance_bias"):
            scores = scores + named[f"position.distance_bias.{layer}"][row].permute(2, 0, 1)
        return scores / HEAD**0.5, vectors("values") if of_values else None

    brute(case, model(kind, {"kind": "shaw", **position}), named, causal, share)


def sinusoids(places):
    frequency = 10000.0 ** (-torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
    angle = places.double()[..., None] * frequency
    return torch.cat([angle.sin(), angle.cos()], -1)


def xl_leaves(case, named, untied):
    for layer in range(LAYERS):
        named[f"position.projections.{layer}.weight"] = leaf(f"{case}r{layer}", HEADS * HEAD, WIDTH)
    for name in ["content_bias", "distance_bias"]:
        for number in range(LAYERS if untied else 1):
            named[f"position.{name}.{number}"] = leaf(f"{case}{name}{number}", HEADS, HEAD)


def xl(case, kind, position):
    named, untied = base(case), position.get("untie_r", False)
    xl_leaves(case, named, untied)
    most = position.get("clamp_len", LENGTH)
    r = sinusoids(distances().clamp(-most, most))

    def share(layer, q, k, named):
        number = layer if untied else 0
        u, v = (named[f"position.{name}_bias.{number}"][:, None] for name in ["content", "distance"])
        vectors = (r @ named[f"position.projections.{layer}.weight"].T).unflatten(-1, (HEADS, HEAD)).permute(2, 0, 1, 3)
        return ((q + u) @ k.transpose(2, 3) + pairs(q + v, vectors)) / HEAD**0.5, None

    brute(case, model(kind, {"kind": "transformer_xl", **position}), named, kind == "decoder", share)


def disentangled(case, kind, position):
    causal, most, terms = kind == "decoder", position["max_distance"], position["terms"]
    named = base(case)
    named["position.table"] = leaf(case + "table", most if causal else 2 * most, WIDTH, std=1.0)
    for layer in range(LAYERS):
        if "c2p" in terms:
            named[f"position.keys.{layer}.weight"] = leaf(f"{case}k{layer}", HEADS * HEAD, WIDTH)
        if "p2c" in terms:
            named[f"position.queries.{layer}.weight"] = leaf(f"{case}q{layer}", HEADS * HEAD, WIDTH)
            named[f"position.queries.{layer}.bias"] = leaf(f"{case}qb{layer}", HEADS * HEAD)
    row = (distances() + most).clamp(most if causal else 0, 2 * most - 1) - (most if causal else 0)

    def share(layer, q, k, named):
        r = named["position.table"][row]
        scores = q @ k.transpose(2, 3)
        if "c2p" in terms:
            vectors = linear(named, f"position.keys.{layer}", r).unflatten(-1, (HEADS, HEAD)).permute(2, 0, 1, 3)
            scores = scores + pairs(q, vectors)
        if "p2c" in terms:
            vectors = linear(named, f"position.queries.{layer}", r).unflatten(-1, (HEADS, HEAD)).permute(2, 0, 1, 3)
            scores = scores + (k[:, :, None] * vectors).sum(-1)
        return scores / (HEAD * (1 + len(terms))) ** 0.5, None

    brute(case, model(kind, {"kind": "disentangled", **position}), named, causal, share)


def shifted(x):
    """Scores [row, head, query, vector], vectors from the furthest distance to 0, as those of query and key."""
    rows, heads, queries, keys = x.shape
    filled = torch.cat([x.new_zeros(rows, heads, queries, 1), x], 3)
    return filled.reshape(rows, heads, keys + 1, queries)[:, :, 1:].reshape(x.shape)


def memtransformer(case, position, bias_of):
    """Post-norm blocks of attention without feed-forward layers, as in mem_transformer.py; `bias_of` returns u, v or b, and vectors."""
    named = base(case, bias=False)
    for layer in range(LAYERS):
        norm = f"stack.blocks.{layer}.attention_residual.norm"
        named |= {norm + ".gamma": leaf(case + norm, WIDTH, std=1.0), norm + ".beta": leaf(case + norm + "b", WIDTH)}
    make = bias_of(named)
    x = named["embedding.weight"][IDS] * WIDTH**0.5
    for layer in range(LAYERS):
        path = f"stack.blocks.{layer}.attention"
        q, k, v = (by_heads(linear(named, f"{path}.{part}", x)) for part in ["query", "key", "value"])
        u, by_distance = make(layer, q)
        scores = ((q + u) @ k.transpose(2, 3) + shifted(by_distance)) / HEAD**0.5
        alpha = scores.masked_fill(distances() < 0, float("-inf")).softmax(-1)
        out = linear(named, f"{path}.output", (alpha @ v).transpose(1, 2).flatten(2))
        norm = f"stack.blocks.{layer}.attention_residual.norm"
        x = torch.nn.functional.layer_norm(x + out, [WIDTH], named[norm + ".gamma"], named[norm + ".beta"])
    config = model(
        "decoder",
        position,
        attention={"bias": False},
        norm={"kind": "layer"},
        norm_placement="post",
        embedding_scale=True,
    )
    save(case, config, named, x)


def partial(named):
    xl_leaves("partial", named, False)
    r = sinusoids(torch.arange(LENGTH - 1, -1, -1))

    def make(layer, q):
        vectors = by_heads(linear(named, f"position.projections.{layer}", r))
        u, v = (named[f"position.{name}_bias.0"][:, None] for name in ["content", "distance"])
        return u, (q + v) @ vectors.transpose(1, 2)

    return make


def learnable(named, rows=5):
    for layer in range(LAYERS):
        named[f"position.keys.{layer}"] = leaf(f"emb{layer}", rows, HEADS * HEAD, std=0.7)
        named[f"position.content_bias.{layer}"] = leaf(f"u{layer}", HEADS, HEAD)
        named[f"position.distance_bias.{layer}"] = leaf(f"b{layer}", rows, HEADS)

    def make(layer, q):
        # Beyond the table's range, its first row is repeated.
        filled = lambda table: torch.cat([table[:1].expand(LENGTH - rows, -1), table])
        vectors = by_heads(filled(named[f"position.keys.{layer}"]))
        bias = filled(named[f"position.distance_bias.{layer}"]).T[:, None]
        return named[f"position.content_bias.{layer}"][:, None], q @ vectors.transpose(1, 2) + bias

    return make


def drawn(model, name):
    redraw(model, seeded(name))
    # In evaluation mode dropout is off; gradients are computed as in training.
    return model.eval()


def norm(named, ours, theirs):
    named |= {ours + ".gamma": theirs.weight, ours + ".beta": theirs.bias}


def affine(named, ours, theirs):
    named[ours + ".weight"] = theirs.weight
    if theirs.bias is not None:
        named[ours + ".bias"] = theirs.bias


def whole(kind, position, heads, eps, **more):
    config = model(
        kind,
        position,
        norm={"kind": "layer", "eps": eps},
        norm_placement="post",
        attention={"kind": "multi_head", "n_heads": HEADS, **heads},
        feed_forward={"kind": "dense", "activation": "gelu", "d_ff": 24},
        **more,
    )
    del config["model"]["layers"]
    config["model"]["attention"] = {"kind": "multi_head", "n_heads": HEADS, **heads}
    return config


def xlnet():
    config = hf.XLNetConfig(
        vocab_size=VOCAB, d_model=WIDTH, n_layer=LAYERS, n_head=HEADS, d_inner=24, ff_activation="gelu", attn_type="bi"
    )
    net = drawn(hf.XLNetModel(config), "xlnet")
    hidden = net(IDS, use_mems=False).last_hidden_state
    named = {"embedding.weight": net.word_embedding.weight}
    turned = lambda x: x.flatten(1).T
    for number, layer in enumerate(net.layer):
        block, attention = f"stack.blocks.{number}", layer.rel_attn
        for ours, theirs in [("query", attention.q), ("key", attention.k), ("value", attention.v)]:
            named[f"{block}.attention.{ours}.weight"] = (theirs, turned)
        named[f"{block}.attention.output.weight"] = (attention.o, lambda x: x.flatten(1))
        named[f"position.projections.{number}.weight"] = (attention.r, turned)
        named[f"position.content_bias.{number}"] = attention.r_w_bias
        named[f"position.distance_bias.{number}"] = attention.r_r_bias
        norm(named, f"{block}.attention_residual.norm", attention.layer_norm)
        norm(named, f"{block}.feed_forward_residual.norm", layer.ff.layer_norm)
        affine(named, f"{block}.feed_forward.up", layer.ff.layer_1)
        affine(named, f"{block}.feed_forward.down", layer.ff.layer_2)
    position = {"kind": "transformer_xl", "untie_r": True}
    save("xlnet", whole("encoder", position, {"bias": False}, config.layer_norm_eps), named, hidden)


def deberta_rest(net, named):
    """Parameters of both versions: embeddings, output projections of attention, feed-forward layers, norms."""
    named["embedding.weight"] = net.embeddings.word_embeddings.weight
    norm(named, "embedding_norm", net.embeddings.LayerNorm)
    named["position.table"] = net.encoder.rel_embeddings.weight
    for number, layer in enumerate(net.encoder.layer):
        block = f"stack.blocks.{number}"
        affine(named, f"{block}.attention.output", layer.attention.output.dense)
        norm(named, f"{block}.attention_residual.norm", layer.attention.output.LayerNorm)
        affine(named, f"{block}.feed_forward.up", layer.intermediate.dense)
        affine(named, f"{block}.feed_forward.down", layer.output.dense)
        norm(named, f"{block}.feed_forward_residual.norm", layer.output.LayerNorm)


SIZES = dict(
    vocab_size=VOCAB,
    hidden_size=WIDTH,
    num_hidden_layers=LAYERS,
    num_attention_heads=HEADS,
    intermediate_size=24,
    type_vocab_size=0,
    position_biased_input=False,
    relative_attention=True,
    pos_att_type=["c2p", "p2c"],
    max_position_embeddings=LENGTH,
)


def deberta():
    config = hf.DebertaConfig(**SIZES, max_relative_positions=4)
    net = drawn(hf.DebertaModel(config), "deberta")
    lengths = [7, 5]
    hidden = net(IDS, attention_mask=padding(lengths, LENGTH)).last_hidden_state
    named, head = {}, WIDTH // HEADS
    deberta_rest(net, named)
    for number, layer in enumerate(net.encoder.layer):
        block, attention = f"stack.blocks.{number}.attention", layer.attention.self
        # For each head in turn, the rows of its query, its key and its value.
        for place, ours in enumerate(["query", "key", "value"]):
            part = lambda x, place=place: x.reshape(HEADS, 3, head, WIDTH)[:, place].reshape(WIDTH, WIDTH)
            named[f"{block}.{ours}.weight"] = (attention.in_proj.weight, part)
        named |= {f"{block}.query.bias": attention.q_bias, f"{block}.value.bias": attention.v_bias}
        affine(named, f"position.keys.{number}", attention.pos_proj)
        affine(named, f"position.queries.{number}", attention.pos_q_proj)
    position = {"kind": "disentangled", "max_distance": 4}
    config = whole("encoder", position, {}, config.layer_norm_eps, embedding_norm=True)
    save("deberta", config, named, hidden, lengths)


def deberta_v2():
    config = hf.DebertaV2Config(
        **SIZES, max_relative_positions=6, position_buckets=4, share_att_key=True, norm_rel_ebd="layer_norm"
    )
    net = drawn(hf.DebertaV2Model(config), "deberta_v2")
    lengths = [7, 6]
    hidden = net(IDS, attention_mask=padding(lengths, LENGTH)).last_hidden_state
    named = {}
    deberta_rest(net, named)
    norm(named, "position.norm", net.encoder.LayerNorm)
    for number, layer in enumerate(net.encoder.layer):
        block, attention = f"stack.blocks.{number}.attention", layer.attention.self
        affine(named, f"{block}.query", attention.query_proj)
        affine(named, f"{block}.key", attention.key_proj)
        affine(named, f"{block}.value", attention.value_proj)
    position = {
        "kind": "disentangled",
        "max_distance": 6,
        "buckets": 4,
        "shared_projections": True,
        "norm": {"kind": "layer", "eps": config.layer_norm_eps},
    }
    config = whole("encoder", position, {}, config.layer_norm_eps, embedding_norm=True)
    save("deberta_v2", config, named, hidden, lengths)


def axial():
    config = hf.ReformerConfig(axial_pos_shape=(3, 4), axial_pos_embds_dim=(2, 4), hidden_size=6)
    net = AxialPositionEmbeddings(config).eval()
    redraw(net, seeded("axial positions"))
    whole = net(torch.arange(12)[None])
    some = net(torch.arange(5, 9)[None])
    cotangent = torch.randn(whole.shape, generator=seeded("axial cotangent"))
    (whole * cotangent).sum().backward()
    rows, columns = net.weights
    tensors = {"whole": whole, "positions": some, "cotangent": cotangent}
    for name, table in [("rows", rows), ("columns", columns)]:
        flat = lambda x: x.reshape(-1, x.shape[-1])
        tensors |= {name: flat(table), "grad." + name: flat(table.grad)}
    done = {name: x.detach().clone().contiguous() for name, x in tensors.items()}
    save_file(done, f"{HERE}/relative_axial.safetensors")


def buckets():
    distance = torch.arange(-700, 701)
    made = {}
    for number, furthest in [(256, 512), (32, 128), (4, 6), (2, 3), (7, 20)]:
        made[f"{number}.{furthest}"] = make_log_bucket_position(distance, number, furthest).long().contiguous()
    save_file(made, f"{HERE}/relative_buckets.safetensors")


def main():
    shaw("shaw_causal", "decoder", {"clip": 3})
    shaw("shaw_heads", "encoder", {"clip": 2, "shared_heads": False, "values": False})
    shaw("shaw_biases", "encoder", {"clip": 4, "content_bias": True, "distance_bias": True})
    xl("xl_causal", "decoder", {})
    xl("xl_clamped", "decoder", {"untie_r": True, "clamp_len": 3})
    xl("xl_both_ways", "encoder", {"clamp_len": 5})
    both = ["c2p", "p2c"]
    disentangled("disentangled_causal", "decoder", {"max_distance": 4, "terms": both})
    disentangled("disentangled_c2p", "encoder", {"max_distance": 3, "terms": both[:1]})
    disentangled("disentangled_p2c", "encoder", {"max_distance": 9, "terms": both[1:]})
    memtransformer("memtransformer_partial", {"kind": "transformer_xl"}, partial)
    learned = {"clip": 4, "shared_heads": False, "values": False, "content_bias": True, "distance_bias": True}
    memtransformer("memtransformer_learnable", {"kind": "shaw", **learned}, learnable)
    xlnet()
    deberta()
    deberta_v2()
    axial()
    buckets()


if __name__ == "__main__":
    begin(torch, hf)
    main()
