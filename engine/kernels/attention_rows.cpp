// Attention a row at a time, as ggml computes it for few query rows and for every cache that is not all half precision.
// The softmax runs online (https://arxiv.org/abs/2112.05682). Values in half precision are gathered in half precision,
// others in floats.
#include "attention.h"

#include "cache_types.h"
#include "expf.h"

namespace bankml::BANKML_ISA {
namespace {

// Turns scores into weights, in order. Where a score is a new maximum its weight is 1 and `rescale` says by what the
// values gathered before it shrink; elsewhere `rescale` is 1.
void weigh(float* scores, float* rescale, int64_t count, Query& query) {
    bool is_new[kStretch];
    for (int64_t i = 0; i < count; ++i) {
        const float s = scores[i];
        is_new[i] = s > query.max;
        scores[i] = is_new[i] ? query.max - s : s - query.max;
        query.max = is_new[i] ? s : query.max;
    }
    for (int64_t i = 0; i < count; ++i) {
        const float e = exp_nonpositive(scores[i]);
        rescale[i] = is_new[i] ? e : 1.0f;
        scores[i] = is_new[i] ? 1.0f : e;
    }
    for (int64_t i = 0; i < count; ++i) query.sum = std::fma(query.sum, rescale[i], scores[i]);
}

template <bool Half>
F8 rounded(F8 v) {
    return Half ? round_f16(v) : v;
}

// values = values * rescale + row * weight over the stretch for 8 * Vectors dimensions, `head` floats a row.
template <bool Half, int Vectors>
void gather_columns(const float* rows, int64_t head, const float* weights, const float* rescale, int64_t count,
                    float* values) {
    F8 sum[Vectors];
    for (int j = 0; j < Vectors; ++j) sum[j] = load8(values + 8 * j);
    for (int64_t i = 0; i < count; ++i, rows += head) {
        if (rescale[i] != 1.0f) {
            for (F8& s : sum) s = rounded<Half>(mul8(s, set8(rescale[i])));
        }
        const F8 w = set8(weights[i]);
        for (int j = 0; j < Vectors; ++j) sum[j] = rounded<Half>(fma8(load8(rows + 8 * j), w, sum[j]));
    }
    for (int j = 0; j < Vectors; ++j) store8(values + 8 * j, sum[j]);
}

template <bool Half>
void gather(const float* rows, int64_t head, const float* weights, const float* rescale, int64_t count,
            float* values) {
    int64_t d = 0;
    for (; d + 64 <= head; d += 64) gather_columns<Half, 8>(rows + d, head, weights, rescale, count, values + d);
    for (; d + 32 <= head; d += 32) gather_columns<Half, 4>(rows + d, head, weights, rescale, count, values + d);
    for (; d < head; d += 8) gather_columns<Half, 1>(rows + d, head, weights, rescale, count, values + d);
}

template <class Keys, int64_t Size>
void score(const float* keys, const float* query, int64_t head, int64_t count, float scale, float* scores) {
    for (int64_t i = 0; i < count; i += 8) {
        store8(scores + i, mul8(Keys::score8(Dimensions<Size>{head}, keys, query, i), set8(scale)));
    }
}

// What a type of keys, or of values, does to a stretch; see cache_types.h.
struct KeyKernels {
    void (*prepare)(const float* q, int64_t head, float* query);
    void (*unpack)(const uint8_t* rows, int64_t count, int64_t head, float* keys);
    void (*score)(const float* keys, const float* query, int64_t head, int64_t count, float scale, float* scores);
};
struct ValueKernels {
    void (*unpack)(const uint8_t* rows, int64_t n, float* y);
    void (*gather)(const float* rows, int64_t head, const float* weights, const float* rescale, int64_t count,
                   float* values);
};

template <class Keys>
KeyKernels key_kernels_of(int64_t head) {
    switch (head) {
        case 32: return {Keys::prepare, Keys::unpack, score<Keys, 32>};
        case 64: return {Keys::prepare, Keys::unpack, score<Keys, 64>};
        case 128: return {Keys::prepare, Keys::unpack, score<Keys, 128>};
        default: return {Keys::prepare, Keys::unpack, score<Keys, 0>};
    }
}

KeyKernels key_kernels(Type type, int64_t head) {
    return type == Type::Q8_0 ? key_kernels_of<Q8Keys>(head) : key_kernels_of<F16Keys>(head);
}

template <class Cache>
constexpr ValueKernels value_kernels_of{Cache::unpack, gather<Cache::half_sums>};

const ValueKernels& value_kernels(Type type) {
    return type == Type::Q8_0 ? value_kernels_of<Q8Cache> : value_kernels_of<F16Cache>;
}

}  // namespace

void store_cache_row(Type type, const float* x, uint8_t* row, int64_t n) {
    return type == Type::Q8_0 ? Q8Cache::store(x, row, n) : F16Cache::store(x, row, n);
}

void attend_rows(const HeadCache& cache, Query* queries, int64_t n, float scale, int64_t first, float* scratch) {
    const int64_t head = cache.head;
    const KeyKernels on_keys = key_kernels(cache.k_type, head);
    const ValueKernels& on_values = value_kernels(cache.v_type);
    float* keys = scratch;
    float* rows = keys + kStretch * head;
    float* prepared = rows + kStretch * head;
    alignas(32) float scores[kStretch];
    float rescale[kStretch];
    int64_t last = first;
    for (int64_t i = 0; i < n; ++i) {
        Query& query = queries[i];
        on_keys.prepare(query.q, head, prepared + i * head);
        std::memset(query.values, 0, static_cast<size_t>(head) * sizeof(float));
        query.max = -INFINITY;
        query.sum = 0.0f;
        last = query.last > last ? query.last : last;
    }
    for (int64_t start = first; start < last; start += kStretch) {
        const int64_t seen = last - start < kStretch ? last - start : kStretch;
        on_keys.unpack(cache.k_row(start), seen, head, keys);
        on_values.unpack(cache.v_row(start), seen * head, rows);
        for (int64_t i = 0; i < n; ++i) {
            Query& query = queries[i];
            const int64_t count = query.last - start < seen ? query.last - start : seen;
            if (count <= 0) continue;
            on_keys.score(keys, prepared + i * head, head, count, scale, scores);
            weigh(scores, rescale, count, query);
            on_values.gather(rows, head, scores, rescale, count, query.values);
        }
    }
}

}  // namespace bankml::BANKML_ISA
