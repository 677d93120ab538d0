// What the files of the stand-in for the driver share.
#pragma once
#include "exec.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

typedef int Result;
typedef unsigned long long DevicePtr;

// The numbers of CUresult that are used here.
constexpr Result SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101,
                 INVALID_IMAGE = 200, NOT_FOUND = 500, CAPTURE_UNMATCHED = 903;

struct Function {
    std::string name;
    const EmuKernel *kernel;
};

// CUDA_MEMCPY2D
struct Copy2D {
    size_t src_x, src_y;
    unsigned src_type;
    const void *src_host;
    DevicePtr src_device;
    void *src_array;
    size_t src_pitch;
    size_t dst_x, dst_y;
    unsigned dst_type;
    void *dst_host;
    DevicePtr dst_device;
    void *dst_array;
    size_t dst_pitch;
    size_t width, height;
};

// One piece of work: a launch, a copy (of one or more rows) or a fill.
struct Node {
    enum Kind { LAUNCH = 0, COPY = 1, FILL = 2 } kind;
    // LAUNCH: the parameters' bytes lie in `bytes`, each at a multiple of 16.
    Function *function = nullptr;
    uint3 grid = {}, block = {};
    size_t shared = 0;
    std::vector<char> bytes = {};
    std::vector<size_t> offsets = {};
    // COPY and FILL
    char *to = nullptr;
    const char *from = nullptr;
    size_t to_pitch = 0, from_pitch = 0, width = 0, height = 1;
    unsigned long long value = 0;
    unsigned value_size = 1;

    void run() const;
};

struct Graph {
    std::vector<std::shared_ptr<Node>> nodes;
};

struct Stream {
    // Set while the stream captures: what it is told is put there and not run.
    Graph *capture = nullptr;
};

struct Event {
    std::chrono::steady_clock::time_point at;
};

// Does a piece of work, or puts it into the graph that the stream captures.
Result submit(Stream *stream, Node &&node);

// The name of the kernel that runs, and what says on stderr where an address
// lies that a kernel has stumbled on.
extern const char *volatile running_kernel;
void watch_faults();
void describe_address(DevicePtr address);
