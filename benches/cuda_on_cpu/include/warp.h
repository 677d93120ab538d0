// What the threads of a block and the lanes of a warp do together.
//
// A lane's part in an operation is a small struct on its stack. The functions
// named `..._all` see the parts of all lanes that have come together, and do
// the work for all of them. `site` is the line of the call; see `emu_warp_op`.
// The masks that are given are not needed: lanes meet at the same line.
#pragma once

#define EMU_SITE unsigned site = __builtin_LINE()

inline void __syncthreads() { emu_block_sync(); }

inline void emu_nothing_all(void **, unsigned) {}
inline void __syncwarp(unsigned = ~0u, EMU_SITE) { emu_warp_op(site, emu_nothing_all, &site); }

struct EmuVote {
    int value;
    unsigned active, ballot;
};
inline void emu_vote_all(void **args, unsigned mask) {
    unsigned ballot = 0;
    for (int l = 0; l < 32; l++)
        if (args[l] && static_cast<EmuVote *>(args[l])->value)
            ballot |= 1u << l;
    for (int l = 0; l < 32; l++)
        if (args[l]) {
            static_cast<EmuVote *>(args[l])->ballot = ballot;
            static_cast<EmuVote *>(args[l])->active = mask;
        }
}
inline EmuVote emu_vote(int value, unsigned site) {
    EmuVote vote{value, 0, 0};
    emu_warp_op(site, emu_vote_all, &vote);
    return vote;
}
inline unsigned __activemask(EMU_SITE) { return emu_vote(1, site).active; }
inline unsigned __ballot_sync(unsigned, int value, EMU_SITE) { return emu_vote(value, site).ballot; }
inline int __any_sync(unsigned, int value, EMU_SITE) { return emu_vote(value, site).ballot != 0; }
inline int __all_sync(unsigned, int value, EMU_SITE) {
    EmuVote vote = emu_vote(value, site);
    return vote.ballot == vote.active;
}

template <class T> struct EmuShuffle {
    T value, out;
    unsigned from;
};
template <class T> void emu_shuffle_all(void **args, unsigned) {
    for (int l = 0; l < 32; l++)
        if (auto *mine = static_cast<EmuShuffle<T> *>(args[l])) {
            auto *other = static_cast<EmuShuffle<T> *>(args[mine->from]);
            mine->out = (other ? other : mine)->value;
        }
}
template <class T> inline T emu_shuffle(T value, unsigned from, unsigned site) {
    EmuShuffle<T> shuffle{value, value, from};
    emu_warp_op(site, emu_shuffle_all<T>, &shuffle);
    return shuffle.out;
}
// `first` is the first lane of the group of `width` lanes; a lane that looks
// out of its group gets its own value.
template <class T>
inline T __shfl_sync(unsigned, T value, int lane, int width = 32, EMU_SITE) {
    unsigned first = emu_lane & ~unsigned(width - 1);
    return emu_shuffle(value, first + (unsigned(lane) & unsigned(width - 1)), site);
}
template <class T>
inline T __shfl_up_sync(unsigned, T value, unsigned delta, int width = 32, EMU_SITE) {
    unsigned first = emu_lane & ~unsigned(width - 1);
    return emu_shuffle(value, emu_lane - first >= delta ? emu_lane - delta : emu_lane, site);
}
template <class T>
inline T __shfl_down_sync(unsigned, T value, unsigned delta, int width = 32, EMU_SITE) {
    unsigned first = emu_lane & ~unsigned(width - 1);
    bool inside = delta < unsigned(width) && emu_lane + delta < first + unsigned(width);
    return emu_shuffle(value, inside ? emu_lane + delta : emu_lane, site);
}
template <class T>
inline T __shfl_xor_sync(unsigned, T value, int mask, int width = 32, EMU_SITE) {
    unsigned first = emu_lane & ~unsigned(width - 1), from = emu_lane ^ unsigned(mask);
    return emu_shuffle(value, from < first + unsigned(width) ? from & 31 : emu_lane, site);
}

template <class T> struct EmuReduce {
    T value;
};
#define EMU_REDUCE(NAME, T, EXPRESSION)                                              \
    inline T NAME(unsigned, T value, EMU_SITE) {                                     \
        EmuReduce<T> part{value};                                                    \
        emu_warp_op(site, [](void **args, unsigned) {                                \
            bool begun = false;                                                      \
            T a{};                                                                   \
            for (int l = 0; l < 32; l++)                                             \
                if (args[l]) {                                                       \
                    T b = static_cast<EmuReduce<T> *>(args[l])->value;               \
                    a = begun ? T(EXPRESSION) : b;                                   \
                    begun = true;                                                    \
                }                                                                    \
            for (int l = 0; l < 32; l++)                                             \
                if (args[l])                                                         \
                    static_cast<EmuReduce<T> *>(args[l])->value = a;                 \
        }, &part);                                                                   \
        return part.value;                                                           \
    }
EMU_REDUCE(__reduce_add_sync, unsigned, a + b)
EMU_REDUCE(__reduce_add_sync, int, a + b)
EMU_REDUCE(__reduce_min_sync, unsigned, min(a, b))
EMU_REDUCE(__reduce_min_sync, int, min(a, b))
EMU_REDUCE(__reduce_max_sync, unsigned, max(a, b))
EMU_REDUCE(__reduce_max_sync, int, max(a, b))
EMU_REDUCE(__reduce_and_sync, unsigned, a & b)
EMU_REDUCE(__reduce_or_sync, unsigned, a | b)
EMU_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
