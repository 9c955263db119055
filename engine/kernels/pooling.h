// One vector for many rows, and the classifier's probabilities (see kernels.h for the arguments).
#pragma once

#include "kernels.h"
#include "simd.h"

namespace bankml::BANKML_ISA {

void mean_rows(const float* x, int64_t n, int64_t width, float* y);
void soft_max(const float* x, int64_t n, float* y);

}  // namespace bankml::BANKML_ISA
