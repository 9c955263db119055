// Rows of weights as floats: the rows of an embedding table. Each expression rounds as ggml's does, product by product;
// ggml compiles this part without fused multiply-adds.
#include <cstring>

#include "blocks.h"
#include "kernels.h"

namespace bankml {
namespace {

float of(int q) { return static_cast<float>(q); }

uint32_t bits_at(const uint8_t* p) {
    uint32_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return bits;
}

void q1_0(const uint8_t* block, float* y) {
    const float d = half_at(block);
    for (int i = 0; i < 128; ++i) y[i] = block[2 + i / 8] >> (i % 8) & 1 ? d : -d;
}

void q2_0(const uint8_t* block, float* y) {
    const float d = half_at(block);
    for (int i = 0; i < 64; ++i) y[i] = of((block[2 + i / 4] >> (i % 4 * 2) & 3) - 1) * d;
}

void q4_0(const uint8_t* block, float* y) {
    const float d = half_at(block);
    for (int i = 0; i < 16; ++i) {
        y[i] = of((block[2 + i] & 15) - 8) * d;
        y[i + 16] = of((block[2 + i] >> 4) - 8) * d;
    }
}

void q4_1(const uint8_t* block, float* y) {
    const float d = half_at(block);
    const float m = half_at(block + 2);
    for (int i = 0; i < 16; ++i) {
        y[i] = of(block[4 + i] & 15) * d + m;
        y[i + 16] = of(block[4 + i] >> 4) * d + m;
    }
}

void q5_0(const uint8_t* block, float* y) {
    const float d = half_at(block);
    const uint32_t fifth = bits_at(block + 2);
    for (int i = 0; i < 16; ++i) {
        y[i] = of(((block[6 + i] & 15) | static_cast<int>(fifth >> i & 1) << 4) - 16) * d;
        y[i + 16] = of(((block[6 + i] >> 4) | static_cast<int>(fifth >> (i + 16) & 1) << 4) - 16) * d;
    }
}

void q5_1(const uint8_t* block, float* y) {
    const float d = half_at(block);
    const float m = half_at(block + 2);
    const uint32_t fifth = bits_at(block + 4);
    for (int i = 0; i < 16; ++i) {
        y[i] = of((block[8 + i] & 15) | static_cast<int>(fifth >> i & 1) << 4) * d + m;
        y[i + 16] = of((block[8 + i] >> 4) | static_cast<int>(fifth >> (i + 16) & 1) << 4) * d + m;
    }
}

void q8_0(const uint8_t* block, float* y) {
    const float d = half_at(block);
    for (int i = 0; i < 32; ++i) y[i] = of(static_cast<int8_t>(block[2 + i])) * d;
}

void iq4_nl(const uint8_t* block, float* y) {
    const float d = half_at(block);
    for (int i = 0; i < 16; ++i) {
        y[i] = d * of(kIq4Values[block[2 + i] & 15]);
        y[i + 16] = d * of(kIq4Values[block[2 + i] >> 4]);
    }
}

void q2_k(const uint8_t* block, float* y) {
    const float d = half_at(block + 80);
    const float min = half_at(block + 82);
    for (int i = 0; i < 256; ++i) {
        const uint8_t scale = block[i / 16];
        const int q = block[16 + i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
        y[i] = d * of(scale & 15) * of(q) - min * of(scale >> 4);
    }
}

void q3_k(const uint8_t* block, float* y) {
    const float d = half_at(block + 108);
    int8_t scales[16];
    scales_of_q3(block + 96, scales);
    for (int i = 0; i < 256; ++i) {
        const int low = block[32 + i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
        const int high = block[i % 32] >> (i / 32) & 1;
        y[i] = d * of(scales[i / 16]) * of(low - (high ? 0 : 4));
    }
}

void q4_k(const uint8_t* block, float* y) {
    const float d = half_at(block);
    const float min = half_at(block + 2);
    uint8_t scales[8], mins[8];
    scales_of_k4(block + 4, scales, mins);
    for (int i = 0; i < 256; ++i) {
        const int q = block[16 + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
        y[i] = d * of(scales[i / 32]) * of(q) - min * of(mins[i / 32]);
    }
}

void q5_k(const uint8_t* block, float* y) {
    const float d = half_at(block);
    const float min = half_at(block + 2);
    uint8_t scales[8], mins[8];
    scales_of_k4(block + 4, scales, mins);
    for (int i = 0; i < 256; ++i) {
        const int low = block[48 + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
        const int high = block[16 + i % 32] >> (i / 32) & 1;
        y[i] = d * of(scales[i / 32]) * of(low + 16 * high) - min * of(mins[i / 32]);
    }
}

void q6_k(const uint8_t* block, float* y) {
    const float d = half_at(block + 208);
    for (int i = 0; i < 256; ++i) {
        const int half = i / 128;
        const int low = block[half * 64 + i % 64] >> (i / 64 % 2 * 4) & 15;
        const int high = block[128 + half * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
        y[i] = d * of(static_cast<int8_t>(block[192 + i / 16])) * of((low | high << 4) - 32);
    }
}

void iq4_xs(const uint8_t* block, float* y) {
    const float d = half_at(block);
    int8_t scales[8];
    scales_of_iq4_xs(block + 2, block + 4, scales);
    for (int i = 0; i < 256; ++i) {
        const int q = block[8 + i / 32 * 16 + i % 16] >> (i / 16 % 2 * 4) & 15;
        y[i] = d * of(scales[i / 32]) * of(kIq4Values[q]);
    }
}

template <void (*Block)(const uint8_t*, float*)>
void each_block(Type type, const uint8_t* row, float* y, int64_t n) {
    const BlockSize size = block_size(type);
    for (int64_t i = 0; i < n; i += size.weights, row += size.bytes) Block(row, y + i);
}

}  // namespace

void dequantize_row(Type type, const uint8_t* row, float* y, int64_t n) {
    const uint16_t* halves = reinterpret_cast<const uint16_t*>(row);
    switch (type) {
        case Type::F32: std::memcpy(y, row, static_cast<size_t>(n) * 4); return;
        case Type::F16:
            for (int64_t i = 0; i < n; ++i) y[i] = f16_to_f32(halves[i]);
            return;
        case Type::BF16:
            for (int64_t i = 0; i < n; ++i) y[i] = bf16_to_f32(halves[i]);
            return;
        case Type::Q1_0: return each_block<q1_0>(type, row, y, n);
        case Type::Q2_0: return each_block<q2_0>(type, row, y, n);
        case Type::Q4_0: return each_block<q4_0>(type, row, y, n);
        case Type::Q4_1: return each_block<q4_1>(type, row, y, n);
        case Type::Q5_0: return each_block<q5_0>(type, row, y, n);
        case Type::Q5_1: return each_block<q5_1>(type, row, y, n);
        case Type::Q8_0: return each_block<q8_0>(type, row, y, n);
        case Type::IQ4_NL: return each_block<iq4_nl>(type, row, y, n);
        case Type::Q2_K: return each_block<q2_k>(type, row, y, n);
        case Type::Q3_K: return each_block<q3_k>(type, row, y, n);
        case Type::Q4_K: return each_block<q4_k>(type, row, y, n);
        case Type::Q5_K: return each_block<q5_k>(type, row, y, n);
        case Type::Q6_K: return each_block<q6_k>(type, row, y, n);
        case Type::IQ4_XS: return each_block<iq4_xs>(type, row, y, n);
    }
}

}  // namespace bankml
