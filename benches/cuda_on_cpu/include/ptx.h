// The instructions of PTX that kernels name in `asm`. The compiler's front end
// turns `asm("op.x.y %0, [%1];" : ...)` into `ptx_op_x_y(line, %0, %1)`.
#pragma once

template <class T, class F> inline T emu_as(F from) {
    static_assert(sizeof(T) == sizeof(F));
    T to;
    memcpy(&to, &from, sizeof(T));
    return to;
}

// atom: the registers' types may differ from the type that is meant.
#define EMU_ATOM(NAME, T, FUNCTION)                                                  \
    template <class D, class P, class V>                                             \
    inline void ptx_atom_relaxed_##NAME(unsigned, D &old, P *p, V v) {               \
        old = emu_as<D>(FUNCTION((T *)(p), emu_as<T>(v)));                           \
    }
EMU_ATOM(add_f32, float, atomicAdd)
EMU_ATOM(add_f64, double, atomicAdd)
EMU_ATOM(add_u32, unsigned, atomicAdd)
EMU_ATOM(add_u64, unsigned long long, atomicAdd)
EMU_ATOM(add_noftz_f16, __half, atomicAdd)
EMU_ATOM(add_noftz_f16x2, __half2, atomicAdd)
EMU_ATOM(add_noftz_bf16, __nv_bfloat16, atomicAdd)
EMU_ATOM(add_noftz_bf16x2, __nv_bfloat162, atomicAdd)
EMU_ATOM(min_s32, int, atomicMin)
EMU_ATOM(min_u32, unsigned, atomicMin)
EMU_ATOM(min_s64, long long, atomicMin)
EMU_ATOM(min_u64, unsigned long long, atomicMin)
EMU_ATOM(max_s32, int, atomicMax)
EMU_ATOM(max_u32, unsigned, atomicMax)
EMU_ATOM(max_s64, long long, atomicMax)
EMU_ATOM(max_u64, unsigned long long, atomicMax)

inline void ptx_add_sat_s32(unsigned, int &d, int a, int b) {
    if (__builtin_add_overflow(a, b, &d))
        d = a < 0 ? INT32_MIN : INT32_MAX;
}
inline void ptx_sub_sat_s32(unsigned, int &d, int a, int b) {
    if (__builtin_sub_overflow(a, b, &d))
        d = a < 0 ? INT32_MIN : INT32_MAX;
}
inline void ptx_min_NaN_f32(unsigned, float &d, float a, float b) {
    d = a != a || b != b ? NAN : ::fminf(a, b);
}
inline void ptx_max_NaN_f32(unsigned, float &d, float a, float b) {
    d = a != a || b != b ? NAN : ::fmaxf(a, b);
}

// Numbers below the normal ones are zero, before and after.
inline void ptx_ex2_approx_ftz_f32(unsigned, float &d, float x) {
    d = ::exp2f(x);
    if (d < 0x1p-126f)
        d = 0;
}

// Copies into shared memory are done at once, so that there is nothing to wait
// for. What the source does not have is filled with zeros.
inline void emu_copy_async(unsigned to, const void *from, unsigned size, unsigned have) {
    memset(emu_from_shared(to), 0, size);
    memcpy(emu_from_shared(to), from, have < size ? have : size);
}
#define EMU_COPY_ASYNC(NAME)                                                         \
    inline void NAME(unsigned, unsigned to, const void *from, unsigned size, unsigned have) { \
        emu_copy_async(to, from, size, have);                                        \
    }                                                                                \
    inline void NAME(unsigned, unsigned to, const void *from, unsigned size) {       \
        emu_copy_async(to, from, size, size);                                        \
    }
EMU_COPY_ASYNC(ptx_cp_async_ca_shared_cta_global)
EMU_COPY_ASYNC(ptx_cp_async_cg_shared_cta_global)
EMU_COPY_ASYNC(ptx_cp_async_ca_shared_global)
EMU_COPY_ASYNC(ptx_cp_async_cg_shared_global)
inline void ptx_cp_async_mbarrier_arrive_shared_cta_b64(unsigned, unsigned) {}
inline void ptx_cp_async_commit_group(unsigned) {}
inline void ptx_cp_async_wait_group(unsigned, int) {}
inline void ptx_cp_async_wait_all(unsigned) {}

// ldmatrix: lane 8 m + r points at row r of matrix m, and lane l gets the two
// elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of every matrix.
struct EmuLoadMatrix {
    const unsigned short *row;
    unsigned out[4];
    int count;
    bool transposed;
};
inline void emu_load_matrix_all(void **args, unsigned) {
    for (int l = 0; l < 32; l++) {
        auto *part = static_cast<EmuLoadMatrix *>(args[l]);
        if (!part)
            continue;
        for (int m = 0; m < part->count; m++) {
            unsigned pair = 0;
            for (int e = 0; e < 2; e++) {
                int row = l / 4, col = l % 4 * 2 + e;
                if (part->transposed)
                    std::swap(row, col);
                auto *owner = static_cast<EmuLoadMatrix *>(args[8 * m + row]);
                pair |= unsigned(owner->row[col]) << 16 * e;
            }
            part->out[m] = pair;
        }
    }
}
template <bool TRANSPOSED, size_t... I, class... R>
inline void emu_load_matrix(unsigned site, std::index_sequence<I...>, unsigned address, R &...r) {
    EmuLoadMatrix part{reinterpret_cast<unsigned short *>(emu_from_shared(address)),
                       {},
                       sizeof...(R),
                       TRANSPOSED};
    emu_warp_op(site, emu_load_matrix_all, &part);
    ((r = emu_as<R>(part.out[I])), ...);
}
#define EMU_LOAD_MATRIX(NAME, TRANSPOSED)                                            \
    inline void ptx_ldmatrix_sync_aligned_m8n8_x1_##NAME(unsigned s, unsigned &a, unsigned p) { \
        emu_load_matrix<TRANSPOSED>(s, std::make_index_sequence<1>{}, p, a);         \
    }                                                                                \
    inline void ptx_ldmatrix_sync_aligned_m8n8_x2_##NAME(unsigned s, unsigned &a, unsigned &b, \
                                                         unsigned p) {               \
        emu_load_matrix<TRANSPOSED>(s, std::make_index_sequence<2>{}, p, a, b);      \
    }                                                                                \
    inline void ptx_ldmatrix_sync_aligned_m8n8_x4_##NAME(                            \
        unsigned s, unsigned &a, unsigned &b, unsigned &c, unsigned &d, unsigned p) { \
        emu_load_matrix<TRANSPOSED>(s, std::make_index_sequence<4>{}, p, a, b, c, d); \
    }
EMU_LOAD_MATRIX(shared_cta_b16, false)
EMU_LOAD_MATRIX(trans_shared_cta_b16, true)
EMU_LOAD_MATRIX(shared_b16, false)
EMU_LOAD_MATRIX(trans_shared_b16, true)

// mma.m16n8kK: a register holds E elements, g = lane / 4 and t = lane % 4.
// a's register r: row g + 8 (r % 2), columns E t + 4 E (r / 2) and the next.
// b's register r: column g, rows E t + 4 E r and the next.
// c and d, i = 0..3: row g + 8 (i / 2), column 2 t + i % 2.
template <class A, class B, class D, int K> struct EmuProduct {
    static constexpr int E = 4 / sizeof(A), REGS_A = 16 * K / 32 / E, REGS_B = 8 * K / 32 / E;
    unsigned in[REGS_A + REGS_B + 4];
    D out[4];

    static void all(void **args, unsigned) {
        float a[16][K], b[K][8];
        for (int l = 0; l < 32; l++) {
            auto *part = static_cast<EmuProduct *>(args[l]);
            int g = l / 4, t = l % 4;
            for (int r = 0; r < REGS_A; r++) {
                A elements[E];
                memcpy(elements, &part->in[r], 4);
                for (int e = 0; e < E; e++)
                    a[g + 8 * (r % 2)][E * t + 4 * E * (r / 2) + e] = value(elements[e]);
            }
            for (int r = 0; r < REGS_B; r++) {
                B elements[E];
                memcpy(elements, &part->in[REGS_A + r], 4);
                for (int e = 0; e < E; e++)
                    b[E * t + 4 * E * r + e][g] = value(elements[e]);
            }
        }
        for (int l = 0; l < 32; l++) {
            auto *part = static_cast<EmuProduct *>(args[l]);
            for (int i = 0; i < 4; i++) {
                int row = l / 4 + 8 * (i / 2), col = l % 4 * 2 + i % 2;
                D sum = emu_as<D>(part->in[REGS_A + REGS_B + i]);
                for (int k = 0; k < K; k++)
                    sum += D(a[row][k] * b[k][col]);
                part->out[i] = sum;
            }
        }
    }
    // A `float` here is a tf32: the multiplier does not read its lower 13 bits.
    template <class T> static float value(T v) {
        if constexpr (std::is_same_v<T, float>)
            return __uint_as_float(__float_as_uint(v) & 0xffffe000);
        else
            return float(v);
    }
};
#define EMU_MMA(NAME, A, B, D, K)                                                    \
    template <class R, class... In>                                                  \
    inline void ptx_mma_sync_aligned_##NAME(unsigned site, R &d0, R &d1, R &d2, R &d3, In... in) { \
        typedef EmuProduct<A, B, D, K> Part;                                         \
        static_assert(sizeof...(In) == Part::REGS_A + Part::REGS_B + 4);             \
        Part part{{emu_as<unsigned>(in)...}, {}};                                    \
        emu_warp_op(site, &Part::all, &part);                                        \
        d0 = emu_as<R>(part.out[0]);                                                 \
        d1 = emu_as<R>(part.out[1]);                                                 \
        d2 = emu_as<R>(part.out[2]);                                                 \
        d3 = emu_as<R>(part.out[3]);                                                 \
    }
EMU_MMA(m16n8k8_row_col_f32_tf32_tf32_f32, float, float, float, 8)
EMU_MMA(m16n8k8_row_col_f32_f16_f16_f32, __half, __half, float, 8)
EMU_MMA(m16n8k16_row_col_f32_f16_f16_f32, __half, __half, float, 16)
EMU_MMA(m16n8k16_row_col_f32_bf16_bf16_f32, __nv_bfloat16, __nv_bfloat16, float, 16)
EMU_MMA(m16n8k32_row_col_s32_s8_s8_s32, signed char, signed char, int, 32)
EMU_MMA(m16n8k32_row_col_s32_u8_u8_s32, unsigned char, unsigned char, int, 32)
EMU_MMA(m16n8k32_row_col_s32_s8_u8_s32, signed char, unsigned char, int, 32)
EMU_MMA(m16n8k32_row_col_s32_u8_s8_s32, unsigned char, signed char, int, 32)
