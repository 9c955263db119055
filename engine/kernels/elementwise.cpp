// The steps between the products: RMS norm, SwiGLU, rotary embedding. And the table that offers this build's kernels.
#include "attention.h"
#include "deviations.h"
#include "matmul.h"
#include "pooling.h"

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

// As ggml's fast Walsh-Hadamard transform: scaled first, then pass by pass, neighbours before strangers.
void hadamard(float* x, int64_t size, int64_t n) {
    const F8 scale = set8(1.0f / sqrtf(static_cast<float>(size)));
    for (int64_t i = 0; i < n; i += 8) {
        store8(x + i, butterfly8<4>(butterfly8<2>(butterfly8<1>(mul8(load8(x + i), scale)))));
    }
    for (int64_t apart = 8; apart < size; apart *= 2) {
        for (int64_t i = 0; i < n; i += i % (2 * apart) == apart - 8 ? apart + 8 : 8) {
            const F8 u = load8(x + i);
            const F8 v = load8(x + i + apart);
            store8(x + i, add8(u, v));
            store8(x + i + apart, sub8(u, v));
        }
    }
}

}  // namespace

extern const Kernels kernels;
#if defined(__AVX2__)
#define BANKML_KERNELS_NAME "avx2"
#else
#define BANKML_KERNELS_NAME "portable"
#endif
const Kernels kernels{BANKML_KERNELS_NAME, rms_norm, swiglu, rotate, hadamard,    store_cache_row,
                      pack,                pack_row, matvec, matmul, attend_rows, attend_tile,
                      sum_squares,         mean_rows, soft_max};

}  // namespace bankml::BANKML_ISA
