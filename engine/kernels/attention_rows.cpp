// Attention a row at a time, as ggml computes it for few query rows and for every cache that is not all half precision.
// The softmax runs online (https://arxiv.org/abs/2112.05682). Values in half precision are gathered in half precision,
// others in floats.
#include "attention.h"

#include "cache_types.h"
#include "expf.h"

namespace bankml::BANKML_ISA {
namespace {

// From a stretch's position `at` on a larger score counts: what was gathered before shrinks by this factor.
struct Rescale {
    int64_t at;
    float by;
};

// Turns scores into weights, in order, and returns how many times the maximum grew on the way. Eight that hold no new
// maximum are done at once; scores past `count`, up to a multiple of eight, may be anything.
int64_t weigh(float* scores, int64_t count, Query& query, Rescale (&rescales)[kStretch]) {
    int64_t n = 0;
    for (int64_t first = 0; first < count; first += 8) {
        const int64_t last = count - first < 8 ? count : first + 8;
        const F8 eight = load8(scores + first);
        if (!any_greater8(eight, set8(query.max))) {
            store8(scores + first, exp8_nonpositive(sub8(eight, set8(query.max))));
            for (int64_t i = first; i < last; ++i) query.sum += scores[i];
            continue;
        }
        for (int64_t i = first; i < last; ++i) {
            const float s = scores[i];
            if (s > query.max) {
                rescales[n] = {i, exp_nonpositive(query.max - s)};
                query.sum = std::fma(query.sum, rescales[n++].by, 1.0f);
                query.max = s;
                scores[i] = 1.0f;
            } else {
                scores[i] = exp_nonpositive(s - query.max);
                query.sum += scores[i];
            }
        }
    }
    return n;
}

template <bool Half>
F8 rounded(F8 v) {
    return Half ? round_f16(v) : v;
}

// sums += row * weight over `count` positions for 8 * Vectors dimensions, `head` elements a row.
template <class Values, int Vectors>
void add_columns(const typename Values::Element* rows, int64_t head, const float* weights, int64_t count, float* sums) {
    F8 sum[Vectors];
BANKML_UNROLL(8)
    for (int j = 0; j < Vectors; ++j) sum[j] = load8(sums + 8 * j);
    for (int64_t i = 0; i < count; ++i, rows += head) {
        const F8 w = set8(weights[i]);
BANKML_UNROLL(8)
        for (int j = 0; j < Vectors; ++j) sum[j] = rounded<Values::half_sums>(fma8(Values::load(rows + 8 * j), w, sum[j]));
    }
BANKML_UNROLL(8)
    for (int j = 0; j < Vectors; ++j) store8(sums + 8 * j, sum[j]);
}

template <class Values>
void add_values(const typename Values::Element* rows, int64_t head, const float* weights, int64_t count, float* sums) {
    int64_t d = 0;
    for (; d + 64 <= head; d += 64) add_columns<Values, 8>(rows + d, head, weights, count, sums + d);
    for (; d + 32 <= head; d += 32) add_columns<Values, 4>(rows + d, head, weights, count, sums + d);
    for (; d < head; d += 8) add_columns<Values, 1>(rows + d, head, weights, count, sums + d);
}

// sums = sums * rescale + row * weight, in order, over a stretch of `count` positions.
template <class Values>
void gather(const void* stretch, int64_t head, const float* weights, int64_t count, const Rescale* rescales,
            int64_t n_rescales, float* sums) {
    const auto* rows = static_cast<const typename Values::Element*>(stretch);
    int64_t done = 0;
    for (int64_t n = 0; n < n_rescales; ++n) {
        const auto [at, by] = rescales[n];
        add_values<Values>(rows + done * head, head, weights + done, at - done, sums);
        for (int64_t d = 0; d < head; d += 8) {
            store8(sums + d, rounded<Values::half_sums>(mul8(load8(sums + d), set8(by))));
        }
        done = at;
    }
    add_values<Values>(rows + done * head, head, weights + done, count - done, sums);
}

template <class Keys, int64_t Size>
void score(const void* stretch, const float* query, int64_t head, int64_t count, float scale, float* scores) {
    for (int64_t i = 0; i < count; i += kKeysAtOnce) {
        store8(scores + i, mul8(Keys::score8(Dimensions<Size>{head}, stretch, query, i), set8(scale)));
    }
}

// What a type of keys, or of values, does to a stretch; see cache_types.h.
struct KeyKernels {
    void (*prepare)(const float* q, int64_t head, float* query);
    const void* (*stretch)(const uint8_t* rows, int64_t count, int64_t head, float* room);
    void (*score)(const void* stretch, const float* query, int64_t head, int64_t count, float scale, float* scores);
};
struct ValueKernels {
    const void* (*stretch)(const uint8_t* rows, int64_t n, float* room);
    void (*gather)(const void* stretch, int64_t head, const float* weights, int64_t count, const Rescale* rescales,
                   int64_t n_rescales, float* sums);
};

template <class Keys>
KeyKernels key_kernels_of(int64_t head) {
    switch (head) {
        case 32: return {Keys::prepare, Keys::stretch, score<Keys, 32>};
        case 64: return {Keys::prepare, Keys::stretch, score<Keys, 64>};
        case 128: return {Keys::prepare, Keys::stretch, score<Keys, 128>};
        default: return {Keys::prepare, Keys::stretch, score<Keys, 0>};
    }
}

KeyKernels key_kernels(Type type, int64_t head) {
    return type == Type::Q8_0 ? key_kernels_of<Q8Keys>(head) : key_kernels_of<F16Keys>(head);
}

template <class Values>
constexpr ValueKernels value_kernels_of{Values::stretch, gather<Values>};

const ValueKernels& value_kernels(Type type) {
    return type == Type::Q8_0 ? value_kernels_of<Q8Values> : value_kernels_of<F16Values>;
}

}  // namespace

void store_cache_row(Type type, const float* x, uint8_t* row, int64_t n) {
    return type == Type::Q8_0 ? Q8Values::store(x, row, n) : F16Values::store(x, row, n);
}

void attend_rows(const HeadCache& cache, Query* queries, int64_t n, float scale, int64_t first, float* scratch) {
    const int64_t head = cache.head;
    const KeyKernels on_keys = key_kernels(cache.k_type, head);
    const ValueKernels& on_values = value_kernels(cache.v_type);
    float* room_for_keys = scratch;
    float* room_for_values = room_for_keys + kStretch * head;
    float* prepared = room_for_values + kStretch * head;
    alignas(32) float scores[kStretch];
    Rescale rescales[kStretch];
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
        const void* keys = on_keys.stretch(cache.k_row(start), seen, head, room_for_keys);
        const void* values = on_values.stretch(cache.v_row(start), seen * head, room_for_values);
        for (int64_t i = 0; i < n; ++i) {
            Query& query = queries[i];
            const int64_t count = query.last - start < seen ? query.last - start : seen;
            if (count <= 0) continue;
            on_keys.score(keys, prepared + i * head, head, count, scale, scores);
            const int64_t n_rescales = weigh(scores, count, query, rescales);
            on_values.gather(values, head, scores, count, rescales, n_rescales, query.values);
        }
    }
}

}  // namespace bankml::BANKML_ISA
