"""Oracle of position schemes that are functions of distance: KERPLE, FIRE, x-transformers' dynamic position bias and xPos.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 safetensors x-transformers==2.31.10
    python make_position_functions.py

position_functions.safetensors has, for 3 heads of 8 elements and 7 queries that see 7 keys:

* `<case>.bias` [3, 7, 7], whose element is added to the score of a query and a key, `<case>.weights` of the same shape for
  loss = sum(bias * weights) over the keys that a query sees, `<case>.parameter.<name>` and `<case>.grad.<name>` under formwork's names.
  The cases are `kerple_log`, `kerple_power` and `fire` (the papers' formulas in float64), `dynamic_bias` and
  `dynamic_bias_log` (x-transformers' module).
* `xpos.q`, `xpos.k` [1, 3, 7, 8], `xpos.scores` [1, 3, 7, 7], the products of both as rotated by x-transformers, `xpos.weights`
  for loss = sum(scores * weights) over the keys that a query sees, and `xpos.grad.q`, `xpos.grad.k`.

The configuration has the keys of each case under its name.
"""

import torch
from shared import begin, seeded, write
from x_transformers.x_transformers import DynamicPositionBias, RotaryEmbedding, apply_rotary_pos_emb

HEADS, LENGTH, WIDTH = 3, 7, 8
CONFIGS = {
    "kerple_log": {"kind": "kerple", "form": "log"},
    "kerple_power": {"kind": "kerple", "form": "power"},
    "fire": {"kind": "fire", "hidden": 5, "threshold": 4},
    "dynamic_bias": {"kind": "dynamic_bias", "hidden": 6, "depth": 2},
    "dynamic_bias_log": {"kind": "dynamic_bias", "hidden": 6, "depth": 1, "log_distance": True},
    "xpos": {"kind": "xpos", "scale_base": 4},
}


def seen(drawn):
    """Loss weights that are zero for keys after the query."""
    return drawn * torch.ones(LENGTH, LENGTH).tril()


def places():
    positions = torch.arange(LENGTH, dtype=torch.float64)
    return positions, (positions[:, None] - positions[None, :]).abs()


def kerple(form, p, a):
    """Chi et al. 2022, equations 5 and 6."""
    _, apart = places()
    p, a = p[:, None, None], a[:, None, None]
    return -p * torch.log(1 + a * apart) if form == "log" else -a * apart.pow(p)


def fire(parameters):
    """Li et al. 2024, section 3.1: f(psi(i - j) / psi(max(i, L))) with psi(x) = ln(|c| x + 1)."""
    positions, apart = places()
    psi = lambda x: torch.log(parameters["c"].abs() * x + 1)
    limit = (parameters["l_factor"] * CONFIGS["fire"]["threshold"]).abs()
    share = psi(apart) / (psi(torch.maximum(positions, limit))[:, None] + 1e-6)
    hidden = torch.relu(share[..., None] * parameters["hidden.weight"][:, 0] + parameters["hidden.bias"])
    return (hidden @ parameters["head.weight"].T + parameters["head.bias"]).permute(2, 0, 1)


def leaf(tensor):
    return tensor.double().requires_grad_()


def record(case, bias, parameters, weights):
    (bias * weights).sum().backward()
    tensors = {f"{case}.bias": bias, f"{case}.weights": weights}
    for name, parameter in parameters.items():
        tensors |= {f"{case}.parameter.{name}": parameter, f"{case}.grad.{name}": parameter.grad}
    return tensors


if __name__ == "__main__":
    begin(torch)
    generator = seeded("position functions")
    drawn = lambda *shape: torch.randn(shape, generator=generator)
    tensors = {}
    for form in ("log", "power"):
        numbers = {name: leaf(drawn(HEADS).abs() + 0.2) for name in ("p", "a")}
        bias = kerple(form, **numbers)
        tensors |= record(f"kerple_{form}", bias, numbers, seen(drawn(HEADS, LENGTH, LENGTH)))
    hidden = CONFIGS["fire"]["hidden"]
    parameters = {
        "c": leaf(torch.tensor([0.7])),
        "l_factor": leaf(torch.tensor([1.1])),
        "hidden.weight": leaf(drawn(hidden, 1)),
        "hidden.bias": leaf(drawn(hidden)),
        "head.weight": leaf(drawn(HEADS, hidden)),
        "head.bias": leaf(drawn(HEADS)),
    }
    tensors |= record("fire", fire(parameters), parameters, seen(drawn(HEADS, LENGTH, LENGTH)))
    for case in ("dynamic_bias", "dynamic_bias_log"):
        config = CONFIGS[case]
        log = config.get("log_distance", False)
        network = DynamicPositionBias(config["hidden"], heads=HEADS, depth=config["depth"], log_distance=log)
        parameters = {}
        for number, layer in enumerate(network.mlp):
            linear = layer if isinstance(layer, torch.nn.Linear) else layer[0]
            ours = "head" if number == config["depth"] else f"hidden.{number}"
            for part in ("weight", "bias"):
                parameter = getattr(linear, part)
                parameter.data = drawn(*parameter.shape)
                parameters[f"{ours}.{part}"] = parameter
        tensors |= record(case, network(LENGTH, LENGTH), parameters, seen(drawn(HEADS, LENGTH, LENGTH)))
    q, k = (drawn(1, HEADS, LENGTH, WIDTH).requires_grad_() for _ in range(2))
    frequencies, scale = RotaryEmbedding(WIDTH, use_xpos=True, scale_base=CONFIGS["xpos"]["scale_base"])(torch.arange(LENGTH))
    turned = apply_rotary_pos_emb(q, frequencies, scale), apply_rotary_pos_emb(k, frequencies, scale**-1)
    scores, weights = turned[0] @ turned[1].transpose(-1, -2), seen(drawn(1, HEADS, LENGTH, LENGTH))
    (scores * weights).sum().backward()
    tensors |= {"xpos.q": q, "xpos.k": k, "xpos.scores": scores, "xpos.weights": weights}
    tensors |= {"xpos.grad.q": q.grad, "xpos.grad.k": k.grad}
    write("position_functions", {name: t.detach().float() for name, t in tensors.items()}, CONFIGS)
