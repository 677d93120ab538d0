#!/usr/bin/env python3
"""Oracles of the statistics of ablations, for tests/it/statistics.rs. Run by hand; writes statistics.json.

    pip install numpy==2.4.6 scipy==1.17.1 statsmodels==0.15.0 mpmath==1.4.1
    python make_statistics.py [FILE [SEED]]

`samples`: `values` (differences from a baseline; the arm of Welch's test), `other` (the baseline of Welch's test),
`level`, and scipy's results: `summary`, `paired` (ttest_1samp), `welch` (ttest_ind), `bootstrap`. The bootstrap
distribution is handed to scipy.stats.bootstrap: all n^n resamples up to n = 8, and from n = 11 2000 resamples drawn with SplitMix64 (`how` = "drawn"). For n = 9 and 10 the
n^n are grouped, by formulas that are asserted to give what scipy gives up to 8. Means of resamples that equal the
sample's mean to rounding are set to it: scipy counts ties, and sums in another order break them. If all values are
equal, scipy has no answer: there is no t and no p, and the interval is only the difference.

`power`: the definition integrated by mpmath (scipy's nct agrees to 1e-8 where it has a value, which is asserted);
`needed`: the solutions of statsmodels' TTestPower and TTestIndPower, rounded up. `holm`: statsmodels' multipletests.
`rates`: statsmodels' Wilson interval, and Fisher's p summed in whole numbers (scipy's agrees to 1e-9, which is
asserted). `curves`: numpy's trapezoid and interp. Missing numbers are null.
"""
import collections
import itertools
import json
import math
import pathlib
import sys
import warnings

import mpmath
import numpy as np
from scipy import special, stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestIndPower, TTestPower
from statsmodels.stats.proportion import proportion_confint

FILE = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "statistics.json"
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 7
rng = np.random.default_rng(SEED)
mpmath.mp.dps = 30
warnings.simplefilter("ignore")
LEVELS = [0.95, 0.9, 0.99]
DRAWN = 2000


def number(x):
    x = float(x)
    return x if math.isfinite(x) else None


def short(values):
    """Rounded to seven digits, to keep the file small."""
    return np.array([float(f"{v:.6e}") for v in values])


def splitmix(seed):
    """The random generator of the tests: SplitMix64 and Lemire's product without rejection."""
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        yield z ^ (z >> 31)


def factor(df):
    """Hedges' exact factor."""
    return special.gamma(df / 2) / (math.sqrt(df / 2) * special.gamma((df - 1) / 2)) if df > 1 else math.nan


def summary(x, level):
    n, equal = len(x), x.min() == x.max()
    sd = math.nan if n < 2 else 0.0 if equal else x.std(ddof=1)
    mean = x[0] if equal else x.mean()
    reach = 0.0 if equal and n > 1 else stats.t.isf((1 - level) / 2, n - 1) * sd / math.sqrt(n) if n > 1 else math.nan
    parts = [mean, sd, np.median(x), x.min(), x.max(), sd / math.sqrt(n), mean - reach, mean + reach]
    names = ["mean", "sd", "median", "min", "max", "standard_error", "low", "high"]
    return {"n": n} | {k: number(v) for k, v in zip(names, parts)}


def paired(x, level):
    n = len(x)
    if n < 2:
        return None
    if x.min() == x.max():
        return {"t": None, "p": None, "low": x[0], "high": x[0], "d_z": None, "g_z": None}
    test = stats.ttest_1samp(x, 0.0)
    low, high = test.confidence_interval(level)
    d = x.mean() / x.std(ddof=1)
    return {k: number(v) for k, v in {
        "t": test.statistic, "p": test.pvalue, "low": low, "high": high, "d_z": d, "g_z": factor(n - 1) * d}.items()}


def welch(x, y, level):
    if min(len(x), len(y)) < 2:
        return None
    if x.std() == y.std() == 0:
        gap = x.mean() - y.mean()
        return {"t": None, "df": len(x) + len(y) - 2, "p": None, "low": gap, "high": gap, "d": None,
                "g": None}
    test = stats.ttest_ind(x, y, equal_var=False)
    low, high = test.confidence_interval(level)
    a, b, n, m = x.var(ddof=1), y.var(ddof=1), len(x), len(y)
    d = (x.mean() - y.mean()) / math.sqrt((a + b) / 2)
    df = (n - 1) * (m - 1) * (a + b) ** 2 / ((m - 1) * a**2 + (n - 1) * b**2)
    return {k: number(v) for k, v in {
        "t": test.statistic, "df": test.df, "p": test.pvalue, "low": low, "high": high, "d": d,
        "g": factor(df) * d if df >= 2 else math.nan}.items()}


def resampled_means(x, seed):
    """All n^n resampled means up to n = 8, else drawn ones."""
    n = len(x)
    if n > 10:
        source = splitmix(seed)
        return x[np.array([[next(source) * n >> 64 for _ in range(n)] for _ in range(DRAWN)])].mean(axis=1)
    sums = np.zeros(1)
    for _ in range(n):
        sums = (sums[:, None] + x[None, :]).ravel()
    return sums / n


def grouped_means(x):
    """The distinct resampled means in ascending order, and how many of the n^n resamples have each."""
    n = len(x)
    means, counts = [], []
    for picks in itertools.combinations_with_replacement(range(n), n):
        means.append(x[list(picks)].mean())
        counts.append(math.factorial(n) // math.prod(map(math.factorial, collections.Counter(picks).values())))
    order = np.argsort(means)
    return np.array(means)[order], np.array(counts)[order]


def exact_bootstrap(x, level, tie):
    """Both intervals from the grouped means, by the textbook's formulas."""
    means, counts = grouped_means(x)
    passed = np.cumsum(counts)
    assert passed[-1] == len(x) ** len(x)
    quantile = lambda p: np.interp(p * (passed[-1] - 1), np.stack([passed - counts, passed - 1], 1).ravel(),
                                   np.repeat(means, 2))
    off, d = means - x.mean(), x - x.mean()
    z0 = special.ndtri((counts[off < -tie].sum() + counts[np.abs(off) <= tie].sum() / 2) / passed[-1])
    a = np.sum(d**3) / 6 / np.sum(d**2) ** 1.5
    z = special.ndtri((1 - level) / 2)
    bca = [special.ndtr(z0 + (z0 + z) / (1 - a * (z0 + z))) for z in (z, -z)]
    return {"percentile": quantile((1 - level) / 2), "BCa": quantile(bca[0])}, {
        "percentile": quantile((1 + level) / 2), "BCa": quantile(bca[1])}


def bootstrap(x, level, seed):
    if len(x) < 2 or x.min() == x.max():
        return None
    tie = 1e-12 * np.abs(x - x.mean()).max() + 1e-15 * abs(x.mean())
    exact = exact_bootstrap(x, level, tie) if len(x) <= 10 else None
    result = {"how": "drawn" if exact is None else "all"}
    for method in ["percentile", "BCa"]:
        if len(x) in (9, 10):
            result[method.lower()] = [float(end[method]) for end in exact]
            continue
        means = resampled_means(x, seed)
        means = np.where(np.abs(means - x.mean()) <= tie, x.mean(), means)
        given = stats._resampling.BootstrapResult(None, means, None)
        got = stats.bootstrap((x,), np.mean, confidence_level=level, method=method, n_resamples=0, bootstrap_result=given)
        ends = [float(v) for v in got.confidence_interval]
        if exact is not None:
            assert np.allclose(ends, [end[method] for end in exact], rtol=1e-10, atol=tie), (x, method, ends, exact)
        result[method.lower()] = ends
    return result


def samples():
    normal = lambda n, mean=0.3, sd=1.0: short(rng.normal(mean, sd, n))
    yield "one", np.array([0.7])
    for n in [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 20, 25, 40]:
        yield f"normal {n}", normal(n)
    for n in [3, 5, 7, 12, 30]:
        yield f"no effect {n}", normal(n, 0.0)
    for n in [2, 5, 6, 15]:
        yield f"clear effect {n}", normal(n, 4.0)
    for n in [5, 10, 13, 14, 24, 40]:
        yield f"ties and zeros {n}", np.round(normal(n, 0.2), 0)
    for n in [6, 7, 16]:
        yield f"ties {n}", np.round(np.abs(normal(n, 1.0)), 0) + 1
    for n in [5, 9]:
        yield f"few percents {n}", np.round(normal(n, 0.004, 0.01), 3)
    for n in [4, 18]:
        yield f"heavy tails {n}", short(rng.standard_cauchy(n))
    for n in [5, 11]:
        yield f"skewed {n}", short(np.exp(normal(n, 0.0, 1.5)) - 1)
    for scale in [1e-60, 1e-12, 1e12, 1e60]:
        yield f"scale {scale:g}", short(scale * normal(6))
    yield "far from zero", 1e6 + normal(7)
    yield "almost equal", 1 + 1e-9 * normal(8)
    yield "symmetric", np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    yield "plus and minus", np.array([-1.5, 1.5])
    yield "equal", np.array([0.1, 0.1, 0.1])
    yield "zeros", np.zeros(4)
    yield "one of five", np.array([0.0, 0.0, 0.25, 0.0, 0.0])


def sample(i, name, values):
    level = LEVELS[i % 3]
    m = [2, 5, 3, 9, 4, 17][i % 6]
    other = (rng.normal(0, 1, m) * rng.choice([0.2, 1, 3])) * np.abs(values).max() + values.mean() / 2
    other = short(other)
    return {
        "name": name, "level": level, "values": values.tolist(), "other": other.tolist(),
        "summary": summary(values, level), "paired": paired(values, level),
        "welch": welch(values, other, level), "bootstrap": bootstrap(values, level, i)}


def power_of_t(delta, df, alpha):
    """The definition, integrated over S in 30 digits; scipy's nct agrees where it has a value."""
    t = float(stats.t.isf(alpha / 2, df))
    v, edge = mpmath.mpf(df), delta / t
    scale = 2 * (v / 2) ** (v / 2) / mpmath.gamma(v / 2)
    density = lambda s: scale * s ** (v - 1) * mpmath.exp(-v * s * s / 2)
    both = lambda s: density(s) * (mpmath.ncdf(delta - t * s) + mpmath.ncdf(-delta - t * s))
    ends = [max(edge + k / t, 0) for k in (-9, -3, 0, 3, 9)] + [1 + k / math.sqrt(2 * df) for k in (-1, 0, 1, 4, 9)]
    p = float(mpmath.quad(both, [0, *sorted({e for e in ends if e > 0}), mpmath.inf]))
    scipy = stats.nct.sf(t, df, delta) + stats.nct.cdf(-t, df, delta)
    assert not math.isfinite(scipy) or math.isclose(p, scipy, rel_tol=1e-8), (delta, df, alpha, p, scipy)
    return p


def power():
    for effect, alpha, n in itertools.product([0.1, 0.5, 0.8, 1.2, 2.0, 4.0, 30.0], [0.05, 0.01], [2, 5, 40]):
        yield {"effect": effect, "alpha": alpha, "n": n, "paired": power_of_t(effect * math.sqrt(n), n - 1, alpha),
               "independent": power_of_t(effect * math.sqrt(n / 2), 2 * n - 2, alpha)}


def needed():
    for effect, alpha in itertools.product([0.1, 0.15, 0.25, 0.4, 0.7, 1.0, 1.5, 2.5], [0.05, 0.0125]):
        options = {"alpha": alpha, "power": 0.8, "alternative": "two-sided"}
        pairs = TTestPower().solve_power(effect_size=effect, **options)
        runs = TTestIndPower().solve_power(effect_size=effect, ratio=1.0, **options)
        yield {"effect": effect, "alpha": alpha, "pairs": math.ceil(np.squeeze(pairs)),
               "runs": math.ceil(np.squeeze(runs))}


def holm():
    lists = [[0.01, 0.04, 0.03, 0.005], [0.5], [0.2, 0.2, 0.2], [1.0, 0.0, 0.5], [0.04, 0.041, 0.042, 0.043, 0.9]]
    lists += [np.round(rng.random(n) ** 3, 6).tolist() for n in [2, 6, 12]]
    for p in lists:
        yield {"p": p, "holm": multipletests(p, method="holm")[1].tolist()}


def fisher(a, n, b, m):
    events = a + b
    ways = {k: math.comb(n, k) * math.comb(m, events - k) for k in range(max(0, events - m), min(n, events) + 1)}
    p = sum(w for w in ways.values() if w <= ways[a]) / sum(ways.values())
    ours = stats.fisher_exact([[a, n - a], [b, m - b]])[1]
    assert math.isclose(p, ours, rel_tol=1e-9), (a, n, b, m, p, ours)
    return p


def rates():
    for a, n, b, m in [(0, 5, 0, 5), (0, 5, 5, 5), (1, 5, 4, 5), (2, 10, 7, 10), (3, 3, 0, 40), (1, 2, 1, 3),
                       (10, 40, 3, 35), (0, 1, 1, 1), (150, 900, 90, 1000), (5, 5, 5, 5), (8, 20, 9, 31)]:
        for level in [0.95, 0.8]:
            low, high = proportion_confint(a, n, 1 - level, "wilson")
            yield {"first": [a, n], "second": [b, m], "level": level, "low": max(float(low), 0.0),
                   "high": min(float(high), 1.0), "fisher": fisher(a, n, b, m)}


def first_crossing(steps, values, target):
    for (s0, v0), (s1, v1) in itertools.pairwise(zip(steps, values)):
        if v0 <= target:
            return s0
        if v1 <= target:
            return float(np.interp(target, [v1, v0], [s1, s0]))
    return None


def curves():
    for case in range(6):
        ends = lambda: rng.integers([10, 1200], [200, 1500])
        steps = [np.sort(np.append(rng.choice(np.arange(200, 1200), n, replace=False), ends()))
                 for n in rng.integers(2, 10, 3)]
        runs = [(s, np.round(4 * np.exp(-s / 500) + rng.normal(0, 0.2, len(s)), 6)) for s in steps]
        low, high = max(s[0] for s in steps), min(s[-1] for s in steps)
        assert low < high
        target = [2.0, 1.0, 0.5, 3.5, -9.0, 1.5][case]
        heights = []
        for s, v in runs:
            grid = np.unique(np.concatenate([[low, high], s[(s > low) & (s < high)]]))
            heights.append(float(np.trapezoid(np.interp(grid, s, v), grid) / (high - low)))
        yield {"curves": [[[int(a), float(b)] for a, b in zip(s, v)] for s, v in runs], "low": int(low),
               "high": int(high), "heights": heights, "target": target,
               "reached": [None if (r := first_crossing(s, v, target)) is None else float(r) for s, v in runs]}


golden = {
    "samples": [sample(i, name, values) for i, (name, values) in enumerate(samples())],
    "power": list(power()), "needed": list(needed()), "holm": list(holm()), "rates": list(rates()), "curves": list(curves()),
}
text = ",\n".join(f'"{key}": [\n' + ",\n".join(json.dumps(row, separators=(",", ":"), allow_nan=False) for row in rows) + "]"
                  for key, rows in golden.items())
pathlib.Path(FILE).write_text("{" + text + "}\n")
print(len(golden["samples"]), "samples,", pathlib.Path(FILE).stat().st_size, "bytes")
