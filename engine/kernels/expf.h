// e^x in single precision with the bits of the GNU C library's expf (2.28 and later, the build for processors with
// FMA), for x <= 0. llama.cpp calls that function inside attention; having it here keeps the bits independent of the
// machine's C library and lets the compiler pipeline it. Compared with glibc 2.36 over every float from -0 to -103.97.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace bankml {

// 2^(i/32). A constant, not filled at start-up: code of a build for one processor must not run on another.
constexpr double kPowers[32] = {
    0x1.0000000000000p+0, 0x1.059b0d3158574p+0, 0x1.0b5586cf9890fp+0, 0x1.11301d0125b51p+0,
    0x1.172b83c7d517bp+0, 0x1.1d4873168b9aap+0, 0x1.2387a6e756238p+0, 0x1.29e9df51fdee1p+0,
    0x1.306fe0a31b715p+0, 0x1.371a7373aa9cbp+0, 0x1.3dea64c123422p+0, 0x1.44e086061892dp+0,
    0x1.4bfdad5362a27p+0, 0x1.5342b569d4f82p+0, 0x1.5ab07dd485429p+0, 0x1.6247eb03a5585p+0,
    0x1.6a09e667f3bcdp+0, 0x1.71f75e8ec5f74p+0, 0x1.7a11473eb0187p+0, 0x1.82589994cce13p+0,
    0x1.8ace5422aa0dbp+0, 0x1.93737b0cdc5e5p+0, 0x1.9c49182a3f090p+0, 0x1.a5503b23e255dp+0,
    0x1.ae89f995ad3adp+0, 0x1.b7f76f2fb5e47p+0, 0x1.c199bdd85529cp+0, 0x1.cb720dcef9069p+0,
    0x1.d5818dcfba487p+0, 0x1.dfc97337b9b5fp+0, 0x1.ea4afa2a490dap+0, 0x1.f50765b6e4540p+0,
};

struct ExpTable {
    // The bits of 2^(i/32), less i * 2^47: adding k * 2^47 for k = 32 e + i then gives 2^(k/32).
    uint64_t bits[32] = {};
    constexpr ExpTable() {
        for (uint64_t i = 0; i < 32; ++i) bits[i] = std::bit_cast<uint64_t>(kPowers[i]) - (i << 47);
    }
};
constexpr ExpTable kExpTable;

constexpr float kExpUnderflow = -0x1.9fe368p6f;  // below it e^x is less than the smallest float
constexpr double kExpPer32nd = 0x1.71547652b82fep+5;  // 32 / ln 2
constexpr double kExpShift = 0x1.8p+52;               // adding it rounds to a whole number
// 2^(r/32) = ((c[0] r + c[1]) r^2) + (c[2] r + 1)
constexpr double kExpPolynomial[3] = {0x1.c6af84b912394p-20, 0x1.ebfce50fac4f3p-13, 0x1.62e42ff0c52d6p-6};

static inline float exp_nonpositive(float x) {
    if (x < kExpUnderflow) return 0.0f;
    const double wide = static_cast<double>(x);
    const double shifted = std::fma(kExpPer32nd, wide, kExpShift);
    const uint64_t k = std::bit_cast<uint64_t>(shifted);
    const double r = std::fma(kExpPer32nd, wide, -(shifted - kExpShift));
    const double power = std::bit_cast<double>(kExpTable.bits[k % 32] + (k << 47));
    const double high = std::fma(kExpPolynomial[0], r, kExpPolynomial[1]);
    const double low = std::fma(kExpPolynomial[2], r, 1.0);
    return static_cast<float>(std::fma(high, r * r, low) * power);
}

}  // namespace bankml
