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
