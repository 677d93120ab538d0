"""Oracle of norms that no published model here uses: x-transformers' ScaleNorm and DynamicTanh.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 safetensors x-transformers==2.31.10
    python make_norms.py

norms.safetensors has, for each of `scale` and `dynamic_tanh`, 2 rows of 5 vectors of width 6:

* `<kind>.x`, `<kind>.y` and `<kind>.weights` [2, 5, 6]: loss = sum(y * weights).
* `<kind>.parameter.<name>` under formwork's names, `<kind>.grad.<name>` and `<kind>.grad.x`: their gradients.
"""

import torch
from shared import begin, seeded, write
from x_transformers.x_transformers import DynamicTanh, ScaleNorm

SHAPE = (2, 5, 6)
NORMS = {
    "scale": (ScaleNorm(6), {"g": "gain"}),
    "dynamic_tanh": (DynamicTanh(6), {"pre_tanh_scale": "alpha", "gamma": "gamma", "beta": "beta"}),
}

if __name__ == "__main__":
    begin(torch)
    generator = seeded("norms")
    drawn = lambda shape: torch.randn(shape, generator=generator)
    tensors = {}
    for kind, (norm, names) in NORMS.items():
        for parameter in norm.parameters():
            parameter.data = drawn(parameter.shape) + 1
        x, weights = drawn(SHAPE).requires_grad_(), drawn(SHAPE)
        y = norm(x)
        (y * weights).sum().backward()
        tensors |= {f"{kind}.x": x, f"{kind}.y": y, f"{kind}.weights": weights, f"{kind}.grad.x": x.grad}
        for theirs, ours in names.items():
            parameter = getattr(norm, theirs)
            tensors[f"{kind}.parameter.{ours}"] = parameter.reshape(-1)
            tensors[f"{kind}.grad.{ours}"] = parameter.grad.reshape(-1)
    write("norms", {name: tensor.detach() for name, tensor in tensors.items()}, {"eps": 1e-12})
