// The lanes of simd.h in AVX2, FMA and F16C.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "expf.h"
#include "f16.h"

namespace bankml::avx2 {
namespace {

using F8 = __m256;   // 8 floats
using I8 = __m256i;   // 8 int32
using W16 = __m256i;  // 16 int16
using B32 = __m256i;  // 32 bytes

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
// The lane `I` of each half, in all four of the half.
template <int I>
BANKML_LANES F8 broadcast4x2(F8 v) {
    return _mm256_permute_ps(v, 0x55 * I);
}
BANKML_LANES F8 load4x2(const float* p) { return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(p)); }
BANKML_LANES F8 add8(F8 a, F8 b) { return _mm256_add_ps(a, b); }
BANKML_LANES F8 sub8(F8 a, F8 b) { return _mm256_sub_ps(a, b); }
BANKML_LANES F8 mul8(F8 a, F8 b) { return _mm256_mul_ps(a, b); }
BANKML_LANES F8 div8(F8 a, F8 b) { return _mm256_div_ps(a, b); }
BANKML_LANES F8 max8(F8 a, F8 b) { return _mm256_max_ps(a, b); }
BANKML_LANES F8 fma8(F8 a, F8 b, F8 c) { return _mm256_fmadd_ps(a, b, c); }
BANKML_LANES bool any_greater8(F8 a, F8 b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)) != 0; }
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

BANKML_LANES F8 load8_s8(const int8_t* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
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
// y with the signs of x; zero where x is zero.
BANKML_LANES B32 sign32(B32 y, B32 x) { return _mm256_sign_epi8(y, x); }
BANKML_LANES B32 and32(B32 a, B32 b) { return _mm256_and_si256(a, b); }
BANKML_LANES B32 or32(B32 a, B32 b) { return _mm256_or_si256(a, b); }
BANKML_LANES B32 without32(B32 a, B32 b) { return _mm256_andnot_si256(b, a); }  // a & ~b
BANKML_LANES B32 sub32(B32 a, B32 b) { return _mm256_sub_epi8(a, b); }
BANKML_LANES B32 set32(int8_t x) { return _mm256_set1_epi8(x); }
// Every byte shifted; what crosses from a neighbour is masked away by `mask`.
template <int Bits>
BANKML_LANES B32 shift_right32(B32 v, int8_t mask) {
    return _mm256_and_si256(_mm256_srli_epi16(v, Bits), _mm256_set1_epi8(mask));
}
template <int Bits>
BANKML_LANES B32 shift_left32(B32 v, int8_t mask) {
    return _mm256_and_si256(_mm256_slli_epi16(v, Bits), _mm256_set1_epi8(mask));
}
// Byte i is all ones where bit i of the four bytes at p is set.
BANKML_LANES B32 bits32(const void* p) {
    int32_t bits;
    std::memcpy(&bits, p, sizeof bits);
    const __m256i byte_of = _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
    const __m256i others = _mm256_set1_epi64x(0x7fbfdfeff7fbfdfe);
    const __m256i set = _mm256_or_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(bits), byte_of), others);
    return _mm256_cmpeq_epi8(set, _mm256_set1_epi64x(-1));
}
// table[v] for bytes v below 16.
BANKML_LANES B32 lookup32(const int8_t (&table)[16], B32 v) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(half), v);
}
// The four bytes at p, eight times.
BANKML_LANES B32 repeat4(const void* p) {
    int32_t four;
    std::memcpy(&four, p, sizeof four);
    return _mm256_set1_epi32(four);
}

BANKML_LANES I8 zero8i() { return _mm256_setzero_si256(); }
BANKML_LANES void store8i(int32_t* p, I8 v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
BANKML_LANES I8 set8i(int32_t x) { return _mm256_set1_epi32(x); }
BANKML_LANES I8 add8i(I8 a, I8 b) { return _mm256_add_epi32(a, b); }
BANKML_LANES I8 sub8i(I8 a, I8 b) { return _mm256_sub_epi32(a, b); }
template <int Bits>
BANKML_LANES I8 shift_left8i(I8 v) { return _mm256_slli_epi32(v, Bits); }
BANKML_LANES F8 to_f32(I8 v) { return _mm256_cvtepi32_ps(v); }
BANKML_LANES int32_t sum8i(I8 v) {
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    sum = _mm_add_epi32(sum, _mm_unpackhi_epi64(sum, sum));
    return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 1)));
}

BANKML_LANES W16 load16w(const int16_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
BANKML_LANES void store16w(int16_t* p, W16 v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
BANKML_LANES W16 set16w(int16_t x) { return _mm256_set1_epi16(x); }
// `low` in the first eight lanes, `high` in the others.
BANKML_LANES W16 halves16w(int16_t low, int16_t high) { return _mm256_set_m128i(_mm_set1_epi16(high), _mm_set1_epi16(low)); }
BANKML_LANES W16 add16w(W16 a, W16 b) { return _mm256_add_epi16(a, b); }
// The pair of int16 at p, eight times.
BANKML_LANES W16 repeat2w(const int16_t* p) { return repeat4(p); }
// Sixteen bytes below 128 as int16.
BANKML_LANES W16 widen16w(const uint8_t* p) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
// Eight bytes below 128 as int16, each twice.
BANKML_LANES W16 twice8w(const uint8_t* p) {
    const __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    return _mm256_or_si256(wide, _mm256_slli_epi32(wide, 16));
}
// The signed bytes 0, 2, 4, ... and 1, 3, 5, ... as int16.
BANKML_LANES W16 even16w(B32 v) { return _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8); }
BANKML_LANES W16 odd16w(B32 v) { return _mm256_srai_epi16(v, 8); }
// Lane i is u[2i] * s[2i] + u[2i + 1] * s[2i + 1]; no sum may pass 16 bits.
BANKML_LANES W16 pairs16w(B32 u, B32 s) { return _mm256_maddubs_epi16(u, s); }
// Lane i is a[2i] * b[2i] + a[2i + 1] * b[2i + 1].
BANKML_LANES I8 pairs8i(W16 a, W16 b) { return _mm256_madd_epi16(a, b); }
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
BANKML_UNROLL(4)
    for (int i = 0; i < 4; ++i) h[i] = _mm_add_ps(_mm256_extractf128_ps(v[i], 1), _mm256_castps256_ps128(v[i]));
    const __m128 a = _mm_add_ps(_mm_movelh_ps(h[0], h[1]), _mm_movehl_ps(h[1], h[0]));
    const __m128 b = _mm_add_ps(_mm_movelh_ps(h[2], h[3]), _mm_movehl_ps(h[3], h[2]));
    _mm_storeu_ps(out, _mm_add_ps(_mm_shuffle_ps(a, b, 0x88), _mm_shuffle_ps(a, b, 0xdd)));
}

// Four rows of four floats become four columns.
BANKML_LANES void transpose4x4(const float in[16], float out[16]) {
    __m128 row[4];
BANKML_UNROLL(4)
    for (int i = 0; i < 4; ++i) row[i] = _mm_loadu_ps(in + 4 * i);
    _MM_TRANSPOSE4_PS(row[0], row[1], row[2], row[3]);
BANKML_UNROLL(4)
    for (int i = 0; i < 4; ++i) _mm_storeu_ps(out + 4 * i, row[i]);
}

// ((0+4)+(1+5)) + ((2+6)+(3+7)): how ggml's f16 and f32 rows add their lanes.
BANKML_LANES float sum_lanes_hadd(F8 v) {
    const __m128 t = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 u = _mm_hadd_ps(t, t);
    return _mm_cvtss_f32(_mm_hadd_ps(u, u));
}

// Lanes 0 to 3 of the result come from v[0..3], lanes 4 to 7 from v[4..7]: in each, the halves of a vector added.
BANKML_LANES void add_halves8(const F8 v[8], F8 out[4]) {
    BANKML_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
        out[i] = _mm256_add_ps(_mm256_permute2f128_ps(v[i], v[i + 4], 0x20), _mm256_permute2f128_ps(v[i], v[i + 4], 0x31));
    }
}

// sum_lanes of eight vectors at once: lane i is that of v[i].
BANKML_LANES F8 sum_lanes8(const F8 v[8]) {
    F8 h[4];
    add_halves8(v, h);
    const F8 a = _mm256_add_ps(_mm256_shuffle_ps(h[0], h[1], 0x44), _mm256_shuffle_ps(h[0], h[1], 0xee));
    const F8 b = _mm256_add_ps(_mm256_shuffle_ps(h[2], h[3], 0x44), _mm256_shuffle_ps(h[2], h[3], 0xee));
    return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd));
}

// sum_lanes_hadd of eight vectors at once.
BANKML_LANES F8 sum_lanes8_hadd(const F8 v[8]) {
    F8 h[4];
    add_halves8(v, h);
    return _mm256_hadd_ps(_mm256_hadd_ps(h[0], h[1]), _mm256_hadd_ps(h[2], h[3]));
}

// One pass of a Hadamard transform within the lanes: each lane and its neighbour `Apart` (1, 2 or 4) lanes on become
// their sum and their difference.
template <int Apart>
BANKML_LANES F8 butterfly8(F8 v) {
    const F8 other = Apart == 1   ? _mm256_permute_ps(v, 0xb1)
                     : Apart == 2 ? _mm256_permute_ps(v, 0x4e)
                                  : _mm256_permute2f128_ps(v, v, 0x01);
    const F8 sign = Apart == 1   ? _mm256_setr_ps(0.0f, -0.0f, 0.0f, -0.0f, 0.0f, -0.0f, 0.0f, -0.0f)
                    : Apart == 2 ? _mm256_setr_ps(0.0f, 0.0f, -0.0f, -0.0f, 0.0f, 0.0f, -0.0f, -0.0f)
                                 : _mm256_setr_ps(0.0f, 0.0f, 0.0f, 0.0f, -0.0f, -0.0f, -0.0f, -0.0f);
    return _mm256_add_ps(other, _mm256_xor_ps(v, sign));
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

// exp_nonpositive of four lanes, step by step.
BANKML_LANES __m128 exp4_nonpositive(__m128 x) {
    const auto set = [](double c) { return _mm256_set1_pd(c); };
    const __m256d per_32nd = set(kExpPer32nd);
    const __m256d shift = set(kExpShift);
    const __m256d wide = _mm256_cvtps_pd(x);
    const __m256d shifted = _mm256_fmadd_pd(per_32nd, wide, shift);
    const __m256i k = _mm256_castpd_si256(shifted);
    const __m256d r = _mm256_fmsub_pd(per_32nd, wide, _mm256_sub_pd(shifted, shift));
    const __m256i of_32 = _mm256_and_si256(k, _mm256_set1_epi64x(31));
    const __m256i bits = _mm256_i64gather_epi64(reinterpret_cast<const long long*>(kExpTable.bits), of_32, 8);
    const __m256d power = _mm256_castsi256_pd(_mm256_add_epi64(bits, _mm256_slli_epi64(k, 47)));
    const __m256d high = _mm256_fmadd_pd(set(kExpPolynomial[0]), r, set(kExpPolynomial[1]));
    const __m256d low = _mm256_fmadd_pd(set(kExpPolynomial[2]), r, set(1.0));
    return _mm256_cvtpd_ps(_mm256_mul_pd(_mm256_fmadd_pd(high, _mm256_mul_pd(r, r), low), power));
}
BANKML_LANES F8 exp8_nonpositive(F8 x) {
    const __m128 low = exp4_nonpositive(_mm256_castps256_ps128(x));
    const __m128 high = exp4_nonpositive(_mm256_extractf128_ps(x, 1));
    const F8 e = _mm256_set_m128(high, low);
    return _mm256_andnot_ps(_mm256_cmp_ps(x, set8(kExpUnderflow), _CMP_LT_OQ), e);
}

}  // namespace
}  // namespace bankml::avx2
