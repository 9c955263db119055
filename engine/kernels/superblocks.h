// Blocks of 256 weights, unpacked: bytes, a vector of scales for each 32 of them, and what the type has beside.
#pragma once

#include "blocks.h"
#include "kernels.h"
#include "simd.h"

namespace bankml::BANKML_ISA {
namespace {

// 32 quants a chunk, eight chunks; the scales are those of the sixteen sums of two neighbours in a chunk.
struct alignas(32) Superblock {
    uint8_t quants[8][32];
    int16_t scales[8][16];
    int16_t extra[16];  // Q2_K, Q4_K, Q5_K: minima; Q6_K: the scales of the sixteens
    float d;
    float min;
};

// What a type adds to the dot products of its chunks.
enum class Extra {
    None,
    Minima16,     // Q2_K: a minimum for each sixteen, into the same lanes
    MinimaLanes,  // Q4_K: a minimum for each chunk, in four lanes of their own
    MinimaSum,    // Q5_K: a minimum for each chunk, summed to one number
    Offset32,     // Q6_K: every quant is 32 too high
};

BANKML_LANES void fill_scales(Superblock& out, int chunk, int first, int second) {
    store16w(out.scales[chunk], halves16w(static_cast<int16_t>(first), static_cast<int16_t>(second)));
}

struct Q2K {
    static constexpr size_t bytes = 84;
    static constexpr bool is_signed = false;
    static constexpr Extra extra = Extra::Minima16;
    static void unpack(const uint8_t* block, Superblock& out) {
        for (int half = 0; half < 2; ++half) {
            const B32 bits = load32(block + 16 + 32 * half);
            store32(out.quants[4 * half], shift_right32<0>(bits, 3));
            store32(out.quants[4 * half + 1], shift_right32<2>(bits, 3));
            store32(out.quants[4 * half + 2], shift_right32<4>(bits, 3));
            store32(out.quants[4 * half + 3], shift_right32<6>(bits, 3));
        }
        for (int i = 0; i < 16; ++i) out.extra[i] = block[i] >> 4;
        for (int i = 0; i < 8; ++i) fill_scales(out, i, block[2 * i] & 15, block[2 * i + 1] & 15);
        out.d = half_at(block + 80);
        out.min = half_at(block + 82);
    }
};

struct Q3K {
    static constexpr size_t bytes = 110;
    static constexpr bool is_signed = true;
    static constexpr Extra extra = Extra::None;

    // Two low bits, and 4 less where the high bit is clear.
    template <int Chunk>
    static void chunk(B32 high, B32 low, Superblock& out) {
        const B32 four = shift_left32<2>(shift_right32<Chunk>(high, 1), 4);
        store32(out.quants[Chunk], sub32(or32(shift_right32<Chunk % 4 * 2>(low, 3), four), set32(4)));
    }
    static void unpack(const uint8_t* block, Superblock& out) {
        const B32 high = load32(block);
        const B32 first = load32(block + 32);
        const B32 second = load32(block + 64);
        chunk<0>(high, first, out);
        chunk<1>(high, first, out);
        chunk<2>(high, first, out);
        chunk<3>(high, first, out);
        chunk<4>(high, second, out);
        chunk<5>(high, second, out);
        chunk<6>(high, second, out);
        chunk<7>(high, second, out);
        int8_t scales[16];
        scales_of_q3(block + 96, scales);
        for (int i = 0; i < 8; ++i) fill_scales(out, i, scales[2 * i], scales[2 * i + 1]);
        out.d = half_at(block + 108);
    }
};

inline void unpack_scales_k4(const uint8_t* block, Superblock& out) {
    uint8_t scales[8], mins[8];
    scales_of_k4(block + 4, scales, mins);
    for (int i = 0; i < 8; ++i) {
        fill_scales(out, i, scales[i], scales[i]);
        out.extra[i] = mins[i];
    }
    out.d = half_at(block);
    out.min = half_at(block + 2);
}

struct Q4K {
    static constexpr size_t bytes = 144;
    static constexpr bool is_signed = false;
    static constexpr Extra extra = Extra::MinimaLanes;
    static void unpack(const uint8_t* block, Superblock& out) {
        for (int i = 0; i < 4; ++i) {
            B32 low, high;
            split_nibbles(load32(block + 16 + 32 * i), low, high);
            store32(out.quants[2 * i], low);
            store32(out.quants[2 * i + 1], high);
        }
        unpack_scales_k4(block, out);
    }
};

struct Q5K {
    static constexpr size_t bytes = 176;
    static constexpr bool is_signed = false;
    static constexpr Extra extra = Extra::MinimaSum;

    template <int Pair>
    static void chunks(B32 fifth, const uint8_t* nibbles, Superblock& out) {
        B32 low, high;
        split_nibbles(load32(nibbles + 32 * Pair), low, high);
        store32(out.quants[2 * Pair], or32(low, shift_left32<4>(shift_right32<2 * Pair>(fifth, 1), 16)));
        store32(out.quants[2 * Pair + 1], or32(high, shift_left32<4>(shift_right32<2 * Pair + 1>(fifth, 1), 16)));
    }
    static void unpack(const uint8_t* block, Superblock& out) {
        const B32 fifth = load32(block + 16);
        chunks<0>(fifth, block + 48, out);
        chunks<1>(fifth, block + 48, out);
        chunks<2>(fifth, block + 48, out);
        chunks<3>(fifth, block + 48, out);
        unpack_scales_k4(block, out);
    }
};

struct Q6K {
    static constexpr size_t bytes = 210;
    static constexpr bool is_signed = false;
    static constexpr Extra extra = Extra::Offset32;
    static void unpack(const uint8_t* block, Superblock& out) {
        for (int half = 0; half < 2; ++half) {
            B32 low[2], high[2];
            split_nibbles(load32(block + 64 * half), low[0], high[0]);
            split_nibbles(load32(block + 64 * half + 32), low[1], high[1]);
            const B32 top = load32(block + 128 + 32 * half);
            store32(out.quants[4 * half], or32(low[0], shift_left32<4>(top, 48)));
            store32(out.quants[4 * half + 1], or32(low[1], shift_left32<2>(top, 48)));
            store32(out.quants[4 * half + 2], or32(high[0], shift_right32<0>(top, 48)));
            store32(out.quants[4 * half + 3], or32(high[1], shift_right32<2>(top, 48)));
        }
        for (int i = 0; i < 16; ++i) out.extra[i] = static_cast<int8_t>(block[192 + i]);
        for (int i = 0; i < 8; ++i) fill_scales(out, i, out.extra[2 * i], out.extra[2 * i + 1]);
        out.d = half_at(block + 208);
    }
};

struct Iq4Xs {
    static constexpr size_t bytes = 136;
    static constexpr bool is_signed = true;
    static constexpr Extra extra = Extra::None;
    static void unpack(const uint8_t* block, Superblock& out) {
        int8_t scales[8];
        scales_of_iq4_xs(block + 2, block + 4, scales);
        for (int i = 0; i < 8; ++i) {
            store32(out.quants[i], lookup32(kIq4Values, load_nibbles(block + 8 + 16 * i)));
            fill_scales(out, i, scales[i], scales[i]);
        }
        out.d = half_at(block);
    }
};

}  // namespace
}  // namespace bankml::BANKML_ISA
