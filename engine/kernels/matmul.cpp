// Integer products: Q4_1 and Q8_0 weights with Q8 activations.
//
// Every lane adds its blocks in file order with one fused multiply-add a block, and the lanes are added as sum_lanes
// does: the bits of ggml's per-row dot product, whichever tile a row travels in. What the tiles save is the unpacking:
// four weight rows are unpacked once and meet every activation row of the batch.
#include "matmul.h"

namespace bankml::BANKML_ISA {
namespace {

constexpr size_t kQ41Bytes = 20;  // half d, half m, 16 bytes of nibbles
constexpr size_t kQ80Bytes = 34;  // half d, 32 int8

inline uint16_t half_at(const uint8_t* p) {
    uint16_t h;
    std::memcpy(&h, p, sizeof h);
    return h;
}

struct Q41 {
    static constexpr size_t bytes = kQ41Bytes;
    static constexpr bool has_min = true;
    static B32 quants(const uint8_t* block) { return load_nibbles(block + 4); }
    static F8 dot(B32 w, B32 x) { return dot_u8_s8(w, x); }
    static void gather(const uint8_t* p, size_t stride, F8& d, F8& m) { gather_f16x2(p, stride, d, m); }
};

struct Q80 {
    static constexpr size_t bytes = kQ80Bytes;
    static constexpr bool has_min = false;
    static B32 quants(const uint8_t* block) { return load32(block + 2); }
    static F8 dot(B32 w, B32 x) { return dot_s8_s8(abs32(w), w, x); }
    static void gather(const uint8_t* p, size_t stride, F8& d, F8&) { d = gather_f16(p, stride); }
};

void pack_q8(const float* x, int64_t cols, int64_t row, int64_t rows, uint8_t* panel) {
    const size_t stride = static_cast<size_t>(rows) * 40;
    for (int64_t b = 0; b < cols / kBlock; ++b, x += kBlock, panel += stride) {
        const F8 m01 = max8(abs8(load8(x)), abs8(load8(x + 8)));
        const float largest = max_lane(max8(m01, max8(abs8(load8(x + 16)), abs8(load8(x + 24)))));
        const float d = largest / 127.0f;
        const float inverse = largest != 0.0f ? 127.0f / largest : 0.0f;
        float* scales = reinterpret_cast<float*>(panel);
        int8_t* quants = reinterpret_cast<int8_t*>(panel + rows * 8) + row * kBlock;
        const int32_t sum = quantize32(x, inverse, quants);
        scales[row] = f16_to_f32(f32_to_f16(d));
        scales[rows + row] = f16_to_f32(f32_to_f16(d * static_cast<float>(sum)));
    }
}

// One activation row by eight weight rows.
template <class W>
void dot_8_rows(const uint8_t* w, size_t row_bytes, const uint8_t* panel, int64_t blocks, float out[8]) {
    F8 acc[8];
    for (F8& a : acc) a = zero8();
    F8 mins = zero8();
    alignas(32) float scale[8];
    const size_t ahead = row_bytes * 8;
    for (int64_t b = 0; b < blocks; ++b, w += W::bytes, panel += 40) {
        // The next eight rows, as they lie in memory: this loop reads eight streams, which no prefetcher follows well.
        for (size_t at = 0; at < 8 * W::bytes; at += 64) prefetch(w + ahead + b * 7 * static_cast<int64_t>(W::bytes) + at);
        float d, s;
        std::memcpy(&d, panel, sizeof d);
        std::memcpy(&s, panel + 4, sizeof s);
        F8 scales, minima;
        W::gather(w, row_bytes, scales, minima);
        store8_for_broadcast(scale, mul8(scales, set8(d)));
        if constexpr (W::has_min) mins = fma8(minima, set8(s), mins);
        const B32 x = load32(panel + 8);
        for (int r = 0; r < 8; ++r) acc[r] = fma8(set8(scale[r]), W::dot(W::quants(w + r * row_bytes), x), acc[r]);
    }
    sum_lanes4(acc, out);
    sum_lanes4(acc + 4, out + 4);
    if constexpr (W::has_min) store8(out, add8(load8(out), mins));
}

template <class W>
float dot_row(const uint8_t* w, const uint8_t* panel, int64_t blocks) {
    F8 acc = zero8();
    float mins = 0.0f;
    for (int64_t b = 0; b < blocks; ++b, w += W::bytes, panel += 40) {
        float d, s;
        std::memcpy(&d, panel, sizeof d);
        std::memcpy(&s, panel + 4, sizeof s);
        acc = fma8(set8(f16_to_f32(half_at(w)) * d), W::dot(W::quants(w), load32(panel + 8)), acc);
        if constexpr (W::has_min) mins = std::fma(f16_to_f32(half_at(w + 2)), s, mins);
    }
    return W::has_min ? sum_lanes(acc) + mins : sum_lanes(acc);
}

template <class W>
void matvec_q(const Matrix& w, const uint8_t* panel, float* y, const float* residual, int64_t first, int64_t last) {
    const int64_t blocks = w.cols / kBlock;
    alignas(32) float out[8];
    for (int64_t r = first; r < last; r += 8) {
        const int64_t rows = last - r < 8 ? last - r : 8;
        if (rows == 8) {
            dot_8_rows<W>(w.row(r), w.row_bytes, panel, blocks, out);
        } else {
            for (int64_t i = 0; i < rows; ++i) out[i] = dot_row<W>(w.row(r + i), panel, blocks);
        }
        for (int64_t i = 0; i < rows; ++i) y[r + i] = residual ? out[i] + residual[r + i] : out[i];
    }
}

// Four weight rows unpacked: 32 bytes a row a block, and for each pair of rows the scales, and the minima, laid out as
// a tile of two rows by four activations wants them: a a a a b b b b.
struct Unpacked {
    uint8_t* quants;  // [block][row][32]
    float* scale;     // [block][pair][8]
    float* min;       // [block][pair][8]
};

template <class W>
void unpack_group(const Matrix& w, int64_t first, int64_t last, Unpacked group) {
    for (int64_t r = 0; r < kGroupRows; ++r) {
        const int64_t row = first + r < last ? first + r : last - 1;  // a short group repeats its last row
        const uint8_t* block = w.row(row);
        for (int64_t b = 0; b < w.cols / kBlock; ++b, block += W::bytes) {
            store32(group.quants + (b * kGroupRows + r) * 32, W::quants(block));
            const float d = f16_to_f32(half_at(block));
            const float m = W::has_min ? f16_to_f32(half_at(block + 2)) : 0.0f;
            const int64_t at = (b * 2 + r / 2) * 8 + (r & 1) * 4;
            for (int64_t i = at; i < at + 4; ++i) {
                group.scale[i] = d;
                group.min[i] = m;
            }
        }
    }
}

// Two unpacked weight rows by a panel of four activation rows: out[r * 4 + i].
template <class W>
void tile_2x4(const Unpacked& group, int64_t pair, const uint8_t* panel, int64_t blocks, float out[8]) {
    F8 acc[2][4];
    for (auto& row : acc) {
        for (F8& a : row) a = zero8();
    }
    F8 mins = zero8();
    alignas(32) float scale[8];
    for (int64_t b = 0; b < blocks; ++b, panel += 160) {
        const float* d = reinterpret_cast<const float*>(panel);
        store8_for_broadcast(scale, mul8(load8(group.scale + (b * 2 + pair) * 8), load4x2(d)));
        if constexpr (W::has_min) mins = fma8(load8(group.min + (b * 2 + pair) * 8), load4x2(d + 4), mins);
        for (int r = 0; r < 2; ++r) {
            const B32 q = load32(group.quants + (b * kGroupRows + pair * 2 + r) * 32);
            for (int i = 0; i < 4; ++i) {
                acc[r][i] = fma8(set8(scale[r * 4 + i]), W::dot(q, load32(panel + 32 + 32 * i)), acc[r][i]);
            }
        }
    }
    sum_lanes4(acc[0], out);
    sum_lanes4(acc[1], out + 4);
    if constexpr (W::has_min) store8(out, add8(load8(out), mins));
}

template <class W>
void matmul_q(const Matrix& w, const uint8_t* panels, float* y, const float* residual, int64_t ldy, int64_t n,
              int64_t first, int64_t last, uint8_t* scratch) {
    const int64_t blocks = w.cols / kBlock;
    const size_t stride = panel_bytes(Activation::Q8, kPanelRows, w.cols);
    Unpacked group;
    group.quants = scratch;
    group.scale = reinterpret_cast<float*>(scratch + blocks * kGroupRows * 32);
    group.min = group.scale + blocks * 16;
    for (int64_t r = first; r < last; r += kGroupRows) {
        unpack_group<W>(w, r, last, group);
        for (int64_t i = 0; i < n; i += kPanelRows) {
            const uint8_t* panel = panels + static_cast<size_t>(i / kPanelRows) * stride;
            const int64_t rows = n - i < kPanelRows ? n - i : kPanelRows;
            for (int64_t pair = 0; pair < 2 && r + pair * 2 < last; ++pair) {
                alignas(32) float out[8];
                tile_2x4<W>(group, pair, panel, blocks, out);
                for (int64_t j = 0; j < rows; ++j) {
                    const int64_t at = (i + j) * ldy + r + pair * 2;
                    y[at] = residual ? out[j] + residual[at] : out[j];
                    if (r + pair * 2 + 1 < last) y[at + 1] = residual ? out[4 + j] + residual[at + 1] : out[4 + j];
                }
            }
        }
    }
}

}  // namespace

void pack_row(Activation kind, const float* x, int64_t cols, int64_t row, int64_t rows, uint8_t* panel) {
    if (kind == Activation::Q8) {
        pack_q8(x, cols, row, rows, panel);
        return;
    }
    float* y = reinterpret_cast<float*>(panel) + row * cols;
    for (int64_t i = 0; i < cols; ++i) {
        y[i] = kind == Activation::F16    ? f16_to_f32(f32_to_f16(x[i]))
               : kind == Activation::BF16 ? bf16_to_f32(f32_to_bf16(x[i]))
                                          : x[i];
    }
}

void matvec(const Matrix& w, const uint8_t* panel, float* y, const float* residual, int64_t first, int64_t last) {
    switch (w.type) {
        case Type::Q4_1: return matvec_q<Q41>(w, panel, y, residual, first, last);
        case Type::Q8_0: return matvec_q<Q80>(w, panel, y, residual, first, last);
        default: return matvec_float(w, reinterpret_cast<const float*>(panel), y, residual, first, last);
    }
}

void matmul(const Matrix& w, const uint8_t* panels, float* y, const float* residual, int64_t ldy, int64_t n,
            int64_t first, int64_t last, uint8_t* scratch) {
    switch (w.type) {
        case Type::Q4_1: return matmul_q<Q41>(w, panels, y, residual, ldy, n, first, last, scratch);
        case Type::Q8_0: return matmul_q<Q80>(w, panels, y, residual, ldy, n, first, last, scratch);
        default:
            return matmul_float(w, reinterpret_cast<const float*>(panels), y, residual, ldy, n, first, last,
                                reinterpret_cast<float*>(scratch));
    }
}

}  // namespace bankml::BANKML_ISA
