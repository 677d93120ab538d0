// What a compiled kernel and the stand-in for the driver know of each other.
//
// The driver runs every GPU thread as a fiber: a stack of its own on which the
// kernel's function runs until it ends or meets a barrier. The variables below
// belong to the thread that runs at the moment; the driver sets them whenever
// it changes from one fiber to another.
#pragma once

struct uint3 {
    unsigned x, y, z;
};

#define EMU_TLS __thread __attribute__((tls_model("initial-exec"), visibility("default")))

extern "C" {
extern EMU_TLS uint3 threadIdx;
extern EMU_TLS uint3 blockIdx;
extern EMU_TLS uint3 blockDim;
extern EMU_TLS uint3 gridDim;
// The number of the thread in its warp, and the block's dynamic shared memory.
extern EMU_TLS unsigned emu_lane;
extern EMU_TLS char *emu_shared;

// Something that a warp does together. It is called once for all the lanes
// that take part: `args` has each lane's argument (null for a lane that does
// not take part) and `mask` has their bits.
typedef void (*EmuWarpOp)(void **args, unsigned mask);

// Waits for the other threads of the block that have not ended.
__attribute__((visibility("default"))) void emu_block_sync();
// Waits for the other lanes that can reach the same place, and does `op` with
// them. `site` is the line of the source; lanes that wait at an earlier line
// go first, which brings the two sides of a branch together again after it.
__attribute__((visibility("default"))) void emu_warp_op(unsigned site, EmuWarpOp op, void *arg);
// Lets the other threads of the block run, for loops that wait for them.
__attribute__((visibility("default"))) void emu_poll();
}

// What a kernel's library says of a kernel, under the name `emu_kernel_NAME`.
struct EmuKernel {
    // Calls the kernel's function with the parameters that `params` points at.
    void (*run)(void **params);
    unsigned count;
    // The size of each parameter in bytes.
    const unsigned long *sizes;
};
