// cuda::barrier and copies into shared memory, which are done at once.
#pragma once

namespace cuda {

enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };

template <thread_scope Scope> class barrier {
    unsigned short expected, pending;
    unsigned phase;

  public:
    typedef unsigned arrival_token;
    friend void init(barrier *b, unsigned count) {
        b->expected = b->pending = (unsigned short)count;
        b->phase = 0;
    }
    arrival_token arrive(unsigned count = 1) {
        unsigned now = phase;
        pending = (unsigned short)(pending - count);
        if (pending == 0) {
            pending = expected;
            phase++;
        }
        return now;
    }
    void wait(arrival_token token) {
        while (*const_cast<volatile unsigned *>(&phase) == token)
            emu_poll();
    }
    void wait_parity(bool parity) {
        while ((*const_cast<volatile unsigned *>(&phase) & 1) == unsigned(parity))
            emu_poll();
    }
    void arrive_and_wait() { wait(arrive()); }
};

template <class B> inline void memcpy_async(void *to, const void *from, size_t size, B &) {
    memcpy(to, from, size);
}

namespace device {
template <class B> inline unsigned long *barrier_native_handle(B &b) {
    return reinterpret_cast<unsigned long *>(&b);
}
} // namespace device
} // namespace cuda

namespace cooperative_groups {
struct thread_block {};
inline thread_block this_thread_block() { return {}; }
} // namespace cooperative_groups

namespace cuda {
// The block copies together: one thread does it for all.
template <class B>
inline void memcpy_async(cooperative_groups::thread_block, void *to, const void *from, size_t size, B &) {
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0)
        memcpy(to, from, size);
}
} // namespace cuda
