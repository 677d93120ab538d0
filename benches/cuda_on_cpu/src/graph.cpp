// Modules, launches, and graphs captured from a stream.
#include "driver.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct Module {
    void *library;
};

// Says on stderr what is launched, when CUDA_ON_CPU_TRACE is set.
bool tracing() {
    static bool on = getenv("CUDA_ON_CPU_TRACE") != nullptr;
    return on;
}

} // namespace

const char *volatile running_kernel = nullptr;

void Node::run() const {
    if (kind == COPY) {
        for (size_t row = 0; row < height; row++)
            memmove(to + row * to_pitch, from + row * from_pitch, width);
    } else if (kind == FILL) {
        for (size_t at = 0; at < width; at += value_size)
            memcpy(to + at, &value, value_size);
    } else if (kind == RELEASE) {
        release(reinterpret_cast<DevicePtr>(to));
    } else if (kind == LAUNCH) {
        std::vector<void *> params;
        for (size_t offset : offsets)
            params.push_back(const_cast<char *>(bytes.data()) + offset);
        auto begin = std::chrono::steady_clock::now();
        running_kernel = function->name.c_str();
        run_kernel({function->kernel, params.data(), grid, block, shared});
        running_kernel = nullptr;
        if (tracing()) {
            std::chrono::duration<double, std::milli> time =
                std::chrono::steady_clock::now() - begin;
            fprintf(stderr, "launch %s grid %ux%ux%u block %ux%ux%u shared %zu: %.3f ms\n",
                    function->name.c_str(), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                    shared, time.count());
        }
    }
}

// An image is the text that our compiler gives: a line of comment, and the path
// of the kernel's library in the next line.
API Result cuModuleLoadData(Module **out, const char *image) {
    const char *mark = "// cuda_on_cpu\n";
    if (strncmp(image, mark, strlen(mark)) != 0)
        return INVALID_IMAGE;
    const char *path = image + strlen(mark);
    std::string name(path, strcspn(path, "\n"));
    if (Result refused = refuse_while_capturing(("cuModuleLoadData of " + name).c_str()))
        return refused;
    void *library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "cuda_on_cpu: %s\n", dlerror());
        return INVALID_IMAGE;
    }
    *out = new Module{library};
    return SUCCESS;
}
API Result cuModuleLoadDataEx(Module **out, const char *image, unsigned, int *, void **) {
    return cuModuleLoadData(out, image);
}
API Result cuModuleUnload(Module *module) { return delete module, SUCCESS; }
API Result cuModuleGetFunction(Function **out, Module *module, const char *name) {
    std::string symbol = std::string("emu_kernel_") + name;
    auto *kernel = static_cast<const EmuKernel *>(dlsym(module->library, symbol.c_str()));
    if (!kernel)
        return NOT_FOUND;
    *out = new Function{name, kernel};
    return SUCCESS;
}
API Result cuFuncSetAttribute(Function *function, int attribute, int value) {
    // 8 is the largest dynamic shared memory.
    if (attribute != 8)
        return SUCCESS;
    if (value < 0 || size_t(value) > MAX_SHARED)
        return INVALID_VALUE;
    return function->shared = value, SUCCESS;
}
API Result cuFuncGetAttribute(int *value, int attribute, Function *) {
    *value = attribute == 0 ? MAX_THREADS : 0;
    return SUCCESS;
}
API Result cuFuncSetCacheConfig(Function *, int) { return SUCCESS; }

API Result cuLaunchKernel(Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, Stream *stream,
                          void **params, void **extra) {
    unsigned long threads = 1ul * bx * by * bz;
    if (!function || extra || gx == 0 || gy == 0 || gz == 0 || threads == 0 ||
        threads > MAX_THREADS || shared > function->shared || gy > 65535 || gz > 65535)
        return INVALID_VALUE;
    Node node{Node::LAUNCH};
    node.function = function;
    node.grid = {gx, gy, gz};
    node.block = {bx, by, bz};
    node.shared = shared;
    size_t size = 0;
    for (unsigned i = 0; i < function->kernel->count; i++) {
        node.offsets.push_back(size);
        size += (function->kernel->sizes[i] + 15) / 16 * 16;
    }
    node.bytes.resize(size);
    for (unsigned i = 0; i < function->kernel->count; i++)
        memcpy(node.bytes.data() + node.offsets[i], params[i], function->kernel->sizes[i]);
    return submit(stream, std::move(node));
}

API Result cuGraphGetNodes(Graph *graph, Node **nodes, size_t *count) {
    if (nodes)
        for (size_t i = 0; i < *count && i < graph->nodes.size(); i++)
            nodes[i] = graph->nodes[i].get();
    *count = graph->nodes.size();
    return SUCCESS;
}
API Result cuGraphNodeGetType(Node *node, int *type) { return *type = node->kind, SUCCESS; }
API Result cuGraphInstantiateWithFlags(Graph **out, Graph *graph, unsigned long long) {
    return *out = new Graph(*graph), SUCCESS;
}
API Result cuGraphDestroy(Graph *graph) { return delete graph, SUCCESS; }
API Result cuGraphExecDestroy(Graph *graph) { return delete graph, SUCCESS; }
API Result cuGraphUpload(Graph *, Stream *) { return SUCCESS; }
API Result cuGraphLaunch(Graph *graph, Stream *stream) {
    if (tracing())
        fprintf(stderr, "graph of %zu nodes\n", graph->nodes.size());
    for (auto &node : graph->nodes)
        submit(stream, node);
    return SUCCESS;
}
