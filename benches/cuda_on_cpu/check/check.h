// Runs small kernels through the two libraries, in the way a program does that
// opens them by name, and compares their results.
#pragma once
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

typedef unsigned long long Ptr;
inline void *cuda, *nvrtc;
inline int failures = 0;

template <class... A> inline int call(void *library, const char *name, A... args) {
    auto *function = reinterpret_cast<int (*)(A...)>(dlsym(library, name));
    if (!function) {
        printf("no %s\n", name);
        exit(1);
    }
    return function(args...);
}
template <class... A> inline void cu(const char *name, A... args) {
    if (int error = call(cuda, name, args...)) {
        printf("%s gives error %d\n", name, error);
        exit(1);
    }
}

inline void *stream;

inline void *kernel(const std::string &source, const char *name, const char *arch = "--gpu-architecture=sm_80") {
    void *program;
    call(nvrtc, "nvrtcCreateProgram", &program, source.c_str(), (const char *)nullptr, 0,
         (const char *const *)nullptr, (const char *const *)nullptr);
    const char *options[] = {arch};
    int error = call(nvrtc, "nvrtcCompileProgram", program, 1, (const char *const *)options);
    size_t size;
    if (error) {
        call(nvrtc, "nvrtcGetProgramLogSize", program, &size);
        std::vector<char> log(size);
        call(nvrtc, "nvrtcGetProgramLog", program, log.data());
        printf("%s does not compile:\n%s\n", name, log.data());
        failures++;
        return nullptr;
    }
    call(nvrtc, "nvrtcGetPTXSize", program, &size);
    std::vector<char> ptx(size);
    call(nvrtc, "nvrtcGetPTX", program, ptx.data());
    void *module, *function;
    cu("cuModuleLoadData", &module, (const void *)ptx.data());
    cu("cuModuleGetFunction", &function, module, name);
    return function;
}

inline void launch(void *function, unsigned grid, unsigned block, unsigned shared, std::vector<void *> params) {
    cu("cuLaunchKernel", function, grid, 1u, 1u, block, 1u, 1u, shared, stream, params.data(),
       (void **)nullptr);
}

template <class T> inline Ptr device(const std::vector<T> &data) {
    Ptr p;
    cu("cuMemAlloc_v2", &p, data.size() * sizeof(T));
    cu("cuMemcpyHtoDAsync_v2", p, (const void *)data.data(), data.size() * sizeof(T), stream);
    return p;
}
template <class T> inline std::vector<T> back(Ptr p, size_t count) {
    std::vector<T> out(count);
    cu("cuMemcpyDtoHAsync_v2", (void *)out.data(), p, count * sizeof(T), stream);
    cu("cuStreamSynchronize", stream);
    return out;
}

inline void compare(const char *what, const std::vector<float> &got, const std::vector<float> &want, float limit) {
    float worst = 0;
    for (size_t i = 0; i < want.size(); i++)
        worst = std::fmax(worst, got[i] == got[i] ? std::fabs(got[i] - want[i]) : INFINITY);
    bool good = worst <= limit;
    failures += !good;
    printf("%-44s %s, worst difference %g\n", what, good ? "good" : "WRONG", worst);
}

inline std::vector<float> numbers(size_t count, unsigned seed) {
    std::vector<float> out(count);
    for (float &f : out) {
        seed = seed * 1664525 + 1013904223;
        f = float(int(seed >> 20) - 2048) / 1024;
    }
    return out;
}
// Opens the two libraries and makes a stream.
inline void open_libraries() {
    cuda = dlopen("libcuda.so", RTLD_LAZY | RTLD_LOCAL);
    nvrtc = dlopen("libnvrtc.so", RTLD_LAZY | RTLD_LOCAL);
    if (!cuda || !nvrtc) {
        printf("%s\n", dlerror());
        exit(1);
    }
    cu("cuInit", 0u);
    cu("cuStreamCreate", &stream, 1u);
}

inline int verdict() {
    printf(failures ? "%d failed\n" : "all good\n", failures);
    return failures != 0;
}
