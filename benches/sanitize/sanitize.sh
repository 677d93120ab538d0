#!/bin/bash
# 2026-11-23: fuzzes the kernels' unsafe code, matrix products and the team of threads, under AddressSanitizer and
# ThreadSanitizer.
#   benches/sanitize/sanitize.sh [PRODUCTS [ROUNDS [SEED]]]      474867 products are what an audit of 2026-11 made
# Needs a compiler that takes -Z: a nightly toolchain, or RUSTC_BOOTSTRAP=1 with the stable one, which this script sets.
# Standard library: as it is distributed, so uninstrumented. AddressSanitizer still sees every allocation and every access of
# ours. ThreadSanitizer sees what is inlined into our code, atomics among it, and the C library's locks, not those that
# std makes of futexes: reports whose both sides lie in std are left out (suppressions below).
set -eu
cd "$(dirname "$0")"
products=${1:-20000} rounds=${2:-20000} seed=${3:-1}
host=$(rustc -vV | sed -n 's/^host: //p')
export RUSTC_BOOTSTRAP=1 RAYON_NUM_THREADS=${RAYON_NUM_THREADS:-4}
build() {
    RUSTFLAGS="-Zsanitizer=$1 -Cunsafe-allow-abi-mismatch=sanitizer -Ctarget-cpu=x86-64-v2" \
        cargo build --release --quiet --target "$host" --target-dir "target/$1"
}
run() { "target/$1/$host/release/sanitize" "${@:2}"; }
build address
for path in "" portable; do
    FORMWORK_SIMD=$path run address products "$products" "$seed"
done
run address team "$rounds" "$seed"
build thread
printf 'race:std::sys\nrace:core::ptr::drop_in_place<std\nrace:rayon\nrace:crossbeam\n' > target/suppressions
export TSAN_OPTIONS="suppressions=$PWD/target/suppressions halt_on_error=1"
run thread team "$rounds" "$seed"
run thread products "$((products / 10))" "$seed"
