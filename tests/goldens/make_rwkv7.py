"""Oracle of RWKV-7 (Peng et al. 2025, arXiv:2503.14456): the model of flash-linear-attention, its recurrence, and its initial values.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.24.0 safetensors einops triton==3.9.0
    pip install --no-deps flash-linear-attention==0.6.0 fla-core==0.6.0
    python make_rwkv7.py

The classes are that library's (`fla.models.rwkv7`); where they call GPU kernels, the library's references in plain torch replace
them, including the recurrence (`dplr_recurrence`). Computed in float64 from weights that are exact in float32, gradients by autograd;
rwkv7.safetensors has all of it in float32: 3 layers of width 16 (D) with 2 heads of 8, 2 rows of 40 tokens (T).

* Weights under the paths of formwork's decoder; a mix's `share` is one minus the library's `x_*`; `input_ids` [2, T], `logits`, `weights`
  [2, T, V]: loss = sum(logits * weights); `grad.<path>` is its gradient.
* `first.<path>`: the library's initial vectors of both mixings.
* `rule.r`, `rule.decay` (the logarithm), `rule.k`, `rule.v`, `rule.a`, `rule.b` [2, T, D], `rule.before` and `rule.state` [2, 2 heads, key,
  value], `rule.y` and `rule.weights` [2, T, D]: the recurrence from an initial state; `rule.grad.<name>` is the gradient of sum(y
  * weights).
"""

import warnings

import torch
from shared import begin, seeded, write

warnings.filterwarnings("ignore")
# The references compute in float32 regardless of their input.
torch.Tensor.float = torch.Tensor.double

from fla.layers import rwkv7 as layers
from fla.models.rwkv7 import RWKV7Config, RWKV7ForCausalLM
from fla.models.rwkv7 import modeling_rwkv7 as models
from fla.modules.token_shift import token_shift_ref
from fla.ops.generalized_delta_rule.dplr.naive import dplr_recurrence
from fla.ops.rwkv7.fused_addcmul import torch_addcmul_rwkv7
from fla.ops.rwkv7.fused_k_update import k_update_ref
from fla.ops.rwkv7.gate_output_correction import gate_output_correction_ref

ROWS, LENGTH, WIDTH, HEAD, VOCAB = 2, 40, 16, 8, 19

MIXES = {"r": "receptance", "w": "decay", "k": "key", "v": "value", "a": "rate", "g": "gate"}
MAPS = {"r_proj": "receptance", "k_proj": "key", "v_proj": "value", "o_proj": "output"}
LOW = {"w_lora": "decay", "a_lora": "rate", "v_lora": "residual", "g_lora": "gate"}
VECTORS = {"k_k": "removed", "k_a": "replaced", "r_k": "bonus"}
NORMS = {"attn_norm": "attention_residual.norm", "ffn_norm": "feed_forward_residual.norm", "g_norm": "mixer.norm"}


def shifted(x, cu_seqlens=None, output_cache=False, cache=None):
    return token_shift_ref(x), None


def recurrence(r, w, k, v, a, b, scale=1.0, initial_state=None, **_):
    """The library's reference, by heads as in its kernel, without its scale on queries."""
    r, w, k, v, a, b = (x.transpose(1, 2) for x in (r, w, k, v, a, b))
    o, state = dplr_recurrence(r * (scale * r.shape[-1] ** 0.5), k, v, a, b, w, initial_state)
    return o.transpose(1, 2), state


def ours(name):
    """Formwork's path of a parameter, and the conversion of its values."""
    same = lambda x: x
    name = name.removeprefix("model.")
    if name in ("embeddings.weight", "lm_head.weight"):
        return {"e": "embedding.weight", "l": "head.weight"}[name[0]], same
    part, last = name.rsplit(".", 1)
    of_norm = {"weight": "gamma", "bias": "beta"}.get(last)
    if part == "norm":
        return f"stack.final_norm.{of_norm}", same
    if part == "layers.0.pre_norm":
        return f"embedding.norm.{of_norm}", same
    _, number, *rest = name.split(".")
    block = f"stack.blocks.{number}"
    if rest[-2] in NORMS:
        return f"{block}.{NORMS[rest[-2]]}.{of_norm}", same
    if rest[-1].startswith("x_"):
        layer = {"attn": "mixer", "ffn": "feed_forward"}[rest[0]]
        return f"{block}.{layer}.mix_{MIXES[rest[-1][2:]]}.share", lambda x: 1 - x.flatten()
    if rest[0] == "ffn":
        return f"{block}.feed_forward.{rest[1]}.weight", same
    if rest[1] in VECTORS:
        return f"{block}.mixer.{VECTORS[rest[1]]}", lambda x: x.flatten()
    if rest[1] in MAPS:
        return f"{block}.mixer.{MAPS[rest[1]]}.weight", same
    half = {"0": "down", "2": "up"}[rest[3]]
    return f"{block}.mixer.{LOW[rest[1]]}.{half}.{rest[4]}", same


def redraw(model, generator):
    """Redraws weights, large enough that every vector and every gate has an effect."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
            last = name.rsplit(".", 1)[-1]
            if last.startswith("x_"):
                noise = (1.5 * noise).sigmoid()
            elif last == "r_k":
                noise = 0.4 * noise
            elif last in ("k_k", "k_a") or name.endswith("norm.weight"):
                noise = 1 + 0.3 * noise
            elif parameter.dim() == 1:
                noise = noise if "lora" in name else 0.2 * noise
            else:
                noise = noise * (1.3 * parameter.shape[-1] ** -0.5)
            parameter.copy_(noise)


def of_model(arrays):
    config = RWKV7Config(
        hidden_size=WIDTH,
        intermediate_size=24,
        num_hidden_layers=3,
        head_dim=HEAD,
        decay_low_rank_dim=5,
        a_low_rank_dim=4,
        v_low_rank_dim=3,
        gate_low_rank_dim=6,
        vocab_size=VOCAB,
        fuse_norm=False,
        fuse_cross_entropy=False,
        use_cache=False,
    )
    model = RWKV7ForCausalLM(config)
    for name, parameter in model.named_parameters():
        path, turned = ours(name)
        if turned(parameter).dim() == 1 and (".mixer." in path or ".feed_forward." in path):
            arrays[f"first.{path}"] = turned(parameter).detach().clone()
    redraw(model, seeded("rwkv7"))
    model = model.double().train()
    generator = seeded("rwkv7 text")
    ids = torch.randint(0, VOCAB, (ROWS, LENGTH), generator=generator)
    weights = torch.randn(ROWS, LENGTH, VOCAB, generator=generator).double()
    logits = model.lm_head(model.model(ids).last_hidden_state)
    (logits * weights).sum().backward()
    for name, parameter in model.named_parameters():
        path, turned = ours(name)
        assert parameter.grad.abs().max() > 0, f"{name} has no gradient"
        of_share = -1 if path.endswith("share") else 1
        arrays[path] = turned(parameter).detach()
        arrays[f"grad.{path}"] = of_share * parameter.grad.reshape(arrays[path].shape)
    arrays |= {"logits": logits.detach(), "weights": weights}
    return ids


def of_rule(arrays):
    generator = seeded("rwkv7 rule")
    drawn = lambda: torch.randn(ROWS, LENGTH, WIDTH // HEAD, HEAD, generator=generator)
    direction = torch.nn.functional.normalize(drawn(), dim=-1)
    leaves = {
        "r": drawn(),
        "decay": -(drawn() - 1).exp(),
        "k": drawn(),
        "v": drawn(),
        "a": -direction,
        "b": direction * drawn().sigmoid(),
    }
    leaves = {name: leaf.double().requires_grad_() for name, leaf in leaves.items()}
    before = torch.randn(ROWS, WIDTH // HEAD, HEAD, HEAD, generator=generator).double()
    weights = drawn().double()
    named = {"w" if name == "decay" else name: leaf for name, leaf in leaves.items()}
    y, state = recurrence(**named, initial_state=before)
    (y * weights).sum().backward()
    flat = lambda x: x.detach().flatten(2)
    arrays |= {f"rule.{name}": flat(leaf) for name, leaf in leaves.items()}
    arrays |= {f"rule.grad.{name}": flat(leaf.grad) for name, leaf in leaves.items()}
    arrays |= {"rule.y": flat(y), "rule.weights": flat(weights)}
    arrays |= {"rule.before": before, "rule.state": state.detach()}


if __name__ == "__main__":
    begin(torch)
    layers.token_shift = models.token_shift = shifted
    layers.fused_addcmul_rwkv7 = torch_addcmul_rwkv7
    layers.fused_k_rwkv7 = k_update_ref
    layers.gate_output_correction = gate_output_correction_ref
    layers.chunk_rwkv7 = recurrence
    arrays = {}
    ids = of_model(arrays)
    of_rule(arrays)
    arrays = {name: array.to(torch.float32) for name, array in arrays.items()}
    write("rwkv7", arrays | {"input_ids": ids}, {"heads": WIDTH // HEAD})
