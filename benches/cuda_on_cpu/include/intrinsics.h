// Functions of numbers. The quick forms of a GPU are the exact ones here.
#pragma once

inline float rsqrt(float a) { return float(1.0 / ::sqrt(double(a))); }
inline double rsqrt(double a) { return 1.0 / ::sqrt(a); }
inline float rsqrtf(float a) { return rsqrt(a); }
inline float rhypotf(float a, float b) { return 1.0f / ::hypotf(a, b); }
inline double rhypot(double a, double b) { return 1.0 / ::hypot(a, b); }

#define EMU_MIN_MAX(T)                                                            \
    inline T min(T a, T b) { return b < a ? b : a; }                              \
    inline T max(T a, T b) { return a < b ? b : a; }
EMU_MIN_MAX(int)
EMU_MIN_MAX(unsigned)
EMU_MIN_MAX(long)
EMU_MIN_MAX(unsigned long)
EMU_MIN_MAX(long long)
EMU_MIN_MAX(unsigned long long)
inline unsigned min(int a, unsigned b) { return min(unsigned(a), b); }
inline unsigned min(unsigned a, int b) { return min(a, unsigned(b)); }
inline unsigned max(int a, unsigned b) { return max(unsigned(a), b); }
inline unsigned max(unsigned a, int b) { return max(a, unsigned(b)); }
inline float min(float a, float b) { return ::fminf(a, b); }
inline float max(float a, float b) { return ::fmaxf(a, b); }
inline double min(double a, double b) { return ::fmin(a, b); }
inline double max(double a, double b) { return ::fmax(a, b); }

inline float __expf(float a) { return ::expf(a); }
inline float __exp10f(float a) { return ::powf(10.0f, a); }
inline float __logf(float a) { return ::logf(a); }
inline float __log2f(float a) { return ::log2f(a); }
inline float __log10f(float a) { return ::log10f(a); }
inline float __powf(float a, float b) { return ::powf(a, b); }
inline float __sinf(float a) { return ::sinf(a); }
inline float __cosf(float a) { return ::cosf(a); }
inline float __tanf(float a) { return ::tanf(a); }
inline float __tanhf(float a) { return ::tanhf(a); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return ::sqrtf(a); }
inline float __frsqrt_rn(float a) { return rsqrt(a); }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fmaf_rn(float a, float b, float c) { return ::fmaf(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) {
    float product = a * b;
    asm("" : "+x"(product)); // not to be joined with a sum
    return product;
}
inline float __saturatef(float a) { return a > 0.0f ? (a < 1.0f ? a : 1.0f) : 0.0f; }

inline int __float_as_int(float a) { int b; memcpy(&b, &a, 4); return b; }
inline unsigned __float_as_uint(float a) { unsigned b; memcpy(&b, &a, 4); return b; }
inline float __int_as_float(int a) { float b; memcpy(&b, &a, 4); return b; }
inline float __uint_as_float(unsigned a) { float b; memcpy(&b, &a, 4); return b; }

inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline int __popc(unsigned a) { return __builtin_popcount(a); }
inline int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
inline int __clz(unsigned a) { return a ? __builtin_clz(a) : 32; }
inline int __clzll(unsigned long long a) { return a ? __builtin_clzll(a) : 64; }
inline int __ffs(unsigned a) { return __builtin_ffs(int(a)); }
inline int __ffsll(unsigned long long a) { return __builtin_ffsll((long long)a); }
inline unsigned __brev(unsigned a) {
    a = (a >> 1 & 0x55555555) | (a & 0x55555555) << 1;
    a = (a >> 2 & 0x33333333) | (a & 0x33333333) << 2;
    a = (a >> 4 & 0x0f0f0f0f) | (a & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(a);
}
inline unsigned long long __brevll(unsigned long long a) {
    return (unsigned long long)__brev(unsigned(a)) << 32 | __brev(unsigned(a >> 32));
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    unsigned long long both = (unsigned long long)b << 32 | a;
    unsigned out = 0;
    for (int i = 0; i < 4; i++)
        out |= unsigned(both >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    return out;
}
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n) {
    return unsigned(((unsigned long long)hi << 32 | lo) << (n & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n) {
    return unsigned(((unsigned long long)hi << 32 | lo) >> (n & 31));
}
inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; i++)
        c += int((signed char)(a >> 8 * i)) * int((signed char)(b >> 8 * i));
    return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; i++)
        c += (a >> 8 * i & 0xff) * (b >> 8 * i & 0xff);
    return c;
}
template <class T> inline T __ldg(const T *p) { return *p; }
inline void __nanosleep(unsigned) { emu_poll(); }

// An address of shared memory in 32 bits: its distance from the block's buffer.
inline unsigned __cvta_generic_to_shared(const volatile void *p) {
    return unsigned((const volatile char *)p - emu_shared);
}
inline char *emu_from_shared(unsigned address) { return emu_shared + int(address); }

// A GPU takes a number that is too large for an integer type as the largest
// integer, and what is not a number as zero.
template <class I, class F> inline I emu_cast(F value) {
    if constexpr (std::is_arithmetic_v<F> && !std::is_floating_point_v<F>) {
        return I(value);
    } else {
        typedef std::conditional_t<sizeof(I) == 8, I,
                std::conditional_t<std::is_signed_v<I>, int, unsigned>> Wide;
        typedef std::conditional_t<std::is_same_v<F, double>, double, float> Real;
        constexpr Wide low = std::is_signed_v<I> ? Wide(1ull << (8 * sizeof(Wide) - 1)) : Wide(0);
        constexpr Wide high = Wide(~low);
        Real real = Real(value);
        if (real != real)
            return 0;
        if (real <= Real(low))
            return I(low);
        if (real >= Real(high))
            return I(high);
        return I(Wide(real));
    }
}

// A GPU does not stop at a division of integers by zero, or of the least one by -1.
template <class A, class B> inline auto emu_divide(A a, B b) {
    if constexpr (std::is_integral_v<A> && std::is_integral_v<B>)
        return b == 0 ? decltype(a / b)(-1) : b == B(-1) && std::is_signed_v<B> ? decltype(a / b)(0ull - a) : a / b;
    else
        return a / b;
}
template <class A, class B> inline auto emu_rest(A a, B b) {
    if constexpr (std::is_integral_v<A> && std::is_integral_v<B>)
        return b == 0 ? decltype(a % b)(a) : b == B(-1) && std::is_signed_v<B> ? decltype(a % b)(0) : a % b;
    else
        return a % b;
}
