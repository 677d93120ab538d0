#!/usr/bin/env python3
"""Oracle of the noises of denoising, for tests/it/data/denoising.rs. Run by hand; writes denoising.json.

    pip install numpy==2.4.6
    python make_denoising.py

The noises are rebuilt from their definition (Lewis et al. 2019, section 2.2, and fairseq's denoising data set where
the paper leaves a choice), over whole arrays. The draws are those of the stream `Stream::new(seed, Corrupting,
(sample, 0, 0))`, which this file computes itself: Philox 4x32 with 10 rounds under the key and counter of rng.rs. A case
names its `noise`, the text (`ids`, `ends` of its sentences, `words` as [from, to], or `places` of its ordinary tokens),
its seed, sample and draw, and the `expected` source. Ids below 4 are special, 3 is the mask, ordinary ids are 4 to 99.

`infilling` has statistics of infilling on texts of 100 words of one token each (30 %, mean 3), as mean and standard
deviation per text over 20,000 texts with numpy's own draws: the number of `hidden` words, of `masks`, of masks that are
`bare` (they hide nothing), and `lengths`, the number of single masks that hide 1, 2 ... words.

A span covers consecutive whole words and ends at a special token, which belongs to no word. Spans may meet: everything
that a span covers beyond its first token is removed, including the mask of a span that begins there.
"""

import json
import math
import pathlib

import numpy as np

WORD = (1 << 32) - 1
LONG = (1 << 64) - 1
CORRUPTING = 12
MASK, FIRST, VOCAB = 3, 4, 100


def mix(z):
    z = (z + 0x9E3779B97F4A7C15) & LONG
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & LONG
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & LONG
    return z ^ (z >> 31)


class Stream:
    def __init__(self, seed, sample):
        self.key = mix(mix(mix(seed) ^ CORRUPTING) ^ sample)
        self.at = mix(mix(0) ^ 0)
        self.block, self.words = 0, []

    def bits(self):
        if not self.words:
            c = [self.block & WORD, self.block >> 32, self.at & WORD, self.at >> 32]
            k = [self.key & WORD, self.key >> 32]
            for _ in range(10):
                p, q = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
                c = [(q >> 32) ^ c[1] ^ k[0], q & WORD, (p >> 32) ^ c[3] ^ k[1], p & WORD]
                k = [(k[0] + 0x9E3779B9) & WORD, (k[1] + 0xBB67AE85) & WORD]
            self.words, self.block = c, self.block + 1
        return self.words.pop(0)

    def uniform(self):
        return (self.bits() >> 8) / 2**24

    def below(self, n):
        high = self.bits()
        return ((high << 32 | self.bits()) * n) >> 64

    def choose(self, n, count):
        """`count` different numbers below n."""
        numbers = np.arange(n)
        for i in range(count):
            other = i + self.below(n - i)
            numbers[[i, other]] = numbers[[other, i]]
        return numbers[:count]

    def shuffle(self, numbers):
        for i in range(len(numbers) - 1, 0, -1):
            other = self.below(i + 1)
            numbers[[i, other]] = numbers[[other, i]]
        return numbers

    def poisson(self, mean):
        chances = [math.exp(-mean)]
        while len(chances) < 60:
            chances.append(chances[-1] * (mean / len(chances)))
        return int((np.cumsum(chances) <= self.uniform()).sum())

    def stand(self, random):
        if random == 0 or self.uniform() >= random:
            return MASK
        return FIRST + self.below(VOCAB - FIRST)


def part(n, share):
    return math.ceil(round(n * share, 6))


def permute(case, stream):
    ids, ends = np.array(case["ids"]), case["ends"]
    sentences = np.split(ids, ends[:-1])
    chosen = stream.choose(len(ends), part(len(ends), case["share"]))
    order = np.arange(len(ends))
    order[chosen] = stream.shuffle(chosen.copy())
    return np.concatenate([sentences[i] for i in order])


def infill(case, stream):
    ids, words = np.array(case["ids"]), case["words"]
    budget = part(len(words), case["share"])
    lengths = []
    while sum(lengths) < budget:
        lengths.append(stream.poisson(case["mean_span"]))
    if lengths:
        lengths[-1] -= sum(lengths) - budget
    spans = [n for n in lengths if n]
    inserted = len(lengths) - len(spans)
    # The number of each token's word; a special token has none.
    word = np.full(len(ids) + 1, -1)
    for number, (a, b) in enumerate(words):
        word[a:b] = number
    starts = stream.choose(len(words), len(spans))
    source, keep = ids.copy(), np.ones(len(ids), bool)
    tails = np.zeros(len(ids), int)
    for start, span in zip(starts, spans):
        first = words[start][0]
        source[first] = stream.stand(case["random"])
        inside = (word[first:] >= 0) & (word[first:] < start + span)
        end = first + int(np.argmin(inside))
        keep[first + 1 : end] = False
        tails[first + 1 : end] += 1
    SEEN["gap"] += any(words[i][0] != words[i - 1][1] for i in range(1, len(words)))
    SEEN["met"] += any(tails[words[s][0]] for s in starts)
    SEEN["inserted"] += inserted
    source = source[keep]
    total = len(source) + inserted
    slots = stream.choose(total, inserted)
    result, free = np.full(total, -1), np.ones(total, bool)
    free[slots] = False
    result[free] = source
    for slot in slots:
        result[slot] = stream.stand(case["random"])
        SEEN["before the first"] += slot == 0
        SEEN["after the last"] += slot == total - 1
    return result


def mask(case, stream):
    ids, places = np.array(case["ids"]), np.array(case["places"])
    for chosen in stream.choose(len(places), part(len(places), case["share"])):
        ids[places[chosen]] = stream.stand(case["random"])
    return ids


def delete(case, stream):
    places = np.array(case["places"])
    return np.delete(case["ids"], places[stream.choose(len(places), part(len(places), case["share"]))])


def rotate(case, stream):
    return np.roll(case["ids"], -stream.below(len(case["ids"])))


NOISES = {"permute_sentences": permute, "infill": infill, "mask": mask, "delete": delete, "rotate": rotate}
SEEN = dict.fromkeys(["gap", "met", "inserted", "before the first", "after the last"], 0)


def text(rng, length, special):
    ids = rng.integers(FIRST, VOCAB, length)
    ids[rng.random(length) < special] = 2
    begins = rng.random(length) < 0.6
    words = []
    for at, (token, begin) in enumerate(zip(ids, begins)):
        if token == 2:
            continue
        if words and words[-1][1] == at and not begin:
            words[-1][1] = at + 1
        else:
            words.append([at, at + 1])
    return ids, words


class Numpy:
    """The same draws from numpy's generator."""

    def __init__(self, rng):
        self.rng = rng

    def choose(self, n, count):
        return self.rng.permutation(n)[:count]

    def poisson(self, mean):
        return int(self.rng.poisson(mean))

    def stand(self, random):
        return MASK


def infilling(rng, texts=20_000, n=100, most=10):
    ids = np.arange(FIRST, FIRST + n)
    case = {"ids": ids, "words": [[i, i + 1] for i in range(n)], "share": 0.3, "mean_span": 3.0, "random": 0.0}
    counts = np.zeros((texts, 3 + most))
    for text in range(texts):
        # A token before the text and one after it, which are kept.
        source = np.concatenate([[MASK], infill(case, Numpy(rng)), [FIRST + n]])
        kept = np.flatnonzero(source != MASK)
        kept = np.concatenate([[0], kept])
        masks, hidden = np.diff(kept) - 1, np.diff(source[kept]) - 1
        counts[text, :3] = hidden.sum(), masks.sum(), masks[hidden == 0].sum()
        single = hidden[(masks == 1) & (hidden > 0) & (hidden <= most)]
        counts[text, 3:] = np.bincount(single, minlength=most + 1)[1:]
    values = [[round(float(x), 5) for x in pair] for pair in zip(counts.mean(0), counts.std(0))]
    return {"hidden": values[0], "masks": values[1], "bare": values[2], "lengths": values[3:]}


def make():
    rng = np.random.default_rng(20)
    cases = []
    for sample in range(200):
        length = int(rng.choice([1, 2, 3, 5, 12, 30, 60]))
        ids, words = text(rng, length, 0.08 if sample % 3 else 0.0)
        noise = list(NOISES)[sample % 5] if sample < 100 else "infill"
        case = {"noise": noise, "seed": int(rng.integers(1 << 40)), "sample": sample, "ids": ids.tolist()}
        case["share"] = float(rng.choice([0.15, 0.3, 0.5]))
        if noise == "permute_sentences":
            ends = np.flatnonzero(rng.random(length - 1) < 0.25) + 1
            case["ends"] = [*ends.tolist(), length]
            case["share"] = float(rng.choice([0.5, 1.0, 1.0]))
        elif noise == "infill":
            case |= {"words": words, "mean_span": float(rng.choice([1.0, 3.0, 3.0, 10.0]))}
        elif noise in ("mask", "delete"):
            case["places"] = np.flatnonzero(ids >= FIRST).tolist()
        case["random"] = float(rng.choice([0.0, 0.0, 0.1, 0.5]))
        case["expected"] = NOISES[noise](case, Stream(case["seed"], sample)).tolist()
        cases.append(case)
    assert all(SEEN.values()), SEEN
    print(SEEN)
    path = pathlib.Path(__file__).with_name("denoising.json")
    found = json.dumps(infilling(np.random.default_rng(30)))
    print(found)
    cases = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    path.write_text(f'{{"infilling": {found},\n"cases": [\n{cases}\n]}}\n')
    print(path.name, path.stat().st_size // 1024, "KB")


if __name__ == "__main__":
    make()
