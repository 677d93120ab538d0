"""Oracle of the operations that augment images: torchvision's, on one image.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 torchvision==0.29.2 safetensors
    python make_image_ops.py

image_ops.safetensors, all U8, [channel, row, column]: `image` [3, 12, 10] (12 rows, 10 columns, RGB: smooth with
noise, its three channels over different ranges), and `<operation>` of it by torchvision.transforms.functional on a
uint8 tensor (not on a PIL image, which rounds differently in places):

* `brightness_f`, `color_f` (adjust_saturation), `contrast_f`, `sharpness_f` for the factors f = 0.5 and 1.5: a blend
  f * image + (1 - f) * other, clamped to 0..255 and CUT to an integer, where other is black; the grey image (.2989 R
  + .587 G + .114 B, cut to an integer); the mean of that grey image; the image blurred by
  [[1,1,1],[1,5,1],[1,1,1]]/13 (rounded, border pixels kept).
* `autocontrast` (each channel by itself), `posterize_4` (4 bits kept), `solarize_128` (inverted from 128 up),
  `invert`, `hflip`.
* `equalize` (each channel by itself) of `large` [3, 36, 24]. Of `image`, which has fewer than 255 pixels, it is
  `image`, as PIL has it too.
* Nearest, filled with 0, the size kept; (x, y) are the places of pixel CENTRES (column + .5, row + .5), and a pixel
  takes what is at (x', y'). `rotate_15`: 15 degrees against the clock about the middle of the image: x' = x cos a - y
  sin a, y' = x sin a + y cos a from there. As RandAugment calls affine: `shear_x_0.3` (x' = x + 0.3 y from the top
  left corner, y' = y), `shear_y_0.3` (y' = y + 0.3 x), `translate_x_3` (3 pixels to the right), `translate_y_3` (3
  down). A shear of 0.3 never falls midway between two pixels, as one of 0.2 does.
* `resize_7x9` and `resize_7x9_antialias`: to 7 rows and 9 columns, bilinear, corners not aligned, ROUNDED to an integer;
  with antialias the triangle is as wide as the step between samples, its weights normalized at the borders.
"""

import math

import torch
import torchvision
from shared import begin, seeded, write
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F

ROWS, COLUMNS = 12, 10


def image_of(rows, columns, generator):
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    waves = [120 + 90 * torch.sin(0.6 * x + 0.3 * y), 20 + 18.0 * (y % 12), 90 + 6.0 * (x - y)]
    noise = 14 * torch.randn(3, rows, columns, generator=generator)
    return (torch.stack(waves) + noise).clamp(7, 249).round().to(torch.uint8)


def affine(image, translate=(0, 0), shear=(0.0, 0.0), center=None):
    degrees = [math.degrees(math.atan(s)) for s in shear]
    nearest = InterpolationMode.NEAREST
    return F.affine(image, 0.0, list(translate), 1.0, degrees, nearest, fill=[0.0] * 3, center=center)


def main():
    generator = seeded("image_ops")
    image, large = image_of(ROWS, COLUMNS, generator), image_of(3 * ROWS, 24, generator)
    assert torch.equal(F.equalize(image), image)
    tensors = {"image": image, "large": large}
    for factor in [0.5, 1.5]:
        tensors[f"brightness_{factor}"] = F.adjust_brightness(image, factor)
        tensors[f"color_{factor}"] = F.adjust_saturation(image, factor)
        tensors[f"contrast_{factor}"] = F.adjust_contrast(image, factor)
        tensors[f"sharpness_{factor}"] = F.adjust_sharpness(image, factor)
    tensors |= {
        "autocontrast": F.autocontrast(image),
        "equalize": F.equalize(large),
        "posterize_4": F.posterize(image, 4),
        "solarize_128": F.solarize(image, 128),
        "invert": F.invert(image),
        "hflip": F.hflip(image),
        "rotate_15": F.rotate(image, 15.0, InterpolationMode.NEAREST, fill=[0.0] * 3),
        "shear_x_0.3": affine(image, shear=(0.3, 0.0), center=[0, 0]),
        "shear_y_0.3": affine(image, shear=(0.0, 0.3), center=[0, 0]),
        "translate_x_3": affine(image, translate=(3, 0)),
        "translate_y_3": affine(image, translate=(0, 3)),
        "resize_7x9": F.resize(image, [7, 9], InterpolationMode.BILINEAR, antialias=False),
        "resize_7x9_antialias": F.resize(image, [7, 9], InterpolationMode.BILINEAR, antialias=True),
    }
    for name, tensor in tensors.items():
        assert tensor.dtype == torch.uint8 and (name == "image" or not torch.equal(tensor, image)), name
    assert not torch.equal(tensors["equalize"], large)
    write("image_ops", tensors, {"layout": "channel, row, column"})


if __name__ == "__main__":
    begin(torch, torchvision)
    main()
