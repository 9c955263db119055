// Two attention kernels, as ggml has two and their bits differ: a row at a time with half-precision sums (few query
// rows), and 64 by 64 tiles in single precision (64 query rows or more). Both run the softmax online
// (https://arxiv.org/abs/2112.05682).
#include "attention.h"

#include "expf.h"

namespace bankml::BANKML_ISA {
namespace {

constexpr int64_t kTile = 64;     // rows and columns of a tile
constexpr int64_t kGroup = 4;     // query heads that share the unpacked keys and values of a stretch
constexpr int64_t kStretch = 32;  // positions taken at once by the row kernel

// What one query row has seen so far: the largest score, the sum of the weights.
struct Running {
    float max = -INFINITY;
    float sum = 0.0f;
};

// A head of `Vectors` vectors, known when compiled, for the usual sizes; of any number of them for 0.
template <int Vectors>
struct Head {
    static constexpr int kMost = Vectors != 0 ? Vectors : 64;
    int64_t asked;
    int vectors() const { return Vectors != 0 ? Vectors : static_cast<int>(asked / 8); }
    int64_t size() const { return Vectors != 0 ? Vectors * 8 : asked; }
};

// Adds the dimensions from `first` on to a dot product, as ggml those past the last whole 32: in double, in order.
float score_rest(float sum, const uint16_t* key, const float* query, int64_t first, int64_t size) {
    double total = static_cast<double>(sum);
    for (int64_t d = first; d < size; ++d) total += static_cast<double>(f16_to_f32(key[d]) * query[d]);
    return static_cast<float>(total);
}

// The scores of `count` (at most kStretch) positions for each of `heads` queries that share the keys.
template <int Vectors>
void score(Head<Vectors> of, const uint16_t* keys, const float* queries, int64_t heads, int64_t count, float scale,
           float* scores) {
    const int64_t head = of.size();
    const int whole = of.vectors() & ~3;
    alignas(32) float sums[kGroup][4][8];
    for (int64_t i = 0; i < count; ++i) {
        F8 key[Head<Vectors>::kMost];
        for (int j = 0; j < whole; ++j) key[j] = load8_f16(keys + i * head + 8 * j);
        for (int64_t h = 0; h < heads; ++h) {
            F8 acc[4];
            for (F8& a : acc) a = zero8();
            for (int j = 0; j < whole; ++j) acc[j & 3] = fma8(key[j], load8(queries + h * head + 8 * j), acc[j & 3]);
            store8(sums[h][i & 3], add8(add8(acc[0], acc[2]), add8(acc[1], acc[3])));
        }
        if ((i & 3) != 3 && i != count - 1) continue;
        for (int64_t h = 0; h < heads; ++h) {
            const int64_t first = i & ~int64_t{3};
            for (int64_t j = first; j <= i; ++j) {
                float sum = sum_lanes_hadd(load8(sums[h][j - first]));
                if (whole * 8 != head) sum = score_rest(sum, keys + j * head, queries + h * head, whole * 8, head);
                scores[h * kStretch + j] = sum * scale;
            }
        }
    }
}

// Turns scores into weights, in order. Where a score is a new maximum its weight is 1 and `rescale` says by what the
// values gathered before it shrink; elsewhere `rescale` is 1.
void weigh(float* scores, float* rescale, int64_t count, Running& running) {
    bool is_new[kStretch];
    for (int64_t i = 0; i < count; ++i) {
        const float s = scores[i];
        is_new[i] = s > running.max;
        scores[i] = is_new[i] ? running.max - s : s - running.max;
        running.max = is_new[i] ? s : running.max;
    }
    for (int64_t i = 0; i < count; ++i) {
        const float e = exp_nonpositive(scores[i]);
        rescale[i] = is_new[i] ? e : 1.0f;
        scores[i] = is_new[i] ? 1.0f : e;
    }
    for (int64_t i = 0; i < count; ++i) running.sum = std::fma(running.sum, rescale[i], scores[i]);
}

// values = values * rescale + row * weight over the stretch, every step rounded to half precision.
template <int Vectors>
void gather(Head<Vectors> of, const float* rows, const float* weights, const float* rescale, int64_t count,
            float* values) {
    const int vectors = of.vectors();
    F8 sum[Head<Vectors>::kMost];
    for (int j = 0; j < vectors; ++j) sum[j] = load8(values + 8 * j);
    for (int64_t i = 0; i < count; ++i) {
        if (rescale[i] != 1.0f) {
            for (int j = 0; j < vectors; ++j) sum[j] = round_f16(mul8(sum[j], set8(rescale[i])));
        }
        const F8 w = set8(weights[i]);
        for (int j = 0; j < vectors; ++j) {
            sum[j] = round_f16(fma8(load8(rows + i * of.size() + 8 * j), w, sum[j]));
        }
    }
    for (int j = 0; j < vectors; ++j) store8(values + 8 * j, sum[j]);
}

template <int Vectors>
void attend_heads_t(const HeadCache& cache, const float* q, int64_t heads, float scale, int64_t first, int64_t last,
                    Partial* out) {
    const Head<Vectors> of{cache.head};
    const int64_t head = of.size();
    alignas(32) float queries[kGroup * Head<Vectors>::kMost * 8];
    alignas(32) float rows[kStretch * Head<Vectors>::kMost * 8];
    alignas(32) float scores[kGroup * kStretch];
    float rescale[kStretch];
    Running running[kGroup];
    for (int64_t i = 0; i < heads * head; i += 8) store8(queries + i, round_f16(load8(q + i)));
    for (int64_t h = 0; h < heads; ++h) std::memset(out[h].values, 0, static_cast<size_t>(head) * sizeof(float));
    for (int64_t start = first; start < last; start += kStretch) {
        const int64_t count = last - start < kStretch ? last - start : kStretch;
        score(of, cache.k + start * head, queries, heads, count, scale, scores);
        const uint16_t* v = cache.v + start * head;
        for (int64_t i = 0; i < count * head; i += 8) store8(rows + i, load8_f16(v + i));
        for (int64_t h = 0; h < heads; ++h) {
            weigh(scores + h * kStretch, rescale, count, running[h]);
            gather(of, rows, scores + h * kStretch, rescale, count, out[h].values);
        }
    }
    for (int64_t h = 0; h < heads; ++h) {
        out[h].max = running[h].max;
        out[h].sum = running[h].sum;
    }
}

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
        const uint16_t* k = cache.k + (start + t) * head;
        const uint16_t* v = cache.v + (start + t) * head;
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
    F8 largest = set8(-INFINITY);
    for (int64_t t = 0; t < kTile; t += 8) {
        store8(scores + t, mul8(load8(scores + t), set8(scale)));
        for (int64_t i = t; i < t + 8; ++i) {
            if (i >= visible) scores[i] = -INFINITY;
        }
        largest = max8(largest, load8(scores + t));
    }
    const float tile_max = max_lane(largest);
    const float new_max = fmaxf(max, tile_max);
    if (new_max > max) {
        const float rescale = exp_nonpositive(max - new_max);
        for (int64_t d = 0; d < head; d += 8) store8(values + d, mul8(load8(values + d), set8(rescale)));
        sum *= rescale;
    }
    max = new_max;
    double total = 0.0;
    for (int64_t t = 0; t < kTile; t += 8) {
        const F8 weights = exp8(sub8(load8(scores + t), set8(new_max)));
        store8(scores + t, weights);
        total += static_cast<double>(sum_lanes(weights));
    }
    sum = static_cast<float>(static_cast<double>(sum) + total);
}

}  // namespace

void attend_heads(const HeadCache& cache, const float* q, int64_t heads, float scale, int64_t first, int64_t last,
                  Partial* out) {
    for (int64_t h = 0; h < heads; h += kGroup, q += kGroup * cache.head, out += kGroup) {
        const int64_t group = heads - h < kGroup ? heads - h : kGroup;
        switch (cache.head) {
            case 32: attend_heads_t<4>(cache, q, group, scale, first, last, out); break;
            case 64: attend_heads_t<8>(cache, q, group, scale, first, last, out); break;
            case 96: attend_heads_t<12>(cache, q, group, scale, first, last, out); break;
            case 128: attend_heads_t<16>(cache, q, group, scale, first, last, out); break;
            case 256: attend_heads_t<32>(cache, q, group, scale, first, last, out); break;
            default: attend_heads_t<0>(cache, q, group, scale, first, last, out); break;
        }
    }
}

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
