#!/bin/sh
# Builds the CUDA stand-ins if they have changed, and runs a command with them:
#
#     run.sh COMMAND ARGUMENTS...
#
# CUDA_ON_CPU_SM       the compute capability (default 70)
# CUDA_ON_CPU_CACHE    the folder of compiled kernels (default: `kernels` beside the stand-ins)
# CUDA_ON_CPU_THREADS  the number of host threads that run blocks (default: all)
# CUDA_ON_CPU_STRICT   any of "late backward poison". late: streams do their work only when something waits for it;
#                      backward: blocks, warps and lanes run from the last to the first; poison: new memory and
#                      shared memory are filled with ones (NaN)
# CUDA_ON_CPU_TRACE    when set, compilations and launches are logged on stderr
# CUDA_ON_CPU_NVRTC    NVIDIA's libnvrtc.so: it must also compile each kernel, and its PTX is kept beside
#                      the compiled kernel; CUDA_ON_CPU_HEADERS lists its header folders, separated by ":", and
#                      CUDA_ON_CPU_NVRTC_SM the capabilities (default "80 90a")
set -e
here=$(cd "$(dirname "$0")" && pwd)
build=${CUDA_ON_CPU_BUILD:-$here/../../target/cuda_on_cpu}
mkdir -p "$build"

stamp=$(cat "$here"/src/* $(find "$here/include" -type f | sort) "$here/run.sh" | cksum | tr ' ' '-')
if [ "$(cat "$build/stamp" 2>/dev/null)" != "$stamp" ]; then
    rm -rf "$build/include" "$build/stamp"
    cp -r "$here/include" "$build/include"
    echo "-O1 -std=c++20 -fPIC -march=native -w -fno-strict-aliasing -fno-math-errno" \
        "-fno-trapping-math -fno-exceptions -fno-rtti -fvisibility=hidden -fno-plt" \
        "-ffp-contract=fast -fmax-errors=5 -DEMU_BUILD=$stamp" > "$build/flags"
    (
        cd "$build"
        own="-O2 -std=c++20 -fPIC -march=native -Wall -Wextra -fvisibility=hidden -shared -pthread"
        g++ $own -Wl,-soname,libcuda.so.1 "$here"/src/cuda.cpp "$here"/src/stream.cpp \
            "$here"/src/graph.cpp "$here"/src/blocks.cpp "$here"/src/exec.cpp "$here"/src/fault.cpp \
            -o libcuda.so.1 -ldl
        g++ $own "$here"/src/nvrtc.cpp "$here"/src/source.cpp \
            "$here"/src/nvidia.cpp -o libnvrtc.so -ldl
        ln -sf libcuda.so.1 libcuda.so
        # Precompiled header for all kernels.
        g++ $(cat flags) -x c++-header include/prelude.h -o include/prelude.h.gch
    )
    echo "$stamp" > "$build/stamp"
fi

LD_LIBRARY_PATH="$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
CUDA_PATH="$build"
export LD_LIBRARY_PATH CUDA_PATH
exec "$@"
