"""Oracle of self-distillation (Caron et al. 2021, DINO): a step of a tiny random `ViTModel` of HF transformers with a head.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.24.0 safetensors
    python make_self_distillation.py

Conventions (names, configuration) are those of shared.py. All in float32, without dropout. The loss, the centre and the average are
written out here after the paper's formulas (section 3.1), pair by pair; the network is HF's, and reads local views with
`interpolate_pos_encoding`.

self_distillation.safetensors: a pre-norm encoder of two layers of width 24 (erf GELU, epsilon 1e-6) on images [3, 12, 12] in patches
of 4, with a class token and learned positions, without a pooler. Its names have the prefix `vit.`. The head is `head.first`,
`head.second` and `head.bottleneck` (weight and bias; erf GELU after the first two) and `head.last` [11, 7], whose rows and inputs are
normalised. The teacher's tensors have the prefix `teacher.`.

* `global` [4, 2, 3, 12, 12] and `local` [4, 3, 3, 8, 8]: two global and three local views of four images. `centre` [11].
* `loss`: mean over the images of the mean over pairs (global view of the teacher, other view of the student) of the cross-entropy,
  student's temperature 0.1, teacher's 0.05. `grad.<name>`: its gradient for every weight of the student. `global_alone.loss`: without
  local views.
* `usage` is the entropy of the mean of the teacher's distributions, `targets` the mean of their entropies.
* `next_centre` with momentum 0.9. `average.<name>`: the teacher after the student has taken a step of 0.5 times the gradient, with
  `momentum`, that of step 3 (counted from 0) of 10 from 0.9.
* `vectors` [60, 6] with `classes` [60]: `told` [60] are the classes predicted from the 20 nearest neighbours of each, by votes of
  e^(cosine / 0.07).
"""

import math

import torch
import torch.nn.functional as F
import transformers as hf
from shared import MADE_WITH, begin, redraw, seeded, write
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

MADE_WITH["transformers"] = "5.24.0"
IMAGES, LOCAL, OUT = 4, 3, 11


class Head(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(width, 13), nn.Linear(13, 13)
        self.bottleneck = nn.Linear(13, 7)
        self.last = weight_norm(nn.Linear(7, OUT, bias=False))
        gains = self.last.parametrizations.weight.original0
        gains.data.fill_(1.0)
        gains.requires_grad_(False)

    def forward(self, x):
        x = self.bottleneck(F.gelu(self.second(F.gelu(self.first(x)))))
        return self.last(F.normalize(x, dim=-1))


class Network(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.vit = hf.ViTModel(config, add_pooling_layer=False)
        self.head = Head(config.hidden_size)

    def forward(self, pixels, smaller):
        states = self.vit(pixels, interpolate_pos_encoding=smaller).last_hidden_state
        return self.head(states[:, 0])


def ours(name):
    return name.replace("last.parametrizations.weight.original1", "last")


def named(model, prefix, of=lambda p: p.detach().clone()):
    learn = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    return {prefix + ours(name): of(parameter).contiguous() for name, parameter in learn}


def main():
    generator = seeded("self_distillation")
    config = hf.ViTConfig(
        image_size=12,
        patch_size=4,
        num_channels=3,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=40,
        layer_norm_eps=1e-6,
        attn_implementation="eager",
    )
    config.architectures = ["ViTForImageClassification"]
    student, teacher = Network(config).eval(), Network(config).eval()
    for model in [student, teacher]:
        redraw(model, generator)
    whole = torch.randn(IMAGES, 2, 3, 12, 12, generator=generator)
    local = torch.randn(IMAGES, LOCAL, 3, 8, 8, generator=generator)
    centre = 0.3 * torch.randn(OUT, generator=generator)
    tensors = {"global": whole, "local": local, "centre": centre}
    tensors |= named(student, "weight.") | named(teacher, "teacher.")

    with torch.no_grad():
        scores = [teacher(whole[:, i], False) for i in range(2)]
    shares = [F.softmax((s - centre) / 0.05, dim=-1) for s in scores]
    views = [(whole[:, i], False) for i in range(2)] + [(local[:, i], True) for i in range(LOCAL)]
    seen = [student(pixels, smaller) for pixels, smaller in views]

    def mean(seen):
        terms = [
            -(share * F.log_softmax(other / 0.1, dim=-1)).sum(-1).mean()
            for i, share in enumerate(shares)
            for j, other in enumerate(seen)
            if i != j
        ]
        return sum(terms) / len(terms)

    tensors["global_alone.loss"] = mean(seen[:2]).detach()
    loss = mean(seen)
    loss.backward()
    tensors["loss"] = loss.detach()
    tensors |= named(student, "grad.", lambda p: p.grad)
    spread = torch.cat(shares)
    usage = spread.mean(0)
    tensors["usage"] = -(usage * usage.log()).sum()
    tensors["targets"] = -(spread * spread.log()).sum(-1).mean()
    tensors["next_centre"] = 0.9 * centre + 0.1 * torch.cat(scores).mean(0)

    with torch.no_grad():
        for parameter in student.parameters():
            if parameter.requires_grad:
                parameter -= 0.5 * parameter.grad
    momentum = 1.0 - (1.0 - 0.9) * (math.cos(math.pi * 3 / 10) + 1.0) / 2.0
    after, before = named(student, ""), named(teacher, "")
    for name, value in before.items():
        tensors["average." + name] = momentum * value + (1.0 - momentum) * after[name]
    tensors["momentum"] = torch.tensor(momentum)

    vectors, classes = torch.randn(60, 6, generator=generator), torch.arange(60) % 4
    vectors += 1.2 * F.one_hot(classes, 6)
    cosines = F.normalize(vectors, dim=-1) @ F.normalize(vectors, dim=-1).T
    cosines.fill_diagonal_(-2.0)
    nearest, places = cosines.topk(20)
    votes = torch.zeros(60, 4).scatter_add_(1, classes[places], (nearest / 0.07).exp())
    told = votes.argmax(1)
    tensors |= {"vectors": vectors, "classes": classes, "told": told}
    print(loss.item(), tensors["usage"].item(), tensors["targets"].item(), momentum, (told == classes).float().mean().item())
    write("self_distillation", tensors, config)


if __name__ == "__main__":
    begin(torch, hf)
    main()
