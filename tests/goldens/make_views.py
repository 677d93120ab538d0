"""Oracle of image augmentations for views that RandAugment lacks: hue rotation and Gaussian blur.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 safetensors
    python make_views.py

views.safetensors, all U8, [channel, row, column]: `image` [3, 12, 10] (RGB: smooth with noise, some pixels grey).

* `hue_0.1` and `hue_-0.3`: Python's colorsys, pixel by pixel in double precision: the hue of HSV plus this share of the circle, as a
  rounded byte.
* `blur_0.4` and `blur_1.5`: torch's convolutions by rows and by columns with the weights e^(-x^2/2s^2), |x| <= ceil(3s), divided by
  their sum, of the image reflected at its edges; rounded at the end.
"""

import colorsys
import math

import torch
import torch.nn.functional as F
from shared import begin, seeded, write

ROWS, COLUMNS = 12, 10


def turned(image, by):
    out = torch.empty_like(image)
    for row in range(ROWS):
        for column in range(COLUMNS):
            hue, saturation, value = colorsys.rgb_to_hsv(*[p / 255 for p in image[:, row, column].tolist()])
            colour = colorsys.hsv_to_rgb((hue + by) % 1.0, saturation, value)
            out[:, row, column] = torch.tensor([round(255 * x) for x in colour], dtype=torch.uint8)
    return out


def blurred(image, sigma):
    reach = math.ceil(3 * sigma)
    weights = torch.exp(-(torch.arange(-reach, reach + 1.0, dtype=torch.float64) ** 2) / (2 * sigma**2))
    weights = weights / weights.sum()
    wide = F.pad(image.double()[None], (reach, reach, reach, reach), mode="reflect")[0][:, None]
    wide = F.conv2d(wide, weights[None, None, None])
    return F.conv2d(wide, weights[None, None, :, None])[:, 0].round().to(torch.uint8)


def main():
    generator = seeded("views")
    y, x = torch.meshgrid(torch.arange(ROWS), torch.arange(COLUMNS), indexing="ij")
    waves = [120 + 90 * torch.sin(0.6 * x + 0.3 * y), 20 + 18.0 * (y % 12), 90 + 6.0 * (x - y)]
    noise = 14 * torch.randn(3, ROWS, COLUMNS, generator=generator)
    image = (torch.stack(waves) + noise).clamp(0, 255).round().to(torch.uint8)
    image[:, :2, 0] = torch.tensor([0, 130], dtype=torch.uint8)
    tensors = {"image": image}
    for by in [0.1, -0.3]:
        tensors[f"hue_{by}"] = turned(image, by)
    for sigma in [0.4, 1.5]:
        tensors[f"blur_{sigma}"] = blurred(image, sigma)
    write("views", tensors, {})


if __name__ == "__main__":
    begin(torch)
    main()
