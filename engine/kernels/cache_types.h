// What the KV cache can hold, a type at a time: how a row of floats is written, how keys are scored against a query and
// how values are read. The row kernel (attention_rows.cpp) is written once over these.
//
// Rows lie in memory as in ggml's tensors: halves, or Q8_0 blocks of a half d and 32 int8. Halves are read where they
// lie; blocks are unpacked a stretch at a time into `room`, for every query of the head.
#pragma once

#include "kernels.h"
#include "simd.h"

namespace bankml::BANKML_ISA {
namespace {

constexpr int64_t kStretch = 32;      // positions that the row kernel takes at once
constexpr size_t kQ8BlockBytes = 34;  // a block of Q8_0: a half, then kBlock int8

// One block of 32 floats as Q8_0, rounded as ggml's quantize_row_q8_0; returns d as the half it is stored as.
inline uint16_t quantize_q8_0(const float* x, int8_t* quants) {
    const F8 m01 = max8(abs8(load8(x)), abs8(load8(x + 8)));
    const float largest = max_lane(max8(max8(m01, abs8(load8(x + 16))), abs8(load8(x + 24))));
    quantize32(x, largest != 0.0f ? 127.0f / largest : 0.0f, quants);
    return f32_to_f16(largest / 127.0f);
}

// The dimensions of a head: `Size` of them, known when compiled, or for 0 as many as asked for.
template <int64_t Size>
struct Dimensions {
    int64_t asked;
    int64_t size() const { return Size != 0 ? Size : asked; }
    int64_t whole() const { return size() & ~int64_t{31}; }  // those that come in 32s
};

// --- Half precision ------------------------------------------------------------------------------------------------

struct F16Values {
    using Element = uint16_t;
    static constexpr bool half_sums = true;  // ggml gathers half-precision values in half precision

    static void store(const float* x, uint8_t* row, int64_t n) {
        uint16_t* halves = reinterpret_cast<uint16_t*>(row);
        for (int64_t i = 0; i < n; i += 8) store8_f16(halves + i, load8(x + i));
    }
    static const void* stretch(const uint8_t* rows, int64_t, float*) { return rows; }
    static F8 load(const uint16_t* values) { return load8_f16(values); }
};

// The query rounded to half precision. Four sums of eight lanes, added in ggml's tree.
struct F16Keys {
    static void prepare(const float* q, int64_t head, float* query) {
        for (int64_t i = 0; i < head; i += 8) store8(query + i, round_f16(load8(q + i)));
    }
    static const void* stretch(const uint8_t* rows, int64_t, int64_t, float*) { return rows; }
    // The scores of eight positions, unscaled.
    template <class Dims>
    static F8 score8(Dims head, const void* stretch, const float* query, int64_t first) {
        const uint16_t* keys = static_cast<const uint16_t*>(stretch) + first * head.size();
        F8 sums[8];
BANKML_UNROLL(8)
        for (int64_t j = 0; j < 8; ++j) {
            const uint16_t* key = keys + j * head.size();
            F8 acc[4];
BANKML_UNROLL(4)
            for (int v = 0; v < 4; ++v) acc[v] = zero8();
            for (int64_t d = 0; d < head.whole(); d += 32) {
BANKML_UNROLL(4)
                for (int v = 0; v < 4; ++v) acc[v] = fma8(load8_f16(key + d + 8 * v), load8(query + d + 8 * v), acc[v]);
            }
            sums[j] = add8(add8(acc[0], acc[2]), add8(acc[1], acc[3]));
        }
        const F8 scores = sum_lanes8_hadd(sums);
        return head.whole() == head.size() ? scores : add_rest(head, keys, query, scores);
    }
    // ggml adds the dimensions past the last whole 32 one by one, in double.
    template <class Dims>
    static F8 add_rest(Dims head, const uint16_t* keys, const float* query, F8 scores) {
        alignas(32) float sums[8];
        store8(sums, scores);
        for (float& sum : sums) {
            double total = static_cast<double>(sum);
            for (int64_t d = head.whole(); d < head.size(); ++d) {
                total += static_cast<double>(f16_to_f32(keys[d]) * query[d]);
            }
            sum = static_cast<float>(total);
            keys += head.size();
        }
        return load8(sums);
    }
};

// --- Q8_0 ----------------------------------------------------------------------------------------------------------

struct Q8Values {
    using Element = float;
    static constexpr bool half_sums = false;

    static void store(const float* x, uint8_t* row, int64_t n) {
        for (int64_t i = 0; i < n; i += kBlock, row += kQ8BlockBytes) {
            const uint16_t d = quantize_q8_0(x + i, reinterpret_cast<int8_t*>(row + 2));
            std::memcpy(row, &d, sizeof d);
        }
    }
    static const void* stretch(const uint8_t* rows, int64_t n, float* room) {
        alignas(32) float scales[8];
        for (int64_t b = 0; b < n / kBlock; ++b) {
            if (b % 8 == 0) unpack_scales(rows + b * kQ8BlockBytes, n / kBlock - b < 8 ? n / kBlock - b : 8, scales);
            const int8_t* quants = reinterpret_cast<const int8_t*>(rows + b * kQ8BlockBytes + 2);
            const F8 d = set8(scales[b % 8]);
            for (int64_t i = 0; i < kBlock; i += 8) store8(room + b * kBlock + i, mul8(load8_s8(quants + i), d));
        }
        return room;
    }
    static F8 load(const float* values) { return load8(values); }
    static void unpack_scales(const uint8_t* blocks, int64_t count, float* scales) {
        int64_t b = 0;
        for (; b + 8 <= count; b += 8) store8(scales + b, gather_f16(blocks + b * kQ8BlockBytes, kQ8BlockBytes));
        for (; b < count; ++b) {
            uint16_t half;
            std::memcpy(&half, blocks + b * kQ8BlockBytes, sizeof half);
            scales[b] = f16_to_f32(half);
        }
    }
};

// Keys as int8, all scales after them; the query in Q8_0 too: its magnitudes, its quants, its scales.
struct Q8Keys {
    static void prepare(const float* q, int64_t head, float* query) {
        int8_t* magnitudes = reinterpret_cast<int8_t*>(query);
        int8_t* quants = magnitudes + head;
        float* scales = reinterpret_cast<float*>(quants + head);
        for (int64_t b = 0; b < head / kBlock; ++b) {
            scales[b] = f16_to_f32(quantize_q8_0(q + b * kBlock, quants + b * kBlock));
            store32(magnitudes + b * kBlock, abs32(load32(quants + b * kBlock)));
        }
    }
    static const void* stretch(const uint8_t* rows, int64_t count, int64_t head, float* room) {
        int8_t* quants = reinterpret_cast<int8_t*>(room);
        const int64_t blocks = count * head / kBlock;
        for (int64_t b = 0; b < blocks; ++b) store32(quants + b * kBlock, load32(rows + b * kQ8BlockBytes + 2));
        Q8Values::unpack_scales(rows, blocks, room + kStretch * head / 4);
        return room;
    }
    template <class Dims>
    static F8 score8(Dims head, const void* stretch, const float* query, int64_t first) {
        const float* keys = static_cast<const float*>(stretch);
        const int64_t blocks = head.size() / kBlock;
        const int8_t* magnitudes = reinterpret_cast<const int8_t*>(query);
        const int8_t* quants = magnitudes + head.size();
        const float* scales = reinterpret_cast<const float*>(quants + head.size());
        const float* key_scales = keys + kStretch * head.size() / 4;
        F8 sums[8];
        for (int64_t j = first; j < first + 8; ++j) {
            F8 acc = zero8();
            for (int64_t b = 0; b < blocks; ++b) {
                const B32 key = load32(reinterpret_cast<const int8_t*>(keys) + (j * blocks + b) * kBlock);
                const F8 products = dot_s8_s8(load32(magnitudes + b * kBlock), load32(quants + b * kBlock), key);
                acc = fma8(set8(key_scales[j * blocks + b] * scales[b]), products, acc);
            }
            sums[j - first] = acc;
        }
        return sum_lanes8(sums);
    }
};

}  // namespace
}  // namespace bankml::BANKML_ISA
