#!/usr/bin/env python3
"""Pixels of Hugging Face's image processors, for tests/it/hf_files.rs. Run by hand; writes image_processors.safetensors.

Versions: Python 3.11 or later, transformers 5.23.0, torch 2.15, torchvision 0.29, pillow 13.

The file has an image of bytes, and for each processor its preprocessor_config.json and `pixel_values` by torchvision and by
PIL, which differ from each other by rounding.
"""
import json
import pathlib

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from transformers.models.clip.image_processing_clip import CLIPImageProcessor
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.convnext.image_processing_convnext import ConvNextImageProcessor
from transformers.models.convnext.image_processing_pil_convnext import ConvNextImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil
from transformers.models.vit.image_processing_vit import ViTImageProcessor

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
CASES = {
    "vit_smaller": (ViTImageProcessor, ViTImageProcessorPil, {"size": {"height": 24, "width": 32}}),
    "vit_larger": (ViTImageProcessor, ViTImageProcessorPil,
                   {"size": {"height": 60, "width": 64}, "image_mean": MEAN, "image_std": STD}),
    "vit_bytes": (ViTImageProcessor, ViTImageProcessorPil,
                  {"size": {"height": 20, "width": 20}, "do_rescale": False, "do_normalize": False}),
    "convnext": (ConvNextImageProcessor, ConvNextImageProcessorPil,
                 {"size": {"shortest_edge": 24}, "crop_pct": 0.875, "image_mean": MEAN, "image_std": STD}),
    "clip": (CLIPImageProcessor, CLIPImageProcessorPil,
             {"size": {"shortest_edge": 30}, "crop_size": {"height": 27, "width": 26}, "resample": 3}),
}


def main():
    generator = np.random.default_rng(5)
    coarse = generator.integers(0, 256, (8, 11, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((53, 37), Image.BICUBIC)).astype(int)
    image = np.clip(smooth + generator.integers(-40, 41, smooth.shape), 0, 255).astype(np.uint8)
    tensors = {"image": torch.from_numpy(image.transpose(2, 0, 1).copy())}
    configs = {}
    for name, (torchvision, pil, settings) in CASES.items():
        processor = torchvision(**settings)
        config = json.loads(processor.to_json_string())
        configs[name] = {key: value for key, value in config.items() if value is not None}
        picture = Image.fromarray(image)
        for backend, made in [("torchvision", processor), ("pil", pil(**settings))]:
            tensors[f"{name}.{backend}"] = made(picture, return_tensors="pt")["pixel_values"][0].float().contiguous()
        both = [tensors[f"{name}.{backend}"] for backend in ("torchvision", "pil")]
        print(name, list(both[0].shape), "torchvision and PIL differ by", float((both[0] - both[1]).abs().max()))
    path = pathlib.Path(__file__).parent / "image_processors.safetensors"
    save_file(tensors, path, metadata={"config": json.dumps(configs)})


main()
