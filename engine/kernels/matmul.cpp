// Products of blocks of 32 weights (Q4_0 to Q8_0, IQ4_NL) row by row, and which kernel takes which matrix.
//
// Every lane adds its blocks in file order with one fused multiply-add a block, and the lanes are added as sum_lanes
// does: the bits of ggml's per-row dot product, whichever tile a row travels in. What the tiles save is the unpacking:
// four weight rows are unpacked once and meet every activation row of the batch.
#include "formats.h"
#include "matmul.h"

namespace bankml::BANKML_ISA {
namespace {

// One activation row by one weight row.
template <class Block>
float dot_row(const uint8_t* w, const uint8_t* panel, int64_t blocks) {
    F8 acc = zero8();
    float mins = 0.0f;
    Q8Block x{panel, 1};
    for (int64_t b = 0; b < blocks; ++b, w += Block::bytes, x.next()) {
        acc = fma8(set8(Block::scale(w) * x.d(0)), Block::dot(Block::quants(w), load32(x.quants(0))), acc);
        if constexpr (Block::has_min) mins = std::fma(Block::min(w), x.scaled_sum(0), mins);
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
                out[i] = dot_row<typename Rows::Block>(w.row(r + i), panel, blocks);
            }
        }
        for (int64_t i = 0; i < rows; ++i) y[r + i] = residual ? out[i] + residual[r + i] : out[i];
    }
}

// 32 quants of a weight row as a tile multiplies them with those of an activation row. Unsigned ones stay bytes.
struct Bytes {
    static constexpr Activation activation = Activation::Q8_1;
    static constexpr int64_t size = 32;
    B32 all;

    static Bytes of(B32 quants) { return {quants}; }
    BANKML_LANES static Bytes load(const uint8_t* p) { return {load32(p)}; }
    void store(uint8_t* p) const { store32(p, all); }
    BANKML_LANES F8 dot(const uint8_t* x) const { return dot_u8_s8(all, load32(x)); }
};

// Signed ones become int16: as bytes they would take another step, to change the activations' signs.
struct Words {
    static constexpr Activation activation = Activation::Q8_0x16;
    static constexpr int64_t size = 64;
    W16 even;
    W16 odd;

    static Words of(B32 quants) { return {even16w(quants), odd16w(quants)}; }
    BANKML_LANES static Words load(const uint8_t* p) {
        const int16_t* words = reinterpret_cast<const int16_t*>(p);
        return {load16w(words), load16w(words + 16)};
    }
    void store(uint8_t* p) const {
        int16_t* words = reinterpret_cast<int16_t*>(p);
        store16w(words, even);
        store16w(words + 16, odd);
    }
    BANKML_LANES F8 dot(const uint8_t* x) const {
        const Words other = load(x);
        return to_f32(add8i(pairs8i(even, other.even), pairs8i(odd, other.odd)));
    }
};

template <class Block>
using QuantsOf = std::conditional_t<Block::has_min, Bytes, Words>;

// A panel of four activation rows, walked block by block.
template <class Quants>
struct Panel {
    const uint8_t* data;

    BANKML_LANES const float* d() const { return reinterpret_cast<const float*>(data); }
    BANKML_LANES const float* scaled_sums() const { return d() + kPanelRows; }
    BANKML_LANES const uint8_t* quants(int64_t row) const { return data + kPanelRows * 8 + row * Quants::size; }
    BANKML_LANES void next() { data += kPanelRows * (8 + Quants::size); }
};

// Four weight rows unpacked. The minima lie for each pair of rows as a tile wants them: a a a a b b b b.
struct Unpacked {
    uint8_t* quants;  // [block][row][Quants::size]
    float* scale;     // [block][row]
    float* min;       // [block][pair][8]
};

// Unpacks four of the eight rows of `w`: the lower ones (half 0) or the upper ones (half 1).
template <class Rows>
void unpack_group(Rows w, int64_t blocks, int half, Unpacked group) {
    using Quants = QuantsOf<typename Rows::Block>;
    alignas(32) float scale[8];
    alignas(32) float min[8];
    for (int64_t b = 0; b < blocks; ++b, w.next()) {
        if (half == 1) w.ask_for_next(blocks);
        F8 d, m;
        w.scales(d, m);
        store8(scale, d);
        store8(min, m);
        std::memcpy(group.scale + b * kGroupRows, scale + half * kGroupRows, kGroupRows * sizeof(float));
        for (int pair = 0; pair < 2; ++pair) {
            B32 first, second;
            w.quants(2 * half + pair, first, second);
            uint8_t* quants = group.quants + (b * kGroupRows + 2 * pair) * Quants::size;
            Quants::of(first).store(quants);
            Quants::of(second).store(quants + Quants::size);
            if constexpr (Rows::Block::has_min) {
                for (int i = 0; i < 8; ++i) group.min[(b * 2 + pair) * 8 + i] = min[4 * half + 2 * pair + i / 4];
            }
        }
    }
}

// Two unpacked weight rows by a panel of four activation rows: out[r * 4 + i].
template <class Block>
void tile_2x4(const Unpacked& group, int64_t pair, const uint8_t* panel, int64_t blocks, float out[8]) {
    using Quants = QuantsOf<Block>;
    F8 acc[2][4] = {};
    F8 mins = zero8();
    Panel<Quants> x{panel};
    for (int64_t b = 0; b < blocks; ++b, x.next()) {
        const F8 d = load4x2(x.d());
        if constexpr (Block::has_min) mins = fma8(load8(group.min + (b * 2 + pair) * 8), load4x2(x.scaled_sums()), mins);
BANKML_UNROLL(2)
        for (int r = 0; r < 2; ++r) {
            const int64_t row = b * kGroupRows + pair * 2 + r;
            const F8 scale = mul8(set8(group.scale[row]), d);
            const Quants q = Quants::load(group.quants + row * Quants::size);
            acc[r][0] = fma8(broadcast4x2<0>(scale), q.dot(x.quants(0)), acc[r][0]);
            acc[r][1] = fma8(broadcast4x2<1>(scale), q.dot(x.quants(1)), acc[r][1]);
            acc[r][2] = fma8(broadcast4x2<2>(scale), q.dot(x.quants(2)), acc[r][2]);
            acc[r][3] = fma8(broadcast4x2<3>(scale), q.dot(x.quants(3)), acc[r][3]);
        }
    }
    sum_lanes4(acc[0], out);
    sum_lanes4(acc[1], out + 4);
    if constexpr (Block::has_min) store8(out, add8(load8(out), mins));
}

// One weight row, as it lies in the file, by row `index` of a panel.
template <class Block>
float dot_in_panel(const uint8_t* w, const uint8_t* panel, int64_t blocks, int64_t index) {
    using Quants = QuantsOf<Block>;
    F8 acc = zero8();
    float mins = 0.0f;
    Panel<Quants> x{panel};
    for (int64_t b = 0; b < blocks; ++b, w += Block::bytes, x.next()) {
        const Quants q = Quants::of(Block::quants(w));
        acc = fma8(set8(Block::scale(w) * x.d()[index]), q.dot(x.quants(index)), acc);
        if constexpr (Block::has_min) mins = std::fma(Block::min(w), x.scaled_sums()[index], mins);
    }
    return Block::has_min ? sum_lanes(acc) + mins : sum_lanes(acc);
}

template <class Rows>
void matmul_q(const MatmulArgs& args) {
    using Block = typename Rows::Block;
    using Quants = QuantsOf<Block>;
    const Matrix& w = args.w;
    const int64_t blocks = w.cols / kBlock;
    const size_t stride = panel_bytes(Quants::activation, kPanelRows, w.cols);
    Unpacked group;
    group.quants = args.scratch;
    group.scale = reinterpret_cast<float*>(args.scratch + blocks * kGroupRows * Quants::size);
    group.min = group.scale + blocks * kGroupRows;
    const int64_t whole = args.first + (args.last - args.first) / 8 * 8;
    for (int64_t r = args.first; r < whole; r += kGroupRows) {
        unpack_group(Rows(w, r / 8 * 8), blocks, static_cast<int>(r % 8 / kGroupRows), group);
        for (int64_t i = 0; i < args.n; i += kPanelRows) {
            const uint8_t* panel = args.panels + static_cast<size_t>(i / kPanelRows) * stride;
            const int64_t rows = args.n - i < kPanelRows ? args.n - i : kPanelRows;
            alignas(32) float sums[4 * kGroupRows];
            alignas(32) float columns[4 * kGroupRows];
            tile_2x4<Block>(group, 0, panel, blocks, sums);
            tile_2x4<Block>(group, 1, panel, blocks, sums + 8);
            transpose4x4(sums, columns);
            for (int64_t j = 0; j < rows; ++j) args.put_rows<kGroupRows>(i + j, r, columns + 4 * j);
        }
    }
    for (int64_t r = whole; r < args.last; ++r) {
        for (int64_t i = 0; i < args.n; ++i) {
            const uint8_t* panel = args.panels + static_cast<size_t>(i / kPanelRows) * stride;
            args.put(i, r, dot_in_panel<Block>(w.row(r), panel, blocks, i % kPanelRows));
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
