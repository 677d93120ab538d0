// Runs the blocks of a kernel on the host's threads, and the threads of a
// block as fibers.
//
// A warp's lanes run one after another until each has ended or waits. Then
// what they wait for is done: an operation of the warp first, and a barrier of
// the block when all warps have come to it. A thread that ends without having
// waited leaves its stack to the next one, so that a kernel without barriers
// costs no change of stacks.
#include "exec.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" {
EMU_TLS uint3 threadIdx;
EMU_TLS uint3 blockIdx;
EMU_TLS uint3 blockDim;
EMU_TLS uint3 gridDim;
EMU_TLS unsigned emu_lane;
EMU_TLS char *emu_shared;

// Keeps the registers that a function must preserve on the present stack,
// writes its top to `*from` and goes on with the stack whose top is `to`.
void emu_switch(void **from, void *to);
}
asm(R"(
.text
.globl emu_switch
.hidden emu_switch
.type emu_switch,@function
emu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emu_switch,.-emu_switch
)");

namespace {

constexpr unsigned WARP = 32;
constexpr size_t STACK = 128 * 1024;
const bool backward = strict("backward"), poison = strict("poison");

enum State : unsigned char { NEW, READY, IN_WARP_OP, AT_BARRIER, POLLING, DONE };

struct Fiber {
    void *top;
};

struct Lane {
    State state;
    unsigned site;
    EmuWarpOp op;
    void *arg;
    Fiber *fiber;
};

// What one of the host's threads needs to run blocks.
struct Worker {
    Lane lanes[MAX_THREADS];
    uint3 index[MAX_THREADS];
    // The lane that runs at each place: in their order, or backward in each warp.
    unsigned lane_at[MAX_THREADS];
    uint3 index_of = {0, 0, 0};
    std::vector<Fiber *> free;
    char *shared = nullptr;
    void *scheduler = nullptr;
    const Launch *launch = nullptr;
    // The thread that runs, and the end of its warp.
    unsigned cursor = 0, warp_end = 0;
    unsigned live = 0;
    // The fiber that has just run out of threads.
    Fiber *idle = nullptr;
};

__thread __attribute__((tls_model("initial-exec"))) Worker *worker;

void enter(Worker *w, unsigned t) {
    w->cursor = t;
    threadIdx = w->index[t];
    emu_lane = w->lane_at[t];
}

// The first function on a fiber's stack: runs new threads of the warp.
void fiber_main() {
    Worker *w = worker;
    Fiber *self = w->lanes[w->cursor].fiber;
    for (;;) {
        w->launch->kernel->run(w->launch->params);
        unsigned t = w->cursor;
        w->lanes[t].state = DONE;
        w->live--;
        unsigned next = t + 1;
        if (next < w->warp_end && w->lanes[next].state == NEW) {
            w->lanes[next].fiber = self;
            enter(w, next);
            continue;
        }
        w->idle = self;
        emu_switch(&self->top, w->scheduler);
        w = worker;
    }
}

Fiber *new_fiber() {
    static std::atomic<unsigned> count{0};
    char *base = static_cast<char *>(mmap(nullptr, STACK, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (base == MAP_FAILED) {
        perror("cuda_on_cpu: a stack");
        abort();
    }
    // A page that must not be touched, below the stack.
    mprotect(base, 4096, PROT_NONE);
    // Different stacks begin at different places in their pages, or they would
    // all want the same lines of the cache.
    size_t shift = (count++ % 64) * 192;
    void **top = reinterpret_cast<void **>(base + STACK - 64 - shift);
    *--top = nullptr;
    *--top = reinterpret_cast<void *>(&fiber_main);
    for (int i = 0; i < 6; i++)
        *--top = nullptr;
    Fiber *fiber = new Fiber;
    fiber->top = top;
    return fiber;
}

Fiber *fiber_for(Worker *w, Lane &lane) {
    if (lane.state == NEW) {
        if (w->free.empty()) {
            lane.fiber = new_fiber();
        } else {
            lane.fiber = w->free.back();
            w->free.pop_back();
        }
    }
    return lane.fiber;
}

// Puts the thread that runs into `state` and goes on with the next lane of the
// warp that can run, or with the scheduler.
void wait_in(State state) {
    Worker *w = worker;
    Lane &lane = w->lanes[w->cursor];
    lane.state = state;
    unsigned next = w->cursor + 1;
    if (next < w->warp_end && w->lanes[next].state <= READY) {
        Fiber *fiber = fiber_for(w, w->lanes[next]);
        enter(w, next);
        emu_switch(&lane.fiber->top, fiber->top);
    } else {
        emu_switch(&lane.fiber->top, w->scheduler);
    }
}

// Does the operation of the warp that waits at the earliest line. Says whether
// there was one.
bool do_warp_op(Worker *w, unsigned begin, unsigned end) {
    unsigned first = end;
    for (unsigned t = begin; t < end; t++)
        if (w->lanes[t].state == IN_WARP_OP &&
            (first == end || w->lanes[t].site < w->lanes[first].site))
            first = t;
    if (first == end)
        return false;
    void *args[WARP] = {};
    unsigned mask = 0;
    for (unsigned t = first; t < end; t++) {
        Lane &lane = w->lanes[t];
        if (lane.state == IN_WARP_OP && lane.site == w->lanes[first].site &&
            lane.op == w->lanes[first].op) {
            args[w->lane_at[t]] = lane.arg;
            mask |= 1u << w->lane_at[t];
            lane.state = READY;
        }
    }
    w->lanes[first].op(args, mask);
    return true;
}

bool polls(const Worker *w, unsigned begin, unsigned end) {
    for (unsigned t = begin; t < end; t++)
        if (w->lanes[t].state == POLLING)
            return true;
    return false;
}

// Runs the lanes of a warp until all have ended or wait for other warps. Lanes
// that wait for one which polls are left waiting, unless `hurry` is set.
void run_warp(Worker *w, unsigned begin, unsigned end, bool hurry) {
    w->warp_end = end;
    do {
        for (unsigned t = begin; t < end; t++) {
            Lane &lane = w->lanes[t];
            if (lane.state > READY)
                continue;
            Fiber *fiber = fiber_for(w, lane);
            enter(w, t);
            emu_switch(&w->scheduler, fiber->top);
            if (w->idle) {
                w->free.push_back(w->idle);
                w->idle = nullptr;
            }
            t = w->cursor;
        }
    } while ((hurry || !polls(w, begin, end)) && do_warp_op(w, begin, end));
}

void run_block(Worker *w, const Launch &launch, uint3 block) {
    unsigned threads = launch.block.x * launch.block.y * launch.block.z;
    unsigned warps = (threads + WARP - 1) / WARP;
    blockIdx = block;
    if (poison)
        memset(w->shared, 0xff, launch.shared);
    w->live = threads;
    for (unsigned t = 0; t < threads; t++)
        w->lanes[t].state = NEW;
    unsigned long rounds = 0;
    for (;;) {
        for (unsigned i = 0; i < warps; i++) {
            unsigned t = (backward ? warps - 1 - i : i) * WARP;
            run_warp(w, t, t + WARP < threads ? t + WARP : threads, rounds % 64 == 63);
        }
        if (w->live == 0)
            return;
        if (polls(w, 0, threads)) {
            for (unsigned t = 0; t < threads; t++)
                if (w->lanes[t].state == POLLING)
                    w->lanes[t].state = READY;
            if (++rounds > 50'000'000) {
                fprintf(stderr, "cuda_on_cpu: a block waits for something that does not come\n");
                abort();
            }
            continue;
        }
        for (unsigned t = 0; t < threads; t++)
            if (w->lanes[t].state == AT_BARRIER)
                w->lanes[t].state = READY;
    }
}

// Which thread of a block of the size `b` runs at which place.
void place_threads(Worker *w, uint3 b) {
    unsigned threads = b.x * b.y * b.z;
    for (unsigned t = 0; t < threads; t++) {
        unsigned begin = t / WARP * WARP, end = begin + WARP < threads ? begin + WARP : threads;
        unsigned thread = backward ? begin + end - 1 - t : t;
        w->lane_at[t] = thread % WARP;
        w->index[t] = {thread % b.x, thread / b.x % b.y, thread / b.x / b.y};
    }
}

} // namespace

extern "C" void emu_block_sync() { wait_in(AT_BARRIER); }

extern "C" void emu_warp_op(unsigned site, EmuWarpOp op, void *arg) {
    Lane &lane = worker->lanes[worker->cursor];
    lane.site = site;
    lane.op = op;
    lane.arg = arg;
    wait_in(IN_WARP_OP);
}

extern "C" void emu_poll() { wait_in(POLLING); }

void run_blocks(const Launch &launch, std::atomic<unsigned long> &next_block) {
    if (!worker) {
        worker = new Worker;
        worker->shared = static_cast<char *>(aligned_alloc(1024, 256 * 1024));
        memset(worker->shared, 0, 256 * 1024);
    }
    Worker *w = worker;
    w->launch = &launch;
    uint3 b = launch.block, g = launch.grid;
    if (memcmp(&w->index_of, &b, sizeof b) != 0) {
        w->index_of = b;
        place_threads(w, b);
    }
    blockDim = b;
    gridDim = g;
    emu_shared = w->shared;
    unsigned long total = 1ul * g.x * g.y * g.z;
    for (unsigned long n; (n = next_block++) < total;) {
        unsigned long i = backward ? total - 1 - n : n;
        run_block(w, launch,
                  {unsigned(i % g.x), unsigned(i / g.x % g.y), unsigned(i / g.x / g.y)});
    }
}
