"""Oracles of the operations in Mamba's, Mamba-2's, gated delta networks' and RWKV's layers: the selective scan, the state space by
heads, the delta rule, wkv, and the short convolution before the scan.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 safetensors
    python make_mixers.py

Each operation is a loop over positions by its paper's formulas (Gu and Dao 2023; Dao and Gu 2024; Yang, Kautz and Hatamizadeh 2024; Peng
et al. 2023, RWKV-4), computed in float64 from inputs that are exact in float32, its gradients by autograd. mixers.safetensors has
all of it in float32: 2 rows (B), 70 positions (S), 19 channels (C), 5 numbers of state a channel (N), 4 taps (K).

* `CASE.<input>`, `CASE.y` [B, S, C]; `CASE.weights` [B, S, C]: loss = sum(y * weights); `CASE.grad.<input>`: its gradient.
* `scan`: `u`, `raw`, `gate` [B, S, C], `a` [C, N], `b`, `c` [B, S, N], `skip` [C]. With delta = softplus(raw),
  h_t = exp(delta_t a) h_{t-1} + delta_t b_t u_t and y_t = (sum over N of c_t h_t + skip u_t) silu(gate_t). `scan.state`
  [B, C, N] is h after the last position. Some of `raw` are 12 or -25.
* `wkv`: `k`, `v` [B, S, C], `decay` (negative), `first` [C]. y_t is the mean of v_0 … v_t, where v_i has weight
  e^((t-1-i) decay + k_i) for i < t, and v_t has weight e^(first + k_t). Some of `k` are 30 or -30.
* `wkv_far`: the same with `k` near 100 in row 0 and near -115 in row 1: in float32 e^k is infinite there and zero here.
* `ssd`: `x` [B, S, H, P], `raw` [B, S, H], `b`, `c` [B, S, G, N], `a` (negative), `skip` [H], of 6 heads (H) of 5 channels (P), 2
  groups (G) and 7 numbers of state (N). With delta = softplus(raw), heads of a group reading its b and c,
  h_t = exp(delta_t a) h_{t-1} + delta_t b_t x_t^T and y_t = h_t^T c_t + skip x_t [B, S, H, P]. `ssd.state` [B, H, N, P] is h after
  the last position. Some of `raw` are 12 or -25. `ssd_limited`: the same with delta clamped to 0.05 … 0.8.
* `delta`: `q`, `k` [B, S, G, N], `v` [B, S, H, P], `beta`, `decay` [B, S, H] (below 0). With q and k at length 1 (1e-6 is added to the
  squared length) and heads of a group reading its q and k, h <- exp(decay_t) h, h <- h + k_t (beta_t (v_t - h^T k_t))^T and
  y_t = h^T q_t / sqrt(N) [B, S, H, P]. `delta.state` [B, H, N, P] is h after the last position. Some of `decay` are -30 or 0, some of
  `beta` 0 or 1, and some keys are those of the position before. `delta_kept`: the same without decay and with `beta` up to 2.
* `conv`: `x` [B, S, C], `w` [C, K], `bias` [C]; y = silu(bias + sum over j of w[:, j] x_{t-K+1+j}), zeros before the beginning.
"""

import torch
from shared import begin, seeded, write

ROWS, LENGTH, CHANNELS, STATE, TAPS = 2, 70, 19, 5, 4
HEADS, WIDTH, GROUPS, NUMBERS = 6, 5, 2, 7


def scan(u, raw, a, b, c, skip, gate):
    delta = torch.logaddexp(raw, torch.zeros_like(raw))
    h, ys = torch.zeros(ROWS, CHANNELS, STATE, dtype=u.dtype), []
    for t in range(LENGTH):
        step = delta[:, t, :, None]
        h = torch.exp(step * a) * h + step * b[:, t, None, :] * u[:, t, :, None]
        ys.append((c[:, t, None, :] * h).sum(-1) + skip * u[:, t])
    return torch.stack(ys, 1) * gate * torch.sigmoid(gate), h


def ssd(x, raw, b, c, a, skip, limits=None):
    delta = torch.logaddexp(raw, torch.zeros_like(raw))
    delta = delta if limits is None else delta.clamp(*limits)
    b, c = (numbers.repeat_interleave(HEADS // GROUPS, 2) for numbers in (b, c))
    h, ys = torch.zeros(ROWS, HEADS, NUMBERS, WIDTH, dtype=x.dtype), []
    for t in range(LENGTH):
        step = delta[:, t, :, None, None]
        h = torch.exp(step * a[:, None, None]) * h + step * b[:, t, :, :, None] * x[:, t, :, None, :]
        ys.append((c[:, t, :, :, None] * h).sum(2) + skip[:, None] * x[:, t])
    return torch.stack(ys, 1), h


def delta(q, k, v, beta, decay=None):
    """With or without a decay."""
    q, k = (x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6) for x in (q, k))
    q, k = (x.repeat_interleave(HEADS // GROUPS, 2) for x in (q, k))
    h, ys = torch.zeros(ROWS, HEADS, NUMBERS, WIDTH, dtype=v.dtype), []
    for t in range(LENGTH):
        if decay is not None:
            h = torch.exp(decay[:, t, :, None, None]) * h
        known = (k[:, t, :, :, None] * h).sum(2)
        h = h + k[:, t, :, :, None] * (beta[:, t, :, None] * (v[:, t] - known))[:, :, None, :]
        ys.append((q[:, t, :, :, None] * h).sum(2) * NUMBERS**-0.5)
    return torch.stack(ys, 1), h


def wkv(k, v, decay, first):
    """Direct sums, since float64 can represent e^k for every k here."""
    above = below = torch.zeros(ROWS, CHANNELS, dtype=k.dtype)
    ys = []
    for t in range(LENGTH):
        now = torch.exp(first + k[:, t])
        ys.append((above + now * v[:, t]) / (below + now))
        above = torch.exp(decay) * above + torch.exp(k[:, t]) * v[:, t]
        below = torch.exp(decay) * below + torch.exp(k[:, t])
    return torch.stack(ys, 1)


def conv(x, w, bias):
    ys = []
    for t in range(LENGTH):
        y = bias
        for j in range(TAPS):
            if t - TAPS + 1 + j >= 0:
                y = y + w[:, j] * x[:, t - TAPS + 1 + j]
        ys.append(y * torch.sigmoid(y))
    return torch.stack(ys, 1)


def case(name, operation, inputs, generator):
    """Inputs, outputs and gradients of one case."""
    leaves = {key: value.double().requires_grad_() for key, value in inputs.items()}
    result = operation(**leaves)
    y, *state = result if isinstance(result, tuple) else (result,)
    weights = torch.randn(y.shape, generator=generator)
    (y * weights.double()).sum().backward()
    found = inputs | {"y": y, "weights": weights} | {f"grad.{key}": leaf.grad for key, leaf in leaves.items()}
    if state:
        found["state"] = state[0]
    assert all(x.isfinite().all() for x in found.values()), name
    return {f"{name}.{key}": value.detach().float().clone() for key, value in found.items()}


def somewhere(values, number, generator):
    """The values, with one element of fifty replaced by this number."""
    return torch.where(torch.rand(values.shape, generator=generator) < 0.02, number, values)


def scans(generator):
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    wide, narrow = (ROWS, LENGTH, CHANNELS), (ROWS, LENGTH, STATE)
    raw = somewhere(somewhere(draw(*wide) - 1.5, 12.0, generator), -25.0, generator)
    inputs = {"u": draw(*wide), "raw": raw, "a": -torch.exp(torch.arange(1.0, STATE + 1).log() + 0.5 * draw(CHANNELS, STATE))}
    inputs |= {"b": draw(*narrow), "c": draw(*narrow), "skip": draw(CHANNELS), "gate": draw(*wide)}
    return case("scan", scan, inputs, generator)


def ssds(generator):
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    found = {}
    for name, limits in [("ssd", None), ("ssd_limited", (0.05, 0.8))]:
        raw = somewhere(somewhere(draw(ROWS, LENGTH, HEADS) - 1.5, 12.0, generator), -25.0, generator)
        inputs = {"x": draw(ROWS, LENGTH, HEADS, WIDTH), "raw": raw}
        inputs |= {name: draw(ROWS, LENGTH, GROUPS, NUMBERS) for name in "bc"}
        inputs |= {"a": -torch.exp(draw(HEADS)), "skip": draw(HEADS)}
        found |= case(name, lambda limits=limits, **leaves: ssd(**leaves, limits=limits), inputs, generator)
    return found


def deltas(generator):
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    found = {}
    for name, largest in [("delta", 1.0), ("delta_kept", 2.0)]:
        k = draw(ROWS, LENGTH, GROUPS, NUMBERS)
        for t in range(1, LENGTH, 9):
            k[:, t] = k[:, t - 1]
        beta = somewhere(somewhere(largest * draw(ROWS, LENGTH, HEADS).sigmoid(), 0.0, generator), 1.0, generator)
        inputs = {"q": draw(ROWS, LENGTH, GROUPS, NUMBERS), "k": k, "v": draw(ROWS, LENGTH, HEADS, WIDTH), "beta": beta}
        if name == "delta":
            decay = -torch.exp(1.5 * draw(ROWS, LENGTH, HEADS) - 3.0)
            inputs["decay"] = somewhere(somewhere(decay, -30.0, generator), 0.0, generator)
        found |= case(name, delta, inputs, generator)
    return found


def wkvs(generator):
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    wide = (ROWS, LENGTH, CHANNELS)
    # From 0.01 to 4 in the exponent per position.
    decay = -torch.exp(torch.linspace(-4.6, 1.4, CHANNELS))
    near = somewhere(somewhere(2.0 * draw(*wide), 30.0, generator), -30.0, generator)
    far = 2.0 * draw(*wide) + torch.tensor([100.0, -115.0])[:, None, None]
    assert far[0].exp().isinf().all() and (far[1].exp() == 0).all()
    found = {}
    for name, k in [("wkv", near), ("wkv_far", far)]:
        inputs = {"k": k, "v": draw(*wide), "decay": decay, "first": draw(CHANNELS)}
        found |= case(name, wkv, inputs, generator)
    return found


def convs(generator):
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    inputs = {"x": draw(ROWS, LENGTH, CHANNELS), "w": draw(CHANNELS, TAPS), "bias": draw(CHANNELS)}
    return case("conv", conv, inputs, generator)


if __name__ == "__main__":
    begin(torch)
    generator = seeded("mixers")
    sizes = {"rows": ROWS, "length": LENGTH, "channels": CHANNELS, "state": STATE, "taps": TAPS}
    sizes |= {"heads": HEADS, "width": WIDTH, "groups": GROUPS, "numbers": NUMBERS}
    write("mixers", scans(generator) | wkvs(generator) | convs(generator) | ssds(generator) | deltas(generator), sizes)
