"""Oracle for tests/it/auxiliary_losses.rs: the loss of Al-Rfou et al. 2019 at three stages of training, computed as in the paper.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 safetensors
    python make_al_rfou.py

"Character-level language modeling with deeper self-attention", section 3.1: a prediction is made at every position of a
window ("multiple positions"); every intermediate layer predicts too, and layer l of n stops contributing after l/2n of
training ("intermediate layer losses"); every prediction is also made of the character two steps ahead, its loss halved
("multiple targets"). Each layer and each target has a separate linear map to the vocabulary. The network is a
stack of causal post-norm layers with a learned position table added before each.

al_rfou.safetensors: parameters `weight.<path>` under formwork's paths; `window` [3, 10], of which positions 0 to 7 are
read; for each case `<case>.loss` and `<case>.grad.<path>` of the parameters that have a gradient. Cases: `start`, `middle`
and `end` are steps 0, 25 and 90 of 100 with all losses; at 25 layer 2 of 4 has just stopped. `half` is the middle with only
the second half of the positions, `last` the middle with only the last position.
"""

import torch
import torch.nn.functional as F
from shared import begin, seeded, write
from torch import nn

VOCAB, D, HEADS, INNER, DEPTH, LENGTH, ROWS, STEPS = 13, 12, 2, 20, 4, 8, 3, 100


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(D, D) for _ in range(4))

    def forward(self, x):
        split = lambda y: y.unflatten(-1, (HEADS, D // HEADS)).transpose(1, 2)
        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        scores = q @ k.transpose(-1, -2) * (D // HEADS) ** -0.5
        later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(later, float("-inf")).softmax(-1) @ v
        return self.output(mixed.transpose(1, 2).flatten(-2))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.up, self.down = nn.Linear(D, INNER), nn.Linear(INNER, D)
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, x):
        x = self.attention_norm(x + self.attention(x))
        return self.feed_forward_norm(x + self.down(self.up(x).relu()))


class CharacterTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, D)
        self.positions = nn.ParameterList([nn.Parameter(torch.zeros(LENGTH, D)) for _ in range(DEPTH)])
        self.layers = nn.ModuleList([Layer() for _ in range(DEPTH)])
        # By layer, then by target: the next character, and the one after it.
        self.heads = nn.ModuleList([nn.ModuleList([nn.Linear(D, VOCAB) for _ in range(2)]) for _ in range(DEPTH)])

    def forward(self, ids):
        """Hidden states of each layer."""
        x, states = self.embedding(ids), []
        for layer, positions in zip(self.layers, self.positions):
            x = layer(x + positions)
            states.append(x)
        return states

    def loss(self, window, step, positions):
        total = 0.0
        for number, states in enumerate(self(window[:, :LENGTH]), start=1):
            if number < DEPTH and step >= STEPS * number / (2 * DEPTH):
                continue
            for ahead, weight in [(1, 1.0), (2, 0.5)]:
                scores = self.heads[number - 1][ahead - 1](states)[:, positions]
                targets = window[:, ahead : ahead + LENGTH][:, positions]
                total = total + weight * F.cross_entropy(scores.flatten(0, 1), targets.flatten())
        return total


def ours(name):
    """Formwork's path of a parameter."""
    parts = name.split(".")
    match parts:
        case ["embedding", "weight"]:
            return "model.embedding.weight"
        case ["positions", layer]:
            return f"model.position.tables.{layer}"
        case ["layers", layer, "attention", *rest]:
            return f"model.stack.blocks.{layer}.attention." + ".".join(rest)
        case ["layers", layer, ("up" | "down") as map, kind]:
            return f"model.stack.blocks.{layer}.feed_forward.{map}.{kind}"
        case ["layers", layer, norm, kind]:
            kind = {"weight": "gamma", "bias": "beta"}[kind]
            return f"model.stack.blocks.{layer}.{norm.removesuffix('_norm')}_residual.norm.{kind}"
        case ["heads", layer, target, kind] if int(layer) == DEPTH - 1:
            return ("model.head." if target == "0" else "auxiliary.second.") + kind
        case ["heads", layer, target, kind]:
            return f"auxiliary.layers.{layer}." + ("next." if target == "0" else "second.") + kind
    raise ValueError(name)


def main():
    begin(torch)
    generator = seeded("al_rfou")
    model = CharacterTransformer()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() == 1:
                parameter.copy_((1.0 if name.endswith("norm.weight") else 0.0) + 0.2 * noise)
            else:
                parameter.copy_(0.5 * noise if "position" in name else noise * 1.3 * D**-0.5)
    window = torch.randint(VOCAB, (ROWS, LENGTH + 2), generator=generator)
    tensors = {"window": window}
    tensors |= {"weight." + ours(name): p for name, p in model.named_parameters()}
    everywhere = list(range(LENGTH))
    cases = {
        "start": (0, everywhere),
        "middle": (25, everywhere),
        "end": (90, everywhere),
        "half": (25, everywhere[LENGTH // 2 :]),
        "last": (25, everywhere[-1:]),
    }
    for case, (step, positions) in cases.items():
        model.zero_grad(set_to_none=True)
        loss = model.loss(window, step, positions)
        loss.backward()
        tensors[f"{case}.loss"] = loss.reshape(1)
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                tensors[f"{case}.grad.{ours(name)}"] = parameter.grad.clone()
        print(case, loss.item(), sum(p.grad is not None for p in model.parameters()), "gradients")
    write("al_rfou", tensors, {"steps": STEPS, "layers": DEPTH})


main()
