#!/usr/bin/env bash
# Holds what runs on GPUs against the CPU, on Mesa's software Vulkan device: every kernel with its gradients, twenty steps of
# training, then every small experiment and its reads. 2026-11-25.
#
#   apt-get install mesa-vulkan-drivers
#   benches/lavapipe.sh [arguments of benches/gpu.py]
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
export XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-/tmp} # Mesa complains without one.
# Burn measures which of its products are the fastest: the fewest that it can.
export CUBECL_AUTOTUNE_LEVEL=${CUBECL_AUTOTUNE_LEVEL:-minimal}
cargo build --release --features wgpu --tests
cargo test --release --features wgpu --lib cube
cargo test --release --features wgpu --test it on_device
python3 benches/gpu.py --device wgpu --binary "$target/release/formwork" "$@"
