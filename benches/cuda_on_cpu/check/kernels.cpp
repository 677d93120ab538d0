// Blocks, warps, barriers and graphs.
#include "check.h"

static void vector_add() {
    void *f = kernel(R"(
typedef unsigned int uint32_t;
typedef unsigned long long int uint64_t;
struct alignas(16) float_4 { float i_0; float i_1; float i_2; float i_3; };
struct info_st { uint32_t scalars_u32[2]; uint64_t static_meta[3]; };
extern "C" __global__ void __launch_bounds__(256) add(float_4 const* const __restrict__ a,
    float_4 const* const __restrict__ b, float_4* const __restrict__ c, __grid_constant__ info_st const info) {
  uint32_t const i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= info.scalars_u32[1]) { return; }
  float_4 const x = a[i], y = b[i];
  c[i] = float_4{x.i_0 + y.i_0, x.i_1 + y.i_1, x.i_2 + y.i_2, x.i_3 + y.i_3};
})", "add");
    size_t n = 100'000;
    auto a = numbers(n, 1), b = numbers(n, 2);
    Ptr pa = device(a), pb = device(b), pc = device(std::vector<float>(n));
    struct { unsigned scalars[2]; unsigned long long meta[3]; } info = {{0, unsigned(n / 4)}, {}};
    launch(f, (n / 4 + 255) / 256, 256, 0, {&pa, &pb, &pc, &info});
    std::vector<float> want(n);
    for (size_t i = 0; i < n; i++)
        want[i] = a[i] + b[i];
    compare("vectors added, some threads beyond the end", back<float>(pc, n), want, 0);
}

static void reduction() {
    void *f = kernel(R"(
extern "C" __global__ void sums(const float *in, float *out, int n) {
  extern __shared__ __align__(16) char block[];
  float *part = reinterpret_cast<float *>(&block[64]);
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  part[t] = i < n ? in[i] : 0.0f;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s /= 2) {
    if (t < s) part[t] += part[t + s];
    __syncthreads();
  }
  if (t != 0) return;
  out[blockIdx.x] = part[0];
})", "sums");
    int n = 50'000, blocks = (n + 255) / 256;
    auto a = numbers(n, 3);
    Ptr pa = device(a), out = device(std::vector<float>(blocks));
    launch(f, blocks, 256, 64 + 1024, {&pa, &out, &n});
    std::vector<float> want(blocks);
    for (int i = 0; i < n; i++)
        want[i / 256] += a[i];
    compare("sums of blocks in shared memory", back<float>(out, blocks), want, 1e-4f);
}

static void warp_sums() {
    void *f = kernel(R"(
extern "C" __global__ void warps(const float *in, float *out, unsigned *masks) {
  int t = threadIdx.x;
  float v = in[t], w = v;
  for (int s = 16; s > 0; s /= 2)
    v += __shfl_xor_sync(__activemask(), v, s);
  // The two halves of a warp go apart and come together again.
  if (t % 32 < 16) {
    for (int s = 8; s > 0; s /= 2)
      w += __shfl_down_sync(__activemask(), w, s);
    masks[t] = __activemask();
  } else {
    w = -1.0f;
    masks[t] = __activemask();
  }
  w = __shfl_sync(__activemask(), w, 0);
  out[2 * t] = v;
  out[2 * t + 1] = w + (__all_sync(__activemask(), t >= 0) ? 0.0f : 100.0f)
      + (__ballot_sync(__activemask(), t % 2) == 0xaaaaaaaau ? 0.0f : 100.0f);
})", "warps");
    auto a = numbers(64, 4);
    Ptr pa = device(a), out = device(std::vector<float>(128)), masks = device(std::vector<unsigned>(64));
    launch(f, 1, 64, 0, {&pa, &out, &masks});
    std::vector<float> want(128), whole(2), half(2), mask_want(64), mask_got;
    for (int i = 0; i < 64; i++) {
        whole[i / 32] += a[i];
        half[i / 32] += i % 32 < 16 ? a[i] : 0;
        mask_want[i] = i % 32 < 16 ? 1 : 2;
    }
    for (int i = 0; i < 64; i++) {
        want[2 * i] = whole[i / 32];
        want[2 * i + 1] = half[i / 32];
    }
    compare("sums of warps, and of halves of warps", back<float>(out, 128), want, 1e-5f);
    for (unsigned m : back<unsigned>(masks, 64))
        mask_got.push_back(m == 0xffff ? 1 : m == 0xffff0000 ? 2 : 0);
    compare("active masks in the halves", mask_got, mask_want, 0);
}

// Every warp waits for the one before it with a barrier of its own, and the
// first for nobody.
static void barriers() {
    void *f = kernel(R"(
#include <cuda/barrier>
extern "C" __global__ void chain(float *out) {
  extern __shared__ __align__(16) char block[];
  auto *bars = reinterpret_cast<cuda::barrier<cuda::thread_scope_block> *>(block);
  float *sum = reinterpret_cast<float *>(block + 64);
  int warp = threadIdx.x / 32, last = blockDim.x / 32 - 1;
  if (threadIdx.x == 0) {
    for (int i = 0; i <= last; i++) init(&bars[i], 32);
    *sum = 0;
  }
  __syncthreads();
  int turn = last - warp;
  if (turn > 0) bars[turn - 1].wait_parity(false);
  float v = __shfl_up_sync(~0u, float(threadIdx.x), 1);
  if (threadIdx.x % 32 == 31) *sum = *sum * 2 + v;
  __syncwarp();
  bars[turn].arrive();
  __syncthreads();
  if (threadIdx.x == 5) out[0] = *sum;
})", "chain");
    Ptr out = device(std::vector<float>(1));
    launch(f, 1, 128, 256, {&out});
    float want = 0;
    for (int warp = 3; warp >= 0; warp--)
        want = want * 2 + float(warp * 32 + 30);
    compare("a chain of barriers", back<float>(out, 1), {want}, 0);
}

static void graph() {
    void *f = kernel(R"(
extern "C" __global__ void twice(float *a, float by) { a[threadIdx.x] *= by; })", "twice");
    Ptr a = device(std::vector<float>{1, 2, 3}), b = device(std::vector<float>{7, 7, 7});
    void *graph, *ready;
    float by = 2;
    cu("cuStreamBeginCapture_v2", stream, 0);
    launch(f, 1, 3, 0, {&a, &by});
    by = 100; // what was captured keeps its 2
    cu("cuMemcpyDtoDAsync_v2", b, a, size_t(12), stream);
    cu("cuStreamEndCapture", stream, &graph);
    cu("cuGraphInstantiateWithFlags", &ready, graph, 0ull);
    cu("cuGraphDestroy", graph);
    compare("a captured launch has not run", back<float>(b, 3), {7, 7, 7}, 0);
    cu("cuGraphLaunch", ready, stream);
    cu("cuGraphLaunch", ready, stream);
    compare("a graph launched twice", back<float>(b, 3), {4, 8, 12}, 0);
}

static void bad_source() {
    void *program;
    const char *source = "extern \"C\" __global__ void k(int *p) { asm(\"nonsense.op %0;\" : : \"l\"(p)); }";
    call(nvrtc, "nvrtcCreateProgram", &program, source, (const char *)nullptr, 0,
         (const char *const *)nullptr, (const char *const *)nullptr);
    int error = call(nvrtc, "nvrtcCompileProgram", program, 0, (const char *const *)nullptr);
    failures += error == 0;
    printf("%-44s %s\n", "an unknown instruction is refused", error ? "good" : "WRONG");
}

int main() {
    open_libraries();
    vector_add();
    reduction();
    warp_sums();
    barriers();
    graph();
    bad_source();
    return verdict();
}
