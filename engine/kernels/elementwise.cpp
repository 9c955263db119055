// The steps between the products: RMS norm, SwiGLU, rotary embedding. And the table that offers this build's kernels.
#include "attention.h"
#include "matmul.h"

namespace bankml::BANKML_ISA {
namespace {

void rms_norm(const float* x, const float* weight, float* y, int64_t n, float eps) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i] * x[i]);
    const float mean = static_cast<float>(sum / static_cast<double>(n));
    const float scale = 1.0f / sqrtf(mean + eps);
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * scale * weight[i];
}

void swiglu(const float* gate, const float* up, float* y, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const F8 g = load8(gate + i);
        const F8 silu = div8(g, add8(set8(1.0f), exp8(sub8(zero8(), g))));
        store8(y + i, mul8(silu, load8(up + i)));
    }
    for (; i < n; ++i) y[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}

// Rotates pairs by the angles whose cosines and sines alternate in cos_sin: neighbours, or (neox) halves.
void rotate(float* x, const float* cos_sin, int64_t n_rot, bool neox) {
    const int64_t apart = neox ? n_rot / 2 : 1;
    const int64_t step = neox ? 1 : 2;
    for (int64_t i = 0; i < n_rot / 2; ++i) {
        const float c = cos_sin[2 * i];
        const float s = cos_sin[2 * i + 1];
        float* pair = x + i * step;
        const float x0 = pair[0];
        const float x1 = pair[apart];
        pair[0] = std::fma(x0, c, -(x1 * s));
        pair[apart] = std::fma(x0, s, x1 * c);
    }
}

void store_f16(const float* x, uint16_t* y, int64_t n) {
    for (int64_t i = 0; i < n; i += 8) store8_f16(y + i, load8(x + i));
}

}  // namespace

extern const Kernels kernels;
#if defined(__AVX2__)
const Kernels kernels{"avx2",   rms_norm, swiglu,  rotate,     store_f16, pack,
                      pack_row, matvec,         matmul,   attend_heads, attend_tile};
#else
const Kernels kernels{"portable", rms_norm, swiglu,  rotate,     store_f16, pack,
                      pack_row,   matvec,         matmul,   attend_heads, attend_tile};
#endif

}  // namespace bankml::BANKML_ISA
