// Attention, and the rows of the cache it reads (see kernels.h for the arguments).
#pragma once

#include "kernels.h"
#include "simd.h"

namespace bankml::BANKML_ISA {

void store_cache_row(Type type, const float* x, uint8_t* row, int64_t n);
void attend_rows(const HeadCache& cache, Query* queries, int64_t n, float scale, int64_t first, float* scratch);
void attend_tile(const HeadCache& cache, const float* q, float* y, int64_t ld, int64_t rows, int64_t position,
                 float scale, float* scratch);

}  // namespace bankml::BANKML_ISA
