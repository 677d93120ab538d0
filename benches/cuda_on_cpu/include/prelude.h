// What stands before the source of every kernel: CUDA C++'s built-in names in
// terms of ordinary C++.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <type_traits>
#include <utility>

#include "abi.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __forceinline__ inline
#define __align__(n) alignas(n)
// One of the host's threads runs a block from its start to its end.
#define __shared__ static __thread

constexpr int warpSize = 32;

struct dim3 : uint3 {
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : uint3{a, b, c} {}
};
struct int2 { int x, y; };
struct int4 { int x, y, z, w; };
struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

#include "half.h"
#include "bfloat16.h"
#include "intrinsics.h"
#include "atomics.h"
#include "warp.h"
#include "tensor.h"
#include "barrier.h"
#include "ptx.h"

// How the driver calls a kernel: see `EmuKernel`.
template <auto F> struct EmuEntry;
template <class... A, void (*F)(A...)> struct EmuEntry<F> {
    static constexpr unsigned long sizes[] = {sizeof(A)..., 0};
    template <size_t... I> static inline void call(void **params, std::index_sequence<I...>) {
        F(*static_cast<std::remove_cv_t<A> *>(params[I])...);
    }
    static void run(void **params) { call(params, std::index_sequence_for<A...>{}); }
};
#define EMU_KERNEL(NAME)                                                                   \
    extern "C" __attribute__((visibility("default"))) const EmuKernel emu_kernel_##NAME;   \
    const EmuKernel emu_kernel_##NAME = {                                                  \
        &EmuEntry<&NAME>::run, sizeof(EmuEntry<&NAME>::sizes) / sizeof(unsigned long) - 1, \
        EmuEntry<&NAME>::sizes};

// A kernel's source may define these names itself, and takes 64 bits as `long
// long` where the host takes `long`.
#define int64_t emu_int64_t
#define uint64_t emu_uint64_t
#define __restrict__
