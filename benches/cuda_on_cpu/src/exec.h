// Running kernels: see exec.cpp.
#pragma once
#include "../include/abi.h"

#include <cstddef>

constexpr unsigned MAX_THREADS = 1024;
constexpr size_t MAX_SHARED = 99 * 1024;

struct Launch {
    const EmuKernel *kernel;
    void **params;
    uint3 grid, block;
    size_t shared;
};

// Runs all blocks of a kernel and comes back when they are done.
void run_kernel(const Launch &launch);
