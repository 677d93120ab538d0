#!/usr/bin/env python3
"""Measures the memory of a training step by depth: a stack whose activations are stored, one that keeps only each block's input
(`[train] recompute`), and a reversible one (`[model] reversible`). Each measure is one process of `formwork bench train`.

    python3 benches/reversible_memory.py [--bin target/release/formwork] [--depths 6,12,24] [--out target/reversible_memory]

The model is a decoder of width 128 with 4 heads and RoPE over 2 texts of 2,047 tokens, which are generated
(experiments/bench/depth.toml): no download. The shown value is the peak of the process without the memory of the parameters
themselves: weights, gradients and both moments of AdamW, 16 bytes per parameter, which is the same for all three.

Writes OUT.json (all measures), OUT.md (the table) and OUT.svg (the figure), and exits with 1 if the reversible stack's
activations at the largest depth are more than 1.1 times those at the smallest.
"""
import argparse
import json
import os
import subprocess
import sys

WAYS = [
    ("stored", "#111111", []),
    ("recompute", "#1f77b4", ["train.recompute=true"]),
    ("reversible", "#d62728", ["model.reversible={}"]),
]
FILE = "experiments/bench/depth.toml"


def formwork(binary, command, sets):
    arguments = [binary, *command, FILE, "--json"]
    for one in sets:
        arguments += ["--set", one]
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(arguments)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def measured(binary, depth, sets, steps):
    sets = [f"model.n_layers={depth}", *sets]
    found = formwork(binary, ["bench", "train", "--steps", str(steps), "--warmup", "1"], sets)
    params = formwork(binary, ["plan"], sets)["params"]
    return {
        "peak_mb": found["peak_rss_mb"],
        "state_mb": 16 * params / 1e6,
        "step_ms": found["step_ms_median"],
        "params": params,
    }


def rest(measure):
    return measure["peak_mb"] - measure["state_mb"]


def markdown(found, depths):
    lines = [
        "| way | " + " | ".join(f"{depth} layers" for depth in depths) + f" | {depths[-1]} by {depths[0]} | a step of {depths[-1]} layers |",
        "|---|" + "---:|" * (len(depths) + 2),
    ]
    for name, _, _ in WAYS:
        of = found[name]
        cells = [f"{of[depth]['peak_mb']:,.0f} MB ({rest(of[depth]):,.0f})" for depth in depths]
        ratio = rest(of[depths[-1]]) / rest(of[depths[0]])
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {ratio:.2f} | {of[depths[-1]]['step_ms']:,.0f} ms |")
    return "\n".join(lines) + "\n"


def figure(found, depths):
    left, width, top, bottom = 80, 480, 40, 320
    most = max(rest(found[name][depth]) for name, _, _ in WAYS for depth in depths)
    step = next(s for s in (50, 100, 200, 250, 500, 1000, 2000) if most / s <= 8)
    high = (int(most / step) + 1) * step
    x = lambda depth: left + (depth - depths[0]) / (depths[-1] - depths[0]) * width
    y = lambda mb: bottom - mb / high * (bottom - top)
    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="700" height="370" font-family="sans-serif" font-size="12">',
        '<rect width="700" height="370" fill="white"/>',
        f'<text x="{left}" y="22" font-size="14">Peak of a training step without weights, gradients and moments</text>',
    ]
    for mb in range(0, high + 1, step):
        out.append(f'<line x1="{left}" y1="{y(mb):.1f}" x2="{left + width}" y2="{y(mb):.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{left - 8}" y="{y(mb) + 4:.1f}" text-anchor="end">{mb:,} MB</text>')
    for depth in depths:
        out.append(f'<text x="{x(depth):.1f}" y="{bottom + 18}" text-anchor="middle">{depth}</text>')
    out.append(f'<text x="{left + width / 2}" y="{bottom + 38}" text-anchor="middle">layers</text>')
    for name, colour, _ in WAYS:
        points = [(x(depth), y(rest(found[name][depth]))) for depth in depths]
        places = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        out.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points]
        out.append(f'<text x="{points[-1][0] + 10:.1f}" y="{points[-1][1] + 4:.1f}" fill="{colour}">{name}</text>')
    return "\n".join([*out, "</svg>", ""])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bin", default="target/release/formwork")
    p.add_argument("--depths", default="6,12,24")
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--out", default="target/reversible_memory")
    a = p.parse_args()
    depths = [int(depth) for depth in a.depths.split(",")]
    found = {}
    for name, _, sets in WAYS:
        found[name] = {}
        for depth in depths:
            found[name][depth] = measured(a.bin, depth, sets, a.steps)
            print(f"{name}, {depth} layers: {found[name][depth]}", file=sys.stderr, flush=True)
    text = markdown(found, depths)
    os.makedirs(os.path.dirname(a.out) or ".", exist_ok=True)
    for ending, content in [("json", json.dumps(found, indent=1) + "\n"), ("md", text), ("svg", figure(found, depths))]:
        with open(f"{a.out}.{ending}", "w") as file:
            file.write(content)
    print(text)
    of = found["reversible"]
    sys.exit(0 if rest(of[depths[-1]]) <= 1.1 * rest(of[depths[0]]) else 1)


if __name__ == "__main__":
    main()
