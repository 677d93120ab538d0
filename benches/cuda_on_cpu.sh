#!/usr/bin/env bash
# Holds what runs on CUDA against the CPU on a machine without a GPU: the kernels are those that CubeCL writes for CUDA, and the
# stand-ins of benches/cuda_on_cpu for NVIDIA's driver and compiler run them on the CPU. 2026-11-26.
#
#   benches/cuda_on_cpu.sh [arguments of benches/gpu.py]
#
# CUDA_ON_CPU_SM is the compute capability: 70 (when absent) has products in 32 bits, 80 tensor cores for TF32 and bfloat16.
# CARGO_FLAGS go to cargo. CubeCL's crate for CUDA fetches LLVM when it is built, which nothing here runs.
#   stand-ins   their own checks: barriers, warps, tensor cores, streams, graphs, PTX
#   kernels     every kernel with its gradients, twenty steps of training, steps that are replayed, where streams do their work as
#               late as they may, lanes run backward and new memory is not zero (CUDA_ON_CPU_STRICT)
#   runs        every small experiment and its reads
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
export CUDA_ON_CPU_BUILD=${CUDA_ON_CPU_BUILD:-$(realpath -m "$target")/cuda_on_cpu}
export CUDA_ON_CPU_CACHE=${CUDA_ON_CPU_CACHE:-$CUDA_ON_CPU_BUILD/kernels}
mkdir -p "$CUDA_ON_CPU_BUILD"
# Times of a stand-in say nothing: products are measured as little as they can be.
export CUBECL_AUTOTUNE_LEVEL=${CUBECL_AUTOTUNE_LEVEL:-minimal} FORMWORK_TEST_DEVICE=cuda FORMWORK_TEST_KINDS=all
read -ra flags <<< "${CARGO_FLAGS:-}"
cargo build --release --features cuda --tests "${flags[@]}"
benches/cuda_on_cpu/check.sh
on=benches/cuda_on_cpu/run.sh
CUDA_ON_CPU_STRICT=${CUDA_ON_CPU_STRICT-late backward poison} \
  $on cargo test --release --features cuda "${flags[@]}" --test it on_device
$on python3 benches/gpu.py --device cuda --binary "$target/release/formwork" "$@"
