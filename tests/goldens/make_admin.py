"""Oracle of Admin: a decoder and an encoder-decoder with post-norm layers, whose residual connections are admin-torch's.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 safetensors admin-torch==0.1.0
    python make_admin.py

admin.safetensors has two cases, `decoder` (learned positions, causal) and `encoder_decoder` (no positions): 3 blocks of width 8, 2 heads,
feed-forward layers of 16 with GELU, 11 tokens, the head is the embedding table. All is computed in float64.

* `<case>.ids` [3, 6], and `encoder_decoder.source` [3, 7]: rows of tokens.
* `<case>.weight.<name>`: weights under formwork's names, except the residual scales.
* `<case>.omegas.<stack>`: the initial scales, connection by connection (F64): 1, then the root of the sum of the variances of the
  embeddings and of all earlier outputs, measured with scales of 1 (Liu et al. 2020, section 4.3). `<stack>` is `encoder` or `decoder`.
* `<case>.logits` with these scales, and `<case>.grad.<name>`, the gradients of sum(logits * weights) for all parameters including the
  scales, with `<case>.weights`.
"""

import admin_torch
import torch
from shared import begin, seeded, write
from torch import nn

VOCAB, ROWS, LENGTH, SOURCE, WIDTH, INNER, HEADS, BLOCKS = 11, 3, 6, 7, 8, 16, 2, 3


class Connection(nn.Module):
    """LN(omega * x + f(x)); records the variance of its output."""

    def __init__(self, count):
        super().__init__()
        self.skip = admin_torch.as_module(count, as_parameter=True, embed_dim=WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x, layer):
        result = layer(x)
        self.measured = result.var(unbiased=False).item()
        return self.norm(self.skip(x, result))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x, memory, causal):
        split = lambda layer, y: layer(y).view(y.shape[0], -1, HEADS, WIDTH // HEADS).transpose(1, 2)
        q, k, v = split(self.query, x), split(self.key, memory), split(self.value, memory)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.output(y.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self, crosses, count):
        super().__init__()
        self.attention, self.attention_residual = Attention(), Connection(count)
        if crosses:
            self.cross, self.cross_residual = Attention(), Connection(count)
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        self.feed_forward_residual = Connection(count)

    def connections(self):
        crossing = [self.cross_residual] if hasattr(self, "cross") else []
        return [self.attention_residual, *crossing, self.feed_forward_residual]

    def forward(self, x, causal, memory=None):
        x = self.attention_residual(x, lambda x: self.attention(x, x, causal))
        if memory is not None:
            x = self.cross_residual(x, lambda x: self.cross(x, memory, False))
        return self.feed_forward_residual(x, lambda x: self.down(nn.functional.gelu(self.up(x))))


class Stack(nn.Module):
    def __init__(self, crosses, causal):
        super().__init__()
        count = BLOCKS * (3 if crosses else 2)
        self.blocks, self.causal = nn.ModuleList(Block(crosses, count) for _ in range(BLOCKS)), causal

    def forward(self, x, memory=None):
        self.entered = x.var(unbiased=False).item()
        for block in self.blocks:
            x = block(x, self.causal, memory)
        return x

    def connections(self):
        return [connection for block in self.blocks for connection in block.connections()]

    def begin(self):
        """Sets scales from the variances measured in the last pass."""
        total, omegas = self.entered, []
        for connection in self.connections():
            omegas.append(total**0.5 if omegas else 1.0)
            total += connection.measured
        for connection, omega in zip(self.connections(), omegas):
            connection.skip.omega.data.fill_(omega)
        return torch.tensor(omegas, dtype=torch.float64)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places, self.stack = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH), Stack(False, True)

    def forward(self, ids, source):
        return self.stack(self.tokens(ids) + self.places.weight) @ self.tokens.weight.T


class EncoderDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.encoder, self.decoder = nn.Embedding(VOCAB, WIDTH), Stack(False, False), Stack(True, True)

    def forward(self, ids, source):
        return self.decoder(self.tokens(ids), self.encoder(self.tokens(source))) @ self.tokens.weight.T


def ours(name):
    """Formwork's name of a parameter."""
    if not (found := name.split("blocks.")) or len(found) == 1:
        return {"tokens.weight": "embedding.weight", "places.weight": "position.table"}[name]
    stack, rest = found[0].rstrip("."), found[1]
    number, part, *inner = rest.split(".")
    path = f"stack.blocks.{number}" if stack == "stack" else f"{stack}.stack.blocks.{number}"
    part = {"cross": "cross.attention", "cross_residual": "cross.residual"}.get(part, part)
    if part in ("up", "down"):
        part = f"feed_forward.{part}"
    if inner[0] == "norm":
        inner = ["norm", {"weight": "gamma", "bias": "beta"}[inner[1]]]
    return ".".join([path, part, *inner])


def case(name, model):
    generator = seeded(f"admin {name}")
    model.double()
    skips = [parameter for key, parameter in model.named_parameters() if "omega" in key]
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "omega" in key:
                parameter.fill_(1.0)
            elif parameter.dim() == 1:
                parameter.copy_(float("norm.weight" in key) + 0.2 * noise)
            else:
                parameter.copy_(0.7 * noise / (parameter.shape[1] ** 0.5))
    draw = lambda length: torch.randint(VOCAB, (ROWS, length), generator=generator)
    ids, source = draw(LENGTH), draw(SOURCE)
    tensors = {f"{name}.ids": ids}
    if name == "encoder_decoder":
        tensors[f"{name}.source"] = source
    tensors |= {f"{name}.weight.{ours(key)}": p.float() for key, p in model.named_parameters() if "omega" not in key}
    with torch.no_grad():
        model(ids, source)
    for key, stack in model.named_children():
        if isinstance(stack, Stack):
            tensors[f"{name}.omegas.{'decoder' if key == 'stack' else key}"] = stack.begin()
    assert all(skip.std() == 0 for skip in skips)
    logits = model(ids, source)
    weights = torch.randn(logits.shape, generator=generator)
    (logits * weights).sum().backward()
    tensors |= {f"{name}.logits": logits.float(), f"{name}.weights": weights}
    tensors |= {f"{name}.grad.{ours(key)}": p.grad.float() for key, p in model.named_parameters()}
    return {key: tensor.detach() for key, tensor in tensors.items()}


if __name__ == "__main__":
    begin(torch)
    tensors = case("decoder", Decoder()) | case("encoder_decoder", EncoderDecoder())
    write("admin", tensors, {"d_model": WIDTH})
