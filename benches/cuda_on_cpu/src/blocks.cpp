// Shares the blocks of a kernel out to the host's threads.
#include "exec.h"

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace {

// The host's threads that help the one that launches.
struct Helpers {
    std::mutex lock;
    std::condition_variable wake, rest;
    const Launch *launch = nullptr;
    std::atomic<unsigned long> next_block{0};
    unsigned long ticket = 0;
    unsigned busy = 0, count = 0;

    Helpers() {
        const char *wish = getenv("CUDA_ON_CPU_THREADS");
        unsigned threads = wish ? atoi(wish) : std::thread::hardware_concurrency();
        for (; count + 1 < threads; count++)
            std::thread([this] { work(); }).detach();
    }
    void work() {
        unsigned long seen = 0;
        std::unique_lock<std::mutex> held(lock);
        for (;;) {
            wake.wait(held, [&] { return ticket != seen; });
            seen = ticket;
            const Launch *l = launch;
            held.unlock();
            run_blocks(*l, next_block);
            held.lock();
            if (--busy == 0)
                rest.notify_all();
        }
    }
};

} // namespace

void run_kernel(const Launch &launch) {
    static std::mutex one_at_a_time;
    static Helpers *helpers = new Helpers;
    std::lock_guard<std::mutex> turn(one_at_a_time);
    helpers->next_block = 0;
    unsigned long blocks = 1ul * launch.grid.x * launch.grid.y * launch.grid.z;
    unsigned long threads = blocks * launch.block.x * launch.block.y * launch.block.z;
    if (helpers->count == 0 || blocks < 2 || threads < 2048) {
        run_blocks(launch, helpers->next_block);
        return;
    }
    {
        std::lock_guard<std::mutex> held(helpers->lock);
        helpers->launch = &launch;
        helpers->busy = helpers->count;
        helpers->ticket++;
    }
    helpers->wake.notify_all();
    run_blocks(launch, helpers->next_block);
    std::unique_lock<std::mutex> held(helpers->lock);
    helpers->rest.wait(held, [&] { return helpers->busy == 0; });
}
