// Products of weight rows with activation rows (see kernels.h for the arguments).
#pragma once

#include <type_traits>

#include "kernels.h"
#include "simd.h"

namespace bankml::BANKML_ISA {

void pack(const Matrix& w, uint8_t* out);
void pack_row(Activation kind, const float* x, int64_t cols, int64_t row, int64_t rows, uint8_t* panel);
void matvec(const Matrix& w, const uint8_t* panel, float* y, const float* residual, int64_t first, int64_t last);
void matmul(const MatmulArgs& args);

// The types whose dot product is in floats: F32, F16, BF16.
void matvec_float(const Matrix& w, const float* x, float* y, const float* residual, int64_t first, int64_t last);
void matmul_float(const MatmulArgs& args);

// Blocks of 256 weights with scales of their own inside, row by row: Q2_K to Q6_K, IQ4_XS.
void matvec_super(const Matrix& w, const uint8_t* panel, float* y, const float* residual, int64_t first, int64_t last);
void matmul_super(const MatmulArgs& args);

// Blocks of 128 signs: Q1_0.
void matvec_signs(const Matrix& w, const uint8_t* panel, float* y, const float* residual, int64_t first, int64_t last);
void matmul_signs(const MatmulArgs& args);

// Eight rows side by side (is_interleaved).
void pack_interleaved(const Matrix& w, uint8_t* out);
void matvec_interleaved(const Matrix& w, const uint8_t* panel, float* y, const float* residual, int64_t first,
                        int64_t last);
void matmul_interleaved(const MatmulArgs& args);

namespace {

// A block of a Q8_0 or Q8_1 panel of `rows` rows.
struct Q8Block {
    const uint8_t* data;
    int64_t rows;

    float d(int64_t row) const { return reinterpret_cast<const float*>(data)[row]; }
    float scaled_sum(int64_t row) const { return reinterpret_cast<const float*>(data)[rows + row]; }  // Q8_1
    int32_t sum(int64_t row) const { return reinterpret_cast<const int32_t*>(data)[rows + row]; }     // Q8_0
    const int8_t* quants(int64_t row) const {
        return reinterpret_cast<const int8_t*>(data + rows * 8) + row * kBlock;
    }
    void next() { data += rows * kQ8RowBytes; }
};

// A block of a Q8_K panel of `rows` rows.
template <class Byte>
struct Q8KBlock {
    Byte* data;
    int64_t rows;

    // The type T at byte `at`, const if the panel is.
    template <class T>
    auto* at(int64_t at) const {
        return reinterpret_cast<std::conditional_t<std::is_const_v<Byte>, const T, T>*>(data + at);
    }
    auto& d(int64_t row) const { return at<float>(0)[row]; }
    auto* sums32(int64_t row) const { return at<int16_t>(rows * 4 + row * 16); }
    auto* sums16(int64_t row) const { return at<int16_t>(rows * 20 + row * 32); }
    auto* quants(int64_t row) const { return at<int8_t>(rows * 52 + row * kSuperBlock); }
    void next() { data += rows * kQ8KRowBytes; }
};

}  // namespace
}  // namespace bankml::BANKML_ISA
