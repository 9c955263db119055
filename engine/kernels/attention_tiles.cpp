// Attention for 64 query rows or more, as ggml's tiled kernel computes it: 64 by 64 tiles in single precision, the
// softmax online over the tiles (https://arxiv.org/abs/2112.05682). Keys and values in half precision only; ggml takes
// the row kernel for every other cache.
#include "attention.h"
#include "expf.h"

namespace bankml::BANKML_ISA {
namespace {

constexpr int64_t kTile = 64;  // rows and columns of a tile

// C += A B for RM rows of A and RN vectors of C; every element is one chain of fused multiply-adds over k. Unrolled in
// so many words, for only then do the sums stay in registers.
template <int RM, int RN>
void gemm_block(float* c, int64_t ldc, const float* a, int64_t lda, const float* b, int64_t ldb, int64_t k) {
    F8 acc[RM][RN];
BANKML_UNROLL(6)
    for (int i = 0; i < RM; ++i) {
BANKML_UNROLL(2)
        for (int j = 0; j < RN; ++j) acc[i][j] = load8(c + i * ldc + 8 * j);
    }
    for (int64_t kk = 0; kk < k; ++kk) {
        F8 row[RN];
BANKML_UNROLL(2)
        for (int j = 0; j < RN; ++j) row[j] = load8(b + kk * ldb + 8 * j);
BANKML_UNROLL(6)
        for (int i = 0; i < RM; ++i) {
            const F8 x = set8(a[i * lda + kk]);
BANKML_UNROLL(2)
            for (int j = 0; j < RN; ++j) acc[i][j] = fma8(row[j], x, acc[i][j]);
        }
    }
BANKML_UNROLL(6)
    for (int i = 0; i < RM; ++i) {
BANKML_UNROLL(2)
        for (int j = 0; j < RN; ++j) store8(c + i * ldc + 8 * j, acc[i][j]);
    }
}

// C[m x n] += A[m x k] B[k x n], n a multiple of 8.
void gemm(float* c, int64_t ldc, const float* a, int64_t lda, const float* b, int64_t ldb, int64_t m, int64_t k,
          int64_t n) {
    int64_t j = 0;
    for (; j + 16 <= n; j += 16) {
        int64_t i = 0;
        for (; i + 6 <= m; i += 6) gemm_block<6, 2>(c + i * ldc + j, ldc, a + i * lda, lda, b + j, ldb, k);
        for (; i + 2 <= m; i += 2) gemm_block<2, 2>(c + i * ldc + j, ldc, a + i * lda, lda, b + j, ldb, k);
        for (; i < m; ++i) gemm_block<1, 2>(c + i * ldc + j, ldc, a + i * lda, lda, b + j, ldb, k);
    }
    if (j == n) return;
    int64_t i = 0;
    for (; i + 6 <= m; i += 6) gemm_block<6, 1>(c + i * ldc + j, ldc, a + i * lda, lda, b + j, ldb, k);
    for (; i < m; ++i) gemm_block<1, 1>(c + i * ldc + j, ldc, a + i * lda, lda, b + j, ldb, k);
}

// Keys of one tile as columns, values as rows, both in floats; positions past `count` are zero.
void unpack_tile(const HeadCache& cache, int64_t start, int64_t count, float* k_columns, float* v_rows) {
    const int64_t head = cache.head;
    for (int64_t t = 0; t < kTile; ++t) {
        const uint16_t* k = reinterpret_cast<const uint16_t*>(cache.k_row(start + t));
        const uint16_t* v = reinterpret_cast<const uint16_t*>(cache.v_row(start + t));
        for (int64_t d = 0; d < head; d += 8) {
            alignas(32) float key[8];
            store8(key, t < count ? load8_f16(k + d) : zero8());
            store8(v_rows + t * head + d, t < count ? load8_f16(v + d) : zero8());
            for (int i = 0; i < 8; ++i) k_columns[(d + i) * kTile + t] = key[i];
        }
    }
}

// Turns one row of scores into weights; `visible` of them count. Updates the row's maximum, sum and values.
void soften_row(float* scores, int64_t visible, float scale, int64_t head, float& max, float& sum, float* values) {
    for (int64_t t = visible; t < kTile; ++t) scores[t] = -INFINITY;
    F8 largest = set8(-INFINITY);
    for (int64_t t = 0; t < kTile; t += 8) {
        const F8 scaled = mul8(load8(scores + t), set8(scale));
        store8(scores + t, scaled);
        largest = max8(largest, scaled);
    }
    const float tile_max = max_lane(largest);
    const float new_max = fmaxf(max, tile_max);
    if (new_max > max) {
        const float rescale = exp_nonpositive(max - new_max);
        for (int64_t d = 0; d < head; d += 8) store8(values + d, mul8(load8(values + d), set8(rescale)));
        sum *= rescale;
    }
    max = new_max;
    F8 weights[8];
    for (int v = 0; v < 8; ++v) {
        weights[v] = exp8(sub8(load8(scores + 8 * v), set8(new_max)));
        store8(scores + 8 * v, weights[v]);
    }
    alignas(32) float sums[8];
    store8(sums, sum_lanes8(weights));
    double total = 0.0;
    for (const float s : sums) total += static_cast<double>(s);
    sum = static_cast<float>(static_cast<double>(sum) + total);
}

}  // namespace

void attend_tile(const HeadCache& cache, const float* q, float* y, int64_t ld, int64_t rows, int64_t position,
                 float scale, float* scratch) {
    const int64_t head = cache.head;
    float* k_columns = scratch;
    float* v_rows = k_columns + kTile * head;
    float* values = v_rows + kTile * head;
    float* scores = values + kTile * head;
    float max[kTile];
    float sum[kTile];
    for (int64_t i = 0; i < rows; ++i) {
        max[i] = -INFINITY;
        sum[i] = 0.0f;
    }
    std::memset(values, 0, static_cast<size_t>(rows * head) * sizeof(float));
    const int64_t end = position + rows;
    for (int64_t start = 0; start < end; start += kTile) {
        const int64_t count = end - start < kTile ? end - start : kTile;
        unpack_tile(cache, start, count, k_columns, v_rows);
        std::memset(scores, 0, static_cast<size_t>(rows * kTile) * sizeof(float));
        gemm(scores, kTile, q, ld, k_columns, kTile, rows, head, kTile);
        for (int64_t i = 0; i < rows; ++i) {
            const int64_t visible = position + i + 1 - start;
            float* row = scores + i * kTile;
            if (visible > 0) {
                soften_row(row, visible, scale, head, max[i], sum[i], values + i * head);
            } else {
                std::memset(row, 0, kTile * sizeof(float));
            }
        }
        gemm(values, head, scores, kTile, v_rows, head, rows, kTile, head);
    }
    for (int64_t i = 0; i < rows; ++i) {
        const F8 inverse = set8(1.0f / sum[i]);
        for (int64_t d = 0; d < head; d += 8) store8(y + i * ld + d, mul8(load8(values + i * head + d), inverse));
    }
}

}  // namespace bankml::BANKML_ISA
