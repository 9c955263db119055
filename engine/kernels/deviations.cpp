// Squared deviations of logits added up as the reference's top-n-sigma does: one by one, in a float.
//
// An addition has to wait for the one before it, which would take longer than all other samplers together; so many are
// made at once wherever that gives the same bits.
#include "deviations.h"

#include <cmath>
#include <cstdint>
#include <cstring>

namespace bankml::BANKML_ISA {
namespace {

constexpr int64_t kTerms = 64;
using F4 = float __attribute__((vector_size(16)));
using I4 = int32_t __attribute__((vector_size(16)));
using D4 = double __attribute__((vector_size(32)));
using L4 = int64_t __attribute__((vector_size(32)));

float add_squares(float sum, const float* logits, int64_t n, float mean) {
    for (int64_t i = 0; i < n; ++i) {
        const double deviation = logits[i] == -INFINITY ? 0.0f : logits[i] - mean;
        sum = static_cast<float>(sum + deviation * deviation);
    }
    return sum;
}

// Adds a block to a float, each partial sum rounded to a float, as if one after the other.
//
// While the sum stays between two powers of two, floats there are the multiples of one unit. Adding x then adds x
// rounded to whole units, whatever the sum is, unless x lies half-way between two: which of them is taken depends on
// the sum, and the rounding to a double before may have moved x there. Such blocks are added one by one.
float add_block(float sum, const float* logits, float mean) {
    constexpr double kToInteger = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
    constexpr double kNearlyHalf = 0.5 - 1e-6;
    constexpr double kMost = 16777216.0;  // units from which on they are twice as large
    uint32_t bits;
    std::memcpy(&bits, &sum, sizeof(bits));
    const int64_t exponent = static_cast<int64_t>(bits >> 23 & 0xff) - 127;
    if (exponent > -100 && exponent < 128) {
        const int64_t scale_bits = (1023 + 23 - exponent) << 52;
        double units_in_one;
        std::memcpy(&units_in_one, &scale_bits, sizeof(units_in_one));
        D4 added{};
        L4 clear = added == 0.0;
        for (int64_t i = 0; i < kTerms; i += 4) {
            F4 four;
            std::memcpy(&four, logits + i, sizeof(four));
            const I4 counts = four != -INFINITY;
            D4 x = __builtin_convertvector((F4)((I4)(four - mean) & counts), D4);
            x *= x;
            x *= units_in_one;
            const D4 whole = (x + kToInteger) - kToInteger;
            clear &= (D4)((L4)(x - whole) & INT64_MAX) < kNearlyHalf;  // false for NaN
            added += whole;
        }
        const double units = (bits & 0x7fffff) + kMost / 2 + added[0] + added[1] + added[2] + added[3];
        if ((clear[0] & clear[1] & clear[2] & clear[3]) != 0 && units < kMost - 1) {
            return static_cast<float>(units / units_in_one);
        }
    }
    return add_squares(sum, logits, kTerms, mean);
}

}  // namespace

float sum_squares(const float* logits, int64_t n, float mean) {
    float sum = 0.0f;
    int64_t i = 0;
    for (; i + kTerms <= n; i += kTerms) sum = add_block(sum, logits + i, mean);
    return add_squares(sum, logits + i, n - i, mean);
}

}  // namespace bankml::BANKML_ISA
