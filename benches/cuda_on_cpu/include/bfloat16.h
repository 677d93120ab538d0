// `__nv_bfloat16` and `__nv_bfloat162`: the upper half of a `float`.
#pragma once

struct __nv_bfloat16_raw {
    unsigned short x;
};

struct __nv_bfloat16 {
    unsigned short v;

    // To the nearest, of two equally near ones to the even one.
    static unsigned short round(float f) {
        unsigned bits;
        memcpy(&bits, &f, 4);
        if ((bits & 0x7fffffff) > 0x7f800000)
            return 0x7fff;
        return (unsigned short)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    }
    // A `float` on the way must not hide on which side of a half the number
    // lies: it is cut towards zero, and its last bit says that something was cut.
    static unsigned short round(double d) {
        float f = float(d);
        if (double(f) != d && d == d && fabs(d) < 3.4e38) {
            unsigned bits;
            memcpy(&bits, &f, 4);
            if (fabs(double(f)) > fabs(d))
                bits--;
            bits |= 1;
            memcpy(&f, &bits, 4);
        }
        return round(f);
    }

    __nv_bfloat16() = default;
    __nv_bfloat16(float f) : v(round(f)) {}
    __nv_bfloat16(double f) : v(round(f)) {}
    __nv_bfloat16(int i) : v(round(double(i))) {}
    __nv_bfloat16(unsigned i) : v(round(double(i))) {}
    __nv_bfloat16(long i) : v(round(double(i))) {}
    __nv_bfloat16(unsigned long i) : v(round(double(i))) {}
    __nv_bfloat16(long long i) : v(round(double(i))) {}
    __nv_bfloat16(unsigned long long i) : v(round(double(i))) {}
    __nv_bfloat16(__nv_bfloat16_raw raw) : v(raw.x) {}
    operator float() const {
        unsigned bits = unsigned(v) << 16;
        float f;
        memcpy(&f, &bits, 4);
        return f;
    }
};
typedef __nv_bfloat16 nv_bfloat16;

struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
    __nv_bfloat162() = default;
    __nv_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) : x(a), y(b) {}
};
typedef __nv_bfloat162 nv_bfloat162;

EMU_16(__nv_bfloat16, __nv_bfloat162)

inline __nv_bfloat16 __float2bfloat16(float f) { return __nv_bfloat16(f); }
inline __nv_bfloat16 __float2bfloat16_rn(float f) { return __nv_bfloat16(f); }
inline float __bfloat162float(__nv_bfloat16 h) { return float(h); }
inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b) {
    return __nv_bfloat162(__nv_bfloat16(a), __nv_bfloat16(b));
}
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __nv_bfloat162(a, b);
}
inline float2 __bfloat1622float2(__nv_bfloat162 a) { return {float(a.x), float(a.y)}; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 h) { return h.v; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
    return __nv_bfloat16(__nv_bfloat16_raw{bits});
}
