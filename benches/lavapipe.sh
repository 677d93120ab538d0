#!/usr/bin/env bash
# Compares the GPU backend with the CPU on Mesa's software Vulkan device: every kernel with its gradients, twenty steps of
# training, then every small experiment and its host reads. 2026-11-30.
#
#   apt-get install mesa-vulkan-drivers
#   benches/lavapipe.sh [arguments of benches/gpu.py]
#   benches/lavapipe.sh --quick      only kernels, a task of each kind and twenty steps, from a separate build with few optimizations
set -euo pipefail
cd "$(dirname "$0")/.."
export XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-/tmp} # Mesa complains without one.
# Burn's autotuning measures as few variants of matrix products as it can.
export CUBECL_AUTOTUNE_LEVEL=${CUBECL_AUTOTUNE_LEVEL:-minimal}
if [ "${1:-}" = --quick ]; then
  # The GPU features change nearly every crate, so the build folder of the CPU's tests cannot be reused.
  export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/lavapipe CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off
  config=()
  for crate in burn-flex turso_core pliron parquet arrow-cast arrow-select arrow-ord; do
    config+=(--config "profile.release.package.$crate.opt-level=0")
  done
  cargo test --release --features wgpu "${config[@]}" --bins --test it --no-run
  # Two processes side by side, because each waits for its device most of the time; each keeps its tuning results separately. A
  # test that hangs is a failure.
  caches=$(mktemp -d)
  held() {
    local status=0
    XDG_CACHE_HOME=$caches/$1 timeout 3600 cargo test --release --features wgpu "${config[@]}" --bins --test it "${@:2}" || status=$?
    return $((status == 124 ? 1 : status))
  }
  held kinds on_device::kinds &
  kinds=$!
  held kernels on_device -- --skip on_device::kinds
  echo "lavapipe: kernels and twenty steps of training hold"
  wait "$kinds"
  echo "lavapipe: a task of each kind holds"
  exit
fi
export FORMWORK_TEST_KINDS=all
target=${CARGO_TARGET_DIR:-target}
cargo build --release --features wgpu --tests
cargo test --release --features wgpu --lib cube
cargo test --release --features wgpu --test it on_device
python3 benches/gpu.py --device wgpu --binary "$target/release/formwork" "$@"
