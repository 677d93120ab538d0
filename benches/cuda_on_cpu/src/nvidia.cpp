// NVIDIA's own NVRTC beside the stand-in: says whether a kernel's source also
// compiles for real GPUs, and keeps the PTX.
#include "source.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

namespace {

// The functions of NVRTC that are used here.
struct Nvrtc {
    int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *);
    int (*compile)(void *, int, const char *const *);
    int (*log_size)(void *, size_t *);
    int (*log)(void *, char *);
    int (*ptx_size)(void *, size_t *);
    int (*ptx)(void *, char *);
    int (*destroy)(void **);

    explicit Nvrtc(const char *path) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!library)
            stop(dlerror());
        auto find = [&](auto &function, const char *name) {
            function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
            if (!function)
                stop(name);
        };
        find(create, "nvrtcCreateProgram");
        find(compile, "nvrtcCompileProgram");
        find(log_size, "nvrtcGetProgramLogSize");
        find(log, "nvrtcGetProgramLog");
        find(ptx_size, "nvrtcGetPTXSize");
        find(ptx, "nvrtcGetPTX");
        find(destroy, "nvrtcDestroyProgram");
    }

    [[noreturn]] static void stop(const char *why) {
        fprintf(stderr, "cuda_on_cpu: CUDA_ON_CPU_NVRTC: %s\n", why);
        exit(2);
    }
};

// Writes the PTX to `file`. Returns the compiler's log where it does not compile.
std::string compile(const Nvrtc &nvrtc, const std::string &source, const std::string &arch,
                    const std::string &file) {
    std::string target = "--gpu-architecture=sm_" + arch;
    std::vector<std::string> folders;
    std::stringstream list(getenv("CUDA_ON_CPU_HEADERS") ? getenv("CUDA_ON_CPU_HEADERS") : "");
    for (std::string folder; getline(list, folder, ':');)
        folders.push_back("--include-path=" + folder);
    std::vector<const char *> options = {target.c_str(), "-lineinfo"};
    for (const std::string &folder : folders)
        options.push_back(folder.c_str());

    void *program = nullptr;
    if (nvrtc.create(&program, source.c_str(), nullptr, 0, nullptr, nullptr))
        return "NVRTC makes no program";
    int status = nvrtc.compile(program, int(options.size()), options.data());
    size_t size = 0;
    std::string text;
    if (status) {
        nvrtc.log_size(program, &size);
        text.resize(size);
        nvrtc.log(program, text.data());
        text = "NVRTC for sm_" + arch + ": " + text.c_str();
    } else {
        nvrtc.ptx_size(program, &size);
        std::string ptx(size, 0);
        nvrtc.ptx(program, ptx.data());
        std::string own = file + "." + std::to_string(getpid());
        std::ofstream(own) << ptx.c_str();
        rename(own.c_str(), file.c_str());
    }
    nvrtc.destroy(&program);
    return text;
}

} // namespace

std::string refused_by_nvidia(const std::string &source, const std::string &base) {
    const char *path = getenv("CUDA_ON_CPU_NVRTC");
    if (!path)
        return "";
    static const Nvrtc nvrtc(path);
    std::stringstream list(getenv("CUDA_ON_CPU_NVRTC_SM") ? getenv("CUDA_ON_CPU_NVRTC_SM") : "80 90a");
    for (std::string arch; list >> arch;) {
        std::string file = base + ".sm_" + arch + ".ptx";
        if (access(file.c_str(), R_OK) == 0)
            continue;
        std::string log = compile(nvrtc, source, arch, file);
        if (!log.empty()) {
            fprintf(stderr, "cuda_on_cpu: %s.cu\n%s\n", base.c_str(), log.c_str());
            std::ofstream(base + ".cu") << source;
            return log;
        }
    }
    return "";
}
