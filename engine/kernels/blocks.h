// Parts of weight blocks in plain C: scales in half precision, scales of six bits, the values of IQ4.
#pragma once

#include <cstdint>
#include <cstring>

#include "f16.h"

namespace bankml {

static inline float half_at(const uint8_t* p) {
    uint16_t h;
    std::memcpy(&h, p, sizeof h);
    return f16_to_f32(h);
}

// What the nibbles of IQ4_NL and IQ4_XS stand for.
constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// The eight scales and eight minima, six bits each, that a block of Q4_K or Q5_K holds in twelve bytes: the first four
// of both in the low bits of eight bytes; of the others, nibbles in the last four bytes and two high bits above the first.
static inline void scales_of_k4(const uint8_t* packed, uint8_t (&scales)[8], uint8_t (&mins)[8]) {
    for (int i = 0; i < 4; ++i) {
        scales[i] = packed[i] & 63;
        mins[i] = packed[i + 4] & 63;
        scales[i + 4] = static_cast<uint8_t>((packed[i + 8] & 15) | (packed[i] >> 6 << 4));
        mins[i + 4] = static_cast<uint8_t>((packed[i + 8] >> 4) | (packed[i + 4] >> 6 << 4));
    }
}

// The sixteen signed scales of Q3_K: nibbles in the first eight bytes, two high bits of each in the last four.
static inline void scales_of_q3(const uint8_t* packed, int8_t (&scales)[16]) {
    for (int i = 0; i < 16; ++i) {
        const int low = packed[i % 8] >> (i / 8 * 4) & 15;
        const int high = packed[8 + i % 4] >> (i / 4 * 2) & 3;
        scales[i] = static_cast<int8_t>((low | high << 4) - 32);
    }
}

// The eight signed scales of IQ4_XS: nibbles in four bytes, two high bits of each in the two bytes before.
static inline void scales_of_iq4_xs(const uint8_t* high, const uint8_t* low, int8_t (&scales)[8]) {
    const int bits = high[0] | high[1] << 8;
    for (int i = 0; i < 8; ++i) {
        scales[i] = static_cast<int8_t>(((low[i / 2] >> (i % 2 * 4) & 15) | (bits >> (2 * i) & 3) << 4) - 32);
    }
}

}  // namespace bankml
