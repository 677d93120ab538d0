// What the files of the stand-in for the driver share.
#pragma once
#include "exec.h"

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

typedef int Result;
typedef unsigned long long DevicePtr;

// The numbers of CUresult that are used here.
constexpr Result SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101,
                 INVALID_IMAGE = 200, NOT_FOUND = 500, NOT_READY = 600, CAPTURE_UNSUPPORTED = 900,
                 CAPTURE_INVALIDATED = 901, CAPTURE_UNMATCHED = 903, CAPTURE_ISOLATION = 905,
                 CAPTURED_EVENT = 907;

struct Function {
    std::string name;
    const EmuKernel *kernel;
    // The largest dynamic shared memory that a launch may ask for.
    size_t shared = 48 * 1024;
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

// One piece of work: a launch, a copy (of one or more rows), a fill, or memory
// that comes or goes in the order of a stream. The numbers are those of
// CUgraphNodeType.
struct Node {
    enum Kind { LAUNCH = 0, COPY = 1, FILL = 2, ALLOCATE = 10, RELEASE = 11 } kind;
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
    // COPY: which ends lie in memory of the host that is not pinned.
    bool from_pageable = false, to_pageable = false;

    void run() const;
};

struct Graph {
    std::vector<std::shared_ptr<Node>> nodes;
};

// Where a stream was when an event was recorded.
struct Stream;
struct Mark {
    Stream *stream;
    bool reached = false;
    std::chrono::steady_clock::time_point at = {};
};

// What a stream has been told and has not done: a node, or a mark that it
// reaches, or one of another stream that it waits for.
struct Work {
    std::shared_ptr<Node> node;
    std::shared_ptr<Mark> reaches, waits_for;
};

struct Stream {
    // Set while the stream captures: what it is told is put there and not run.
    Graph *capture = nullptr;
    // Something was asked for that a capture does not allow.
    bool broken = false;
    std::deque<Work> queue = {};
};

struct Event {
    // Nothing before the first record.
    std::shared_ptr<Mark> mark;
    // The last record was captured.
    bool captured = false;
};

// Puts a piece of work into the graph that the stream captures; else does it,
// at once or, with CUDA_ON_CPU_STRICT=late, when something waits for it.
Result submit(Stream *stream, Node &&node);
void submit(Stream *stream, std::shared_ptr<Node> node);

// Has all streams do what they were told.
void finish_all();

// For calls that are not allowed while a stream captures: such a capture is
// lost, and the result is the error to return.
Result refuse_while_capturing(const char *call);

// The name of the kernel that runs, and what says on stderr where an address
// lies that a kernel has stumbled on.
extern const char *volatile running_kernel;
void watch_faults();
void describe_address(DevicePtr address);

// Gives memory of the device back.
Result release(DevicePtr pointer);
