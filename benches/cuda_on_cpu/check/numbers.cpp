// The prelude's numbers of 16 bits, integers and tf32, against plain arithmetic.
#include "../include/prelude.h"

static int failures = 0;

static void check(const char *what, bool good) {
    failures += !good;
    printf("%-44s %s\n", what, good ? "good" : "WRONG");
}

// The number of the kind S nearest to `d`, found by looking at its neighbours.
template <class S> static bool nearest(double d, S got) {
    unsigned short bits;
    memcpy(&bits, &got, 2);
    double here = float(got), off = fabs(here - d);
    for (int step : {-1, 1}) {
        unsigned short other = (unsigned short)(bits + step);
        S next;
        memcpy(&next, &other, 2);
        double there = float(next);
        if (there != there || isinf(there) || (there < 0) != (here < 0))
            continue;
        double away = fabs(there - d);
        if (away < off || (away == off && (bits & 1)))
            return false;
    }
    return true;
}

template <class S> static bool rounds(double limit) {
    unsigned long long seed = 88172645463325252ull;
    for (int i = 0; i < 2'000'000; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        double d = ldexp(double((long long)seed) / 9.3e18, int(seed % 40) - 20);
        // Every third number lies halfway between two, or nearly.
        if (i % 3 == 0) {
            S s = S(d);
            unsigned short bits;
            memcpy(&bits, &s, 2);
            bits++;
            S next;
            memcpy(&next, &bits, 2);
            d = (double(float(s)) + double(float(next))) / 2;
            if (i % 2)
                d *= 1 + (i % 4 == 1 ? 1e-15 : -1e-15);
        }
        if (fabs(d) >= limit || d != d)
            continue;
        if (!nearest(d, S(d)) || !nearest(double(float(d)), S(float(d)))) {
            printf("%.17g gives %.9g\n", d, double(float(S(d))));
            return false;
        }
    }
    return true;
}

template <class S> static bool keeps_all() {
    for (int bits = 0; bits < 65536; bits++) {
        unsigned short b = (unsigned short)bits;
        S s;
        memcpy(&s, &b, 2);
        S again = S(float(s)), through = S(double(float(s)));
        bool nan = float(s) != float(s);
        if (nan ? !__hisnan(again) : memcmp(&again, &s, 2) || memcmp(&through, &s, 2))
            return false;
    }
    return true;
}

template <class S> static bool sums() {
    unsigned seed = 1;
    for (int i = 0; i < 1'000'000; i++) {
        seed = seed * 1664525 + 1013904223;
        S a(float(int(seed >> 8) - (1 << 23)) / (1 << 20));
        seed = seed * 1664525 + 1013904223;
        S b(float(int(seed >> 8) - (1 << 23)) / (1 << 24));
        double x = float(a), y = float(b);
        if (!nearest(x + y, a + b) || !nearest(x * y, a * b) || !nearest(x * y + x, __hfma(a, b, a)))
            return false;
        if (y != 0 && fabs(x / y) < 60000 && !nearest(x / y, a / b))
            return false;
    }
    return true;
}

int main() {
    check("half to float and back", keeps_all<__half>());
    check("bfloat16 to float and back", keeps_all<__nv_bfloat16>());
    check("half is the nearest", rounds<__half>(65000));
    check("bfloat16 is the nearest", rounds<__nv_bfloat16>(3e38));
    check("half: + * / fma", sums<__half>());
    check("bfloat16: + * / fma", sums<__nv_bfloat16>());
    check("half of what is too large", isinf(float(__half(70000.0f))) && float(__half(65519.0f)) == 65504);
    check("float to integer", emu_cast<int>(3e9f) == INT32_MAX && emu_cast<unsigned>(-1.0f) == 0 &&
                                  emu_cast<int>(NAN) == 0 && emu_cast<int>(-2.7f) == -2 &&
                                  emu_cast<long long>(-1e30f) == INT64_MIN &&
                                  emu_cast<unsigned>(4.2e9) == 4200000000u &&
                                  emu_cast<int>(__half(7.9f)) == 7);
    check("division by zero", emu_divide(7u, 0u) == ~0u && emu_rest(7u, 0u) == 7 && emu_divide(-7, 2) == -3 &&
                                  emu_divide(INT32_MIN, -1) == INT32_MIN && emu_divide(1.0f, 4.0f) == 0.25f);
    using nvcuda::wmma::__float_to_tf32;
    check("tf32", __float_to_tf32(1.0f + 0x1p-11f) == 1.0f + 0x1p-10f && __float_to_tf32(1.0f + 0x1p-12f) == 1.0f &&
                      __float_to_tf32(-1.0f - 0x1p-11f) == -1.0f - 0x1p-10f);
    check("bits", __brev(1) == 1u << 31 && __clz(0) == 32 && __ffs(8) == 4 && __popcll(~0ull) == 64 &&
                      __umulhi(1u << 31, 6) == 3 && __mulhi(-1, 1) == -1 && __dp4a(0x01ff0203, 0x01010101, 1) == 6);
    printf(failures ? "%d failed\n" : "all good\n", failures);
    return failures != 0;
}
