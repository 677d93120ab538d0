"""Oracle of log-mel features: transformers' WhisperFeatureExtractor.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 numpy transformers==5.24.0 safetensors soundfile==0.13.1
    python make_speech.py

speech.safetensors has a synthetic recording of 1.3 s at 16 kHz, `samples` [20800] of 16 bits, which an
extractor of 1 s reads: cut, or the first 0.7 s padded. Features are those of the extractor's numpy form, in double
precision; those of its torch form, which computes in single precision, lie within 1e-5.

speech.flac has its first 3,000 samples as libFLAC writes them, on two channels: the samples, and every second one of them halved.

* `features.80.cut` and `features.80.padded` [80, 100], `features.128.padded` [128, 100].
"""

import numpy as np
import soundfile
import torch
from shared import begin, write
from transformers import WhisperFeatureExtractor

RATE, SECONDS, SHORT = 16000, 1.3, 11200


def recording():
    """A voiced sweep with harmonics, a pause, noise and clicks."""
    t = np.arange(int(RATE * SECONDS)) / RATE
    pitch = 2 * np.pi * (120 * t + 60 * t**2)
    voice = sum(np.sin(k * pitch) / k for k in range(1, 20)) * np.exp(-(((t - 0.3) / 0.2) ** 2))
    noise = np.random.default_rng(7).standard_normal(t.size) * (0.02 + 0.2 * (t > 0.9))
    clicks = (np.arange(t.size) % 3100 == 50) * 2.0
    wave = 0.25 * voice + 0.3 * noise + 0.2 * clicks
    return np.clip(np.round(wave * 32768), -32768, 32767).astype(np.int16)


if __name__ == "__main__":
    begin(torch)
    samples = recording()
    tensors = {"samples": torch.from_numpy(samples.astype(np.float32) / 32768)}
    for n_mels, name, count in [(80, "cut", samples.size), (80, "padded", SHORT), (128, "padded", SHORT)]:
        extractor = WhisperFeatureExtractor(feature_size=n_mels, chunk_length=1)
        wave = samples[:count].astype(np.float32) / 32768
        padded = np.zeros(RATE, dtype=np.float32)
        padded[: min(count, RATE)] = wave[:RATE]
        features = extractor._np_extract_fbank_features(padded[None], "cpu")[0].astype(np.float32)
        called = extractor(wave, sampling_rate=RATE, return_tensors="np").input_features[0]
        assert called.shape == features.shape == (n_mels, 100)
        print(n_mels, name, np.abs(called - features).max())
        tensors[f"features.{n_mels}.{name}"] = torch.from_numpy(features)
    write("speech", tensors, {})
    both = np.stack([samples[:3000], samples[:3000] // 2 * (np.arange(3000) % 2)], axis=1).astype(np.int16)
    soundfile.write("speech.flac", both, RATE, subtype="PCM_16")
