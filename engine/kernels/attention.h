// Attention over a half-precision cache (see kernels.h for the arguments).
#pragma once

#include "kernels.h"
#include "simd.h"

namespace bankml::BANKML_ISA {

void attend_heads(const HeadCache& cache, const float* q, int64_t heads, float scale, int64_t first, int64_t last,
                  Partial* out);
void attend_tile(const HeadCache& cache, const float* q, float* y, int64_t ld, int64_t rows, int64_t position,
                 float scale, float* scratch);

}  // namespace bankml::BANKML_ISA
