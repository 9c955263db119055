// Squared deviations of logits (see kernels.h for the arguments).
#pragma once

#include "kernels.h"
#include "simd.h"

namespace bankml::BANKML_ISA {

float sum_squares(const float* logits, int64_t n, float mean);

}  // namespace bankml::BANKML_ISA
