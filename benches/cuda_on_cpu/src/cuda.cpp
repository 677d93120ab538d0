// The stand-in for the driver: the device and its memory. A device pointer is
// a pointer of the host.
#include "driver.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace {

constexpr size_t TOTAL_MEMORY = 8ul << 30;
constexpr size_t ALIGNMENT = 512;

std::mutex memory_lock;
// The device's memory, and the host's that is pinned: a start and a size.
std::map<DevicePtr, size_t> allocations, pinned;
size_t used_memory = 0;
int the_context;
thread_local void *current_context = nullptr;

void *host(DevicePtr pointer) { return reinterpret_cast<void *>(pointer); }

bool within(const std::map<DevicePtr, size_t> &memory, DevicePtr address) {
    auto after = memory.upper_bound(address);
    return after != memory.begin() && address - std::prev(after)->first < std::prev(after)->second;
}

// Whether an address is the host's and not pinned.
bool pageable(const void *address) {
    std::lock_guard<std::mutex> held(memory_lock);
    auto at = reinterpret_cast<DevicePtr>(address);
    return !within(allocations, at) && !within(pinned, at);
}

Result allocate(DevicePtr *out, size_t size) {
    if (size == 0)
        return INVALID_VALUE;
    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    std::lock_guard<std::mutex> held(memory_lock);
    if (used_memory + size > TOTAL_MEMORY)
        return OUT_OF_MEMORY;
    void *memory = aligned_alloc(ALIGNMENT, size);
    if (!memory)
        return OUT_OF_MEMORY;
    used_memory += size;
    if (strict("poison"))
        memset(memory, 0xff, size);
    *out = reinterpret_cast<DevicePtr>(memory);
    allocations[*out] = size;
    return SUCCESS;
}

unsigned capability() {
    const char *wish = getenv("CUDA_ON_CPU_SM");
    return wish ? atoi(wish) : 70;
}

// A copy that is in no stream waits for none of them.
Result submit_copy(Stream *stream, Node &&node) {
    if (!stream)
        if (Result refused = refuse_while_capturing("a copy at once"))
            return refused;
    node.from_pageable = pageable(node.from);
    node.to_pageable = pageable(node.to);
    return submit(stream, std::move(node));
}

Result copy(Stream *stream, void *to, const void *from, size_t size) {
    Node node{Node::COPY};
    node.to = static_cast<char *>(to);
    node.from = static_cast<const char *>(from);
    node.width = size;
    return submit_copy(stream, std::move(node));
}

Result copy_2d(Stream *stream, const Copy2D &c) {
    Node node{Node::COPY};
    // 1 is the host; anything else is an address of the device or of both.
    const char *from = c.src_type == 1 ? static_cast<const char *>(c.src_host)
                                       : reinterpret_cast<const char *>(c.src_device);
    char *to = c.dst_type == 1 ? static_cast<char *>(c.dst_host)
                               : reinterpret_cast<char *>(c.dst_device);
    if (!from || !to || c.src_type == 3 || c.dst_type == 3)
        return INVALID_VALUE;
    node.from = from + c.src_y * c.src_pitch + c.src_x;
    node.to = to + c.dst_y * c.dst_pitch + c.dst_x;
    node.from_pitch = c.src_pitch;
    node.to_pitch = c.dst_pitch;
    node.width = c.width;
    node.height = c.height;
    return submit_copy(stream, std::move(node));
}

Result fill(Stream *stream, DevicePtr to, unsigned value, unsigned size, size_t count) {
    Node node{Node::FILL};
    node.to = reinterpret_cast<char *>(to);
    node.value = value;
    node.value_size = size;
    node.width = count * size;
    return submit(stream, std::move(node));
}

} // namespace

Result release(DevicePtr pointer) {
    if (pointer == 0)
        return SUCCESS;
    std::lock_guard<std::mutex> held(memory_lock);
    auto found = allocations.find(pointer);
    if (found == allocations.end())
        return INVALID_VALUE;
    if (strict("poison"))
        memset(host(pointer), 0xff, found->second);
    used_memory -= found->second;
    allocations.erase(found);
    free(host(pointer));
    return SUCCESS;
}

void describe_address(DevicePtr address) {
    DevicePtr nearest = 0;
    for (auto &[start, size] : allocations)
        if (start <= address && start > nearest)
            nearest = start;
    if (nearest)
        fprintf(stderr, "cuda_on_cpu: %llu bytes after the start of an allocation of %zu bytes\n",
                address - nearest, allocations[nearest]);
}

API Result cuInit(unsigned) { return watch_faults(), SUCCESS; }
API Result cuDriverGetVersion(int *version) { return *version = 13040, SUCCESS; }
API Result cuDeviceGetCount(int *count) { return *count = 1, SUCCESS; }
API Result cuDeviceGet(int *device, int ordinal) {
    return *device = ordinal, ordinal == 0 ? SUCCESS : INVALID_DEVICE;
}
API Result cuDeviceGetName(char *name, int size, int) {
    snprintf(name, size, "CUDA on this CPU");
    return SUCCESS;
}
API Result cuDeviceGetUuid(char *uuid, int) { return memset(uuid, 7, 16), SUCCESS; }
API Result cuDeviceGetUuid_v2(char *uuid, int) { return memset(uuid, 7, 16), SUCCESS; }
API Result cuDeviceGetPCIBusId(char *id, int size, int) {
    snprintf(id, size, "0000:00:00.0");
    return SUCCESS;
}
API Result cuDeviceTotalMem_v2(size_t *bytes, int) { return *bytes = TOTAL_MEMORY, SUCCESS; }
API Result cuDeviceGetAttribute(int *value, int attribute, int) {
    switch (attribute) {
    case 1: case 2: case 3: *value = MAX_THREADS; break; // threads in a block, x and y
    case 4: *value = 64; break;                          // z
    case 5: *value = 0x7fffffff; break;                  // blocks in a grid, x
    case 6: case 7: *value = 65535; break;               // y and z
    case 8: *value = 48 * 1024; break;                   // shared memory of a block
    case 9: *value = 64 * 1024; break;                   // constant memory
    case 10: *value = 32; break;                         // warp size
    case 11: *value = 0x7fffffff; break;                 // pitch
    case 12: *value = 65536; break;                      // registers of a block
    case 13: *value = 1000000; break;                    // clock
    case 14: *value = ALIGNMENT; break;                  // texture alignment
    case 16: *value = 4; break;                          // multiprocessors
    case 39: *value = 2048; break;                       // threads of a multiprocessor
    case 40: *value = 1; break;                          // copy engines
    case 41: *value = 1; break;                          // one address space
    case 75: *value = capability() / 10; break;
    case 76: *value = capability() % 10; break;
    case 81: *value = MAX_SHARED + 1024; break;          // shared memory of a multiprocessor
    case 97: *value = MAX_SHARED; break;                 // the same, of a block, on request
    case 115: *value = 1; break;                         // memory pools
    default: *value = 0;
    }
    return SUCCESS;
}

API Result cuDevicePrimaryCtxRetain(void **context, int) {
    return *context = &the_context, SUCCESS;
}
API Result cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
API Result cuCtxSetCurrent(void *context) { return current_context = context, SUCCESS; }
API Result cuCtxGetCurrent(void **context) { return *context = current_context, SUCCESS; }
API Result cuCtxSynchronize() {
    if (Result refused = refuse_while_capturing("cuCtxSynchronize"))
        return refused;
    return finish_all(), SUCCESS;
}
API Result cuCtxGetDevice(int *device) { return *device = 0, SUCCESS; }
API Result cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    return *least = *greatest = 0, SUCCESS;
}

// NVIDIA's NVRTC asks for the driver's cache of kernels.
API Result cuGetExportTable(const void **, const void *) { return NOT_FOUND; }
API Result cuGetErrorName(Result error, const char **name) {
    *name = error == SUCCESS         ? "CUDA_SUCCESS"
            : error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                                     : "CUDA_ERROR_INVALID_VALUE";
    return SUCCESS;
}
API Result cuGetErrorString(Result error, const char **text) {
    return cuGetErrorName(error, text);
}

API Result cuMemAlloc_v2(DevicePtr *out, size_t size) {
    if (Result refused = refuse_while_capturing("cuMemAlloc"))
        return refused;
    return allocate(out, size);
}
// Waits for the device, as a GPU's driver does.
API Result cuMemFree_v2(DevicePtr pointer) {
    if (Result refused = refuse_while_capturing("cuMemFree"))
        return refused;
    return finish_all(), release(pointer);
}
API Result cuMemAllocAsync(DevicePtr *out, size_t size, Stream *stream) {
    if (Result failed = allocate(out, size))
        return failed;
    return submit(stream, Node{Node::ALLOCATE});
}
API Result cuMemFreeAsync(DevicePtr pointer, Stream *stream) {
    Node node{Node::RELEASE};
    node.to = static_cast<char *>(host(pointer));
    return submit(stream, std::move(node));
}
API Result cuMemGetInfo_v2(size_t *free, size_t *total) {
    std::lock_guard<std::mutex> held(memory_lock);
    *total = TOTAL_MEMORY;
    *free = TOTAL_MEMORY - used_memory;
    return SUCCESS;
}
API Result cuMemAllocHost_v2(void **out, size_t size) {
    if (Result refused = refuse_while_capturing("cuMemAllocHost"))
        return refused;
    *out = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    std::lock_guard<std::mutex> held(memory_lock);
    if (*out)
        pinned[reinterpret_cast<DevicePtr>(*out)] = size;
    return *out ? SUCCESS : OUT_OF_MEMORY;
}
API Result cuMemHostAlloc(void **out, size_t size, unsigned) { return cuMemAllocHost_v2(out, size); }
API Result cuMemFreeHost(void *pointer) {
    if (Result refused = refuse_while_capturing("cuMemFreeHost"))
        return refused;
    finish_all();
    std::lock_guard<std::mutex> held(memory_lock);
    pinned.erase(reinterpret_cast<DevicePtr>(pointer));
    return free(pointer), SUCCESS;
}

API Result cuMemcpyHtoD_v2(DevicePtr to, const void *from, size_t size) {
    return copy(nullptr, host(to), from, size);
}
API Result cuMemcpyDtoH_v2(void *to, DevicePtr from, size_t size) {
    return copy(nullptr, to, host(from), size);
}
API Result cuMemcpyDtoD_v2(DevicePtr to, DevicePtr from, size_t size) {
    return copy(nullptr, host(to), host(from), size);
}
API Result cuMemcpyHtoDAsync_v2(DevicePtr to, const void *from, size_t size, Stream *stream) {
    return copy(stream, host(to), from, size);
}
API Result cuMemcpyDtoHAsync_v2(void *to, DevicePtr from, size_t size, Stream *stream) {
    return copy(stream, to, host(from), size);
}
API Result cuMemcpyDtoDAsync_v2(DevicePtr to, DevicePtr from, size_t size, Stream *stream) {
    return copy(stream, host(to), host(from), size);
}
API Result cuMemcpy2D_v2(const Copy2D *c) { return copy_2d(nullptr, *c); }
API Result cuMemcpy2DAsync_v2(const Copy2D *c, Stream *stream) { return copy_2d(stream, *c); }
API Result cuMemsetD8_v2(DevicePtr to, unsigned char value, size_t count) {
    return fill(nullptr, to, value, 1, count);
}
API Result cuMemsetD8Async(DevicePtr to, unsigned char value, size_t count, Stream *stream) {
    return fill(stream, to, value, 1, count);
}
API Result cuMemsetD16Async(DevicePtr to, unsigned short value, size_t count, Stream *stream) {
    return fill(stream, to, value, 2, count);
}
API Result cuMemsetD32Async(DevicePtr to, unsigned value, size_t count, Stream *stream) {
    return fill(stream, to, value, 4, count);
}
