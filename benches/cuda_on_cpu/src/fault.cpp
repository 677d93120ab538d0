// Says which thread of which kernel has touched memory that it may not touch, and which checks were asked for.
#include "driver.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

struct sigaction before[3];
bool told = false;
constexpr int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE};

void report(int signal, siginfo_t *info, void *) {
    if (running_kernel && !told) {
        told = true;
        char text[512];
        int size = snprintf(
            text, sizeof text,
            "cuda_on_cpu: signal %d at address %p in kernel %s, block (%u, %u, %u), thread (%u, %u, %u)\n",
            signal, info->si_addr, running_kernel, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x,
            threadIdx.y, threadIdx.z);
        if (write(2, text, size) < 0)
            abort();
        describe_address(reinterpret_cast<DevicePtr>(info->si_addr));
    }
    for (int i = 0; i < 3; i++)
        if (SIGNALS[i] == signal)
            sigaction(signal, &before[i], nullptr);
}

} // namespace

void watch_faults() {
    static bool done = [] {
        struct sigaction action = {};
        action.sa_sigaction = report;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        for (int i = 0; i < 3; i++)
            sigaction(SIGNALS[i], &action, &before[i]);
        return true;
    }();
    (void)done;
}

bool strict(const char *word) {
    const char *list = getenv("CUDA_ON_CPU_STRICT");
    if (!list)
        return false;
    std::string words = " " + std::string(list) + " ";
    return words.find(" " + std::string(word) + " ") != std::string::npos;
}
