#!/usr/bin/env bash
# Compares the CUDA backend with the CPU on a machine without a GPU: the kernels are those that CubeCL generates for CUDA, and
# stand-ins for NVIDIA's driver and compiler (benches/cuda_on_cpu) run them on the CPU. 2026-11-26.
#
#   benches/cuda_on_cpu.sh [arguments of benches/gpu.py]
#
# CUDA_ON_CPU_SM is the compute capability: 70 (the default) has 32-bit matrix products, 80 has tensor cores for TF32 and bfloat16.
# CARGO_FLAGS are passed to cargo. CubeCL's CUDA crate downloads LLVM when it is built; nothing here runs it.
#   stand-ins   checks of the stand-ins themselves: barriers, warps, tensor cores, streams, graphs, PTX
#   kernels     every kernel with its gradients, twenty steps of training and replayed steps, while streams work as late as
#               possible, lanes run backwards and new memory is not zero (CUDA_ON_CPU_STRICT)
#   runs        every small experiment, and its host reads
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
export CUDA_ON_CPU_BUILD=${CUDA_ON_CPU_BUILD:-$(realpath -m "$target")/cuda_on_cpu}
export CUDA_ON_CPU_CACHE=${CUDA_ON_CPU_CACHE:-$CUDA_ON_CPU_BUILD/kernels}
mkdir -p "$CUDA_ON_CPU_BUILD"
# Timings of a stand-in mean nothing, so autotuning of matrix products is reduced to the minimum.
export CUBECL_AUTOTUNE_LEVEL=${CUBECL_AUTOTUNE_LEVEL:-minimal} FORMWORK_TEST_DEVICE=cuda FORMWORK_TEST_KINDS=all
read -ra flags <<< "${CARGO_FLAGS:-}"
cargo build --release --features cuda --tests "${flags[@]}"
benches/cuda_on_cpu/check.sh
on=benches/cuda_on_cpu/run.sh
CUDA_ON_CPU_STRICT=${CUDA_ON_CPU_STRICT-late backward poison} \
  $on cargo test --release --features cuda "${flags[@]}" --test it on_device
$on python3 benches/gpu.py --device cuda --binary "$target/release/formwork" "$@"
