"""Oracle of retrieval-enhanced decoders: `retro-pytorch` 0.3.9 (lucidrains), tiny random weights.

Run by hand, on the CPU, in this folder; nothing else is downloaded:

    pip install torch==2.15.0 safetensors einops==0.8.2
    pip install --no-deps retro-pytorch==0.3.9
    python make_retro.py

`retro_plain`: the package's whole RETRO, its own forward with its chunked cross-attention (`ChunkedCrossAttention`), its
encoder conditioned on the chunk's stream, learned positions in the decoder and none in the encoder. Three things are switched
off, since the paper has none of them or the package departs from it:

* the null key and value of cross-attention (`null_kv`), which the paper lacks;
* the map of the encoder's output (`project_out`), which the package applies even between equal widths;
* rotations: the package shifts the rotation of queries with `F.pad`, so that all tokens of a chunk except the first get no
  rotation at all. Here its tables of angles are zero.

`retro_rotary`: the package's attention, encoder and feed-forward layers with unchanged rotations; its chunked
cross-attention is replaced by `ByPosition`, which is written here from algorithm 1 of the paper, position by position and
without a shift (its matrices are still those of the package's `Attention`). The encoder is narrower than the decoder, its input
is a linear map of the decoder's token vectors, one chunk has no neighbour at all, and the text ends within a chunk.

In both, neighbours of several lengths are padded with token 0, which is masked. Files have `ids`
[rows, tokens + 1], `neighbours` [rows, chunks, k, r], `logits`, `loss` (mean cross-entropy of the next tokens),
`weight.<path>` and `grad.<path>` under formwork's paths; the shapes are JSON under the key `config`.
"""

import importlib.util
import json
import os
import sys
import types

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from safetensors.torch import save_file
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB, D, HEADS, D_HEAD, D_FF_MULT, LAYERS, CROSS = 23, 16, 2, 8, 2, 3, (2, 3)
CHUNK, K, ROWS = 4, 2, 2
WIDTH = 2 * CHUNK


def package():
    """Loads only the module of the networks: the package's `__init__` imports retrieval libraries that are not needed here."""
    home = os.path.dirname(importlib.util.find_spec("einops").submodule_search_locations[0])
    stub = types.ModuleType("retro_pytorch.retrieval")
    stub.BERT_VOCAB_SIZE = 28996
    sys.modules["retro_pytorch"] = types.ModuleType("retro_pytorch")
    sys.modules["retro_pytorch.retrieval"] = stub
    path = os.path.join(home, "retro_pytorch", "retro_pytorch.py")
    spec = importlib.util.spec_from_file_location("retro_pytorch.retro_pytorch", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


retro = package()


class NoRotation(nn.Module):
    def forward(self, length, *, device, offset=0):
        return torch.zeros(1, 1, length, D_HEAD, device=device)


class ByPosition(nn.Module):
    """CCA(H, E) of algorithm 1, token by token."""

    def __init__(self, attention, rotary):
        super().__init__()
        self.cross_attn = attention
        self.rotary = [rotary]

    def forward(self, x, *, context, context_mask, pos_emb):
        a, out = self.cross_attn, torch.zeros_like(x)
        angles = self.rotary[0](2 * CHUNK, device=x.device)
        rows = []
        for row in range(x.shape[0]):
            tokens = []
            for t in range(x.shape[1]):
                u = (t + 1) // CHUNK - 1
                if u < 0 or not context_mask[row, u].any():
                    tokens.append(torch.zeros(x.shape[2]))
                    continue
                place = t - u * CHUNK
                q = a.to_q(x[row, t]).reshape(HEADS, 1, D_HEAD)
                q = retro.apply_rotary_pos_emb(q, angles[0, :, place : place + 1])
                keys, values = [], []
                for j in range(K):
                    length = int(context_mask[row, u, j].sum())
                    e = context[row, u, j, :length]
                    k = a.to_k(e).reshape(length, HEADS, D_HEAD).transpose(0, 1)
                    keys.append(retro.apply_rotary_pos_emb(k, angles[0, :, :length]))
                    values.append(a.to_v(e).reshape(length, HEADS, D_HEAD).transpose(0, 1))
                k, v = torch.cat(keys, 1), torch.cat(values, 1)
                weights = (q @ k.transpose(1, 2) * D_HEAD**-0.5).softmax(-1)
                tokens.append(a.to_out((weights @ v).transpose(0, 1).reshape(-1)))
            rows.append(torch.stack(tokens))
        return out + torch.stack(rows)


def network(d_encoder, length):
    model = retro.RETRO(
        num_tokens=VOCAB, max_seq_len=length, enc_dim=D, dec_dim=D, enc_depth=1, dec_depth=1, dim_head=32, chunk_size=CHUNK
    )
    shape = dict(heads=HEADS, dim_head=D_HEAD, ff_mult=D_FF_MULT)
    model.encoder = retro.Encoder(d_encoder, depth=2, context_dim=D, **shape)
    model.decoder = retro.Decoder(D, depth=LAYERS, cross_attn_layers=CROSS, chunk_size=CHUNK, **shape)
    for _, cross, _ in model.decoder.layers:
        if cross is not None:
            own = retro.Attention(D, context_dim=d_encoder, heads=HEADS, dim_head=D_HEAD)
            cross.fn.cross_attn = own
    return model


def redraw(model, generator):
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if name.endswith("gamma"):
                p.copy_(1.0 + 0.2 * noise)
            elif p.dim() == 1:
                p.copy_(0.2 * noise)
            elif "emb" in name:
                p.copy_(0.7 * noise)
            else:
                p.copy_(noise * 1.3 * p[0].numel() ** -0.5)


def attention(of, ours):
    names = {"to_q.weight": "query.weight", "to_k.weight": "key.weight", "to_v.weight": "value.weight"}
    names |= {"to_out.weight": "output.weight", "to_out.bias": "output.bias"}
    return {f"{of}.{theirs}": f"{ours}.{our}" for theirs, our in names.items()}


def stack(of, ours, layers, crossed, inner):
    names = {f"{of}.norm_out.gamma": f"{ours}.final_norm.gamma"}
    for i in range(layers):
        layer, block = f"{of}.layers.{i}", f"{ours}.blocks.{i}"
        names |= attention(f"{layer}.0.fn", f"{block}.attention")
        names[f"{layer}.0.norm.gamma"] = f"{block}.attention_residual.norm.gamma"
        if i + 1 in crossed:
            names |= attention(f"{layer}.1.fn{inner}", f"{block}.cross.attention")
            names[f"{layer}.1.norm.gamma"] = f"{block}.cross.residual.norm.gamma"
        for theirs, our in [("0", "up"), ("3", "down")]:
            for part in ["weight", "bias"]:
                names[f"{layer}.2.fn.ff.{theirs}.{part}"] = f"{block}.feed_forward.{our}.{part}"
        names[f"{layer}.2.norm.gamma"] = f"{block}.feed_forward_residual.norm.gamma"
    return names


def our_names():
    names = {"token_emb.weight": "embedding.weight", "pos_emb.weight": "position.table", "input.weight": "retrieval.input.weight"}
    names |= {"to_logits.weight": "head.weight", "to_logits.bias": "head.bias"}
    names |= stack("decoder", "stack", LAYERS, CROSS, ".cross_attn")
    return names | stack("encoder", "retrieval.stack", 2, (1, 2), "")


def texts(generator, tokens, lengths):
    ids = torch.randint(1, VOCAB, (ROWS, tokens + 1), generator=generator)
    chunks = tokens // CHUNK
    neighbours = torch.randint(1, VOCAB, (ROWS, chunks, K, WIDTH), generator=generator)
    places = torch.arange(WIDTH)
    return ids, neighbours * (places < torch.tensor(lengths).reshape(ROWS, chunks, K, 1))


def save(name, model, ids, neighbours, logits, loss, d_encoder, position):
    loss.backward()
    names = our_names()
    tensors = {"ids": ids, "neighbours": neighbours, "logits": logits.detach(), "loss": loss.detach().reshape(1)}
    for theirs, parameter in model.named_parameters():
        if parameter.grad is None:
            assert theirs == "pos_emb.weight" and position == "rotary", theirs
            continue
        tensors[f"weight.{names[theirs]}"] = parameter.detach()
        tensors[f"grad.{names[theirs]}"] = parameter.grad
    config = dict(chunk=CHUNK, neighbours=K, layers=CROSS, n_layers=LAYERS, d_model=D, n_heads=HEADS, d_head=D_HEAD)
    config |= dict(d_ff=D_FF_MULT * D, d_ff_encoder=D_FF_MULT * d_encoder, d_encoder=d_encoder, position=position, vocab=VOCAB)
    tensors = {key: value.clone().contiguous() for key, value in tensors.items()}
    save_file(tensors, os.path.join(HERE, f"{name}.safetensors"), {"config": json.dumps(config)})


def plain():
    generator, tokens = torch.Generator().manual_seed(1), 3 * CHUNK
    model = network(D, tokens).train()
    model.encoder.rotary_pos_emb = model.decoder.rotary_pos_emb = NoRotation()
    redraw(model, generator)
    ids, neighbours = texts(generator, tokens, [8, 8, 8, 5, 6, 0, 8, 8, 3, 8, 8, 7])
    loss = model(ids, retrieved=neighbours, return_loss=True)
    with torch.no_grad():
        logits = model(ids[:, :-1], retrieved=neighbours)
    save("retro_plain", model, ids, neighbours, logits, loss, D, "learned")


def rotary():
    generator, tokens, d_encoder = torch.Generator().manual_seed(2), 3 * CHUNK + 2, 12
    model = network(d_encoder, tokens).train()
    model.input = nn.Linear(D, d_encoder, bias=False)
    for _, cross, _ in model.decoder.layers:
        if cross is not None:
            cross.fn = ByPosition(cross.fn.cross_attn, model.decoder.rotary_pos_emb)
    redraw(model, generator)
    ids, neighbours = texts(generator, tokens, [8, 4, 0, 0, 6, 8, 0, 7, 8, 8, 8, 1])
    mask = neighbours != 0
    retrieved = model.input(model.token_emb(neighbours))
    # A missing neighbour is encoded from its first token, and masked in the decoder.
    encoded = rearrange(mask, "b c k r -> (b c k) r").clone()
    encoded[:, 0] = True
    hidden = model.decoder(
        model.token_emb(ids[:, :-1]),
        encoder=model.encoder,
        context_mask=mask,
        encoder_retrieved_mask=encoded,
        retrieved=retrieved,
    )
    logits = model.to_logits(hidden)
    loss = F.cross_entropy(rearrange(logits, "b n c -> b c n"), ids[:, 1:])
    save("retro_rotary", model, ids, neighbours, logits, loss, d_encoder, "rotary")


if __name__ == "__main__":
    torch.set_num_threads(1)
    plain()
    rotary()
