#!/bin/bash
# 2026-11-23: fuzzes the kernels' unsafe code, matrix products and the thread team, under AddressSanitizer and
# ThreadSanitizer.
#   benches/sanitize/sanitize.sh [PRODUCTS [ROUNDS [SEED]]]      an audit of 2026-11 ran 474867 products
# Needs a compiler that accepts -Z: a nightly toolchain, or the stable one with RUSTC_BOOTSTRAP=1, which this script sets.
# The standard library is the distributed one, so it is not instrumented. AddressSanitizer still sees every allocation and every
# access in our code. ThreadSanitizer sees code inlined into ours, including atomics, and the C library's locks, but not std's
# futex locks: reports with both sides in std are suppressed (below).
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
