"""Images and classes in columns as Hugging Face's `datasets` writes them, and their contents as JSON.

pip install datasets==5.2.0 pillow==13.0.0 pyarrow==26.0.1; python make_pictures.py (writes columnar/ beside this file).
"""

import io
import json
import pathlib
import shutil
import tempfile

import pyarrow as pa
import pyarrow.parquet as parquet
from datasets import ClassLabel, Dataset, Features, Image, Value
from PIL import Image as Picture

HERE = pathlib.Path(__file__).parent / "columnar"
HERE.mkdir(exist_ok=True)
NAMES = ["zebra", "ant", "moose"]


def picture(n):
    """Four rows of three columns, red, green and blue by different rules."""
    image = Picture.new("RGB", (3, 4))
    image.putdata([((40 * n + 7 * p) % 256, (90 * n + 3 * p) % 256, (20 * n + 11 * p) % 256) for p in range(12)])
    return image


pictures = [picture(n) for n in range(12)]
labels = [n % 3 for n in range(12)]
features = Features({"image": Image(), "label": ClassLabel(names=NAMES)})
data = Dataset.from_dict({"image": pictures, "label": labels}, features=features)
data.to_parquet(HERE / "pictures.parquet")
with tempfile.TemporaryDirectory() as folder:
    data.save_to_disk(folder)
    shutil.copy(pathlib.Path(folder) / "data-00000-of-00001.arrow", HERE / "pictures.arrow")
# With the columns of CIFAR-100: other names, two columns of classes.
two = Features({"img": Image(), "fine_label": ClassLabel(names=NAMES), "coarse_label": ClassLabel(names=["one", "two"])})
Dataset.from_dict({"img": pictures, "fine_label": labels, "coarse_label": [n % 2 for n in range(12)]}, features=two).to_parquet(
    HERE / "two_labels.parquet"
)


def encoded(image, form):
    content = io.BytesIO()
    image.save(content, form)
    return content.getvalue()


# Only bytes, no metadata of Hugging Face, labels as text; one JPEG of a single colour.
plain = [encoded(image, "PNG") for image in pictures[:5]] + [encoded(Picture.new("RGB", (3, 4), (200, 60, 20)), "JPEG")]
parquet.write_table(
    pa.table({"image": pa.array(plain, pa.binary()), "label": ["no", "yes", "no", "yes", "no", "yes"]}), HERE / "bytes.parquet"
)
# Paths in place of bytes.
paths = pa.array([{"bytes": None, "path": f"{n}.png"} for n in range(4)], pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
parquet.write_table(pa.table({"image": paths, "label": [0, 1, 0, 1]}), HERE / "paths.parquet")

sentiment = Features({"text": Value("string"), "label": ClassLabel(names=["neg", "pos"])})
texts = [f"{'good' if n % 3 else 'bad'} film {n}" for n in range(30)]
Dataset.from_dict({"text": texts, "label": [int(n % 3 > 0) for n in range(30)]}, features=sentiment).to_parquet(
    HERE / "sentiment.parquet"
)
Dataset.from_dict({"text": texts[:4], "label": [-1] * 4}, features=sentiment).to_parquet(HERE / "unlabelled.parquet")

planes = [[[list(image.getdata())[p][c] for p in range(12)] for c in range(3)] for image in pictures]
(HERE / "pictures.json").write_text(json.dumps({"names": NAMES, "labels": labels, "planes": planes}) + "\n")
