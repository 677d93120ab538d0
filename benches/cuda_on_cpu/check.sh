#!/bin/sh
# Builds and runs the checks of the stand-in for CUDA.
set -e
here=$(cd "$(dirname "$0")" && pwd)
build=${CUDA_ON_CPU_BUILD:-$here/../../target/cuda_on_cpu}
"$here/run.sh" true
for name in numbers kernels tensor; do
    g++ -O1 -std=c++20 -march=native -w "$here/check/$name.cpp" -o "$build/check_$name" \
        -L"$build" -l:libcuda.so.1 -ldl
    "$here/run.sh" "$build/check_$name"
done
