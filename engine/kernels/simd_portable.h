// The lanes of simd.h in plain C: what each instruction of the AVX2 build gives, bit for bit.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "expf.h"
#include "f16.h"

namespace bankml::portable {
namespace {

struct F8 {
    float v[8];
};
struct I8 {
    int32_t v[8];
};
struct W16 {
    int16_t v[16];
};
struct B32 {
    int8_t v[32];
};

template <class Op>
BANKML_LANES F8 each(Op op) {
    F8 r;
    for (int i = 0; i < 8; ++i) r.v[i] = op(i);
    return r;
}

BANKML_LANES F8 zero8() { return each([](int) { return 0.0f; }); }
BANKML_LANES F8 set8(float x) { return each([=](int) { return x; }); }
BANKML_LANES F8 load8(const float* p) { return each([=](int i) { return p[i]; }); }
BANKML_LANES void store8(float* p, F8 a) { std::memcpy(p, a.v, sizeof a.v); }
BANKML_LANES void store8_for_broadcast(float (&p)[8], F8 a) { store8(p, a); }
template <int I>
BANKML_LANES F8 broadcast4x2(F8 a) {
    return each([&](int i) { return a.v[i / 4 * 4 + I]; });
}
BANKML_LANES F8 load4x2(const float* p) { return each([=](int i) { return p[i & 3]; }); }
BANKML_LANES F8 add8(F8 a, F8 b) { return each([&](int i) { return a.v[i] + b.v[i]; }); }
BANKML_LANES F8 sub8(F8 a, F8 b) { return each([&](int i) { return a.v[i] - b.v[i]; }); }
BANKML_LANES F8 mul8(F8 a, F8 b) { return each([&](int i) { return a.v[i] * b.v[i]; }); }
BANKML_LANES F8 div8(F8 a, F8 b) { return each([&](int i) { return a.v[i] / b.v[i]; }); }
BANKML_LANES F8 max8(F8 a, F8 b) { return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; }); }
BANKML_LANES F8 fma8(F8 a, F8 b, F8 c) { return each([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); }); }
BANKML_LANES bool any_greater8(F8 a, F8 b) {
    bool any = false;
    for (int i = 0; i < 8; ++i) any |= a.v[i] > b.v[i];
    return any;
}
BANKML_LANES F8 abs8(F8 a) { return each([&](int i) { return std::fabs(a.v[i]); }); }
BANKML_LANES F8 load8_f16(const uint16_t* p) { return each([=](int i) { return f16_to_f32(p[i]); }); }
BANKML_LANES void store8_f16(uint16_t* p, F8 a) {
    for (int i = 0; i < 8; ++i) p[i] = f32_to_f16(a.v[i]);
}
BANKML_LANES F8 round_f16(F8 a) { return each([&](int i) { return f16_to_f32(f32_to_f16(a.v[i])); }); }
BANKML_LANES F8 load8_bf16(const uint16_t* p) { return each([=](int i) { return bf16_to_f32(p[i]); }); }

BANKML_LANES F8 load8_s8(const int8_t* p) { return each([=](int i) { return static_cast<float>(p[i]); }); }

BANKML_LANES B32 load32(const void* p) {
    B32 r;
    std::memcpy(r.v, p, 32);
    return r;
}
BANKML_LANES void store32(void* p, B32 a) { std::memcpy(p, a.v, 32); }
BANKML_LANES B32 load_nibbles(const void* p) {
    const uint8_t* q = static_cast<const uint8_t*>(p);
    B32 r;
    for (int i = 0; i < 16; ++i) {
        r.v[i] = static_cast<int8_t>(q[i] & 15);
        r.v[i + 16] = static_cast<int8_t>(q[i] >> 4);
    }
    return r;
}
BANKML_LANES B32 join_nibbles(B32 low, B32 high) {
    for (int i = 0; i < 32; ++i) low.v[i] = static_cast<int8_t>(low.v[i] | high.v[i] << 4);
    return low;
}
BANKML_LANES void split_nibbles(B32 both, B32& low, B32& high) {
    for (int i = 0; i < 32; ++i) {
        low.v[i] = static_cast<int8_t>(both.v[i] & 15);
        high.v[i] = static_cast<int8_t>(static_cast<uint8_t>(both.v[i]) >> 4);
    }
}
BANKML_LANES B32 abs32(B32 a) {
    for (int8_t& x : a.v) x = static_cast<int8_t>(x < 0 ? -x : x);  // -128 stays 128 as an unsigned byte
    return a;
}
BANKML_LANES B32 sign32(B32 y, B32 x) {
    for (int i = 0; i < 32; ++i) {
        // -128 has no opposite in a byte and stays what it is.
        y.v[i] = x.v[i] == 0 ? int8_t{0} : x.v[i] > 0 ? y.v[i] : static_cast<int8_t>(-y.v[i]);
    }
    return y;
}
BANKML_LANES B32 and32(B32 a, B32 b) {
    for (int i = 0; i < 32; ++i) a.v[i] = static_cast<int8_t>(a.v[i] & b.v[i]);
    return a;
}
BANKML_LANES B32 or32(B32 a, B32 b) {
    for (int i = 0; i < 32; ++i) a.v[i] = static_cast<int8_t>(a.v[i] | b.v[i]);
    return a;
}
BANKML_LANES B32 without32(B32 a, B32 b) {
    for (int i = 0; i < 32; ++i) a.v[i] = static_cast<int8_t>(a.v[i] & ~b.v[i]);
    return a;
}
BANKML_LANES B32 sub32(B32 a, B32 b) {
    for (int i = 0; i < 32; ++i) a.v[i] = static_cast<int8_t>(a.v[i] - b.v[i]);
    return a;
}
BANKML_LANES B32 set32(int8_t x) {
    B32 r;
    std::memset(r.v, x, sizeof r.v);
    return r;
}
template <int Bits>
BANKML_LANES B32 shift_right32(B32 a, int8_t mask) {
    for (int8_t& x : a.v) x = static_cast<int8_t>((static_cast<uint8_t>(x) >> Bits) & mask);
    return a;
}
template <int Bits>
BANKML_LANES B32 shift_left32(B32 a, int8_t mask) {
    for (int8_t& x : a.v) x = static_cast<int8_t>((static_cast<uint8_t>(x) << Bits) & mask);
    return a;
}
BANKML_LANES B32 bits32(const void* p) {
    const uint8_t* q = static_cast<const uint8_t*>(p);
    B32 r;
    for (int i = 0; i < 32; ++i) r.v[i] = static_cast<int8_t>(-(q[i / 8] >> (i % 8) & 1));
    return r;
}
BANKML_LANES B32 lookup32(const int8_t (&table)[16], B32 a) {
    for (int8_t& x : a.v) x = table[x & 15];
    return a;
}
BANKML_LANES B32 repeat4(const void* p) {
    B32 r;
    for (int i = 0; i < 32; i += 4) std::memcpy(r.v + i, p, 4);
    return r;
}

BANKML_LANES void store8i(int32_t* p, I8 a) { std::memcpy(p, a.v, sizeof a.v); }
BANKML_LANES I8 set8i(int32_t x) {
    I8 r;
    for (int32_t& lane : r.v) lane = x;
    return r;
}
BANKML_LANES I8 zero8i() { return set8i(0); }
BANKML_LANES I8 add8i(I8 a, I8 b) {
    for (int i = 0; i < 8; ++i) a.v[i] += b.v[i];
    return a;
}
BANKML_LANES I8 sub8i(I8 a, I8 b) {
    for (int i = 0; i < 8; ++i) a.v[i] -= b.v[i];
    return a;
}
template <int Bits>
BANKML_LANES I8 shift_left8i(I8 a) {
    for (int32_t& lane : a.v) lane *= 1 << Bits;
    return a;
}
BANKML_LANES F8 to_f32(I8 a) { return each([&](int i) { return static_cast<float>(a.v[i]); }); }
BANKML_LANES int32_t sum8i(I8 a) {
    int32_t sum = 0;
    for (const int32_t lane : a.v) sum += lane;
    return sum;
}

BANKML_LANES W16 load16w(const int16_t* p) {
    W16 r;
    std::memcpy(r.v, p, sizeof r.v);
    return r;
}
BANKML_LANES void store16w(int16_t* p, W16 a) { std::memcpy(p, a.v, sizeof a.v); }
BANKML_LANES W16 set16w(int16_t x) {
    W16 r;
    for (int16_t& lane : r.v) lane = x;
    return r;
}
BANKML_LANES W16 halves16w(int16_t low, int16_t high) {
    W16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = i < 8 ? low : high;
    return r;
}
BANKML_LANES W16 add16w(W16 a, W16 b) {
    for (int i = 0; i < 16; ++i) a.v[i] = static_cast<int16_t>(a.v[i] + b.v[i]);
    return a;
}
BANKML_LANES W16 repeat2w(const int16_t* p) {
    W16 r;
    for (int i = 0; i < 16; i += 2) std::memcpy(r.v + i, p, 4);
    return r;
}
BANKML_LANES W16 widen16w(const uint8_t* p) {
    W16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = p[i];
    return r;
}
BANKML_LANES W16 twice8w(const uint8_t* p) {
    W16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = p[i / 2];
    return r;
}
BANKML_LANES W16 even16w(B32 a) {
    W16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = a.v[2 * i];
    return r;
}
BANKML_LANES W16 odd16w(B32 a) {
    W16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = a.v[2 * i + 1];
    return r;
}
BANKML_LANES W16 pairs16w(B32 u, B32 s) {
    W16 r;
    for (int i = 0; i < 16; ++i) {
        r.v[i] = static_cast<int16_t>(static_cast<uint8_t>(u.v[2 * i]) * s.v[2 * i] +
                                      static_cast<uint8_t>(u.v[2 * i + 1]) * s.v[2 * i + 1]);
    }
    return r;
}
BANKML_LANES I8 pairs8i(W16 a, W16 b) {
    I8 r;
    for (int i = 0; i < 8; ++i) r.v[i] = a.v[2 * i] * b.v[2 * i] + a.v[2 * i + 1] * b.v[2 * i + 1];
    return r;
}
BANKML_LANES F8 dot_u8_s8(B32 u, B32 s) {
    return each([&](int i) {
        int32_t sum = 0;
        for (int j = 4 * i; j < 4 * i + 4; ++j) sum += static_cast<uint8_t>(u.v[j]) * s.v[j];
        return static_cast<float>(sum);
    });
}
BANKML_LANES F8 dot_s8_s8(B32 x_abs, B32 x, B32 y) { return dot_u8_s8(x_abs, sign32(y, x)); }
BANKML_LANES int32_t quantize32(const float* x, float scale, int8_t* q) {
    int32_t sum = 0;
    for (int i = 0; i < 32; ++i) {
        const float scaled = x[i] * scale;
        // What vcvtps2dq gives where no int32 fits, and how the packs that follow saturate it.
        const int32_t whole =
            std::fabs(scaled) < 2147483648.0f ? static_cast<int32_t>(std::nearbyintf(scaled)) : INT32_MIN;
        sum = static_cast<int32_t>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(whole));
        q[i] = static_cast<int8_t>(whole < -128 ? -128 : whole > 127 ? 127 : whole);
    }
    return sum;
}
BANKML_LANES float max_lane(F8 a) {
    float m = a.v[0];
    for (int i = 1; i < 8; ++i) m = a.v[i] > m ? a.v[i] : m;
    return m;
}
BANKML_LANES float sum_lanes(F8 a) {
    const float* v = a.v;
    return ((v[4] + v[0]) + (v[6] + v[2])) + ((v[5] + v[1]) + (v[7] + v[3]));
}
BANKML_LANES void sum_lanes4(const F8 a[4], float out[4]) {
    for (int i = 0; i < 4; ++i) out[i] = sum_lanes(a[i]);
}
BANKML_LANES void transpose4x4(const float in[16], float out[16]) {
    for (int i = 0; i < 16; ++i) out[i % 4 * 4 + i / 4] = in[i];
}
BANKML_LANES float sum_lanes_hadd(F8 a) {
    const float* v = a.v;
    return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7]));
}
BANKML_LANES F8 sum_lanes8(const F8 a[8]) { return each([=](int i) { return sum_lanes(a[i]); }); }
BANKML_LANES F8 sum_lanes8_hadd(const F8 a[8]) { return each([=](int i) { return sum_lanes_hadd(a[i]); }); }
template <int Apart>
BANKML_LANES F8 butterfly8(F8 a) {
    return each([&](int i) { return i & Apart ? a.v[i ^ Apart] - a.v[i] : a.v[i ^ Apart] + a.v[i]; });
}
BANKML_LANES F8 gather_f16(const uint8_t* p, size_t stride) {
    return each([=](int i) {
        uint16_t h;
        std::memcpy(&h, p + static_cast<size_t>(i) * stride, sizeof h);
        return f16_to_f32(h);
    });
}
BANKML_LANES void gather_f16x2(const uint8_t* p, size_t stride, F8& first, F8& second) {
    first = gather_f16(p, stride);
    second = gather_f16(p + 2, stride);
}
BANKML_LANES void prefetch(const void*) {}

BANKML_LANES float exp1(float x) {
    const float r = 0x1.8p23f;
    const float z = std::fma(x, 0x1.715476p+0f, r);
    const float n = z - r;
    const float b = std::fma(-n, 0x1.7f7d1cp-20f, std::fma(-n, 0x1.62e4p-1f, x));
    const uint32_t e = float_bits(z) << 23;
    const float k = float_from_bits(e + float_bits(1.0f));
    const float u = b * b;
    const float j = std::fma(std::fma(std::fma(0x1.0e4020p-7f, b, 0x1.573e2ep-5f), u,
                                      std::fma(0x1.555e66p-3f, b, 0x1.fffdb6p-2f)),
                             u, 0x1.ffffecp-1f * b);
    const float size = std::fabs(n);
    if (!(size > 126.0f)) return std::fma(k, j, k);
    const uint32_t g = n <= 0.0f ? 0x82000000u : 0u;
    const float s1 = float_from_bits(g + 0x7f000000u);
    const float s2 = float_from_bits(e - g);
    return size > 192.0f ? s1 * s1 : std::fma(s2, j, s2) * s1;
}
BANKML_LANES F8 exp8(F8 x) { return each([&](int i) { return exp1(x.v[i]); }); }

BANKML_LANES F8 exp8_nonpositive(F8 x) { return each([&](int i) { return exp_nonpositive(x.v[i]); }); }

}  // namespace
}  // namespace bankml::portable
