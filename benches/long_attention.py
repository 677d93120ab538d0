#!/usr/bin/env python3
"""Measures every kind of attention by text length on one set of shapes: `formwork bench attention` for each kind, alternating
with dense attention and PyTorch's scaled_dot_product_attention.

    python3 benches/long_attention.py [--bin target/release/formwork] [--turns 3] [--kinds linear,lsh] [--out target/long_attention]

Shapes: one row, 8 heads of 64, bidirectional if a kind can read both ways; windows of 512 keys, BigBird with blocks of 64
(3 in the window, 2 global, 3 random), Linformer with k = 256, Performer with 256 features, LSH with 4 rounds of chunks of 64,
strides of sqrt T. Exponents of time (forward plus backward) and of memory are fitted from T = 4,096 to 32,768. Ratios to dense
attention of the same direction are taken within each turn at 8,192; medians over turns are shown.

Writes OUT.json (all measures), OUT.md (the tables) and OUT.svg (the figure), and exits with 1 if a bound is missed. A kind
that the program lacks is left out with a message. The comparison with PyTorch needs torch (measured with 2.15.0).
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FITTED = [4096, 8192, 16384, 32768]
SHORT = [1024, 2048]
AT = 8192


def stride(length):
    return f"stride={math.isqrt(length)}"


# Name, kind, keys (some depend on the length), causal, and bounds: exponent of time, exponent of memory, speed relative to dense.
CASES = [
    ("dense", "multi_head", [], False, None, None, None),
    ("dense, causal", "multi_head", [], True, None, None, None),
    ("window", "sliding_window", ["window=257"], False, 1.15, 1.15, 4.0),
    ("BigBird", "big_bird", ["block=64", "random=3"], False, 1.15, 1.15, 4.0),
    ("local", "local", ["block=256", "look_back=1"], False, 1.15, 1.15, 4.0),
    ("Linformer", "linformer", ["k=256"], False, 1.15, 1.15, 4.0),
    ("Performer", "performer", ["features=256"], False, 1.15, 1.15, 4.0),
    ("Performer, causal", "performer", ["features=256"], True, 1.15, 1.15, 2.5),
    ("linear", "linear", [], False, 1.15, 1.15, 4.0),
    ("LSH", "lsh", ["rounds=4", "chunk=64"], False, 1.3, 1.3, 4.0),
    ("strided", "strided", [stride], True, 1.6, 1.6, 2.0),
    ("fixed", "fixed", [stride], True, 1.6, 1.6, 2.0),
    ("memory-compressed", "memory_compressed", [], False, None, 1.15, 2.0),
    ("adaptive span", "adaptive_span", ["max_span=512"], True, 1.15, 1.15, 4.0),
]
# The two baselines, which the other curves are compared with, are drawn dark.
COLOURS = "#111111 #777777 #1f77b4 #ff7f0e #2ca02c #d62728 #9467bd #c5b0d5 #8c564b #e377c2 #bcbd22 #17becf #005f5f #a05f00".split()


def kinds_of(binary):
    done = subprocess.run([binary, "list", "attention"], capture_output=True, text=True, check=True)
    return {line.split()[0] for line in done.stdout.splitlines()[1:] if line.strip()}


def measured(binary, case, length, rounds):
    """Runs one process of `bench attention`; returns milliseconds forward and with the backward pass, and the peak in MB."""
    _, kind, keys, causal, *_ = case
    command = [binary, "bench", "attention", "--json", "--kind", kind, "--context", str(length), "--rounds", str(rounds)]
    for key in keys:
        command += ["--set", key(length) if callable(key) else key]
    if not causal:
        command.append("--bidirectional")
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    if found.get("causal", causal) != causal:
        sys.exit(f"{kind} was measured {'causal' if found['causal'] else 'bidirectional'}")
    forward = found["forward_ms"]
    return {"forward": forward, "both": forward + found["backward_ms"], "peak": found["peak_mb"]}


def torch_measured(length, rounds, threads):
    command = [sys.executable, os.path.join(HERE, "torch_attention.py"), "--bidirectional", "--flash"]
    command += ["--context", str(length), "--rounds", str(rounds), "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return None
    found = json.loads(done.stdout)
    return {"forward": found["forward_ms"], "both": found["forward_ms"] + found["backward_ms"]}


def exponent(points):
    """Returns the slope of the least-squares line through the logarithms."""
    points = [(math.log(x), math.log(y)) for x, y in points if y > 0]
    if len(points) < 2:
        return math.nan
    x, y = (statistics.mean(axis) for axis in zip(*points))
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


def median(turns, name, length, what):
    return statistics.median(turn[name][length][what] for turn in turns)


def crossover(turns, name, dense):
    """Returns the length from which a kind is faster than dense attention, interpolated by logarithms between measured lengths."""
    lengths = [length for length in turns[0][name] if length in turns[0][dense]]
    before = None
    for length in lengths:
        gap = math.log(median(turns, name, length, "both") / median(turns, dense, length, "both"))
        if gap <= 0:
            if before is None:
                return f"below {length:,}"
            far, wide = before
            at = math.exp(math.log(far) + (math.log(length) - math.log(far)) * wide / (wide - gap))
            return f"{round(at, -2):,.0f}"
        before = (length, gap)
    return f"above {lengths[-1]:,}"


def summary(turns, cases):
    rows = []
    for name, kind, _, causal, *bounds in cases:
        dense = "dense, causal" if causal else "dense"
        fitted = [length for length in FITTED if length in turns[0][name]]
        slope = lambda what: exponent([(length, median(turns, name, length, what)) for length in fitted])
        faster = statistics.median(turn[dense][AT]["both"] / turn[name][AT]["both"] for turn in turns)
        row = {"name": name, "kind": kind, "causal": causal, "exponent_time": slope("both"), "exponent_memory": slope("peak")}
        row |= {"ms": median(turns, name, AT, "both"), "faster": faster, "crossover": None, "missed": []}
        row["bounded"] = any(bound is not None for bound in bounds)
        if kind != "multi_head":
            row["crossover"] = crossover(turns, name, dense)
        time, memory, speed = bounds
        for what, found, bound, good in [
            ("exponent of time", row["exponent_time"], time, lambda f, b: f <= b),
            ("exponent of memory", row["exponent_memory"], memory, lambda f, b: f <= b),
            ("speed", faster, speed, lambda f, b: f >= b),
        ]:
            if bound is not None and not good(found, bound):
                row["missed"].append(f"{what} {found:.2f}, bound {bound}")
        rows.append(row)
    return rows


def markdown(rows, turns, beside, settings):
    lines = [
        f"One row, 8 heads of 64, forward and backward; medians of {len(turns)} turns. {settings}",
        "",
        f"| attention | direction | {AT:,} positions | times as fast as dense | faster from | exponent of time | of memory | bounds |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        direction = "causal" if row["causal"] else "both ways"
        bounds = "missed: " + "; ".join(row["missed"]) if row["missed"] else "held" if row["bounded"] else ""
        lines.append(
            f"| {row['name']} | {direction} | {row['ms']:,.0f} ms | {row['faster']:.1f} | {row['crossover'] or ''} | "
            f"{row['exponent_time']:.2f} | {row['exponent_memory']:.2f} | {bounds} |"
        )
    lines += ["", "| attention | " + " | ".join(f"{length:,}" for length in SHORT + FITTED) + " |"]
    lines.append("|---|" + "---:|" * len(SHORT + FITTED))
    for row in rows:
        cell = lambda length: f"{median(turns, row['name'], length, 'both'):,.0f} ms, {median(turns, row['name'], length, 'peak'):,.0f} MB"
        cells = [cell(length) if length in turns[0][row["name"]] else "" for length in SHORT + FITTED]
        lines.append(f"| {row['name']} | " + " | ".join(cells) + " |")
    if beside:
        lines += ["", f"Dense attention at {AT:,} beside PyTorch's flash kernel, times as fast, two threads each, rounds in turn:"]
        for what, title in [("forward", "forward"), ("both", "forward and backward")]:
            ratios = sorted(theirs[what] / ours[what] for ours, theirs in beside)
            shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
            lines.append(f"{title} {statistics.median(ratios):.2f} ({shown})" + (";" if what == "forward" else "."))
    return "\n".join(lines) + "\n"


def scale(values, low, high):
    """Returns a function that maps numbers to positions on a logarithmic scale."""
    least, most = math.log(min(values)), math.log(max(values))
    return lambda x: low + (math.log(x) - least) / max(most - least, 1e-9) * (high - low)


def panel(left, title, unit, curves):
    """Draws one log-log panel; curves are (name, colour, [(length, value)])."""
    width, top, bottom = 400, 40, 400
    lengths = sorted({x for _, _, points in curves for x, _ in points})
    values = [y for _, _, points in curves for _, y in points]
    ends = [10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values)))]
    x, y = scale(lengths, left, left + width), scale(ends, bottom, top)
    out = [f'<text x="{left}" y="22" font-size="14">{title}</text>']
    for length in lengths:
        out.append(f'<line x1="{x(length):.1f}" y1="{top}" x2="{x(length):.1f}" y2="{bottom}" stroke="#eee"/>')
        out.append(f'<text x="{x(length):.1f}" y="{bottom + 16}" text-anchor="middle">{length:,}</text>')
    power = ends[0]
    while power <= ends[1]:
        out.append(f'<line x1="{left}" y1="{y(power):.1f}" x2="{left + width}" y2="{y(power):.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{left - 6}" y="{y(power) + 4:.1f}" text-anchor="end">{power:g} {unit}</text>')
        power *= 10
    labels = []
    for name, colour, points in curves:
        places = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points)
        wide = 2.5 if name.startswith("dense") else 1.5
        out.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{wide}"/>')
        out += [f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="2.5" fill="{colour}"/>' for a, b in points]
        labels.append((y(points[-1][1]), name, colour))
    # Names at the right, pushed apart so that they do not overlap.
    at = top - 14
    for place, name, colour in sorted(labels):
        at = max(place, at + 14)
        out.append(f'<text x="{left + width + 8}" y="{at + 4:.1f}" fill="{colour}">{name}</text>')
    return out


def figure(turns, cases):
    times, memories = [], []
    for (name, *_), colour in zip(cases, COLOURS):
        lengths = list(turns[0][name])
        times.append((name, colour, [(length, median(turns, name, length, "both")) for length in lengths]))
        peaks = [(length, median(turns, name, length, "peak")) for length in lengths]
        memories.append((name, colour, [(length, mb) for length, mb in peaks if mb > 0] or [(lengths[0], 1.0)]))
    parts = panel(70, "Forward and backward, 8 heads of 64", "ms", times)
    parts += panel(680, "Memory that the layer adds at the peak", "MB", memories)
    head = '<svg xmlns="http://www.w3.org/2000/svg" width="1240" height="430" font-family="sans-serif" font-size="11">'
    return "\n".join([head, '<rect width="1240" height="430" fill="white"/>', *parts, "</svg>", ""])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bin", default="target/release/formwork")
    p.add_argument("--turns", type=int, default=3)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--kinds", help="these alone, beside dense attention")
    p.add_argument("--from", dest="again", help="no measurement: the tables and the figure of this OUT.json")
    p.add_argument("--out", default="target/long_attention")
    a = p.parse_args()
    if a.again:
        with open(a.again) as file:
            known = json.load(file)
        turns = [{name: {int(k): v for k, v in of.items()} for name, of in turn.items()} for turn in known["turns"]]
        beside = known["beside"]
    else:
        turns, beside = measure(a)
    cases = [case for case in CASES if case[0] in turns[0]]
    rows = summary(turns, cases)
    settings = "Windows of 512 keys, BigBird 64 by 3+2+3, k 256, 256 features, 4 rounds of chunks of 64, strides of sqrt T."
    text = markdown(rows, turns, beside, settings)
    os.makedirs(os.path.dirname(a.out) or ".", exist_ok=True)
    for ending, content in [
        ("json", json.dumps({"rows": rows, "turns": turns, "beside": beside}, indent=1) + "\n"),
        ("md", text),
        ("svg", figure(turns, cases)),
    ]:
        with open(f"{a.out}.{ending}", "w") as file:
            file.write(content)
    print(text)
    slower = bool(beside) and any(
        statistics.median(theirs[what] / ours[what] for ours, theirs in beside) < 1.0 for what in ("forward", "both")
    )
    sys.exit(1 if slower or any(row["missed"] for row in rows) else 0)


def measure(a):
    known = kinds_of(a.bin)
    wanted = set(a.kinds.split(",")) | {"multi_head"} if a.kinds else known
    for kind in sorted({case[1] for case in CASES} - known):
        print(f"{kind}: not in {a.bin}, left out", file=sys.stderr)
    cases = [case for case in CASES if case[1] in known & wanted]
    turns, beside = [], []
    for turn in range(a.turns):
        found = {}
        for case in cases:
            lengths = SHORT + FITTED if case[1] != "multi_head" else SHORT + [4096, AT]
            found[case[0]] = {length: measured(a.bin, case, length, a.rounds) for length in lengths}
            line = "  ".join(f"{length}: {m['both']:.0f} ms {m['peak']:.0f} MB" for length, m in found[case[0]].items())
            print(f"turn {turn + 1} {case[0]}: {line}", file=sys.stderr, flush=True)
        turns.append(found)
        theirs = torch_measured(AT, a.rounds, a.threads)
        if theirs is None:
            print("torch is not there: no comparison with it", file=sys.stderr)
        else:
            beside.append((measured(a.bin, CASES[0], AT, a.rounds), theirs))
    return turns, beside


if __name__ == "__main__":
    main()
