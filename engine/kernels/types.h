// The types of weights that have kernels, and the types of activations that they are multiplied with.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bankml {

// Functions here have internal linkage, for files compiled twice include them (see simd.h).

// GGUF's numbers for the weight types that have a kernel here.
enum class Type : uint32_t {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q5_0 = 6,
    Q5_1 = 7,
    Q8_0 = 8,
    Q2_K = 10,
    Q3_K = 11,
    Q4_K = 12,
    Q5_K = 13,
    Q6_K = 14,
    IQ4_NL = 20,
    IQ4_XS = 23,
    BF16 = 30,
    Q1_0 = 41,
    Q2_0 = 42,
};

constexpr int64_t kBlock = 32;       // activations in a Q8_0 or Q8_1 block
constexpr int64_t kSuperBlock = 256;  // activations in a Q8_K block

// A weight matrix as it lies in the file: `rows` rows of `cols` weights.
struct Matrix {
    Type type;
    const uint8_t* data;
    int64_t rows;
    int64_t cols;
    size_t row_bytes;
    const uint8_t* packed = nullptr;  // the same weights in the order the kernels read them, if not the file's

    [[gnu::always_inline]] const uint8_t* row(int64_t r) const { return data + static_cast<size_t>(r) * row_bytes; }
};

// How a type lies in a file: `bytes` for each `weights` of a row.
struct BlockSize {
    int64_t weights;
    int64_t bytes;
};

static constexpr BlockSize block_size(Type type) {
    switch (type) {
        case Type::F32: return {1, 4};
        case Type::F16: return {1, 2};
        case Type::BF16: return {1, 2};
        case Type::Q4_0: return {32, 18};
        case Type::Q4_1: return {32, 20};
        case Type::Q5_0: return {32, 22};
        case Type::Q5_1: return {32, 24};
        case Type::Q8_0: return {32, 34};
        case Type::IQ4_NL: return {32, 18};
        case Type::Q2_K: return {256, 84};
        case Type::Q3_K: return {256, 110};
        case Type::Q4_K: return {256, 144};
        case Type::Q5_K: return {256, 176};
        case Type::Q6_K: return {256, 210};
        case Type::IQ4_XS: return {256, 136};
        case Type::Q1_0: return {128, 18};
        case Type::Q2_0: return {64, 18};
    }
    return {0, 0};
}

// Matrices that ggml repacks, eight rows side by side, and multiplies with other kernels than it has for their rows.
// Ours must be packed too, for the bits differ.
static constexpr bool is_interleaved(Type type, int64_t rows) {
    switch (type) {
        case Type::Q4_0:
        case Type::Q4_K:
        case Type::IQ4_NL: return rows % 8 == 0;
        case Type::Q2_0: return true;  // ggml has plain C for its rows, which eight lanes take in step
        default: return false;
    }
}

// Matrices that are copied into one stream of eight rows: blocks of 32, whose rows would be eight streams.
static constexpr bool is_streamed(Type type, int64_t rows) {
    switch (type) {
        case Type::Q4_1:
        case Type::Q5_0:
        case Type::Q5_1:
        case Type::Q8_0: return rows % 8 == 0;
        default: return false;
    }
}

// All others are copied as they are, for the large pages of the copy: they are read at the speed of the memory.
static constexpr bool is_copied(Type type, int64_t rows) {
    return !is_interleaved(type, rows) && !is_streamed(type, rows);
}

// Bytes of a matrix packed by Kernels::pack, in whole cache lines.
static constexpr size_t packed_bytes(Type type, int64_t rows, int64_t cols) {
    const int64_t eights = (rows + 7) / 8 * 8;  // the last eight are filled up with zeros
    const BlockSize block = block_size(type);
    const int64_t bytes = type == Type::Q4_K && is_interleaved(type, rows)
                              ? rows / 8 * (cols / kSuperBlock) * 1184  // 6-bit scales widened to bytes
                              : (is_copied(type, rows) ? rows : eights) * (cols / block.weights) * block.bytes;
    return static_cast<size_t>((bytes + 63) / 64 * 64);
}

// How a product wants the activations.
//   Q8_0, Q8_1: blocks of 32 int8 with a scale d in half precision, and their sum (Q8_1: d * sum in half precision).
//   Q8_0x16: the same blocks for signed weights by several rows: the even quants of a block as int16, then the odd ones.
//   Q8_K: blocks of 256 int8 with a float scale and sums of 16 and of 32. Q8_Kx4: the same, quantized as ggml does for
//   four rows at once, which takes another sign where the largest magnitude stands with both.
//   F32, F16, BF16: floats, rounded through the weights' type if that is a half type.
enum class Activation { Q8_0, Q8_1, Q8_K, Q8_Kx4, F32, F16, BF16, Q8_0x16 };
constexpr size_t kActivations = 8;

// What a product of `w` with n rows takes.
static constexpr Activation activation_of(const Matrix& w, int64_t n) {
    switch (w.type) {
        case Type::F32: return Activation::F32;
        case Type::F16: return Activation::F16;
        case Type::BF16: return Activation::BF16;
        case Type::Q4_1:
        case Type::Q5_1: return Activation::Q8_1;
        case Type::Q2_K:
        case Type::Q3_K:
        case Type::Q5_K:
        case Type::Q6_K:
        case Type::IQ4_XS: return Activation::Q8_K;
        case Type::Q4_K: return is_interleaved(w.type, w.rows) ? Activation::Q8_Kx4 : Activation::Q8_K;
        case Type::Q4_0:
        case Type::Q5_0:
        case Type::Q8_0:
        case Type::IQ4_NL:
            return n > 1 && !is_interleaved(w.type, w.rows) ? Activation::Q8_0x16 : Activation::Q8_0;
        default: return Activation::Q8_0;
    }
}

// What row i of n is quantized as: ggml takes the last rows of Q8_Kx4, that are not four, one by one.
static constexpr Activation activation_of_row(Activation kind, int64_t i, int64_t n) {
    return kind == Activation::Q8_Kx4 && i >= n / 4 * 4 ? Activation::Q8_K : kind;
}

// Bytes of a panel of `rows` activation rows (1 or kPanelRows) of `cols` values. Block after block it holds, each for
// all rows: Q8_0 and Q8_1: d (float), sum (int32) or d * sum (float), 32 int8. Q8_0x16: d, sum, 32 int16. Q8_K: d (float),
// 8 sums of 32 (int16), 16 sums of 16 (int16), 256 int8. The floats of F32, F16 and BF16 lie row after row.
constexpr int64_t kQ8RowBytes = 40;     // of a block of Q8_0 or Q8_1
constexpr int64_t kQ8x16RowBytes = 72;  // of a block of Q8_0x16
constexpr int64_t kQ8KRowBytes = 308;   // of a block of Q8_K
static constexpr size_t panel_bytes(Activation kind, int64_t rows, int64_t cols) {
    switch (kind) {
        case Activation::Q8_0:
        case Activation::Q8_1: return static_cast<size_t>(rows * (cols / kBlock) * kQ8RowBytes);
        case Activation::Q8_0x16: return static_cast<size_t>(rows * (cols / kBlock) * kQ8x16RowBytes);
        case Activation::Q8_K:
        case Activation::Q8_Kx4: return static_cast<size_t>(rows * (cols / kSuperBlock) * kQ8KRowBytes);
        default: return static_cast<size_t>(rows * cols * 4);
    }
}

}  // namespace bankml
