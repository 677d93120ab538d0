#!/usr/bin/env python3
"""Draws one figure of the ablation of attentions for long inputs: each kind's loss at 2,048 positions relative to dense
attention, and its time and memory at every measured length.

    python3 benches/loss_and_cost.py [--out docs/loss_and_cost.svg]

The numbers are those of the tables in docs/results.md ("Attention for long inputs": `formwork sweep
experiments/ablations/long_attention.toml` and `long_attention_encoder.toml`) and docs/performance.md ("Attention by length":
benches/long_attention.py). A kind that is not in both is left out with a message.
"""
import argparse
import math
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# First word of a row in the results, and the name of the matching row in the costs.
KINDS = {
    "dense": "dense",
    "window": "window",
    "bigbird": "BigBird",
    "linformer": "Linformer",
    "lsh": "LSH",
    "performer": "Performer",
    "local": "local",
    "strided": "strided",
    "fixed": "fixed",
    "linear": "linear",
    "memory-compressed": "memory-compressed",
    "adaptive": "adaptive span",
}
# Kinds with costs for both directions: the causal row is shown beside a decoder's loss.
CAUSAL = {"dense": "dense, causal", "Performer": "Performer, causal"}
COLOURS = {"decoder": "#1f77b4", "encoder": "#d62728"}
ROW, TOP = 24, 66


def tables(path, heading):
    """Returns the tables below a heading, up to the next heading of its level, each as a list of rows of cells."""
    with open(os.path.join(HERE, "..", path)) as file:
        text = file.read()
    part = text.split(f"\n{heading}\n", 1)[1]
    part = re.split(rf"\n{heading.split()[0]} ", part, maxsplit=1)[0]
    found, rows = [], []
    for line in part.split("\n") + [""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            found.append([row for row in rows if not set("".join(row)) <= set("-:")])
            rows = []
    return found


def number(text):
    return float(text.replace("−", "-").replace(",", "").split()[0])


def losses():
    """Returns the difference from dense attention and its interval, by network and kind."""
    found = {}
    for network, (_, *rows) in zip(["decoder", "encoder"], tables("docs/results.md", "### Attention for long inputs")):
        for name, _, difference, *_ in rows:
            kind = KINDS.get(re.split(r"[ ,]", name.lower())[0])
            if kind is None:
                print(f"{name}: no such row among the costs, left out", file=sys.stderr)
            elif difference:
                numbers = re.findall(r"[−+-]?\d+\.\d+", difference)
                found[network, kind] = [number(one) for one in numbers]
            else:
                found[network, kind] = [0.0, 0.0, 0.0]
    return found


def costs():
    """Returns (length, milliseconds, megabytes) for each row."""
    for header, *rows in tables("docs/performance.md", "## Attention by length"):
        if header[:2] == ["attention", "1,024"]:
            break
    else:
        sys.exit("docs/performance.md has no table of attentions by length")
    lengths = [int(number(length)) for length in header[1:]]
    cell = lambda text: [number(part) for part in text.split(", ")]
    return {
        name: [(length, *cell(text)) for length, text in zip(lengths, cells) if text]
        for name, *cells in ([row[0], *row[1:]] for row in rows)
    }


def axis(values, left, width, log):
    at = (lambda x: math.log(x)) if log else (lambda x: x)
    least, most = at(min(values)), at(max(values))
    return lambda x: left + (at(x) - least) / (most - least) * width


def ticks(low, high):
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [step * 10**power for power in powers for step in (1, 2, 5)]
    found = [tick for tick in found if low <= tick <= high]
    return found if len(found) < 6 else [tick for tick in found if str(tick)[0] == "1"]


def drawn(found, cost):
    kinds = [kind for kind in KINDS.values() if any(kind == name for _, name in found)]
    bottom = TOP + ROW * len(kinds)
    height = bottom + 70
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="1180" height="{height}" font-family="sans-serif" font-size="11">',
        f'<rect width="1180" height="{height}" fill="white"/>',
        '<text x="150" y="22" font-size="14">Loss at 2,048 less dense attention\'s, nats a byte, 95 %</text>',
        '<text x="520" y="22" font-size="14">Time by length, ms</text>',
        '<text x="850" y="22" font-size="14">Memory by length, MB</text>',
    ]
    for place, (network, colour) in enumerate(COLOURS.items()):
        out.append(f'<circle cx="{156 + 90 * place}" cy="42" r="4" fill="{colour}"/>')
        out.append(f'<text x="{165 + 90 * place}" y="46">{network}</text>')
    lengths = sorted({length for of in cost.values() for length, _, _ in of})
    shade = lambda length: f"hsl(210,60%,{80 - 55 * lengths.index(length) / (len(lengths) - 1):.0f}%)"
    for place, length in enumerate(lengths):
        out.append(f'<circle cx="{526 + 62 * place}" cy="42" r="4" fill="{shade(length)}"/>')
        out.append(f'<text x="{534 + 62 * place}" y="46">{length:,}</text>')
    # Intervals are cut at these values, with an arrowhead in their colour.
    low, high = -0.25, 0.35
    x = axis([low, high], 150, 320, False)
    for tick in (-0.2, -0.1, 0.0, 0.1, 0.2, 0.3):
        wide = 1.5 if tick == 0 else 0.5
        out.append(f'<line x1="{x(tick):.1f}" y1="{TOP - 8}" x2="{x(tick):.1f}" y2="{bottom}" stroke="#bbb" stroke-width="{wide}"/>')
        out.append(f'<text x="{x(tick):.1f}" y="{bottom + 16}" text-anchor="middle">{tick:+.1f}</text>')
    scales = []
    for column, left in ((1, 520), (2, 850)):
        values = [one[column] for of in cost.values() for one in of]
        scale = axis([min(values) / 1.2, max(values) * 1.2], left, 300, True)
        for tick in ticks(min(values), max(values)):
            out.append(f'<line x1="{scale(tick):.1f}" y1="{TOP - 8}" x2="{scale(tick):.1f}" y2="{bottom}" stroke="#bbb" stroke-width="0.5"/>')
            out.append(f'<text x="{scale(tick):.1f}" y="{bottom + 16}" text-anchor="middle">{tick:,}</text>')
        scales.append((column, scale))
    for row, kind in enumerate(kinds):
        y = TOP + ROW * row + ROW / 2
        out.append(f'<text x="140" y="{y + 4}" text-anchor="end">{kind}</text>')
        for place, (network, colour) in enumerate(COLOURS.items()):
            if (network, kind) not in found:
                continue
            mean, least, most = found[network, kind]
            at = y + (5 if place else -5)
            ends = [max(least, low), min(most, high)]
            out.append(f'<line x1="{x(ends[0]):.1f}" y1="{at}" x2="{x(ends[1]):.1f}" y2="{at}" stroke="{colour}" stroke-width="1.5"/>')
            for end, outside, step in ((low, least < low, 6), (high, most > high, -6)):
                if outside:
                    tip = x(end)
                    out.append(f'<path d="M{tip:.1f} {at} l{step} -3.5 v7 z" fill="{colour}"/>')
            out.append(f'<circle cx="{x(mean):.1f}" cy="{at}" r="3.5" fill="{colour}"/>')
        causal = ("decoder", kind) in found and kind in CAUSAL and ("encoder", kind) not in found
        of = cost[CAUSAL[kind] if causal else kind]
        for column, scale in scales:
            places = [scale(one[column]) for one in of]
            out.append(f'<line x1="{min(places):.1f}" y1="{y}" x2="{max(places):.1f}" y2="{y}" stroke="#ccc"/>')
            out += [f'<circle cx="{place:.1f}" cy="{y}" r="4" fill="{shade(one[0])}"/>' for place, one in zip(places, of)]
    note = "One row, 8 heads of 64, forward and backward; dense attention up to 8,192. Strided, fixed and adaptive spans causal, others both ways."
    out.append(f'<text x="1160" y="{bottom + 40}" text-anchor="end" fill="#555">{note}</text>')
    return "\n".join([*out, "</svg>", ""])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", default=os.path.join(HERE, "..", "docs", "loss_and_cost.svg"))
    a = p.parse_args()
    with open(a.out, "w") as file:
        file.write(drawn(losses(), costs()))


if __name__ == "__main__":
    main()
