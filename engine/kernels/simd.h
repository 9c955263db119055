// Eight float lanes, in AVX2 or in plain C. A kernel is written once over these and compiled twice (see CMakeLists.txt),
// so both builds take the same steps in the same order and give the same bits.
//
// Everything here has internal linkage: the linker must never choose one build's copy of a function for the other.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "f16.h"

#if defined(__AVX2__)
#include <immintrin.h>
#define BANKML_ISA avx2
#else
#define BANKML_ISA portable
#endif

// Left to itself the compiler keeps some of these as calls, and then arrays of lanes stay in memory.
#define BANKML_LANES [[gnu::always_inline]] inline

namespace bankml::BANKML_ISA {
namespace {

#if defined(__AVX2__)

using F8 = __m256;   // 8 floats
using I8 = __m256i;  // 8 int32
using B32 = __m256i; // 32 bytes

BANKML_LANES F8 zero8() { return _mm256_setzero_ps(); }
BANKML_LANES F8 set8(float x) { return _mm256_set1_ps(x); }
BANKML_LANES F8 load8(const float* p) { return _mm256_loadu_ps(p); }
BANKML_LANES void store8(float* p, F8 v) { _mm256_storeu_ps(p, v); }
// Stores eight floats that will be broadcast one by one. GCC would keep them in a register and take two shuffles for
// each; a load from memory takes no shuffle at all, and shuffles are what these loops run out of.
BANKML_LANES void store8_for_broadcast(float (&p)[8], F8 v) {
    _mm256_storeu_ps(p, v);
    asm("" : "+m"(p));
}
BANKML_LANES F8 load4x2(const float* p) { return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(p)); }
BANKML_LANES F8 add8(F8 a, F8 b) { return _mm256_add_ps(a, b); }
BANKML_LANES F8 sub8(F8 a, F8 b) { return _mm256_sub_ps(a, b); }
BANKML_LANES F8 mul8(F8 a, F8 b) { return _mm256_mul_ps(a, b); }
BANKML_LANES F8 div8(F8 a, F8 b) { return _mm256_div_ps(a, b); }
BANKML_LANES F8 max8(F8 a, F8 b) { return _mm256_max_ps(a, b); }
BANKML_LANES F8 fma8(F8 a, F8 b, F8 c) { return _mm256_fmadd_ps(a, b, c); }
BANKML_LANES F8 abs8(F8 a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
BANKML_LANES F8 load8_f16(const uint16_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
BANKML_LANES void store8_f16(uint16_t* p, F8 v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
BANKML_LANES F8 round_f16(F8 v) { return _mm256_cvtph_ps(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT)); }
BANKML_LANES F8 load8_bf16(const uint16_t* p) {
    const __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

BANKML_LANES B32 load32(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
BANKML_LANES void store32(void* p, B32 v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
// Sixteen bytes of nibbles: the low ones first, then the high ones.
BANKML_LANES B32 load_nibbles(const void* p) {
    const __m128i packed = _mm_loadu_si128(static_cast<const __m128i*>(p));
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(packed), _mm_srli_epi16(packed, 4), 1);
    return _mm256_and_si256(both, _mm256_set1_epi8(15));
}
// Two rows of nibbles in one: bytes below 16 joined into low and high nibbles, and apart again.
BANKML_LANES B32 join_nibbles(B32 low, B32 high) { return _mm256_or_si256(low, _mm256_slli_epi16(high, 4)); }
BANKML_LANES void split_nibbles(B32 both, B32& low, B32& high) {
    const B32 mask = _mm256_set1_epi8(15);
    low = _mm256_and_si256(both, mask);
    high = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
}
BANKML_LANES B32 abs32(B32 v) { return _mm256_sign_epi8(v, v); }
// Lane i is the sum of the four products u[4i..4i+3] * s[4i..4i+3]; no pair may pass 16 bits.
BANKML_LANES F8 dot_u8_s8(B32 u, B32 s) {
    return _mm256_cvtepi32_ps(_mm256_madd_epi16(_mm256_set1_epi16(1), _mm256_maddubs_epi16(u, s)));
}
// The same for signed x, given |x|.
BANKML_LANES F8 dot_s8_s8(B32 x_abs, B32 x, B32 y) { return dot_u8_s8(x_abs, _mm256_sign_epi8(y, x)); }

// Thirty-two floats times `scale`, each rounded to the nearest int8; returns their sum.
BANKML_LANES int32_t quantize32(const float* x, float scale, int8_t* q) {
    const F8 s = set8(scale);
    I8 v[4];
    for (int i = 0; i < 4; ++i) {
        v[i] = _mm256_cvtps_epi32(_mm256_round_ps(mul8(load8(x + 8 * i), s), _MM_FROUND_TO_NEAREST_INT));
    }
    const I8 total = _mm256_add_epi32(_mm256_add_epi32(v[0], v[1]), _mm256_add_epi32(v[2], v[3]));
    const I8 packed = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
    store32(q, _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(total), _mm256_extracti128_si256(total, 1));
    sum = _mm_add_epi32(sum, _mm_unpackhi_epi64(sum, sum));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 1));
    return _mm_cvtsi128_si32(sum);
}

BANKML_LANES float max_lane(F8 v) {
    __m128 m = _mm_max_ps(_mm256_extractf128_ps(v, 1), _mm256_castps256_ps128(v));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    m = _mm_max_ss(m, _mm_movehdup_ps(m));
    return _mm_cvtss_f32(m);
}

// (0+4)+(2+6) + (1+5)+(3+7): how ggml's dot products add their lanes.
BANKML_LANES float sum_lanes(F8 v) {
    __m128 s = _mm_add_ps(_mm256_extractf128_ps(v, 1), _mm256_castps256_ps128(v));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    s = _mm_add_ss(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(s);
}

// sum_lanes of four vectors at once.
BANKML_LANES void sum_lanes4(const F8 v[4], float out[4]) {
    __m128 h[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) h[i] = _mm_add_ps(_mm256_extractf128_ps(v[i], 1), _mm256_castps256_ps128(v[i]));
    const __m128 a = _mm_add_ps(_mm_movelh_ps(h[0], h[1]), _mm_movehl_ps(h[1], h[0]));
    const __m128 b = _mm_add_ps(_mm_movelh_ps(h[2], h[3]), _mm_movehl_ps(h[3], h[2]));
    _mm_storeu_ps(out, _mm_add_ps(_mm_shuffle_ps(a, b, 0x88), _mm_shuffle_ps(a, b, 0xdd)));
}

// ((0+4)+(1+5)) + ((2+6)+(3+7)): how ggml's f16 and f32 rows add their lanes.
BANKML_LANES float sum_lanes_hadd(F8 v) {
    const __m128 t = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 u = _mm_hadd_ps(t, t);
    return _mm_cvtss_f32(_mm_hadd_ps(u, u));
}

// The half at p, p + stride, ... of eight rows.
BANKML_LANES F8 gather_f16(const uint8_t* p, size_t stride) {
    const auto at = [=](size_t i) {
        int16_t h;
        std::memcpy(&h, p + i * stride, sizeof h);
        return h;
    };
    return _mm256_cvtph_ps(_mm_setr_epi16(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)));
}

// The two halves at p, p + stride, ... of eight rows.
BANKML_LANES void gather_f16x2(const uint8_t* p, size_t stride, F8& first, F8& second) {
    const auto at = [=](size_t i) {
        int32_t pair;
        std::memcpy(&pair, p + i * stride, sizeof pair);
        return pair;
    };
    const __m128i apart = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    const __m128i low = _mm_shuffle_epi8(_mm_setr_epi32(at(0), at(1), at(2), at(3)), apart);
    const __m128i high = _mm_shuffle_epi8(_mm_setr_epi32(at(4), at(5), at(6), at(7)), apart);
    first = _mm256_cvtph_ps(_mm_unpacklo_epi64(low, high));
    second = _mm256_cvtph_ps(_mm_unpackhi_epi64(low, high));
}

BANKML_LANES void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

// e^x in float, ggml's polynomial: at most 1.45 ulp off, infinite above 88.38, zero below -103.97.
BANKML_LANES F8 exp8(F8 x) {
    const F8 r = set8(0x1.8p23f);
    const F8 z = fma8(x, set8(0x1.715476p+0f), r);
    const F8 n = sub8(z, r);
    const F8 b = _mm256_fnmadd_ps(n, set8(0x1.7f7d1cp-20f), _mm256_fnmadd_ps(n, set8(0x1.62e4p-1f), x));
    const I8 e = _mm256_slli_epi32(_mm256_castps_si256(z), 23);
    const F8 k = _mm256_castsi256_ps(_mm256_add_epi32(e, _mm256_castps_si256(set8(1.0f))));
    const F8 u = mul8(b, b);
    const F8 j = fma8(fma8(fma8(set8(0x1.0e4020p-7f), b, set8(0x1.573e2ep-5f)), u,
                           fma8(set8(0x1.555e66p-3f), b, set8(0x1.fffdb6p-2f))),
                      u, mul8(set8(0x1.ffffecp-1f), b));
    const F8 size = abs8(n);
    const F8 large = _mm256_cmp_ps(size, set8(126.0f), _CMP_GT_OQ);
    if (!_mm256_movemask_ps(large)) return fma8(j, k, k);
    const I8 g = _mm256_and_si256(_mm256_castps_si256(_mm256_cmp_ps(n, zero8(), _CMP_LE_OQ)),
                                  _mm256_set1_epi32(static_cast<int32_t>(0x82000000u)));
    const F8 s1 = _mm256_castsi256_ps(_mm256_add_epi32(g, _mm256_set1_epi32(0x7f000000)));
    const F8 s2 = _mm256_castsi256_ps(_mm256_sub_epi32(e, g));
    const F8 huge = _mm256_cmp_ps(size, set8(192.0f), _CMP_GT_OQ);
    const F8 far = _mm256_blendv_ps(fma8(k, j, k), mul8(fma8(s2, j, s2), s1), large);
    return _mm256_blendv_ps(far, mul8(s1, s1), huge);
}

#else

struct F8 {
    float v[8];
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
BANKML_LANES F8 load4x2(const float* p) { return each([=](int i) { return p[i & 3]; }); }
BANKML_LANES F8 add8(F8 a, F8 b) { return each([&](int i) { return a.v[i] + b.v[i]; }); }
BANKML_LANES F8 sub8(F8 a, F8 b) { return each([&](int i) { return a.v[i] - b.v[i]; }); }
BANKML_LANES F8 mul8(F8 a, F8 b) { return each([&](int i) { return a.v[i] * b.v[i]; }); }
BANKML_LANES F8 div8(F8 a, F8 b) { return each([&](int i) { return a.v[i] / b.v[i]; }); }
BANKML_LANES F8 max8(F8 a, F8 b) { return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; }); }
BANKML_LANES F8 fma8(F8 a, F8 b, F8 c) { return each([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); }); }
BANKML_LANES F8 abs8(F8 a) { return each([&](int i) { return std::fabs(a.v[i]); }); }
BANKML_LANES F8 load8_f16(const uint16_t* p) { return each([=](int i) { return f16_to_f32(p[i]); }); }
BANKML_LANES void store8_f16(uint16_t* p, F8 a) {
    for (int i = 0; i < 8; ++i) p[i] = f32_to_f16(a.v[i]);
}
BANKML_LANES F8 round_f16(F8 a) { return each([&](int i) { return f16_to_f32(f32_to_f16(a.v[i])); }); }
BANKML_LANES F8 load8_bf16(const uint16_t* p) { return each([=](int i) { return bf16_to_f32(p[i]); }); }

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
BANKML_LANES F8 dot_u8_s8(B32 u, B32 s) {
    return each([&](int i) {
        int32_t sum = 0;
        for (int j = 4 * i; j < 4 * i + 4; ++j) sum += static_cast<uint8_t>(u.v[j]) * s.v[j];
        return static_cast<float>(sum);
    });
}
BANKML_LANES F8 dot_s8_s8(B32, B32 x, B32 y) {
    return each([&](int i) {
        int32_t sum = 0;
        for (int j = 4 * i; j < 4 * i + 4; ++j) sum += x.v[j] * y.v[j];
        return static_cast<float>(sum);
    });
}
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
BANKML_LANES float sum_lanes_hadd(F8 a) {
    const float* v = a.v;
    return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7]));
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

#endif

}  // namespace
}  // namespace bankml::BANKML_ISA
