// Activation rows as the products take them (see types.h for the layouts).
#include "matmul.h"

namespace bankml::BANKML_ISA {
namespace {

// Blocks of 32 with one scale, as ggml's q8_0 (Kind Q8_0, Q8_0x16) and q8_1 (Q8_1).
template <Activation Kind>
void quantize_q8(const float* x, int64_t cols, int64_t row, int64_t rows, uint8_t* panel) {
    constexpr bool wide = Kind == Activation::Q8_0x16;
    const size_t stride = panel_bytes(Kind, rows, kBlock);
    for (int64_t b = 0; b < cols / kBlock; ++b, x += kBlock, panel += stride) {
        const F8 m01 = max8(abs8(load8(x)), abs8(load8(x + 8)));
        const float largest = max_lane(max8(m01, max8(abs8(load8(x + 16)), abs8(load8(x + 24)))));
        const float d = largest / 127.0f;
        const float inverse = largest != 0.0f ? 127.0f / largest : 0.0f;
        float* scales = reinterpret_cast<float*>(panel);
        uint8_t* quants = panel + rows * 8 + row * kBlock * (wide ? 2 : 1);
        const int32_t sum = quantize32(x, inverse, reinterpret_cast<int8_t*>(quants));
        if constexpr (wide) {
            int16_t* words = reinterpret_cast<int16_t*>(quants);
            const B32 bytes = load32(quants);
            store16w(words, even16w(bytes));
            store16w(words + 16, odd16w(bytes));
        }
        scales[row] = f16_to_f32(f32_to_f16(d));
        if constexpr (Kind == Activation::Q8_1) {
            scales[rows + row] = f16_to_f32(f32_to_f16(d * static_cast<float>(sum)));
        } else {
            std::memcpy(panel + (rows + row) * 4, &sum, sizeof sum);
        }
    }
}

float largest_magnitude(const float* x, int64_t n) {
    F8 largest = zero8();
    for (int64_t i = 0; i < n; i += 8) largest = max8(largest, abs8(load8(x + i)));
    return max_lane(largest);
}

// The sign that ggml's q8_K gives its scale: against the first of the largest magnitudes or, where it quantizes four
// rows at once, against a positive one if there is any.
float scale_sign(const float* x, float largest, bool four_rows) {
    for (int64_t i = 0; i < kSuperBlock; ++i) {
        if (x[i] == largest) return -1.0f;
        if (x[i] == -largest && !four_rows) return 1.0f;
    }
    return 1.0f;
}

// Blocks of 256 with one scale and their partial sums, as ggml's q8_K.
void quantize_q8k(const float* x, int64_t cols, int64_t row, int64_t rows, uint8_t* panel, bool four_rows) {
    const size_t stride = static_cast<size_t>(rows * kQ8KRowBytes);
    for (int64_t b = 0; b < cols / kSuperBlock; ++b, x += kSuperBlock, panel += stride) {
        const Q8KBlock out{panel, rows};
        const float largest = largest_magnitude(x, kSuperBlock);
        const float inverse = largest != 0.0f ? scale_sign(x, largest, four_rows) * 127.0f / largest : 0.0f;
        out.d(row) = largest != 0.0f ? 1.0f / inverse : 0.0f;
        int16_t* sums32 = out.sums32(row);
        int16_t* sums16 = out.sums16(row);
        int8_t* quants = out.quants(row);
        for (int64_t i = 0; i < kSuperBlock / 32; ++i) {
            quantize32(x + 32 * i, inverse, quants + 32 * i);
            alignas(32) int32_t sums[8];
            store8i(sums, pairs8i(set16w(1), pairs16w(set32(1), load32(quants + 32 * i))));
            sums16[2 * i] = static_cast<int16_t>(sums[0] + sums[1] + sums[2] + sums[3]);
            sums16[2 * i + 1] = static_cast<int16_t>(sums[4] + sums[5] + sums[6] + sums[7]);
            sums32[i] = static_cast<int16_t>(sums16[2 * i] + sums16[2 * i + 1]);
        }
    }
}

}  // namespace

void pack_row(Activation kind, const float* x, int64_t cols, int64_t row, int64_t rows, uint8_t* panel) {
    float* y = reinterpret_cast<float*>(panel) + row * cols;
    switch (kind) {
        case Activation::Q8_0: return quantize_q8<Activation::Q8_0>(x, cols, row, rows, panel);
        case Activation::Q8_0x16: return quantize_q8<Activation::Q8_0x16>(x, cols, row, rows, panel);
        case Activation::Q8_1: return quantize_q8<Activation::Q8_1>(x, cols, row, rows, panel);
        case Activation::Q8_K: return quantize_q8k(x, cols, row, rows, panel, false);
        case Activation::Q8_Kx4: return quantize_q8k(x, cols, row, rows, panel, true);
        case Activation::F32: std::memcpy(y, x, static_cast<size_t>(cols) * 4); return;
        case Activation::F16:
            for (int64_t i = 0; i < cols; i += 8) store8(y + i, round_f16(load8(x + i)));
            return;
        case Activation::BF16:
            for (int64_t i = 0; i < cols; ++i) y[i] = bf16_to_f32(f32_to_bf16(x[i]));
            return;
    }
}

}  // namespace bankml::BANKML_ISA
