#!/bin/bash
# 2026-11-23: tests the exchange through NCCL on a machine without a GPU.
#
#     cargo build --release --features nccl
#     benches/nccl.sh [BINARY]
#
# BINARY defaults to target/release/formwork. Stand-ins for libcuda and libnccl (benches/nccl), built with mpicc, replace
# NVIDIA's: GPU memory is host memory, and bytes go by MPI. So only Formwork's side is tested: each rank's GPU, the id, which
# bytes go where, grouped sends and receives, and their completion. NCCL itself does not run here. The model computes on the CPU.
#   missing   without the libraries, there is one clear error with status 2
#   gpus      two ranks on a machine with one GPU, and four with three, are refused with status 2 and a single error
#   bits      benches/mpi.py with --exchange nccl: weights, moments and journals of 1, 2 and 4 ranks, and a few kills
# Any failure ends the script with status 1.
set -u
cd "$(dirname "$0")/.." || exit 2
binary=$(realpath "${1:-target/release/formwork}")
for program in mpicc mpirun python3; do
    command -v $program > /dev/null || { echo "no $program here"; exit 2; }
done
at=$(mktemp -d)
trap 'rm -rf "$at"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
mkdir "$at/lib"
cc -shared -fPIC -O1 -o "$at/lib/libcuda.so.1" benches/nccl/cuda.c || exit 2
mpicc -shared -fPIC -O1 -o "$at/lib/libnccl.so" benches/nccl/nccl.c || exit 2

# refused RANKS WORDS: a start on RANKS ranks must end with status 2 and a single error that contains WORDS.
refused() {
    mpirun --allow-run-as-root --oversubscribe -np "$1" "$binary" train experiments/smoke/ranks.toml --run "$at/refused" \
        --exchange nccl > "$at/log" 2>&1
    local status=$?
    [ $status = 2 ] || fail "status $status: $(cat "$at/log")"
    [ "$(grep -c '^error:' "$at/log")" = 1 ] || fail "not one error: $(cat "$at/log")"
    grep -q "$2" "$at/log" || fail "no \`$2\`: $(cat "$at/log")"
    [ ! -e "$at/refused" ] || fail "a refused start leaves a folder"
    echo "refused: $(grep '^error:' "$at/log")"
}
LD_LIBRARY_PATH='' refused 2 "no CUDA driver"
export LD_LIBRARY_PATH=$at/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
STAND_IN_GPUS=3 refused 4 "has 3 GPU(s) and at least 4 ranks"
STAND_IN_GPUS=1 refused 2 "rank 1 shares its GPU with another rank"
STAND_IN_GPUS=8 python3 benches/mpi.py --binary "$binary" --kills 10 --exchange nccl || fail "benches/mpi.py"
echo "all as wanted"
