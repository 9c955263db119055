// Products of weight rows with activation rows (see kernels.h for the arguments).
#pragma once

#include "kernels.h"
#include "simd.h"

namespace bankml::BANKML_ISA {

void pack(const Matrix& w, uint8_t* out);
void pack_row(Activation kind, const float* x, int64_t cols, int64_t row, int64_t rows, uint8_t* panel);
void matvec(const Matrix& w, const uint8_t* panel, float* y, const float* residual, int64_t first, int64_t last);
void matmul(const Matrix& w, const uint8_t* panels, float* y, const float* residual, int64_t ldy, int64_t n,
            int64_t first, int64_t last, uint8_t* scratch);

// The types whose dot product is in floats: F32, F16, BF16.
void matvec_float(const Matrix& w, const float* x, float* y, const float* residual, int64_t first, int64_t last);
void matmul_float(const Matrix& w, const float* x, float* y, const float* residual, int64_t ldy, int64_t n,
                  int64_t first, int64_t last, float* scratch);

}  // namespace bankml::BANKML_ISA
