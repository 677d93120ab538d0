"""Small Parquet and Arrow files as other programs write them, and their rows as JSON lines.

pip install pyarrow==26.0.1 pandas zstandard; python make_columnar.py (writes columnar/ beside this file).
"""

import json
import pathlib

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import zstandard

HERE = pathlib.Path(__file__).parent / "columnar"
HERE.mkdir(exist_ok=True)

texts = [f"Line {n}: the {'quick ' * (n % 4)}fox, Größe {n}, 狐." for n in range(40)]
texts[7] = None
labels = [n % 3 for n in range(40)]
translation = [{"en": f"house {n}", "de": f"Haus {n}"} for n in range(40)]
parts = [[f"part {n}.", f"rest {n}."] for n in range(40)]

table = pa.table(
    {
        "id": pa.array(range(40), pa.int64()),
        "text": pa.array(texts, pa.string()),
        "label": pa.array(labels, pa.int64()),
        "score": pa.array([n / 4 for n in range(40)], pa.float32()),
        "kind": pa.array(["news" if n % 2 else "prose" for n in range(40)]).dictionary_encode(),
        "translation": pa.array(translation, pa.struct([("en", pa.string()), ("de", pa.string())])),
        "parts": pa.array(parts, pa.list_(pa.string())),
        "good": pa.array([n % 2 == 0 for n in range(40)]),
        "when": pa.array([n for n in range(40)], pa.timestamp("s")),
    }
)

# Row groups, pages and codecs as they occur in practice.
parquet.write_table(table, HERE / "snappy.parquet", compression="snappy", row_group_size=16)
parquet.write_table(table, HERE / "zstd.parquet", compression="zstd", data_page_size=64, use_dictionary=False)
parquet.write_table(table, HERE / "gzip_v1.parquet", compression="gzip", version="1.0", data_page_version="1.0")
parquet.write_table(table, HERE / "lz4_v2.parquet", compression="lz4", data_page_version="2.0")
parquet.write_table(table, HERE / "brotli.parquet", compression="brotli")

large = table.set_column(1, "text", table["text"].cast(pa.large_string()))
with pa.ipc.new_stream(HERE / "stream.arrow", large.schema) as writer:
    # As the caches of Hugging Face's `datasets`: a stream of small batches.
    writer.write_table(large, max_chunksize=11)
with pa.ipc.new_file(
    HERE / "file.arrow", table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
) as writer:
    # One dictionary for the whole file: the file format, unlike the stream, allows no second one.
    writer.write_table(table, max_chunksize=40)
viewed = table.select(["text", "label"])
viewed = viewed.set_column(0, "text", viewed["text"].cast(pa.string_view()))
feather.write_feather(viewed, HERE / "views.feather", compression="lz4")

rows = [
    {"text": text, "label": str(label), "en": pair["en"], "de": pair["de"], "parts": " ".join(both)}
    for text, label, pair, both in zip(texts, labels, translation, parts)
]
lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
(HERE / "rows.jsonl").write_text(lines)

plain = "".join(f"{text}\n" for text in texts if text)
(HERE / "plain.txt.zst").write_bytes(zstandard.ZstdCompressor(level=19).compress(plain.encode()))
(HERE / "rows.jsonl.zst").write_bytes(zstandard.ZstdCompressor(level=3).compress(lines.encode()))
