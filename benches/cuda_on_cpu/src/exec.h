// Running kernels: see exec.cpp.
#pragma once
#include "../include/abi.h"

#include <atomic>
#include <cstddef>

constexpr unsigned MAX_THREADS = 1024;
constexpr size_t MAX_SHARED = 99 * 1024;

struct Launch {
    const EmuKernel *kernel;
    void **params;
    uint3 grid, block;
    size_t shared;
};

// Runs blocks on this thread, each time the next one that no thread has taken.
void run_blocks(const Launch &launch, std::atomic<unsigned long> &next_block);
// Runs all blocks of a kernel and comes back when they are done.
void run_kernel(const Launch &launch);

// Whether CUDA_ON_CPU_STRICT, a list of words, has this one:
//   late      streams do what they are told only when something waits for it
//   backward  blocks, the warps of a block and the lanes of a warp run from the last to the first
//   poison    new memory, and a block's shared memory, is full of ones: not-a-numbers, and indices out of bounds
bool strict(const char *word);
