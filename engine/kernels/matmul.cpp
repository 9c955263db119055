// Integer products: Q4_1 and Q8_0 weights with Q8 activations.
//
// Every lane adds its blocks in file order with one fused multiply-add a block, and the lanes are added as sum_lanes
// does: the bits of ggml's per-row dot product, whichever tile a row travels in. What the tiles save is the unpacking:
// four weight rows are unpacked once and meet every activation row of the batch.
#include "formats.h"
#include "matmul.h"

namespace bankml::BANKML_ISA {
namespace {

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

// One activation row (row `index` of a panel of `rows`) by one weight row.
template <class Block>
float dot_row(const uint8_t* w, const uint8_t* panel, int64_t blocks, int64_t index, int64_t rows) {
    F8 acc = zero8();
    float mins = 0.0f;
    for (int64_t b = 0; b < blocks; ++b, w += Block::bytes, panel += rows * 40) {
        const float* scales = reinterpret_cast<const float*>(panel);
        const B32 x = load32(panel + rows * 8 + index * kBlock);
        acc = fma8(set8(Block::scale(w) * scales[index]), Block::dot(Block::quants(w), x), acc);
        if constexpr (Block::has_min) mins = std::fma(Block::min(w), scales[rows + index], mins);
    }
    return Block::has_min ? sum_lanes(acc) + mins : sum_lanes(acc);
}

// One activation row by eight weight rows.
template <class Rows>
void dot_8_rows(Rows w, const uint8_t* panel, int64_t blocks, float out[8]) {
    using Block = typename Rows::Block;
    F8 acc[8] = {};
    F8 mins = zero8();
    alignas(32) float scale[8];
    for (int64_t b = 0; b < blocks; ++b, w.next(), panel += 40) {
        w.look_ahead();
        float d, s;
        std::memcpy(&d, panel, sizeof d);
        std::memcpy(&s, panel + 4, sizeof s);
        F8 scales, minima;
        w.scales(scales, minima);
        store8_for_broadcast(scale, mul8(scales, set8(d)));
        if constexpr (Block::has_min) mins = fma8(minima, set8(s), mins);
        const B32 x = load32(panel + 8);
#pragma GCC unroll 4
        for (int pair = 0; pair < 4; ++pair) {
            B32 first, second;
            w.quants(pair, first, second);
            acc[2 * pair] = fma8(set8(scale[2 * pair]), Block::dot(first, x), acc[2 * pair]);
            acc[2 * pair + 1] = fma8(set8(scale[2 * pair + 1]), Block::dot(second, x), acc[2 * pair + 1]);
        }
    }
    sum_lanes4(acc, out);
    sum_lanes4(acc + 4, out + 4);
    if constexpr (Block::has_min) store8(out, add8(load8(out), mins));
}

template <class Rows>
void matvec_q(const Matrix& w, const uint8_t* panel, float* y, const float* residual, int64_t first, int64_t last) {
    const int64_t blocks = w.cols / kBlock;
    alignas(32) float out[8];
    for (int64_t r = first; r < last; r += 8) {
        const int64_t rows = last - r < 8 ? last - r : 8;
        if (rows == 8) {
            dot_8_rows(Rows(w, r), panel, blocks, out);
        } else {
            for (int64_t i = 0; i < rows; ++i) {
                out[i] = dot_row<typename Rows::Block>(w.row(r + i), panel, blocks, 0, 1);
            }
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

// Unpacks four of the eight rows of `w`: the lower ones (half 0) or the upper ones (half 1).
template <class Rows>
void unpack_group(Rows w, int64_t blocks, int half, Unpacked group) {
    alignas(32) float scale[8];
    alignas(32) float min[8];
    for (int64_t b = 0; b < blocks; ++b, w.next()) {
        F8 d, m;
        w.scales(d, m);
        store8(scale, d);
        store8(min, m);
        for (int pair = 0; pair < 2; ++pair) {
            B32 first, second;
            w.quants(2 * half + pair, first, second);
            uint8_t* quants = group.quants + (b * kGroupRows + 2 * pair) * 32;
            store32(quants, first);
            store32(quants + 32, second);
            for (int i = 0; i < 8; ++i) {
                const int row = 4 * half + 2 * pair + i / 4;
                group.scale[(b * 2 + pair) * 8 + i] = scale[row];
                group.min[(b * 2 + pair) * 8 + i] = min[row];
            }
        }
    }
}

// Two unpacked weight rows by a panel of four activation rows: out[r * 4 + i].
template <class Block>
void tile_2x4(const Unpacked& group, int64_t pair, const uint8_t* panel, int64_t blocks, float out[8]) {
    F8 acc[2][4] = {};
    F8 mins = zero8();
    alignas(32) float scale[8];
    for (int64_t b = 0; b < blocks; ++b, panel += 160) {
        const float* d = reinterpret_cast<const float*>(panel);
        store8_for_broadcast(scale, mul8(load8(group.scale + (b * 2 + pair) * 8), load4x2(d)));
        if constexpr (Block::has_min) mins = fma8(load8(group.min + (b * 2 + pair) * 8), load4x2(d + 4), mins);
#pragma GCC unroll 2
        for (int r = 0; r < 2; ++r) {
            const B32 q = load32(group.quants + (b * kGroupRows + pair * 2 + r) * 32);
#pragma GCC unroll 4
            for (int i = 0; i < 4; ++i) {
                acc[r][i] = fma8(set8(scale[r * 4 + i]), Block::dot(q, load32(panel + 32 + 32 * i)), acc[r][i]);
            }
        }
    }
    sum_lanes4(acc[0], out);
    sum_lanes4(acc[1], out + 4);
    if constexpr (Block::has_min) store8(out, add8(load8(out), mins));
}

template <class Rows>
void matmul_q(const Matrix& w, const uint8_t* panels, float* y, const float* residual, int64_t ldy, int64_t n,
              int64_t first, int64_t last, uint8_t* scratch) {
    using Block = typename Rows::Block;
    const int64_t blocks = w.cols / kBlock;
    const size_t stride = panel_bytes(Activation::Q8, kPanelRows, w.cols);
    const auto put = [&](int64_t i, int64_t r, float sum) {
        y[i * ldy + r] = residual ? sum + residual[i * ldy + r] : sum;
    };
    Unpacked group;
    group.quants = scratch;
    group.scale = reinterpret_cast<float*>(scratch + blocks * kGroupRows * 32);
    group.min = group.scale + blocks * 16;
    const int64_t whole = first + (last - first) / 8 * 8;
    for (int64_t r = first; r < whole; r += kGroupRows) {
        unpack_group(Rows(w, r / 8 * 8), blocks, static_cast<int>(r % 8 / kGroupRows), group);
        for (int64_t i = 0; i < n; i += kPanelRows) {
            const uint8_t* panel = panels + static_cast<size_t>(i / kPanelRows) * stride;
            const int64_t rows = n - i < kPanelRows ? n - i : kPanelRows;
            for (int64_t pair = 0; pair < 2; ++pair) {
                alignas(32) float out[8];
                tile_2x4<Block>(group, pair, panel, blocks, out);
                for (int64_t j = 0; j < rows; ++j) {
                    put(i + j, r + pair * 2, out[j]);
                    put(i + j, r + pair * 2 + 1, out[4 + j]);
                }
            }
        }
    }
    for (int64_t r = whole; r < last; ++r) {
        for (int64_t i = 0; i < n; ++i) {
            const uint8_t* panel = panels + static_cast<size_t>(i / kPanelRows) * stride;
            put(i, r, dot_row<Block>(w.row(r), panel, blocks, i % kPanelRows, kPanelRows));
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

void pack(const Matrix& w, uint8_t* out) { PackedRows::pack(w, out); }

void matvec(const Matrix& w, const uint8_t* panel, float* y, const float* residual, int64_t first, int64_t last) {
    if (w.packed) return matvec_q<PackedRows>(w, panel, y, residual, first, last);
    switch (w.type) {
        case Type::Q4_1: return matvec_q<FileRows<Q41>>(w, panel, y, residual, first, last);
        case Type::Q8_0: return matvec_q<FileRows<Q80>>(w, panel, y, residual, first, last);
        default: return matvec_float(w, reinterpret_cast<const float*>(panel), y, residual, first, last);
    }
}

void matmul(const Matrix& w, const uint8_t* panels, float* y, const float* residual, int64_t ldy, int64_t n,
            int64_t first, int64_t last, uint8_t* scratch) {
    if (w.packed) return matmul_q<PackedRows>(w, panels, y, residual, ldy, n, first, last, scratch);
    switch (w.type) {
        case Type::Q4_1: return matmul_q<FileRows<Q41>>(w, panels, y, residual, ldy, n, first, last, scratch);
        case Type::Q8_0: return matmul_q<FileRows<Q80>>(w, panels, y, residual, ldy, n, first, last, scratch);
        default:
            return matmul_float(w, reinterpret_cast<const float*>(panels), y, residual, ldy, n, first, last,
                                reinterpret_cast<float*>(scratch));
    }
}

}  // namespace bankml::BANKML_ISA
