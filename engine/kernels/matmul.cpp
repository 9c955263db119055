// Products of blocks of 32 weights (Q4_0 to Q8_0, IQ4_NL) row by row, and which kernel takes which matrix.
//
// Every lane adds its blocks in file order with one fused multiply-add a block, and the lanes are added as sum_lanes
// does: the bits of ggml's per-row dot product, whichever tile a row travels in. What the tiles save is the unpacking:
// four weight rows are unpacked once and meet every activation row of the batch.
#include "formats.h"
#include "matmul.h"

namespace bankml::BANKML_ISA {
namespace {

// One activation row (row `index` of a panel of `rows`) by one weight row.
template <class Block>
float dot_row(const uint8_t* w, const uint8_t* panel, int64_t blocks, int64_t index, int64_t rows) {
    F8 acc = zero8();
    float mins = 0.0f;
    Q8Block x{panel, rows};
    for (int64_t b = 0; b < blocks; ++b, w += Block::bytes, x.next()) {
        acc = fma8(set8(Block::scale(w) * x.d(index)), Block::dot(Block::quants(w), load32(x.quants(index))), acc);
        if constexpr (Block::has_min) mins = std::fma(Block::min(w), x.scaled_sum(index), mins);
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
BANKML_UNROLL(4)
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
BANKML_UNROLL(2)
        for (int r = 0; r < 2; ++r) {
            const B32 q = load32(group.quants + (b * kGroupRows + pair * 2 + r) * 32);
BANKML_UNROLL(4)
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
void matmul_q(const MatmulArgs& args) {
    using Block = typename Rows::Block;
    const Matrix& w = args.w;
    const int64_t blocks = w.cols / kBlock;
    const size_t stride = panel_bytes(Activation::Q8_0, kPanelRows, w.cols);
    Unpacked group;
    group.quants = args.scratch;
    group.scale = reinterpret_cast<float*>(args.scratch + blocks * kGroupRows * 32);
    group.min = group.scale + blocks * 16;
    const int64_t whole = args.first + (args.last - args.first) / 8 * 8;
    for (int64_t r = args.first; r < whole; r += kGroupRows) {
        unpack_group(Rows(w, r / 8 * 8), blocks, static_cast<int>(r % 8 / kGroupRows), group);
        for (int64_t i = 0; i < args.n; i += kPanelRows) {
            const uint8_t* panel = args.panels + static_cast<size_t>(i / kPanelRows) * stride;
            const int64_t rows = args.n - i < kPanelRows ? args.n - i : kPanelRows;
            for (int64_t pair = 0; pair < 2; ++pair) {
                alignas(32) float out[8];
                tile_2x4<Block>(group, pair, panel, blocks, out);
                for (int64_t j = 0; j < rows; ++j) {
                    args.put(i + j, r + pair * 2, out[j]);
                    args.put(i + j, r + pair * 2 + 1, out[4 + j]);
                }
            }
        }
    }
    for (int64_t r = whole; r < args.last; ++r) {
        for (int64_t i = 0; i < args.n; ++i) {
            const uint8_t* panel = args.panels + static_cast<size_t>(i / kPanelRows) * stride;
            args.put(i, r, dot_row<Block>(w.row(r), panel, blocks, i % kPanelRows, kPanelRows));
        }
    }
}

template <class Block>
void matvec_32(const Matrix& w, const uint8_t* panel, float* y, const float* residual, int64_t first, int64_t last) {
    w.packed && is_streamed(w.type, w.rows)
        ? matvec_q<PackedRows<Block>>(w, panel, y, residual, first, last)
        : matvec_q<FileRows<Block>>(w, panel, y, residual, first, last);
}

template <class Block>
void matmul_32(const MatmulArgs& args) {
    args.w.packed && is_streamed(args.w.type, args.w.rows) ? matmul_q<PackedRows<Block>>(args)
                                                           : matmul_q<FileRows<Block>>(args);
}

// One activation row by rows of IQ4_NL: ggml adds even and odd blocks apart, and a last odd block as one number.
void matvec_iq4_nl(const Matrix& w, const uint8_t* panel, float* y, const float* residual, int64_t first,
                   int64_t last) {
    const int64_t blocks = w.cols / kBlock;
    for (int64_t r = first; r < last; ++r) {
        F8 acc[2] = {zero8(), zero8()};
        const uint8_t* block = w.row(r);
        Q8Block x{panel, 1};
        for (int64_t b = 0; b < blocks / 2 * 2; ++b, block += Iq4Nl::bytes, x.next()) {
            const F8 products = Iq4Nl::dot(Iq4Nl::quants(block), load32(x.quants(0)));
            acc[b % 2] = fma8(set8(x.d(0) * Iq4Nl::scale(block)), products, acc[b % 2]);
        }
        float sum = sum_lanes(add8(acc[0], acc[1]));
        if (blocks % 2 != 0) {
            const B32 q = Iq4Nl::quants(block);
            const I8 products = pairs8i(set16w(1), pairs16w(abs32(q), sign32(load32(x.quants(0)), q)));
            sum = std::fma(x.d(0) * Iq4Nl::scale(block), static_cast<float>(sum8i(products)), sum);
        }
        y[r] = residual ? sum + residual[r] : sum;
    }
}

}  // namespace

void pack(const Matrix& w, uint8_t* out) {
    if (is_interleaved(w.type, w.rows)) return pack_interleaved(w, out);
    if (is_copied(w.type, w.rows)) {
        std::memcpy(out, w.data, static_cast<size_t>(w.rows) * w.row_bytes);
        return;
    }
    switch (w.type) {
        case Type::Q4_1: return PackedRows<Q41>::pack(w, out);
        case Type::Q5_0: return PackedRows<Q50>::pack(w, out);
        case Type::Q5_1: return PackedRows<Q51>::pack(w, out);
        default: return PackedRows<Q80>::pack(w, out);
    }
}

void matvec(const Matrix& w, const uint8_t* panel, float* y, const float* residual, int64_t first, int64_t last) {
    if (is_interleaved(w.type, w.rows)) return matvec_interleaved(w, panel, y, residual, first, last);
    switch (w.type) {
        case Type::Q4_0: return matvec_q<FileRows<Q40>>(w, panel, y, residual, first, last);
        case Type::Q4_1: return matvec_32<Q41>(w, panel, y, residual, first, last);
        case Type::Q5_0: return matvec_32<Q50>(w, panel, y, residual, first, last);
        case Type::Q5_1: return matvec_32<Q51>(w, panel, y, residual, first, last);
        case Type::Q8_0: return matvec_32<Q80>(w, panel, y, residual, first, last);
        case Type::IQ4_NL: return matvec_iq4_nl(w, panel, y, residual, first, last);
        case Type::Q1_0: return matvec_signs(w, panel, y, residual, first, last);
        case Type::F32:
        case Type::F16:
        case Type::BF16:
            return matvec_float(w, reinterpret_cast<const float*>(panel), y, residual, first, last);
        default: return matvec_super(w, panel, y, residual, first, last);
    }
}

void matmul(const MatmulArgs& args) {
    if (is_interleaved(args.w.type, args.w.rows)) return matmul_interleaved(args);
    switch (args.w.type) {
        case Type::Q4_0: return matmul_q<FileRows<Q40>>(args);
        case Type::Q4_1: return matmul_32<Q41>(args);
        case Type::Q5_0: return matmul_32<Q50>(args);
        case Type::Q5_1: return matmul_32<Q51>(args);
        case Type::Q8_0: return matmul_32<Q80>(args);
        case Type::IQ4_NL: return matmul_q<FileRows<Iq4Nl>>(args);
        case Type::Q1_0: return matmul_signs(args);
        case Type::F32:
        case Type::F16:
        case Type::BF16: return matmul_float(args);
        default: return matmul_super(args);
    }
}

}  // namespace bankml::BANKML_ISA
