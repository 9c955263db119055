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

// What the KV cache can hold: F16 for heads of a multiple of eight, Q8_0 for heads of whole blocks.
static constexpr bool is_cache_type(Type type, int64_t head) {
    return (type == Type::F16 && head % 8 == 0) || (type == Type::Q8_0 && head % kBlock == 0);
}

// Bytes of the keys, or the values, of one position of one head.
static constexpr size_t cache_row_bytes(Type type, int64_t head) {
    return static_cast<size_t>(head / block_size(type).weights * block_size(type).bytes);
}

// One key/value head of one layer: `head` keys and values a position, a row after the other.
struct HeadCache {
    Type k_type;
    Type v_type;
    int64_t head;
    const uint8_t* k;
    const uint8_t* v;

    [[gnu::always_inline]] const uint8_t* k_row(int64_t position) const {
        return k + static_cast<size_t>(position) * cache_row_bytes(k_type, head);
    }
    [[gnu::always_inline]] const uint8_t* v_row(int64_t position) const {
        return v + static_cast<size_t>(position) * cache_row_bytes(v_type, head);
    }
};

// One query row of one head, and its running softmax: the largest score, the sum of the weights, the weighted values.
struct Query {
    const float* q;  // `head` floats
    int64_t last;    // it sees the positions before this one
    float* values;   // `head` floats
    float max;
    float sum;
};

constexpr int64_t kQueries = 48;   // queries that one call of attend_rows takes at most
constexpr int64_t kKeysAtOnce = 8;  // keys that it reads at once: up to seven rows past the last one that is seen

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

    // The products of activation row i with Count weight rows from r on.
    template <int64_t Count>
    [[gnu::always_inline]] void put_rows(int64_t i, int64_t r, const float* sums) const {
        float* to = y + i * ldy + r;
        const float* add = residual ? residual + i * ldy + r : nullptr;
        for (int64_t k = 0; k < Count; ++k) to[k] = add ? sums[k] + add[k] : sums[k];
    }
    [[gnu::always_inline]] void put(int64_t i, int64_t r, float sum) const {
        y[i * ldy + r] = residual ? sum + residual[i * ldy + r] : sum;
    }
};

struct Kernels {
    const char* name;

    void (*rms_norm)(const float* x, const float* weight, float* y, int64_t n, float eps);
    void (*swiglu)(const float* gate, const float* up, float* y, int64_t n);
    void (*rotate)(float* x, const float* cos_sin, int64_t n_rot, bool neox);
    // Hadamard transforms of `size` (a power of two, at least 8) neighbouring floats each, orthonormal, in place.
    void (*hadamard)(float* x, int64_t size, int64_t n);
    void (*store_cache_row)(Type type, const float* x, uint8_t* row, int64_t n);

    // Writes packed_bytes bytes.
    void (*pack)(const Matrix& w, uint8_t* out);
    // Writes activation row `row` of a panel of `rows` rows.
    void (*pack_row)(Activation kind, const float* x, int64_t cols, int64_t row, int64_t rows, uint8_t* panel);
    // y[r] = w[r] . x (+ residual[r]) for weight rows first..last-1 and one activation row (a panel of one).
    void (*matvec)(const Matrix& w, const uint8_t* panel, float* y, const float* residual, int64_t first, int64_t last);
    void (*matmul)(const MatmulArgs& args);

    // Queries of one head's cache over the positions from `first` on. Writes max, sum and values of each.
    void (*attend_rows)(const HeadCache& cache, Query* queries, int64_t n, float scale, int64_t first, float* scratch);
    // `rows` (at most 64) consecutive query rows, the first at `position`, each over positions 0..its own, of a cache in
    // half precision. Row i of q and y is at i * ld.
    void (*attend_tile)(const HeadCache& cache, const float* q, float* y, int64_t ld, int64_t rows, int64_t position,
                        float scale, float* scratch);
    // The squared deviations from `mean` of the logits but -inf, each partial sum a float.
    float (*sum_squares)(const float* logits, int64_t n, float mean);

    // The mean of n rows of `width` floats, a multiple of eight.
    void (*mean_rows)(const float* x, int64_t n, int64_t width, float* y);
    // The softmax of n floats.
    void (*soft_max)(const float* x, int64_t n, float* y);
};

// The weights of a row as floats; n is a multiple of the type's block. Not one of the Kernels: plain C on every machine,
// as in ggml.
void dequantize_row(Type type, const uint8_t* row, float* y, int64_t n);

// Floats of scratch a thread needs for attend_tile or attend_rows.
static constexpr size_t attend_scratch_floats(int64_t head) { return static_cast<size_t>(64 * (4 * head + 64) + 256); }

// The build for this machine. `isa` names one ("avx2", "portable"), or is empty for the fastest that runs here;
// returns nullptr if that one does not run here.
const Kernels* select_kernels(const char* isa);

}  // namespace bankml
