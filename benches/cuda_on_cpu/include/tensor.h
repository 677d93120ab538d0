// nvcuda::wmma. A fragment's element `e` of lane `l` is the element `32 * e + l`
// of the matrix, counted along its rows.
#pragma once

namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
} // namespace precision

inline float __float_to_tf32(float f) {
    // To the nearest, of two equally near ones to the one further from zero.
    unsigned bits = __float_as_uint(f);
    if ((bits & 0x7f800000) == 0x7f800000)
        return f;
    return __uint_as_float((bits + 0x1000) & 0xffffe000);
}

template <class T> struct Stored { typedef T type; };
template <> struct Stored<precision::tf32> { typedef float type; };

// What is multiplied: the multiplier reads only the upper 19 bits of a tf32.
template <class T> struct Operand {
    typedef std::conditional_t<std::is_integral_v<T>, int, float> type;
    static type of(T v) { return type(v); }
};
template <> struct Operand<precision::tf32> {
    typedef float type;
    static float of(float v) { return __uint_as_float(__float_as_uint(v) & 0xffffe000); }
};

template <class Use, int M, int N, int K> struct Extent;
template <int M, int N, int K> struct Extent<matrix_a, M, N, K> { static constexpr int rows = M, cols = K; };
template <int M, int N, int K> struct Extent<matrix_b, M, N, K> { static constexpr int rows = K, cols = N; };
template <int M, int N, int K> struct Extent<accumulator, M, N, K> { static constexpr int rows = M, cols = N; };

template <class Use, int M, int N, int K, class T, class Layout = void> struct fragment {
    typedef typename Stored<T>::type element_type;
    typedef T kind;
    static constexpr int rows = Extent<Use, M, N, K>::rows, cols = Extent<Use, M, N, K>::cols;
    static constexpr int num_elements = rows * cols / 32;
    element_type x[num_elements];
};

template <class F, class V> inline void fill_fragment(F &f, V value) {
    for (int e = 0; e < F::num_elements; e++)
        f.x[e] = typename F::element_type(value);
}

template <class F> struct Transfer {
    F *fragment;
    typename F::element_type *memory;
    unsigned stride;
    bool by_columns;
};
// Moves the elements of all lanes between their fragments and memory.
template <class F, bool STORE> void transfer_all(void **args, unsigned) {
    for (int l = 0; l < 32; l++) {
        auto *part = static_cast<Transfer<F> *>(args[l]);
        if (!part)
            continue;
        for (int e = 0; e < F::num_elements; e++) {
            int row = (32 * e + l) / F::cols, col = (32 * e + l) % F::cols;
            auto &place = part->memory[part->by_columns ? size_t(col) * part->stride + row
                                                        : size_t(row) * part->stride + col];
            if constexpr (STORE)
                place = part->fragment->x[e];
            else
                part->fragment->x[e] = place;
        }
    }
}

template <class Use, int M, int N, int K, class T, class L, class P>
inline void load_matrix_sync(fragment<Use, M, N, K, T, L> &f, const P *memory, unsigned stride,
                             EMU_SITE) {
    typedef fragment<Use, M, N, K, T, L> F;
    Transfer<F> part{&f, (typename F::element_type *)memory, stride, std::is_same_v<L, col_major>};
    emu_warp_op(site, transfer_all<F, false>, &part);
}
template <int M, int N, int K, class T, class P>
inline void load_matrix_sync(fragment<accumulator, M, N, K, T> &f, const P *memory,
                             unsigned stride, layout_t layout, EMU_SITE) {
    typedef fragment<accumulator, M, N, K, T> F;
    Transfer<F> part{&f, (typename F::element_type *)memory, stride, layout == mem_col_major};
    emu_warp_op(site, transfer_all<F, false>, &part);
}
template <class Use, int M, int N, int K, class T, class L, class P>
inline void store_matrix_sync(P *memory, const fragment<Use, M, N, K, T, L> &f, unsigned stride,
                              layout_t layout, EMU_SITE) {
    typedef fragment<Use, M, N, K, T, L> F;
    Transfer<F> part{const_cast<F *>(&f), memory, stride, layout == mem_col_major};
    emu_warp_op(site, transfer_all<F, true>, &part);
}

template <class D, class A, class B, class C> struct Product {
    D *d;
    const A *a;
    const B *b;
    const C *c;
};
template <class D, class A, class B, class C> void product_all(void **args, unsigned) {
    typedef Operand<typename A::kind> In;
    constexpr int M = A::rows, N = B::cols, K = A::cols;
    typename In::type a[M * K], b[K * N], sum[M * N];
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    memset(sum, 0, sizeof sum);
    typedef Product<D, A, B, C> Part;
    for (int l = 0; l < 32; l++) {
        auto *part = static_cast<Part *>(args[l]);
        if (!part)
            continue;
        for (int e = 0; e < A::num_elements; e++)
            a[32 * e + l] = In::of(part->a->x[e]);
        for (int e = 0; e < B::num_elements; e++)
            b[32 * e + l] = In::of(part->b->x[e]);
        for (int e = 0; e < C::num_elements; e++)
            sum[32 * e + l] = typename In::type(part->c->x[e]);
    }
    for (int i = 0; i < M; i++)
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++)
                sum[i * N + j] += a[i * K + k] * b[k * N + j];
    for (int l = 0; l < 32; l++)
        if (auto *part = static_cast<Part *>(args[l]))
            for (int e = 0; e < D::num_elements; e++)
                part->d->x[e] = typename D::element_type(sum[32 * e + l]);
}
template <class D, class A, class B, class C>
inline void mma_sync(D &d, const A &a, const B &b, const C &c, EMU_SITE) {
    Product<D, A, B, C> part{&d, &a, &b, &c};
    emu_warp_op(site, product_all<D, A, B, C>, &part);
}

} // namespace nvcuda::wmma
