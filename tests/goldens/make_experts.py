"""Oracles for tests/it/experts.rs: the sparse layers of HF's Mixtral and Switch Transformers, and the disagreement of heads.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==4.57.1 safetensors
    python make_experts.py

experts.safetensors has cases, `<case>.<name>`:

* `x` [2, 7, 16], the layer's result `y`, `weight.<name>` with `router` [experts, d_model] and the experts'
  stacked matrices, `gate` and `up` [experts, d_ff, d_model], `down` [experts, d_model, d_ff];
* `balance`, `z`: the load-balancing loss and the router's z-loss, by HF's functions;
* `c` of y's shape, and `loss` = (c·y).sum() + 0.7·balance + 0.3·z with the gradients `grad.x`, `grad.<weight>`.

`mixtral_padded` has 7 and 4 tokens: y and c are zero at padding, and no loss counts it. In `switch_full`, each expert has room for two
tokens of a row. HF's Switch computes the balance of each row separately, and counts a dropped token for expert 0; here,
its function is given all tokens as one row, with the experts that they chose (Fedus et al. 2022,
equations 4 to 6).

`diversity` is the disagreement of heads on outputs of Li et al. 2018, equation 9, with the opposite sign: `heads` [2, 3, 5, 4]
(row, head, position, element) and `mean`, the mean over positions of the mean of the cosines of all pairs of heads; row 1
has 3 tokens. `grad` is its gradient.
"""

import torch
import transformers as hf
from shared import begin, padding, seeded, write
from transformers.models.mixtral import modeling_mixtral as mixtral
from transformers.models.switch_transformers import modeling_switch_transformers as switch

ROWS, LENGTH, D_MODEL, D_FF, EXPERTS = 2, 7, 16, 24, 4


def redrawn(layer, generator):
    with torch.no_grad():
        for parameter in layer.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(noise * 1.3 * parameter.shape[1] ** -0.5)
    return layer.eval()



def case(tensors, name, layer, run, matrices, mask):
    """`run(layer, x)` returns y, the router's logits and the balance loss; `matrices` the experts' matrices by formwork's names."""
    generator = seeded(name)
    layer = redrawn(layer, generator)
    x = torch.randn(ROWS, LENGTH, D_MODEL, generator=generator).requires_grad_()
    c = torch.randn(ROWS, LENGTH, D_MODEL, generator=generator) * mask[..., None]
    y, logits, balance = run(layer, x)
    z = switch.router_z_loss_func(logits.reshape(1, -1, EXPERTS)[:, mask.flatten() > 0])
    loss = (c * y).sum() + 0.7 * balance + 0.3 * z
    loss.backward()
    found = {"x": x, "y": y * mask[..., None], "c": c, "balance": balance, "z": z, "loss": loss, "grad.x": x.grad}
    for ours, parameters in matrices(layer).items():
        found["weight." + ours] = torch.stack([p.detach() for p in parameters]).squeeze(0)
        found["grad." + ours] = torch.stack([torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]).squeeze(0)
    tensors.update({f"{name}.{key}": value.detach().clone() for key, value in found.items()})
    print(name, "balance", balance.item(), "z", z.item(), "experts", logits.argmax(-1).flatten().tolist())


def of_mixtral(tensors, name, mask):
    config = hf.MixtralConfig(
        hidden_size=D_MODEL, intermediate_size=D_FF, num_local_experts=EXPERTS, num_experts_per_tok=2
    )

    def run(layer, x):
        y, logits = layer(x)
        attended = None if mask.all() else mask
        return y, logits, mixtral.load_balancing_loss_func((logits,), EXPERTS, 2, attended)

    def matrices(layer):
        return {
            "router": [layer.gate.weight],
            "gate": [expert.w1.weight for expert in layer.experts],
            "up": [expert.w3.weight for expert in layer.experts],
            "down": [expert.w2.weight for expert in layer.experts],
        }

    case(tensors, name, mixtral.MixtralSparseMoeBlock(config), run, matrices, mask)


def of_switch(tensors, name, capacity):
    config = hf.SwitchTransformersConfig(
        d_model=D_MODEL, d_ff=D_FF, num_experts=EXPERTS, expert_capacity=capacity, dropout_rate=0.0
    )

    def run(layer, x):
        y, (logits, _) = layer(x)
        probabilities = logits.softmax(-1).reshape(1, -1, EXPERTS)
        return y, logits, switch.load_balancing_loss_func(probabilities, probabilities.argmax(-1))

    def matrices(layer):
        experts = [layer.experts[f"expert_{i}"] for i in range(EXPERTS)]
        return {
            "router": [layer.router.classifier.weight],
            "up": [expert.wi.weight for expert in experts],
            "down": [expert.wo.weight for expert in experts],
        }

    case(tensors, name, switch.SwitchTransformersSparseMLP(config), run, matrices, padding([7, 7], LENGTH))


def diversity(tensors):
    heads = torch.randn(2, 3, 5, 4, generator=seeded("diversity")).requires_grad_()
    mask = padding([5, 3], 5).float()
    cosines = torch.nn.functional.cosine_similarity(heads[:, :, None], heads[:, None], dim=-1)
    mean = (cosines.mean((1, 2)) * mask).sum() / mask.sum()
    mean.backward()
    tensors.update({"diversity.heads": heads, "diversity.mean": mean, "diversity.grad": heads.grad})
    print("diversity", mean.item())


if __name__ == "__main__":
    begin(torch, hf)
    tensors = {}
    of_mixtral(tensors, "mixtral", padding([7, 7], LENGTH))
    of_mixtral(tensors, "mixtral_padded", padding([7, 4], LENGTH))
    of_switch(tensors, "switch", 64)
    of_switch(tensors, "switch_full", 2)
    diversity(tensors)
    write("experts", tensors, {"d_model": D_MODEL, "d_ff": D_FF, "experts": EXPERTS})
