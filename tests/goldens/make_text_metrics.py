#!/usr/bin/env python3
"""Scores of text and of classes, for tests/it/text_metrics.rs. Run by hand; writes text_metrics.json.

Versions: Python 3.11 or later, sacrebleu 2.6.0, rouge-score 0.1.2, nltk 3.10, scikit-learn 1.9, numpy 2.

    make_text_metrics.py [FILE [SEED [RANDOM_SEGMENTS]]]

Segments are made here: sentences of a small grammar in three languages, corner cases, and random strings
of awkward pieces (entities, numbers, separators, marks, scripts). Each segment has two or three references
and two hypotheses: references with words dropped, doubled, swapped, moved, replaced. Another seed or
number of segments, written to another file, makes a harder search for differences than the stored file.

The file has, for each hypothesis, the scores of all options (`SENTENCE`), for several subsets of the corpus
those of `CORPUS` with their breakdown, and scikit-learn's scores of random predictions. Numbers have 12 digits.
"""
import json
import pathlib
import random
import sys

import numpy as np
import sklearn.metrics as sk
from nltk.stem.porter import PorterStemmer
from rouge_score import rouge_scorer
from sacrebleu.metrics import BLEU, CHRF, TER

FILE = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "text_metrics.json"
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 11
RANDOM_SEGMENTS = int(sys.argv[3]) if len(sys.argv) > 3 else 76
random.seed(SEED)

GRAMMAR = {
    "en": (["A man", "Two young women", "The old baker's dog", "Nobody", "A crowd of 1,200 people", "My sister"],
           ["is sitting on", "looks at", "quickly repaired", "was running towards", "sells", "didn't see"],
           ["a red bench", "the well-known bridge", "three small boats", "an e-mail from 2019", "the U.S. flag"],
           ["near the river", "at 3.5 km/h", "in the rain", "on a sunny Sunday", "(again)", "for $1,000.50"],
           [".", "!", "?", "...", ""]),
    "de": (["Ein Mann", "Zwei junge Frauen", "Der Hund des alten Bäckers", "Niemand", "Meine Großmutter"],
           ["sitzt auf", "betrachtet", "reparierte", "läuft über", "verkauft", "sah"],
           ["eine rote Bank", "die bekannte Brücke", "drei kleine Boote", "das „Haus am See“", "die S-Bahn"],
           ["am Fluss", "im Regen", "für 1.000,50 €", "mit 3,5 km/h", "an einem Sonntag"],
           [".", "!", "?", " …", ""]),
    "fr": (["Un homme", "Deux jeunes femmes", "Le chien du boulanger", "Personne", "L'élève d'à côté"],
           ["est assis sur", "regarde", "n'a pas vu", "court vers", "vend"],
           ["un banc rouge", "le pont célèbre", "trois petits bateaux", "l'œuvre « inachevée »"],
           ["près de la rivière", "sous la pluie", "à 3,5 km/h", "pour 1\u202f000,50\u00a0€"],
           [".", "\u00a0!", "\u00a0?", "…", ""]),
}
PIECES = [
    ".", ",", "-", "--", "'", "'s", '"', "&quot;", "&amp;", "&amp;lt;", "&lt;b&gt;", "<skipped>", "-\n", "\n", "\n-", "\t",
    "\u00a0", "\u3000", "\u2028", "\u001c", "\u001f", "\u0085", "\u200b", "\ufeff", " ", " ", " ", " ", "  ", "...", "…", "!?", "(", ")",
    "[x]", "{", "}", "~", "~~", "^", "_", "`", "@", "#", "$5", "5$", "€", "%", "/", "\\", "|", "+", "=", "1", "2.5", "1,000.50",
    "3-4", "1.", ".5", "½", "²", "Ⅳ", "٣", "१", "日本", "語", "。", "、", "안녕", "😀", "👩‍👧", "e\u0301", "é", "ﬁ", "İ", "I", "ß",
    "ẞ", "ΟΔΟΣ", "Σ", "K", "ǅ", "„", "“", "»", "«", "¿", "×", "a", "b", "the", "The", "cat", "running", "U.S.", "e.g.", "x-y",
]
CORNERS = [
    ["", "", "A reference."], ["", "word", ""], ["a", "a", "b"], [".", ".", ","], ["one two", "one two", "one"],
    ["the the the the the the the", "the cat is on the mat", "there is a cat on the mat"],
    ["Hello there .", "Hello there.", "Hello, there"], ["tail \n", "tail", "tail\t \n"],
    ["&quot;Yes&quot; &amp; no", '"Yes" & no', "'Yes' and no"], ["1,000.50 and 3-4%", "1000.50 and 3 - 4 %", "1,000 .50"],
    ["日本語のテキスト。", "日本語の文。", "日本 語の テキスト 。"], ["I ❤️ 😀😀", "I 😀 ❤", "I love 😀"],
    ["cafe\u0301 noir", "café noir", "CAFÉ NOIR"], ["a\tb\u00a0c\u3000d", "a b c d", "abcd"],
    ["nothing in common", "völlig anderer Text hier", "xyz"], ["   ", " ", "\u00a0"], ["((hi))", "(hi)", "hi"],
    ["to be or not to be to be or not", "to be or not to be", "not to be or to be"],
    ["in 1999.", "in 1999 .", "in 1999"], ["IBM's 'new' X-1.", "IBM's new X-1", "ibm ' s new x 1"],
    ["first line\nsecond line here", "first line here\nsecond", "second line\n\nfirst line"],
    ["abc abc abc abc", "abc", "abc abc"], ["#$%&", "&%$#", "&amp;"], ["don't can't won't", "do n't ca n't", "dont cant wont"],
]


def sentence(language):
    subject, verb, thing, where, end = (random.choice(part) for part in GRAMMAR[language])
    return f"{subject} {verb} {thing} {where}{end}"


def perturbed(text, times):
    words = text.split(" ")
    for _ in range(random.randint(0, times)):
        i, j = random.randrange(len(words)), random.randrange(len(words))
        change = random.choice(["drop", "double", "swap", "move", "replace", "case"])
        if change == "drop" and len(words) > 1:
            del words[i]
        elif change == "double":
            words.insert(i, words[i])
        elif change == "swap":
            words[i], words[j] = words[j], words[i]
        elif change == "move":
            phrase = words[i:i + 4]
            del words[i:i + 4]
            words[j:j] = phrase
        elif change == "replace":
            words[i] = random.choice(PIECES + ["house", "walking", "Katze", "pomme"])
        elif change == "case":
            words[i] = random.choice([str.upper, str.lower, str.title])(words[i])
    return " ".join(words)


def segments():
    """Lists of [hypothesis, hypothesis, reference, reference (, reference)]."""
    made = [[rotation[0], rotation[1], *corner[1:]] for corner in CORNERS
            for rotation in (corner, corner[1:] + corner[:1])]
    for language in GRAMMAR:
        for _ in range(40):
            text = " ".join(sentence(language) for _ in range(random.choice([1, 1, 1, 2])))
            made.append([perturbed(text, 6), perturbed(text, 14), text, perturbed(text, 4)])
    for _ in range(RANDOM_SEGMENTS):
        text = "".join(random.choice(PIECES) for _ in range(random.randint(1, 24)))
        made.append([perturbed(text, 3), perturbed(text, 9), text, perturbed(text, 4), perturbed(text, 2)])
    return made + limits()


def limits():
    """Long segments for the limits of TER: phrases, distances, beam, moves tried, lengths that differ a lot."""
    names = [f"{a}{b}" for a in "abcdefghijklmnop" for b in range(9)]
    few = [" ".join(random.choices("abcdefgh"[:kinds], k=length)) for kinds in (3, 5) for length in range(14, 36, 3)]
    pairs = [(random_order(text), text) for text in few]
    pairs.append((" ".join(names[11:26] + names[:11]), " ".join(names[:26])))
    pairs.append((" ".join(names[53:60] + names[:53]), " ".join(names[:60])))
    pairs.append((" ".join(names[60:90] + names[:30]), " ".join(names[:60])))
    far = " ".join(names)
    pairs += [(names[30], far), (names[50], far), (f"{names[9]} {names[75]}", far), (far, "a1 x")]
    return [[hypothesis, " ".join(hypothesis.split()[-9:]), reference, names[3]] for hypothesis, reference in pairs]


def random_order(text):
    words = text.split(" ")
    return " ".join(random.sample(words, len(words)))


def kinds(options, kind):
    return [kind(**given) for given in options]


BLEUS = [{}, {"tokenize": "intl"}, {"tokenize": "char"}, {"tokenize": "none"}, {"lowercase": True}, {"effective_order": True},
         {"smooth_method": "none"}, {"smooth_method": "floor"}, {"smooth_method": "floor", "smooth_value": 0.4},
         {"smooth_method": "add-k"}, {"smooth_method": "add-k", "smooth_value": 0.5, "effective_order": True}]
CHRFS = [{}, {"word_order": 2}, {"whitespace": True}, {"eps_smoothing": True, "word_order": 2}, {"lowercase": True, "beta": 1},
         {"char_order": 3, "word_order": 1}]
TERS = [{}, {"case_sensitive": True}, {"normalized": True}, {"no_punct": True}]
ROUGES = [False, True]
KINDS = ["rouge1", "rouge2", "rougeL", "rougeLsum"]


def short(value):
    value = float(f"{value:.12g}")
    return int(value) if value == int(value) else value


def sentence_scores(hypothesis, references):
    metrics = kinds(BLEUS, BLEU) + kinds(CHRFS, CHRF) + kinds(TERS, TER)
    scores = [metric.sentence_score(hypothesis, references).score for metric in metrics]
    for stemmer in ROUGES:
        rouge = rouge_scorer.RougeScorer(KINDS, use_stemmer=stemmer).score_multi(references, hypothesis)
        scores += [rouge[kind].fmeasure for kind in KINDS]
    return [short(score) for score in scores]


def corpus_scores(system, chosen):
    """`chosen`: pairs of a segment's number and its number of references."""
    hypotheses = [SEGMENTS[i][system] for i, _ in chosen]
    most = max(n for _, n in chosen)
    references = [[SEGMENTS[i][2 + r] if r < n else None for i, n in chosen] for r in range(most)]
    found = {"system": system, "chosen": chosen, "scores": [], "lines": [], "signatures": []}
    for metric in kinds(BLEUS, BLEU) + kinds(CHRFS, CHRF) + kinds(TERS, TER):
        score = metric.corpus_score(hypotheses, references)
        found["scores"].append(short(score.score))
        found["lines"].append(str(score))
        found["signatures"].append(str(metric.get_signature()).rsplit("|version", 1)[0])
        if isinstance(metric, BLEU):
            found["scores"] += [short(p) for p in score.precisions] + [short(score.bp), score.sys_len, score.ref_len]
        if isinstance(metric, TER):
            found["scores"] += [score.num_edits, short(score.ref_length)]
    for stemmer in ROUGES:
        scorer = rouge_scorer.RougeScorer(KINDS, use_stemmer=stemmer)
        pairs = [scorer.score_multi([r[k] for r in references if r[k] is not None], h) for k, h in enumerate(hypotheses)]
        for kind in KINDS:
            found["scores"] += [short(v) for v in np.mean([tuple(pair[kind]) for pair in pairs], axis=0)]
    return found


def stems():
    roots = ("relat hop fall fail siz conflat troubl tann hiss fizz happ sk enjo radical formal electr geo theo archaeo "
             "hope control rol adopt commun defens gyroscop y yyy syzyg b oa ag fe pl 3d x2 dy l t").split()
    ends = ("s es ies sses ss ed eed ied ing ying y ational tional enci anci izer bli abli alli entli eli ousli ization ation ator "
            "alism iveness fulness ousness aliti iviti biliti fulli logi icate ative alize iciti ical ful ness al ance ence er ic able "
            "ible ant ement ment ent ion sion tion ou ism ate iti ous ive ize e ll lle ation ally fully ologically").split()
    words = ["skies", "dying", "lying", "news", "innings", "outing", "cannings", "howe", "proceed", "exceed", "succeed", "ties", "dies"]
    words += [random.choice(roots) + "".join(random.sample(ends, random.choice([1, 1, 2]))) for _ in range(700)]
    return {word: PorterStemmer().stem(word) for word in sorted(set(words)) if len(word) > 3}


def classes():
    """Random predictions: truths, predictions, scores of all classes, and scikit-learn's numbers."""
    found = []
    numbers = np.random.default_rng(SEED)
    for n_classes, n, skill in ((2, 40, 1.0), (2, 25, 0.0), (2, 6, 9.0), (2, 10, None), (3, 30, 1.0), (5, 60, 0.5), (10, 40, 2.0)):
        truth = numbers.integers(0, n_classes, n)
        # Eighths have many ties and are exact in any width.
        scores = np.round(numbers.normal(size=(n, n_classes)) * 4) / 8
        if skill is None:
            scores[:, 0] = 9
        else:
            scores[np.arange(n), truth] += skill
        predicted = scores.argmax(axis=1)
        case = {"classes": n_classes, "truth": truth.tolist(), "predicted": predicted.tolist()}
        case["scores"] = [[short(v) for v in row] for row in scores]
        quiet = {"zero_division": 0}
        for average in ("macro", "micro") + (("binary",) if n_classes == 2 else ()):
            case[average] = [float(v) for v in sk.precision_recall_fscore_support(truth, predicted, average=average, **quiet)[:3]]
        case["matthews"] = float(sk.matthews_corrcoef(truth, predicted))
        case["accuracy"] = float(sk.accuracy_score(truth, predicted))
        case["confusion"] = sk.confusion_matrix(truth, predicted, labels=range(n_classes)).tolist()
        tops = range(1, n_classes)
        case["top"] = [float(np.mean(top_k_hits(truth, scores, k))) for k in tops]
        if n_classes > 2:
            by_sklearn = [float(sk.top_k_accuracy_score(truth, scores, k=k, labels=range(n_classes))) for k in tops]
            assert case["top"] == by_sklearn
        found.append(case)
    return found


def top_k_hits(truth, scores, k):
    """scikit-learn's rule, which its function applies to more than two classes only."""
    ranked = np.argsort(scores, axis=1, kind="mergesort")[:, ::-1]
    return (ranked[:, :k] == truth[:, None]).any(axis=1)


SEGMENTS = segments()
SENTENCE = [[sentence_scores(segment[system], segment[2:]) for system in (0, 1)] for segment in SEGMENTS]
everything = range(len(SEGMENTS))
long = [i for i in everything if len(SEGMENTS[i][2]) > 30]
CORPUS = [
    corpus_scores(0, [(i, 1) for i in everything]),
    corpus_scores(1, [(i, 2) for i in everything]),
    corpus_scores(1, [(i, len(SEGMENTS[i]) - 2) for i in everything]),
    corpus_scores(0, [(i, 1 + i % 2) for i in range(len(CORNERS) * 2)]),
    corpus_scores(1, [(i, 1) for i in long]),
    corpus_scores(0, [(i, 2) for i in long[::3]]),
    *(corpus_scores(i % 2, [(i, 1), (i + 1, 2)]) for i in range(0, 120, 17)),
]
golden = {
    "options": {"bleu": BLEUS, "chrf": CHRFS, "ter": TERS, "rouge_stemmer": ROUGES},
    "segments": SEGMENTS, "sentence": SENTENCE, "corpus": CORPUS, "stems": stems(), "classes": classes(),
}
text = json.dumps(golden, ensure_ascii=True, separators=(",", ":"))
pathlib.Path(FILE).write_text(text + "\n")
print(f"{len(SEGMENTS)} segments, {len(text)} bytes")
