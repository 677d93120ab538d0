"""Oracle of span corruption: functions of the T5 package, with their random shuffles.

Run by hand, in this folder, with Python 3.11:

    pip install tensorflow-cpu==2.21.0 safetensors
    pip download t5==0.9.4 --no-deps
    python make_span_corruption.py t5-0.9.4-py2.py3-none-any.whl

Four functions of t5/data/preprocessors.py are run unchanged (`random_spans_noise_mask`, `random_spans_helper`,
`noise_span_to_unique_sentinel`, `nonnoise_span_to_unique_sentinel`); none of their text is copied. Their calls of seqio are
replaced: the shuffle is drawn from NumPy and recorded, and the first sentinel is the highest id.

span_corruption.safetensors, for each of `settings` [n, 2] (share, mean span) as number i and each of `lengths`, joined:
`noise.i` and `rest.i` are the shuffled flags of the noise and of the rest, `mask.i` is the mask, all U8. For the first and the
last of the settings, `source.i` and `target.i` are I64: the corrupted text and its target without end tokens, of a text that
counts up from 0, with sentinels from 999 downwards; `source_lengths.i` and `target_lengths.i` are their lengths. `filling`
[n, contexts, 2] holds the tokens of a text and those of its target for each of `contexts`.
"""

import ast
import os
import sys
import zipfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
from safetensors.numpy import save_file

SETTINGS = [(0.15, 3.0), (0.15, 1.0), (0.15, 2.0), (0.15, 5.0), (0.15, 10.0), (0.25, 3.0), (0.3, 8.5), (0.5, 3.0)]
LENGTHS = [*range(1, 65), 100, 128, 512]
WRITTEN = [0, 7]
CONTEXTS = [*range(80, 130), 256, 257, 512, 1024]
FIRST = 999
FUNCTIONS = [
    "random_spans_noise_mask",
    "random_spans_helper",
    "noise_span_to_unique_sentinel",
    "nonnoise_span_to_unique_sentinel",
]

draws = np.random.default_rng(20)
shuffled = []


class Seqio:
    @staticmethod
    def stateless_shuffle(flags, seed):
        order = draws.permutation(flags.numpy())
        shuffled.append(order.astype(np.uint8))
        return tf.constant(order)


def functions(wheel):
    """The functions of the package, without their decorators."""
    with zipfile.ZipFile(wheel) as files:
        module = ast.parse(files.read("t5/data/preprocessors.py"))
    found = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name in FUNCTIONS]
    for function in found:
        function.decorator_list = []
    module.body = found

    class Gin:
        REQUIRED = None

    space = {"tf": tf, "seqio": Seqio, "gin": Gin, "sentinel_id": lambda vocabulary: FIRST}
    exec(compile(module, "preprocessors.py", "exec"), space)
    return [space[name] for name in FUNCTIONS]


def main(wheel):
    noise_mask, helper, corrupted, taken_out = functions(wheel)
    seeds = tf.zeros((2, 2), tf.int32)
    tensors = {
        "settings": np.array(SETTINGS),
        "lengths": np.array(LENGTHS, np.int64),
        "contexts": np.array(CONTEXTS, np.int64),
        "filling": np.array(
            [[helper(context, share, mean, 1, 1) for context in CONTEXTS] for share, mean in SETTINGS], np.int64
        ),
    }
    for number, (share, mean) in enumerate(SETTINGS):
        sides = ["source", "target"] if number in WRITTEN else []
        parts = {name: [] for name in ["noise", "rest", "mask", *sides]}
        for length in LENGTHS:
            shuffled.clear()
            mask = noise_mask(tf.constant(length), share, seeds, mean)
            noise, rest = shuffled
            text = tf.range(length)
            parts["noise"].append(noise)
            parts["rest"].append(rest)
            parts["mask"].append(mask.numpy().astype(np.uint8))
            if sides:
                parts["source"].append(corrupted(text, mask, None, None).numpy().astype(np.int64))
                parts["target"].append(taken_out(text, mask, None, None).numpy().astype(np.int64))
        for side in sides:
            tensors[f"{side}_lengths.{number}"] = np.array([len(part) for part in parts[side]], np.int64)
        for name, arrays in parts.items():
            tensors[f"{name}.{number}"] = np.concatenate(arrays)
    save_file(tensors, "span_corruption.safetensors")
    print(os.path.getsize("span_corruption.safetensors"), "bytes")


if __name__ == "__main__":
    main(sys.argv[1])
