"""JPEG files of all EXIF orientations, and the pixels that a viewer shows: exif.safetensors.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install pillow==13.0.0 numpy torch==2.15.0 safetensors
    python make_exif.py

For each orientation N from 1 to 8: `file.N`, the bytes of a JPEG of 13 by 9 pixels with that orientation in its EXIF data, and
`pixels.N` [3, height, width], PIL's `ImageOps.exif_transpose` of it; both as signed bytes. `png.file` and `png.pixels` are a PNG with
orientation 6.
"""

import io
import os

import numpy as np
import torch
from PIL import Image, ImageOps
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))


def signed(values):
    return torch.from_numpy(np.array(values, dtype=np.uint8).view(np.int8).copy())


def main():
    x, y = np.meshgrid(np.arange(13), np.arange(9))
    picture = np.stack([20 * x, 28 * y, 255 - 10 * (x + y)], axis=-1).clip(0, 255).astype(np.uint8)
    tensors = {}
    for name, form, orientation in [(str(n), "JPEG", n) for n in range(1, 9)] + [("png", "PNG", 6)]:
        exif = Image.Exif()
        exif[0x0112] = orientation
        file = io.BytesIO()
        Image.fromarray(picture).save(file, form, exif=exif, **({"quality": 95, "subsampling": 0} if form == "JPEG" else {}))
        shown = np.asarray(ImageOps.exif_transpose(Image.open(file)).convert("RGB"))
        prefix = "png." if name == "png" else ""
        suffix = "" if name == "png" else f".{name}"
        tensors[f"{prefix}file{suffix}"] = signed(np.frombuffer(file.getvalue(), dtype=np.uint8))
        tensors[f"{prefix}pixels{suffix}"] = signed(np.ascontiguousarray(shown.transpose(2, 0, 1)))
    save_file(tensors, os.path.join(HERE, "exif.safetensors"))


main()
