// IEEE half precision and bfloat16 in plain C: the same bits as the F16C instructions, on any machine.
#pragma once

#include <cstdint>
#include <cstring>

namespace bankml {

static inline uint32_t float_bits(float x) {
    uint32_t u;
    std::memcpy(&u, &x, sizeof u);
    return u;
}

static inline float float_from_bits(uint32_t u) {
    float x;
    std::memcpy(&x, &u, sizeof x);
    return x;
}

static inline float f16_to_f32(uint16_t h) {
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
    const uint32_t exponent = (h >> 10) & 0x1fu;
    uint32_t mantissa = h & 0x3ffu;
    if (exponent == 0x1f) {
        // A signalling NaN comes out quiet, as vcvtph2ps gives it.
        return float_from_bits(sign | 0x7f800000u | (mantissa ? 0x400000u | (mantissa << 13) : 0u));
    }
    if (exponent != 0) return float_from_bits(sign | ((exponent + 112u) << 23) | (mantissa << 13));
    if (mantissa == 0) return float_from_bits(sign);
    uint32_t shifted = 113u;
    while (!(mantissa & 0x400u)) {
        mantissa <<= 1;
        --shifted;
    }
    return float_from_bits(sign | (shifted << 23) | ((mantissa & 0x3ffu) << 13));
}

// Round to nearest, ties to even.
static inline uint16_t f32_to_f16(float x) {
    const uint32_t u = float_bits(x);
    const uint32_t sign = (u >> 16) & 0x8000u;
    const uint32_t magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds past 65504
    if (magnitude < 0x33000001u) return static_cast<uint16_t>(sign);             // rounds to zero
    uint32_t shift = 13;
    uint32_t mantissa = magnitude;
    uint32_t base = 0;
    if (magnitude < 0x38800000u) {  // a half-precision subnormal
        shift = 126u - (magnitude >> 23);
        mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    } else {
        base = 112u << 10;
    }
    const uint32_t kept = mantissa >> shift;
    const uint32_t rest = mantissa & ((1u << shift) - 1u);
    const uint32_t half = 1u << (shift - 1u);
    const uint32_t up = rest > half || (rest == half && (kept & 1u));
    return static_cast<uint16_t>(sign | (kept - base + up));
}

static inline float bf16_to_f32(uint16_t h) { return float_from_bits(static_cast<uint32_t>(h) << 16); }

// Round to nearest, ties to even; a NaN is made quiet.
static inline uint16_t f32_to_bf16(float x) {
    const uint32_t u = float_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 64u);
    return static_cast<uint16_t>((u + (0x7fffu + ((u >> 16) & 1u))) >> 16);
}

}  // namespace bankml
