// Float products: F32, F16 and BF16 weights.
//
// ggml takes two different kernels. For one activation row: four accumulators of eight lanes, added at the end in a
// fixed tree. For more rows (when the weight rows come in fours): one accumulator of eight lanes an element. The bits
// differ, so both are here.
#include "matmul.h"

namespace bankml::BANKML_ISA {
namespace {

template <Type T>
F8 load_weights(const uint8_t* row, int64_t i) {
    if constexpr (T == Type::F32) return load8(reinterpret_cast<const float*>(row) + i);
    if constexpr (T == Type::F16) return load8_f16(reinterpret_cast<const uint16_t*>(row) + i);
    return load8_bf16(reinterpret_cast<const uint16_t*>(row) + i);
}

template <Type T>
float dot_row(const uint8_t* w, const float* x, int64_t cols) {
    F8 acc[4];
    for (F8& a : acc) a = zero8();
    constexpr size_t bytes = 32 * block_size(T).bytes;
    for (int64_t i = 0; i < cols; i += 32) {
        look_ahead<bytes>(w + static_cast<size_t>(i) * block_size(T).bytes);
        for (int j = 0; j < 4; ++j) acc[j] = fma8(load_weights<T>(w, i + 8 * j), load8(x + i + 8 * j), acc[j]);
    }
    const F8 sum = add8(add8(acc[0], acc[2]), add8(acc[1], acc[3]));
    return T == Type::BF16 ? sum_lanes(sum) : sum_lanes_hadd(sum);
}

template <Type T>
void matvec_t(const Matrix& w, const float* x, float* y, const float* residual, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
        const float sum = dot_row<T>(w.row(r), x, w.cols);
        y[r] = residual ? sum + residual[r] : sum;
    }
}

// Four weight rows, already floats, by Rows activation rows: out[i * 4 + r].
template <int Rows>
void tile_4(const float* w, const float* x, int64_t cols, float* out) {
    F8 acc[Rows][4];
BANKML_UNROLL(3)
    for (int i = 0; i < Rows; ++i) {
BANKML_UNROLL(4)
        for (int r = 0; r < 4; ++r) acc[i][r] = zero8();
    }
    for (int64_t k = 0; k < cols; k += 8) {
        F8 a[4];
BANKML_UNROLL(4)
        for (int r = 0; r < 4; ++r) a[r] = load8(w + 4 * k + 8 * r);
BANKML_UNROLL(3)
        for (int i = 0; i < Rows; ++i) {
            const F8 b = load8(x + i * cols + k);
BANKML_UNROLL(4)
            for (int r = 0; r < 4; ++r) acc[i][r] = fma8(a[r], b, acc[i][r]);
        }
    }
BANKML_UNROLL(3)
    for (int i = 0; i < Rows; ++i) sum_lanes4(acc[i], out + 4 * i);
}

template <Type T>
void matmul_t(const MatmulArgs& args) {
    const Matrix& w = args.w;
    const float* x = reinterpret_cast<const float*>(args.panels);
    float* rows4 = reinterpret_cast<float*>(args.scratch);
    for (int64_t r = args.first; r < args.last; r += 4) {
        // Side by side, eight columns of each: one stream, whose loads need no address of their own.
        for (int64_t j = 0; j < 4; ++j) {
            for (int64_t k = 0; k < w.cols; k += 8) store8(rows4 + 4 * k + 8 * j, load_weights<T>(w.row(r + j), k));
        }
        for (int64_t i = 0; i < args.n; i += 3) {
            const int64_t rows = args.n - i < 3 ? args.n - i : 3;
            float out[12];
            if (rows == 3) tile_4<3>(rows4, x + i * w.cols, w.cols, out);
            if (rows == 2) tile_4<2>(rows4, x + i * w.cols, w.cols, out);
            if (rows == 1) tile_4<1>(rows4, x + i * w.cols, w.cols, out);
            for (int64_t j = 0; j < rows; ++j) args.put_rows<4>(i + j, r, out + 4 * j);
        }
    }
}

}  // namespace

void matvec_float(const Matrix& w, const float* x, float* y, const float* residual, int64_t first, int64_t last) {
    switch (w.type) {
        case Type::F32: return matvec_t<Type::F32>(w, x, y, residual, first, last);
        case Type::F16: return matvec_t<Type::F16>(w, x, y, residual, first, last);
        default: return matvec_t<Type::BF16>(w, x, y, residual, first, last);
    }
}

void matmul_float(const MatmulArgs& args) {
    if (args.w.rows % 4 != 0) {  // ggml falls back to the row kernel
        for (int64_t i = 0; i < args.n; ++i) {
            const float* x = reinterpret_cast<const float*>(args.panels) + i * args.w.cols;
            const float* residual = args.residual ? args.residual + i * args.ldy : nullptr;
            matvec_float(args.w, x, args.y + i * args.ldy, residual, args.first, args.last);
        }
        return;
    }
    switch (args.w.type) {
        case Type::F32: return matmul_t<Type::F32>(args);
        case Type::F16: return matmul_t<Type::F16>(args);
        default: return matmul_t<Type::BF16>(args);
    }
}

}  // namespace bankml::BANKML_ISA
