"""Oracles of positions on a grid: the 2-D sinusoidal table, and resampling of a learned one.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==4.57.1 numpy safetensors
    python make_positions_2d.py

sincos_2d.safetensors:

* `sincos_3x4` [12, 16] is the table of MAE (`get_2d_sincos_pos_embed`; He et al. 2021, and before it MoCo v3) for a
  grid of 3 rows and 4 columns, position row * 4 + column, d = 16. The FIRST half of the dimensions holds the COLUMN
  (x), the second half the row (y). Each half of d/2 = 8 is [sin(p w_0) … sin(p w_3), cos(p w_0) … cos(p w_3)], not
  interleaved, with w_i = 10000^(-i / (d/4)). (MAE calls the first half emb_h, but gives it the x of its meshgrid;
  MoCo v3 has the same halves and lists positions column by column.)
* `sincos_4x4` [16, 16]: a square grid, by the function in HF's ViT-MAE, which checks the formula above.
* `grid_3x3`, `grid_5x4`, `grid_2x2` [row, column, 6]: a random table of 3 x 3 positions, and its resampling by torch's interpolate
  with mode "bicubic" (a = -0.75, no antialiasing), align_corners False. `grid_5x4` has 5 rows and 4
  columns.
* `antialiased_5x4`, `antialiased_2x2` of `grid_3x3`, `wide_5x9` [row, column, 6], a random table, and `antialiased_3x4` of that:
  resampling with antialias=True (a = -0.5, a kernel that is widened for shrinking, weights normalised at the edges), as in
  transformers' Dinov2WithRegisters.
* `positions_5x4` [21, 6] and `positions_3x3` [10, 6]: the same as flat tables after a class token's row, which
  is unchanged.
"""

import torch
import transformers as hf
from shared import begin, seeded, write
from transformers.models.vit_mae.modeling_vit_mae import get_2d_sincos_pos_embed

WIDTH, LEARNED = 16, 6


def half(places, width):
    omega = 10000.0 ** (-torch.arange(width // 2, dtype=torch.float64) / (width // 2))
    angle = places.double()[:, None] * omega
    return torch.cat([angle.sin(), angle.cos()], dim=1)


def sincos(rows, columns, width):
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return torch.cat([half(x.flatten(), width // 2), half(y.flatten(), width // 2)], dim=1).float()


def resampled(grid, rows, columns, antialias=False):
    channels_first = grid.permute(2, 0, 1)[None]
    size = (rows, columns)
    out = torch.nn.functional.interpolate(channels_first, size=size, mode="bicubic", align_corners=False, antialias=antialias)
    return out[0].permute(1, 2, 0).contiguous()


def main():
    square = torch.tensor(get_2d_sincos_pos_embed(WIDTH, 4)).float()
    assert (sincos(4, 4, WIDTH) - square).abs().max() < 1e-6
    generator = seeded("sincos_2d")
    grid = torch.randn(3, 3, LEARNED, generator=generator)
    class_token = torch.randn(1, LEARNED, generator=generator)
    larger = resampled(grid, 5, 4)
    wide = torch.randn(5, 9, LEARNED, generator=generator)
    tensors = {
        "sincos_3x4": sincos(3, 4, WIDTH),
        "sincos_4x4": square,
        "grid_3x3": grid,
        "grid_5x4": larger,
        "grid_2x2": resampled(grid, 2, 2),
        "antialiased_5x4": resampled(grid, 5, 4, antialias=True),
        "antialiased_2x2": resampled(grid, 2, 2, antialias=True),
        "wide_5x9": wide,
        "antialiased_3x4": resampled(wide, 3, 4, antialias=True),
        "positions_3x3": torch.cat([class_token, grid.reshape(9, LEARNED)]),
        "positions_5x4": torch.cat([class_token, larger.reshape(20, LEARNED)]),
    }
    write("sincos_2d", tensors, {"mode": "bicubic", "align_corners": False, "temperature": 10000.0})


if __name__ == "__main__":
    begin(torch, hf)
    main()
