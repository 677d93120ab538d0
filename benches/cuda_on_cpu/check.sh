#!/bin/sh
# Builds and runs the checks of the CUDA stand-ins.
set -e
here=$(cd "$(dirname "$0")" && pwd)
build=${CUDA_ON_CPU_BUILD:-$here/../../target/cuda_on_cpu}
"$here/run.sh" true
check() {
    g++ -O1 -std=c++20 -march=native -w "$here/check/$1.cpp" -o "$build/check_$1" \
        -L"$build" -l:libcuda.so.1 -ldl
    "$here/run.sh" "$build/check_$1"
}
all="late backward poison"
for name in numbers kernels tensor; do
    CUDA_ON_CPU_STRICT='' check $name
    CUDA_ON_CPU_STRICT=$all check $name
done
CUDA_ON_CPU_STRICT=$all check strict
