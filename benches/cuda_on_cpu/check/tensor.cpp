// Products of small matrices by a warp.
#include "check.h"

static unsigned short half_bits(float f) {
    _Float16 h = _Float16(f);
    unsigned short bits;
    memcpy(&bits, &h, 2);
    return bits;
}

static std::vector<float> product(const std::vector<float> &a, const std::vector<float> &b, int m, int n, int k) {
    std::vector<float> c(m * n);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            for (int l = 0; l < k; l++)
                c[i * n + j] += a[i * k + l] * b[l * n + j];
    return c;
}

// One product of fragments: a by rows, b by columns, and the accumulator loaded
// by columns and stored by rows.
static void tensor(int m, int n, int k, const char *type, const char *kind, float limit) {
    auto s = [](int i) { return std::to_string(i); };
    std::string shape = s(m) + ", " + s(n) + ", " + s(k) + ", ";
    void *f = kernel(R"(
#include <mma.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
using namespace nvcuda;
extern "C" __global__ void tile(const float *a, const float *b, const float *c, float *d) {
  extern __shared__ __align__(16) char block[];
  typedef )" + std::string(type) + R"( T;
  constexpr bool whole = sizeof(T) == 1;
  typedef std::conditional_t<whole, int, float> S;
  constexpr int M = )" + s(m) + ", N = " + s(n) + ", K = " + s(k) + R"(;
  T *ta = (T *)block, *tb = ta + M * K;
  S *tc = (S *)(tb + K * N);
  for (int i = threadIdx.x; i < M * K; i += 32) ta[i] = T(a[i]);
  for (int i = threadIdx.x; i < K * N; i += 32) tb[i % N * K + i / N] = T(b[i]);
  for (int i = threadIdx.x; i < M * N; i += 32) tc[i % N * M + i / N] = S(c[i]);
  __syncwarp();
  wmma::fragment<wmma::matrix_a, )" + shape + kind + R"(, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, )" + shape + kind + R"(, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, )" + shape + R"( S> fc;
  wmma::load_matrix_sync(fa, ta, K);
  wmma::load_matrix_sync(fb, tb, K);
  wmma::load_matrix_sync(fc, tc, M, wmma::mem_col_major);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(tc, fc, N, wmma::mem_row_major);
  for (int i = threadIdx.x; i < M * N; i += 32) d[i] = tc[i];
})", "tile");
    auto a = numbers(m * k, 5), b = numbers(k * n, 6), c = numbers(m * n, 7);
    if (std::string(kind).find("char") != std::string::npos)
        for (auto *v : {&a, &b, &c})
            for (float &x : *v)
                x = std::round(x * 10) + (kind[0] == 'u' ? 40 : 0);
    Ptr pa = device(a), pb = device(b), pc = device(c), pd = device(std::vector<float>(m * n));
    launch(f, 1, 32, 8192, {&pa, &pb, &pc, &pd});
    auto want = product(a, b, m, n, k);
    for (int i = 0; i < m * n; i++)
        want[i] += c[i];
    std::string what = "wmma " + s(m) + " x " + s(n) + " x " + s(k) + ", " + kind;
    compare(what.c_str(), back<float>(pd, m * n), want, limit);
}

static void ptx() {
    void *f = kernel(R"(
typedef unsigned int uint32_t;
struct alignas(16) uint32_t_4 { uint32_t i_0; uint32_t i_1; uint32_t i_2; uint32_t i_3; };
struct alignas(8) uint32_t_2 { uint32_t i_0; uint32_t i_1; };
struct alignas(16) float_4 { float i_0; float i_1; float i_2; float i_3; };
extern "C" __global__ void instructions(const unsigned short *a, const unsigned short *b, float *c, float *sum) {
extern __shared__ __align__(16) char block[];
unsigned short *sa = (unsigned short *)block, *sb = sa + 256;
int l = threadIdx.x;
uint32_t const to = __cvta_generic_to_shared(sa + 8 * l); const unsigned short *from = a + 8 * l;
asm volatile("cp.async.cg.shared::cta.global [%0], [%1], 16, 16;" :  : "r"(to), "l"(from) : "memory");
for (int i = l; i < 128; i += 32) sb[i] = b[i];
__syncwarp();
uint32_t const pa = __cvta_generic_to_shared(sa + l % 16 * 16 + l / 16 * 8);
uint32_t const pb = __cvta_generic_to_shared(sb + l % 16 * 8);
uint32_t_4 const fa = [&]{
uint32_t_4 result;
asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16 {%0, %1, %2, %3}, [%4];" : "=r"(result.i_0), "=r"(result.i_1), "=r"(result.i_2), "=r"(result.i_3) : "r"(pa) : "memory");
return result;
}();
uint32_t_2 const fb = [&]{
uint32_t_2 result;
asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 {%0, %1}, [%2];" : "=r"(result.i_0), "=r"(result.i_1) : "r"(pb) : "memory");
return result;
}();
float_4 const fc = {0, 0, 0, 0};
float_4 const d = [&]{
float_4 result;
asm ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};" : "=f"(result.i_0), "=f"(result.i_1), "=f"(result.i_2), "=f"(result.i_3) : "r"(fa.i_0), "r"(fa.i_1), "r"(fa.i_2), "r"(fa.i_3), "r"(fb.i_0), "r"(fb.i_1), "f"(fc.i_0), "f"(fc.i_1), "f"(fc.i_2), "f"(fc.i_3) );
return result;
}();
int g = l / 4, t = l % 4;
c[g * 8 + 2 * t] = d.i_0; c[g * 8 + 2 * t + 1] = d.i_1;
c[(g + 8) * 8 + 2 * t] = d.i_2; c[(g + 8) * 8 + 2 * t + 1] = d.i_3;
float const old = [&]{
float result;
asm volatile("{\n\tatom.relaxed.add.f32 %0, [%1], %2;\n\t}" : "=f"(result) : "l"(sum), "f"(1.5f) );
return result;
}();
})", "instructions");
    auto a = numbers(256, 7), b = numbers(128, 8);
    std::vector<unsigned short> ha(256), hb(128);
    for (int i = 0; i < 256; i++)
        ha[i] = half_bits(a[i]);
    for (int i = 0; i < 128; i++)
        hb[i] = half_bits(b[i]);
    Ptr pa = device(ha), pb = device(hb), pc = device(std::vector<float>(128)), sum = device(std::vector<float>(1));
    launch(f, 1, 32, 1024, {&pa, &pb, &pc, &sum});
    compare("cp.async, ldmatrix and mma.m16n8k16", back<float>(pc, 128), product(a, b, 16, 8, 16), 0.05f);
    compare("atom.add of 32 lanes", back<float>(sum, 1), {48}, 0);
}

int main() {
    open_libraries();
    tensor(16, 16, 16, "__half", "__half", 1e-5f);
    tensor(32, 8, 16, "__half", "__half", 1e-5f);
    tensor(8, 32, 16, "__nv_bfloat16", "__nv_bfloat16", 0.1f);
    tensor(16, 16, 8, "float", "wmma::precision::tf32", 0.01f);
    tensor(16, 16, 16, "signed char", "signed char", 0);
    tensor(32, 8, 16, "unsigned char", "unsigned char", 0);
    ptx();
    return verdict();
}
