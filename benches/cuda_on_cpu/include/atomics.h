// Atomic functions. Two blocks may run at once on two of the host's threads.
#pragma once

template <int N> struct EmuBits;
template <> struct EmuBits<1> { typedef unsigned char type; };
template <> struct EmuBits<2> { typedef unsigned short type; };
template <> struct EmuBits<4> { typedef unsigned type; };
template <> struct EmuBits<8> { typedef unsigned long long type; };

// Puts `f(old)` in the place of `old`, and gives `old`.
template <class T, class F> inline T emu_atomic(T *p, F f) {
    typedef typename EmuBits<sizeof(T)>::type Bits;
    Bits *place = reinterpret_cast<Bits *>(p);
    Bits old = __atomic_load_n(place, __ATOMIC_RELAXED);
    for (;;) {
        T before, after;
        memcpy(&before, &old, sizeof(T));
        after = f(before);
        Bits wanted;
        memcpy(&wanted, &after, sizeof(T));
        if (__atomic_compare_exchange_n(place, &old, wanted, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED))
            return before;
    }
}

template <class T> using EmuSame = std::type_identity_t<T>;
template <class T> inline T atomicAdd(T *p, EmuSame<T> v) {
    return emu_atomic(p, [v](T old) { return T(old + v); });
}
template <class T> inline T atomicSub(T *p, EmuSame<T> v) {
    return emu_atomic(p, [v](T old) { return T(old - v); });
}
template <class T> inline T atomicMin(T *p, EmuSame<T> v) {
    return emu_atomic(p, [v](T old) { return v < old ? v : old; });
}
template <class T> inline T atomicMax(T *p, EmuSame<T> v) {
    return emu_atomic(p, [v](T old) { return old < v ? v : old; });
}
template <class T> inline T atomicAnd(T *p, EmuSame<T> v) {
    return emu_atomic(p, [v](T old) { return T(old & v); });
}
template <class T> inline T atomicOr(T *p, EmuSame<T> v) {
    return emu_atomic(p, [v](T old) { return T(old | v); });
}
template <class T> inline T atomicXor(T *p, EmuSame<T> v) {
    return emu_atomic(p, [v](T old) { return T(old ^ v); });
}
template <class T> inline T atomicExch(T *p, EmuSame<T> v) {
    return emu_atomic(p, [v](T) { return v; });
}
inline unsigned atomicInc(unsigned *p, unsigned v) {
    return emu_atomic(p, [v](unsigned old) { return old >= v ? 0 : old + 1; });
}
inline unsigned atomicDec(unsigned *p, unsigned v) {
    return emu_atomic(p, [v](unsigned old) { return old == 0 || old > v ? v : old - 1; });
}
// A thread that did not get what it hoped for may be waiting for another one
// of its block, which must then have a turn.
template <class T> inline T atomicCAS(T *p, EmuSame<T> expected, EmuSame<T> v) {
    T old = emu_atomic(p, [&](T old) { return memcmp(&old, &expected, sizeof(T)) ? old : v; });
    if (memcmp(&old, &expected, sizeof(T)))
        emu_poll();
    return old;
}

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
