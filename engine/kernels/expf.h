// e^x in single precision with the bits of the GNU C library's expf (2.28 and later, the build for processors with
// FMA), for x <= 0. llama.cpp calls that function inside attention; having it here keeps the bits independent of the
// machine's C library and lets the compiler pipeline it. Compared with glibc 2.36 over every float from -0 to -103.97.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace bankml {

// 2^(i/32) as the bits of a double, less i * 2^47: adding k * 2^47 for k = 32 e + i then gives 2^(k/32).
struct ExpTable {
    uint64_t bits[32];
    ExpTable() {
        for (uint64_t i = 0; i < 32; ++i) {
            const double power = static_cast<double>(exp2l(static_cast<long double>(i) / 32.0L));
            std::memcpy(&bits[i], &power, sizeof power);
            bits[i] -= i << 47;
        }
    }
};
inline const ExpTable kExpTable;

static inline float exp_nonpositive(float x) {
    if (x < -0x1.9fe368p6f) return 0.0f;
    constexpr double per_32nd = 0x1.71547652b82fep+5;  // 32 / ln 2
    constexpr double shift = 0x1.8p+52;                // adding it rounds to a whole number
    const double wide = static_cast<double>(x);
    const double shifted = std::fma(per_32nd, wide, shift);
    uint64_t k;
    std::memcpy(&k, &shifted, sizeof k);
    const double r = std::fma(per_32nd, wide, -(shifted - shift));
    const uint64_t power_bits = kExpTable.bits[k % 32] + (k << 47);
    double power;
    std::memcpy(&power, &power_bits, sizeof power);
    const double high = std::fma(0x1.c6af84b912394p-20, r, 0x1.ebfce50fac4f3p-13);
    const double low = std::fma(0x1.62e42ff0c52d6p-6, r, 1.0);
    return static_cast<float>(std::fma(high, r * r, low) * power);
}

}  // namespace bankml
