// What the two builds of the kernels (AVX2 and plain C) offer, and the shapes they agree on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bankml {

// GGUF's numbers for the weight types that have a kernel here.
enum class Type : uint32_t { F32 = 0, F16 = 1, Q4_1 = 3, Q8_0 = 8, BF16 = 30 };

constexpr int64_t kBlock = 32;      // weights in a Q4_1 or Q8_0 block, activations in a Q8 block
constexpr int64_t kPanelRows = 4;   // activation rows that one tile of a product takes at once
constexpr int64_t kGroupRows = 4;   // weight rows unpacked together for such a tile

// A weight matrix as it lies in the file: `rows` rows of `cols` weights.
struct Matrix {
    Type type;
    const uint8_t* data;
    int64_t rows;
    int64_t cols;
    size_t row_bytes;
    const uint8_t* packed = nullptr;  // the same weights in the order the kernels read them, if not the file's

    const uint8_t* row(int64_t r) const { return data + static_cast<size_t>(r) * row_bytes; }
};

// Bytes of a matrix packed by Kernels::pack; 0 where the file's own order is as good, or the rows do not come in eights.
inline size_t packed_bytes(const Matrix& w) {
    return w.type == Type::Q4_1 && w.rows % 8 == 0 ? static_cast<size_t>(w.rows) * w.row_bytes : 0;
}

// How a weight type wants the activations. Q8: blocks of 32 int8 with a scale d and d * sum, both rounded to half
// precision (ggml's q8_0 and q8_1 in one). F32: floats, rounded through the weight's type if that is a half type.
enum class Activation { Q8, F32, F16, BF16 };

constexpr Activation activation_of(Type type) {
    switch (type) {
        case Type::F16: return Activation::F16;
        case Type::BF16: return Activation::BF16;
        case Type::F32: return Activation::F32;
        default: return Activation::Q8;
    }
}

// Bytes of a panel of `rows` activation rows (1 or kPanelRows) of `cols` values. A Q8 panel holds, block after block,
// rows floats d, rows floats d * sum, rows times 32 int8; an F32 one holds the rows one after another.
constexpr size_t panel_bytes(Activation kind, int64_t rows, int64_t cols) {
    return static_cast<size_t>(kind == Activation::Q8 ? rows * (cols / kBlock) * 40 : rows * cols * 4);
}

// Bytes of scratch a thread needs to multiply matrices of up to `cols` columns.
constexpr size_t matmul_scratch_bytes(int64_t cols) {
    return static_cast<size_t>(kGroupRows * cols * 4 + (cols / kBlock) * 2 * kGroupRows * 4 * 4 + 256);
}

// One key/value head of one layer: `stride`-spaced rows of `head` half-precision values, a row a position.
struct HeadCache {
    const uint16_t* k;
    const uint16_t* v;
    int64_t head;
};

// The running softmax of one query row over a stretch of positions: maximum, sum, weighted values.
struct Partial {
    float max;
    float sum;
    float* values;  // `head` floats
};

struct Kernels {
    const char* name;

    void (*dequantize_row)(Type type, const uint8_t* row, float* y, int64_t n);
    void (*rms_norm)(const float* x, const float* weight, float* y, int64_t n, float eps);
    void (*swiglu)(const float* gate, const float* up, float* y, int64_t n);
    void (*rotate)(float* x, const float* cos_sin, int64_t n_rot, bool neox);
    void (*store_f16)(const float* x, uint16_t* y, int64_t n);

    // Writes packed_bytes(w) bytes; for matrices where that is not 0.
    void (*pack)(const Matrix& w, uint8_t* out);
    // Writes activation row `row` of a panel of `rows` rows.
    void (*pack_row)(Activation kind, const float* x, int64_t cols, int64_t row, int64_t rows, uint8_t* panel);
    // y[r] = w[r] . x (+ residual[r]) for weight rows first..last-1 and one activation row (a panel of one).
    void (*matvec)(const Matrix& w, const uint8_t* panel, float* y, const float* residual, int64_t first, int64_t last);
    // y[i * ldy + r] = w[r] . x[i] (+ residual[i * ldy + r]) for n >= 2 activation rows in panels of kPanelRows.
    void (*matmul)(const Matrix& w, const uint8_t* panels, float* y, const float* residual, int64_t ldy, int64_t n,
                   int64_t first, int64_t last, uint8_t* scratch);

    // One row of `heads` consecutive query heads that share the cache, over positions first..last-1; values are kept in
    // half precision. Writes one Partial a head.
    void (*attend_heads)(const HeadCache& cache, const float* q, int64_t heads, float scale, int64_t first,
                         int64_t last, Partial* out);
    // `rows` (at most 64) consecutive query rows, the first at `position`, each over positions 0..its own.
    // Row i of q and y is at i * ld.
    void (*attend_tile)(const HeadCache& cache, const float* q, float* y, int64_t ld, int64_t rows, int64_t position,
                        float scale, float* scratch);
};

// Floats of scratch a thread needs for attend_tile.
constexpr size_t attend_scratch_floats(int64_t head) { return static_cast<size_t>(64 * (4 * head + 64) + 256); }

// The build for this machine. `isa` names one ("avx2", "portable"), or is empty for the fastest that runs here;
// returns nullptr if that one does not run here.
const Kernels* select_kernels(const char* isa);

}  // namespace bankml
