"""Oracle of the maximal update parametrization: steps of Microsoft's `mup` on a decoder that is twice as wide as its base model.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 safetensors mup==1.0.0
    python make_mup.py

mup.safetensors has four cases, `tied` and `untied` (whether the head is the embedding table), each also with the output multiplier 2.5
(`tied_multiplied`, `untied_multiplied`): a pre-norm decoder of 2 blocks,
width 16 (base 8), 2 heads, feed-forward layers of 4 times the width with GELU, learned positions, 11 tokens.

* `<case>.ids`, `<case>.targets` [steps, 3, 8]: the batches. `<case>.losses` [steps]: the mean loss before each step (F64).
* `<case>.start.<name>` and `<case>.end.<name>`: weights before and after, under formwork's names. An untied head is `mup`'s divided by 2,
  the factor by which `mup` divides the head's input.
* `deviations` [3]: of a matrix of the blocks, of a head as formwork stores it, and of embeddings, as `mup.init` draws them with
  0.02 in a model of width 512 whose base has 64.
"""

import math

import mup
import torch
from shared import begin, seeded, write
from torch import nn

VOCAB, LENGTH, ROWS, STEPS, HEADS, BLOCKS = 11, 8, 3, 8, 2, 2
BASE, WIDTH = 8, 16
MULTIPLIER = 2.5


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.first, self.second = nn.LayerNorm(d), nn.LayerNorm(d)
        self.query, self.key, self.value, self.output = (nn.Linear(d, d) for _ in range(4))
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        rows, length, d = x.shape
        split = lambda layer, y: layer(y).view(rows, length, HEADS, d // HEADS).transpose(1, 2)
        y = self.first(x)
        q, k, v = split(self.query, y), split(self.key, y), split(self.value, y)
        # As 1/sqrt(d_head) in the base model, and in proportion to 1/d_head beyond it.
        scores = q @ k.transpose(-1, -2) * math.sqrt(BASE // HEADS) / (d // HEADS)
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
        x = x + self.output((scores.softmax(-1) @ v).transpose(1, 2).reshape(rows, length, d))
        return x + self.down(nn.functional.gelu(self.up(self.second(x))))


class Decoder(nn.Module):
    def __init__(self, d, tied, multiplier=1.0):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCAB, d), nn.Embedding(LENGTH, d)
        self.blocks = nn.ModuleList(Block(d) for _ in range(BLOCKS))
        self.norm = nn.LayerNorm(d)
        keys = {"bias": False, "output_mult": multiplier}
        self.head = mup.MuSharedReadout(self.tokens.weight, **keys) if tied else mup.MuReadout(d, VOCAB, **keys)

    def forward(self, ids):
        x = self.tokens(ids) + self.places.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def ours(model, tied):
    """The weights under formwork's names."""
    names = {"tokens.weight": "embedding.weight", "places.weight": "position.table"}
    norms = {"weight": "gamma", "bias": "beta"}
    found = {}
    for name, value in model.named_parameters():
        value = value.detach().clone()
        parts = name.split(".")
        if name in names:
            name = names[name]
        elif parts[0] == "norm":
            name = f"stack.final_norm.{norms[parts[1]]}"
        elif parts[0] == "head":
            if tied:
                continue
            name, value = "head.weight", value / (WIDTH / BASE)
        else:
            layer, kind = parts[2:]
            place = f"stack.blocks.{parts[1]}"
            name = {
                "first": f"attention_residual.norm.{norms.get(kind)}",
                "second": f"feed_forward_residual.norm.{norms.get(kind)}",
                "up": f"feed_forward.up.{kind}",
                "down": f"feed_forward.down.{kind}",
            }.get(layer, f"attention.{layer}.{kind}")
            name = f"{place}.{name}"
        found[name] = value
    return found


def scaled(width, base, tied, multiplier=1.0):
    model = Decoder(width, tied, multiplier)
    mup.set_base_shapes(model, Decoder(base, tied), delta=Decoder(base + HEADS * 2, tied))
    return model


def case(name, tied, multiplier=1.0):
    generator = seeded(name)
    torch.manual_seed(3)
    model = scaled(WIDTH, BASE, tied, multiplier)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() == 1:
                parameter.add_(0.1 * noise)
            else:
                parameter.copy_(0.3 * noise)
    tensors = {f"{name}.start.{key}": value for key, value in ours(model, tied).items()}
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = mup.MuAdamW(groups, lr=1e-2, betas=(0.9, 0.95), eps=1e-12)
    texts = torch.randint(VOCAB, (STEPS, ROWS, LENGTH + 1), generator=generator)
    losses = []
    for text in texts:
        loss = nn.functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    tensors |= {f"{name}.end.{key}": value for key, value in ours(model, tied).items()}
    tensors |= {f"{name}.ids": texts[..., :-1], f"{name}.targets": texts[..., 1:]}
    tensors[f"{name}.losses"] = torch.tensor(losses, dtype=torch.float64)
    return tensors


def deviations():
    torch.manual_seed(5)
    model = scaled(512, 64, False)
    wanted = model.blocks[0].up.weight, model.head.weight, model.tokens.weight
    found = []
    for parameter in wanted:
        mup.init.normal_(parameter, std=0.02)
        found.append(parameter.std().item())
    found[1] /= 512 / 64
    return {"deviations": torch.tensor(found, dtype=torch.float64)}


if __name__ == "__main__":
    begin(torch)
    tensors = case("tied", True) | case("untied", False) | deviations()
    for name, tied in (("tied", True), ("untied", False)):
        tensors |= case(f"{name}_multiplied", tied, MULTIPLIER)
    write("mup", tensors, {"d_model": WIDTH, "base": BASE})
