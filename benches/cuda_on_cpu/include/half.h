// `__half` and `__half2`. Sums and products are made in `float` and rounded,
// which gives what one rounding of the exact result gives.
#pragma once

struct __half_raw {
    unsigned short x;
};

struct __half {
    _Float16 v;
    __half() = default;
    __half(float f) : v(_Float16(f)) {}
    __half(double f) : v(_Float16(f)) {}
    __half(int i) : v(_Float16(double(i))) {}
    __half(unsigned i) : v(_Float16(double(i))) {}
    __half(long i) : v(_Float16(double(i))) {}
    __half(unsigned long i) : v(_Float16(double(i))) {}
    __half(long long i) : v(_Float16(double(i))) {}
    __half(unsigned long long i) : v(_Float16(double(i))) {}
    __half(__half_raw raw) { memcpy(&v, &raw, 2); }
    operator float() const { return float(v); }
};
typedef __half half;

struct alignas(4) __half2 {
    __half x, y;
    __half2() = default;
    __half2(__half a, __half b) : x(a), y(b) {}
};
typedef __half2 half2;

// The operators and functions that both kinds of 16-bit numbers have: S is the
// scalar, V the pair.
#define EMU_16_OPERATOR(S, V, O)                                                  \
    inline S operator O(S a, S b) { return S(float(a) O float(b)); }              \
    inline V operator O(V a, V b) { return V(a.x O b.x, a.y O b.y); }             \
    inline S &operator O##=(S &a, S b) { return a = a O b; }                      \
    inline V &operator O##=(V &a, V b) { return a = a O b; }
#define EMU_16_COMPARISON(S, O)                                                   \
    inline bool operator O(S a, S b) { return float(a) O float(b); }
#define EMU_16_UNARY(S, V, NAME, NAME2, EXPRESSION)                               \
    inline S NAME(S h) { float a = float(h); return S(EXPRESSION); }              \
    inline V NAME2(V h) { return V(NAME(h.x), NAME(h.y)); }
#define EMU_16_BINARY(S, V, NAME, NAME2, EXPRESSION)                              \
    inline S NAME(S g, S h) { float a = float(g), b = float(h); return S(EXPRESSION); } \
    inline V NAME2(V g, V h) { return V(NAME(g.x, h.x), NAME(g.y, h.y)); }

#define EMU_16(S, V)                                                              \
    EMU_16_OPERATOR(S, V, +)                                                      \
    EMU_16_OPERATOR(S, V, -)                                                      \
    EMU_16_OPERATOR(S, V, *)                                                      \
    EMU_16_OPERATOR(S, V, /)                                                      \
    EMU_16_COMPARISON(S, ==)                                                      \
    EMU_16_COMPARISON(S, !=)                                                      \
    EMU_16_COMPARISON(S, <)                                                       \
    EMU_16_COMPARISON(S, <=)                                                      \
    EMU_16_COMPARISON(S, >)                                                       \
    EMU_16_COMPARISON(S, >=)                                                      \
    inline S operator-(S a) { return S(-float(a)); }                              \
    inline V operator-(V a) { return V(-a.x, -a.y); }                             \
    EMU_16_UNARY(S, V, hexp, h2exp, ::expf(a))                                    \
    EMU_16_UNARY(S, V, hexp2, h2exp2, ::exp2f(a))                                 \
    EMU_16_UNARY(S, V, hlog, h2log, ::logf(a))                                    \
    EMU_16_UNARY(S, V, hlog2, h2log2, ::log2f(a))                                 \
    EMU_16_UNARY(S, V, hsin, h2sin, ::sinf(a))                                    \
    EMU_16_UNARY(S, V, hcos, h2cos, ::cosf(a))                                    \
    EMU_16_UNARY(S, V, htanh, h2tanh, ::tanhf(a))                                 \
    EMU_16_UNARY(S, V, hsqrt, h2sqrt, ::sqrtf(a))                                 \
    EMU_16_UNARY(S, V, hrsqrt, h2rsqrt, float(1.0 / ::sqrt(double(a))))           \
    EMU_16_UNARY(S, V, hrcp, h2rcp, 1.0f / a)                                     \
    EMU_16_UNARY(S, V, hceil, h2ceil, ::ceilf(a))                                 \
    EMU_16_UNARY(S, V, hfloor, h2floor, ::floorf(a))                              \
    EMU_16_UNARY(S, V, htrunc, h2trunc, ::truncf(a))                              \
    EMU_16_UNARY(S, V, hrint, h2rint, ::rintf(a))                                 \
    EMU_16_UNARY(S, V, __habs, __habs2, ::fabsf(a))                               \
    EMU_16_UNARY(S, V, __hneg, __hneg2, -a)                                       \
    EMU_16_BINARY(S, V, __hadd, __hadd2, a + b)                                   \
    EMU_16_BINARY(S, V, __hsub, __hsub2, a - b)                                   \
    EMU_16_BINARY(S, V, __hmul, __hmul2, a * b)                                   \
    EMU_16_BINARY(S, V, __hdiv, __h2div, a / b)                                   \
    EMU_16_BINARY(S, V, __hmin, __hmin2, ::fminf(a, b))                           \
    EMU_16_BINARY(S, V, __hmax, __hmax2, ::fmaxf(a, b))                           \
    EMU_16_BINARY(S, V, __hmin_nan, __hmin2_nan, a != a || b != b ? NAN : ::fminf(a, b)) \
    EMU_16_BINARY(S, V, __hmax_nan, __hmax2_nan, a != a || b != b ? NAN : ::fmaxf(a, b)) \
    inline bool __hisnan(S a) { return float(a) != float(a); }                    \
    inline int __hisinf(S h) { float a = float(h); return a == INFINITY ? 1 : a == -INFINITY ? -1 : 0; } \
    inline V __h2isnan(V a) { return V(S(int(__hisnan(a.x))), S(int(__hisnan(a.y)))); } \
    inline S __hfma(S a, S b, S c) {                                              \
        return S(double(float(a)) * double(float(b)) + double(float(c)));         \
    }                                                                             \
    inline V __hfma2(V a, V b, V c) { return V(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); }

EMU_16(__half, __half2)

inline __half __float2half(float f) { return __half(f); }
inline __half __float2half_rn(float f) { return __half(f); }
inline float __half2float(__half h) { return float(h); }
inline __half2 __floats2half2_rn(float a, float b) { return __half2(__half(a), __half(b)); }
inline __half2 __halves2half2(__half a, __half b) { return __half2(a, b); }
inline __half2 __half2half2(__half a) { return __half2(a, a); }
inline __half __low2half(__half2 a) { return a.x; }
inline __half __high2half(__half2 a) { return a.y; }
inline float2 __half22float2(__half2 a) { return {float(a.x), float(a.y)}; }
inline unsigned short __half_as_ushort(__half h) {
    unsigned short bits;
    memcpy(&bits, &h, 2);
    return bits;
}
inline __half __ushort_as_half(unsigned short bits) { return __half(__half_raw{bits}); }
