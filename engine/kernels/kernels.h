// What the two builds of the kernels (AVX2 and plain C) offer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "types.h"

namespace bankml {

constexpr int64_t kPanelRows = 4;  // activation rows that one tile of a product takes at once
constexpr int64_t kGroupRows = 4;  // weight rows unpacked together for such a tile

// Bytes of scratch a thread needs to multiply matrices of up to `cols` columns.
static constexpr size_t matmul_scratch_bytes(int64_t cols) {
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

// A product with several activation rows: y[i * ldy + r] = w[r] . x[i] (+ residual[i * ldy + r]) for weight rows
// first..last-1 and n activation rows in panels of kPanelRows.
struct MatmulArgs {
    Matrix w;
    const uint8_t* panels;
    float* y;
    const float* residual;
    int64_t ldy;
    int64_t n;
    int64_t batch;  // activation rows of the whole product, of which these n are a part; a multiple of 4 of them precede
    int64_t first;
    int64_t last;
    uint8_t* scratch;

    [[gnu::always_inline]] void put(int64_t i, int64_t r, float sum) const {
        y[i * ldy + r] = residual ? sum + residual[i * ldy + r] : sum;
    }
};

struct Kernels {
    const char* name;

    void (*rms_norm)(const float* x, const float* weight, float* y, int64_t n, float eps);
    void (*swiglu)(const float* gate, const float* up, float* y, int64_t n);
    void (*rotate)(float* x, const float* cos_sin, int64_t n_rot, bool neox);
    void (*store_f16)(const float* x, uint16_t* y, int64_t n);

    // Writes packed_bytes bytes.
    void (*pack)(const Matrix& w, uint8_t* out);
    // Writes activation row `row` of a panel of `rows` rows.
    void (*pack_row)(Activation kind, const float* x, int64_t cols, int64_t row, int64_t rows, uint8_t* panel);
    // y[r] = w[r] . x (+ residual[r]) for weight rows first..last-1 and one activation row (a panel of one).
    void (*matvec)(const Matrix& w, const uint8_t* panel, float* y, const float* residual, int64_t first, int64_t last);
    void (*matmul)(const MatmulArgs& args);

    // One row of `heads` consecutive query heads that share the cache, over positions first..last-1; values are kept in
    // half precision. Writes one Partial a head.
    void (*attend_heads)(const HeadCache& cache, const float* q, int64_t heads, float scale, int64_t first,
                         int64_t last, Partial* out);
    // `rows` (at most 64) consecutive query rows, the first at `position`, each over positions 0..its own.
    // Row i of q and y is at i * ld.
    void (*attend_tile)(const HeadCache& cache, const float* q, float* y, int64_t ld, int64_t rows, int64_t position,
                        float scale, float* scratch);
};

// The weights of a row as floats; n is a multiple of the type's block. Not one of the Kernels: plain C on every machine,
// as in ggml.
void dequantize_row(Type type, const uint8_t* row, float* y, int64_t n);

// Floats of scratch a thread needs for attend_tile.
static constexpr size_t attend_scratch_floats(int64_t head) { return static_cast<size_t>(64 * (4 * head + 64) + 256); }

// The build for this machine. `isa` names one ("avx2", "portable"), or is empty for the fastest that runs here;
// returns nullptr if that one does not run here.
const Kernels* select_kernels(const char* isa);

}  // namespace bankml
