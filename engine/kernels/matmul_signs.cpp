// Products of Q1_0 (blocks of 128 signs with one scale) with Q8_0 activations, as ggml multiplies two rows: the four
// quarters of a block are added with the activations' scales, then the block with its own.
#include "blocks.h"
#include "matmul.h"

namespace bankml::BANKML_ISA {
namespace {

constexpr int64_t kSigns = 128;
constexpr size_t kBytes = 18;

// +1 where a bit is set, -1 where it is clear.
BANKML_LANES B32 signs_of(const uint8_t* bits) { return or32(without32(set32(-1), bits32(bits)), set32(1)); }

// One weight row, unpacked to bytes, by the N rows of a panel.
template <int N>
void dot_row(const int8_t* signs, const uint8_t* w, const uint8_t* panel, int64_t blocks, float (&out)[N]) {
    F8 lanes[N];
BANKML_UNROLL(4)
    for (int i = 0; i < N; ++i) lanes[i] = zero8();
    Q8Block x{panel, N};
    for (int64_t b = 0; b < blocks; ++b, w += kBytes) {
        F8 sums[N];
BANKML_UNROLL(4)
        for (int c = 0; c < 4; ++c, signs += 32, x.next()) {
            const B32 sign = load32(signs);
BANKML_UNROLL(4)
            for (int i = 0; i < N; ++i) {
                const F8 products = dot_u8_s8(set32(1), sign32(load32(x.quants(i)), sign));
                sums[i] = c == 0 ? mul8(set8(x.d(i)), products) : fma8(set8(x.d(i)), products, sums[i]);
            }
        }
        const F8 scale = set8(half_at(w));
BANKML_UNROLL(4)
        for (int i = 0; i < N; ++i) lanes[i] = fma8(scale, sums[i], lanes[i]);
    }
    for (int i = 0; i < N; ++i) out[i] = sum_lanes(lanes[i]);
}

void unpack_row(const uint8_t* w, int64_t blocks, int8_t* signs) {
    for (int64_t b = 0; b < blocks; ++b, w += kBytes) {
        for (int c = 0; c < 4; ++c, signs += 32) store32(signs, signs_of(w + 2 + 4 * c));
    }
}

}  // namespace

void matvec_signs(const Matrix& w, const uint8_t* panel, float* y, const float* residual, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
        const uint8_t* block = w.row(r);
        Q8Block x{panel, 1};
        F8 lanes = zero8();
        for (int64_t b = 0; b < w.cols / kSigns; ++b, block += kBytes) {
            look_ahead<kBytes>(block);
            F8 sum = zero8();
            for (int c = 0; c < 4; ++c, x.next()) {
                const F8 products = dot_u8_s8(set32(1), sign32(load32(x.quants(0)), signs_of(block + 2 + 4 * c)));
                sum = c == 0 ? mul8(set8(x.d(0)), products) : fma8(set8(x.d(0)), products, sum);
            }
            lanes = fma8(set8(half_at(block)), sum, lanes);
        }
        const float sum = sum_lanes(lanes);
        y[r] = residual ? sum + residual[r] : sum;
    }
}

void matmul_signs(const MatmulArgs& args) {
    const Matrix& w = args.w;
    const int64_t blocks = w.cols / kSigns;
    const size_t stride = panel_bytes(Activation::Q8_0, kPanelRows, w.cols);
    int8_t* signs = reinterpret_cast<int8_t*>(args.scratch);
    for (int64_t r = args.first; r < args.last; ++r) {
        unpack_row(w.row(r), blocks, signs);
        for (int64_t i = 0; i < args.n; i += kPanelRows) {
            float sums[kPanelRows];
            dot_row(signs, w.row(r), args.panels + static_cast<size_t>(i / kPanelRows) * stride, blocks, sums);
            for (int64_t k = 0; k < kPanelRows && i + k < args.n; ++k) args.put(i + k, r, sums[k]);
        }
    }
}

}  // namespace bankml::BANKML_ISA
