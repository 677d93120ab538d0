// The stand-in for NVRTC: compiles a kernel's source with g++ to a library that
// the stand-in for the driver loads. What was compiled once is kept in a folder
// under the hash of what was compiled.
#include "source.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

namespace {

enum { SUCCESS = 0, INVALID_INPUT = 3, COMPILATION = 6 };

struct Program {
    std::string source, ptx, log;
};

std::string read_file(const std::string &path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

// The folder that this library is in.
std::string home() {
    Dl_info info;
    dladdr(reinterpret_cast<void *>(&read_file), &info);
    char *real = realpath(info.dli_fname, nullptr);
    std::string path = real ? real : info.dli_fname;
    free(real);
    return path.substr(0, path.rfind('/'));
}

std::string hash(const std::string &text) {
    unsigned long long a = 0xcbf29ce484222325, b = 0x9e3779b97f4a7c15;
    for (unsigned char c : text) {
        a = (a ^ c) * 0x100000001b3;
        b = (b + c) * 0xff51afd7ed558ccd;
        b ^= b >> 29;
    }
    char out[40];
    snprintf(out, sizeof out, "%016llx%016llx", a, b);
    return out;
}

unsigned arch_of(int count, const char *const *options) {
    for (int i = 0; i < count; i++)
        if (const char *sm = strstr(options[i], "sm_"))
            return atoi(sm + 3) * 10;
    return 700;
}

bool exists(const std::string &path) { return access(path.c_str(), R_OK) == 0; }

int compile(Program &program, unsigned arch) {
    static const std::string folder = home();
    static const std::string flags = read_file(folder + "/flags");
    const char *wish = getenv("CUDA_ON_CPU_CACHE");
    std::string cache = wish ? wish : folder + "/kernels";
    mkdir(cache.c_str(), 0777);
    std::string source = host_source(program.source, arch);
    std::string base = cache + "/" + hash(flags + source), library = base + ".so";
    program.ptx = "// cuda_on_cpu\n" + library + "\n";
    program.log = refused_by_nvidia(program.source, base);
    if (!program.log.empty())
        return COMPILATION;
    if (exists(library))
        return SUCCESS;

    std::string own = base + "." + std::to_string(getpid());
    std::ofstream(own + ".cpp") << source;
    // The flags are those that prelude.h was compiled ahead with.
    std::string command = "g++ -include " + folder + "/include/prelude.h " + flags + " -I" +
                          folder + "/include -shared -x c++ " + own + ".cpp -o " + own +
                          ".so -L" + folder + " -l:libcuda.so.1 > " + own + ".log 2>&1";
    for (char &c : command)
        if (c == '\n')
            c = ' ';
    auto begin = std::chrono::steady_clock::now();
    int status = system(command.c_str());
    std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    program.log = read_file(own + ".log");
    rename((own + ".cpp").c_str(), (base + ".cpp").c_str());
    rename((own + ".log").c_str(), (base + ".log").c_str());
    if (getenv("CUDA_ON_CPU_TRACE"))
        fprintf(stderr, "compile %s.cpp: %.2f s%s\n", base.c_str(), time.count(),
                status ? ", FAILED" : "");
    if (status != 0)
        return COMPILATION;
    rename((own + ".so").c_str(), library.c_str());
    return SUCCESS;
}

} // namespace

API int nvrtcVersion(int *major, int *minor) { return *major = 13, *minor = 4, SUCCESS; }
API const char *nvrtcGetErrorString(int code) {
    return code == SUCCESS ? "NVRTC_SUCCESS" : "NVRTC_ERROR_COMPILATION";
}
API int nvrtcCreateProgram(Program **out, const char *source, const char *, int,
                           const char *const *, const char *const *) {
    if (!source)
        return INVALID_INPUT;
    return *out = new Program{source, "", ""}, SUCCESS;
}
API int nvrtcDestroyProgram(Program **program) {
    delete *program;
    return *program = nullptr, SUCCESS;
}
API int nvrtcCompileProgram(Program *program, int count, const char *const *options) {
    return compile(*program, arch_of(count, options));
}
// Sizes have room for the zero at the end.
API int nvrtcGetPTXSize(Program *program, size_t *size) {
    return *size = program->ptx.size() + 1, SUCCESS;
}
API int nvrtcGetPTX(Program *program, char *out) {
    return memcpy(out, program->ptx.c_str(), program->ptx.size() + 1), SUCCESS;
}
API int nvrtcGetProgramLogSize(Program *program, size_t *size) {
    return *size = program->log.size() + 1, SUCCESS;
}
API int nvrtcGetProgramLog(Program *program, char *out) {
    return memcpy(out, program->log.c_str(), program->log.size() + 1), SUCCESS;
}
