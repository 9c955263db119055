// Eight float lanes, in AVX2 or in plain C. A kernel is written once over these and compiled twice (see CMakeLists.txt),
// so both builds take the same steps in the same order and give the same bits.
//
// Everything here has internal linkage: the linker must never choose one build's copy of a function for the other.
#pragma once

#if defined(__AVX2__)
#define BANKML_ISA avx2
#else
#define BANKML_ISA portable
#endif

#if defined(__AVX2__)
// Left to itself the compiler keeps some of these as calls, and then arrays of lanes stay in memory.
#define BANKML_LANES [[gnu::always_inline]] inline
#define BANKML_UNROLL(n) BANKML_PRAGMA(GCC unroll n)
#define BANKML_PRAGMA(text) _Pragma(#text)
#include "simd_avx2.h"
#else
// Here a lane is a loop: inlined everywhere, the unrolled tiles would take minutes to compile.
#define BANKML_LANES inline
#define BANKML_UNROLL(n)
#include "simd_portable.h"
#endif

namespace bankml::BANKML_ISA {
namespace {

// A product with one row reads every weight once, from memory. The processor's own prefetching follows such a stream
// but stops at the end of each small page; asking this far ahead keeps both cores' reads going (RESULTS.md).
constexpr size_t kLookAhead = 2048;

// Asks for the `Bytes` bytes of a stream that lie kLookAhead after those at p.
template <size_t Bytes>
BANKML_LANES void look_ahead(const uint8_t* p) {
    for (size_t line = 0; line < Bytes; line += 64) prefetch(p + kLookAhead + line);
}

}  // namespace
}  // namespace bankml::BANKML_ISA
