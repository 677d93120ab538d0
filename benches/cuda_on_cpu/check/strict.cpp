// Mistakes that a GPU forgives now and then: with
// CUDA_ON_CPU_STRICT="late backward poison" each one shows.
#include "check.h"

static const char *FILL = R"(
extern "C" __global__ void fill(float *out, float value) { out[threadIdx.x] = value; })";

static const char *NEIGHBOURS = R"(
extern "C" __global__ void neighbours(float *out) {
  extern __shared__ __align__(16) char block[];
  float *part = reinterpret_cast<float *>(&block[0]);
  int t = threadIdx.x;
  part[t] = float(t);
  out[t] = part[t == 0 ? 0 : t - 1];
})";

static void expect(const char *what, bool good) {
    failures += !good;
    printf("%-60s %s\n", what, good ? "good" : "WRONG");
}

// What a second stream copies of what a first one writes, with and without a wait between them.
static float other_stream(bool wait) {
    void *f = kernel(FILL, "fill"), *second, *event;
    cu("cuStreamCreate", &second, 1u);
    cu("cuEventCreate", &event, 0u);
    float value = 7, got = 0;
    Ptr p = device(std::vector<float>(1, 1.0f));
    cu("cuStreamSynchronize", stream);
    launch(f, 1, 1, 0, {&p, &value});
    cu("cuEventRecord", event, stream);
    if (wait)
        cu("cuStreamWaitEvent", second, event, 0u);
    cu("cuMemcpyDtoHAsync_v2", (void *)&got, p, sizeof got, second);
    cu("cuStreamSynchronize", second);
    return got;
}

static float pinned_source_changed() {
    float *source, got = 0;
    cu("cuMemAllocHost_v2", (void **)&source, sizeof(float));
    *source = 1;
    Ptr p = device(std::vector<float>(1));
    cu("cuMemcpyHtoDAsync_v2", p, (const void *)source, sizeof(float), stream);
    *source = 2;
    cu("cuMemcpyDtoHAsync_v2", (void *)&got, p, sizeof got, stream);
    return got;
}

static void races() {
    void *f = kernel(NEIGHBOURS, "neighbours");
    Ptr p = device(std::vector<float>(64));
    launch(f, 1, 64, 256, {&p});
    auto got = back<float>(p, 64);
    expect("lanes that read what others have not written", got[5] != got[5] && got[63] != got[63]);
    expect("warps that read what others have not written", got[32] != got[32]);
}

static void new_memory() {
    Ptr p;
    cu("cuMemAlloc_v2", &p, sizeof(float));
    float got = back<float>(p, 1)[0];
    expect("memory that nothing was written to", got != got);
}

static void captures() {
    void *f = kernel(FILL, "fill"), *graph;
    float value = 1;
    Ptr p = device(std::vector<float>(1)), q = 0;
    cu("cuStreamBeginCapture_v2", stream, 0);
    launch(f, 1, 1, 0, {&p, &value});
    int refused = call(cuda, "cuMemAlloc_v2", &q, sizeof(float));
    int ended = call(cuda, "cuStreamEndCapture", stream, &graph);
    expect("an allocation within a capture", refused == 900 && ended == 901 && !graph);
}

static void shared_memory() {
    void *f = kernel(NEIGHBOURS, "neighbours");
    Ptr p = device(std::vector<float>(64));
    std::vector<void *> params = {&p};
    auto ask = [&] {
        return call(cuda, "cuLaunchKernel", f, 1u, 1u, 1u, 64u, 1u, 1u, 64u * 1024, stream, params.data(),
                    (void **)nullptr);
    };
    bool before = ask() != 0;
    cu("cuFuncSetAttribute", f, 8, 64 * 1024);
    expect("more shared memory than was asked for", before && ask() == 0);
}

int main() {
    open_libraries();
    expect("a stream that waits for another one", other_stream(true) == 7);
    expect("a stream that does not", other_stream(false) == 1);
    expect("pinned memory that is changed before it was copied", pinned_source_changed() == 2);
    races();
    new_memory();
    captures();
    shared_memory();
    return verdict();
}
