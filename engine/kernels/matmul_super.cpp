// Products of blocks of 256 weights (Q2_K to Q6_K, IQ4_XS) with Q8_K activations.
//
// The bits are those of ggml's dot product of two rows: a lane adds its products of a block as integers, times the
// scales, and the blocks with one fused multiply-add each. A row is unpacked once and meets every activation row.
#include "matmul.h"
#include "superblocks.h"

namespace bankml::BANKML_ISA {
namespace {

using Panel = Q8KBlock<const uint8_t>;

// The sums of one weight row with N activation rows.
template <int N>
struct Sums {
    F8 lanes[N];
    float minima[N][4];  // MinimaLanes: four lanes; MinimaSum: the first
    float whole[N];      // IQ4_XS in large batches: the blocks' sums as one number

    BANKML_LANES void clear() {
BANKML_UNROLL(4)
        for (int i = 0; i < N; ++i) lanes[i] = zero8();
        std::memset(minima, 0, sizeof minima);
        std::memset(whole, 0, sizeof whole);
    }
};

template <Extra E>
BANKML_LANES void add_minima(const Superblock& w, const Panel& x, int64_t i, F8& lanes, float (&minima)[4]) {
    const float min = -x.d(i) * w.min;
    if constexpr (E == Extra::Minima16) {
        lanes = fma8(set8(min), to_f32(pairs8i(load16w(w.extra), load16w(x.sums16(i)))), lanes);
    } else {
        const int16_t* sums = x.sums32(i);
        int32_t products[4];
        for (int j = 0; j < 4; ++j) products[j] = w.extra[2 * j] * sums[2 * j] + w.extra[2 * j + 1] * sums[2 * j + 1];
        if constexpr (E == Extra::MinimaLanes) {
            for (int j = 0; j < 4; ++j) minima[j] = std::fma(min, static_cast<float>(products[j]), minima[j]);
        } else {
            const int32_t sum = products[0] + products[1] + products[2] + products[3];
            minima[0] = std::fma(min, static_cast<float>(sum), minima[0]);
        }
    }
}

// Adds one block of a weight row times the same block of N activation rows.
template <class Format, int N, bool Whole>
BANKML_LANES void add_block(const Superblock& w, const Panel& x, Sums<N>& sums) {
    I8 products[N];
BANKML_UNROLL(4)
    for (int i = 0; i < N; ++i) products[i] = zero8i();
    for (int c = 0; c < 8; ++c) {
        const B32 q = load32(w.quants[c]);
        const B32 magnitude = Format::is_signed ? abs32(q) : q;
        const W16 scales = load16w(w.scales[c]);
BANKML_UNROLL(4)
        for (int i = 0; i < N; ++i) {
            const B32 y = load32(x.quants(i) + 32 * c);
            const W16 pairs = pairs16w(magnitude, Format::is_signed ? sign32(y, q) : y);
            products[i] = add8i(products[i], pairs8i(scales, pairs));
        }
    }
BANKML_UNROLL(4)
    for (int i = 0; i < N; ++i) {
        if constexpr (Whole) {
            sums.whole[i] = std::fma(static_cast<float>(sum8i(products[i])), w.d * x.d(i), sums.whole[i]);
            continue;
        }
        if constexpr (Format::extra == Extra::Offset32) {
            products[i] = sub8i(products[i], shift_left8i<5>(pairs8i(load16w(x.sums16(i)), load16w(w.extra))));
        } else if constexpr (Format::extra != Extra::None) {
            add_minima<Format::extra>(w, x, i, sums.lanes[i], sums.minima[i]);
        }
        sums.lanes[i] = fma8(set8(x.d(i) * w.d), to_f32(products[i]), sums.lanes[i]);
    }
}

template <class Format, int N, bool Whole>
BANKML_LANES float total(const Sums<N>& sums, int i) {
    if constexpr (Whole) return sums.whole[i];
    const float* m = sums.minima[i];
    if constexpr (Format::extra == Extra::MinimaLanes) return sum_lanes(sums.lanes[i]) + ((m[0] + m[2]) + (m[1] + m[3]));
    if constexpr (Format::extra == Extra::MinimaSum) return sum_lanes(sums.lanes[i]) + m[0];
    return sum_lanes(sums.lanes[i]);
}

template <class Format>
void matvec_t(const Matrix& w, const uint8_t* panel, float* y, const float* residual, int64_t first, int64_t last) {
    const int64_t blocks = w.cols / kSuperBlock;
    for (int64_t r = first; r < last; ++r) {
        Sums<1> sums;
        sums.clear();
        Panel x{panel, 1};
        const uint8_t* block = w.row(r);
        for (int64_t b = 0; b < blocks; ++b, block += Format::bytes, x.next()) {
            look_ahead<Format::bytes>(block);
            Superblock unpacked;
            Format::unpack(block, unpacked);
            add_block<Format, 1, false>(unpacked, x, sums);
        }
        const float sum = total<Format, 1, false>(sums, 0);
        y[r] = residual ? sum + residual[r] : sum;
    }
}

template <class Format, bool Whole = false>
void matmul_t(const MatmulArgs& args) {
    const Matrix& w = args.w;
    const int64_t blocks = w.cols / kSuperBlock;
    const size_t stride = panel_bytes(Activation::Q8_K, kPanelRows, w.cols);
    Superblock* unpacked =
        reinterpret_cast<Superblock*>((reinterpret_cast<uintptr_t>(args.scratch) + 31) & ~uintptr_t{31});
    for (int64_t r = args.first; r < args.last; r += kGroupRows) {
        const int64_t rows = args.last - r < kGroupRows ? args.last - r : kGroupRows;
        for (int64_t j = 0; j < rows; ++j) {
            const uint8_t* block = w.row(r + j);
            for (int64_t b = 0; b < blocks; ++b, block += Format::bytes) Format::unpack(block, unpacked[j * blocks + b]);
        }
        for (int64_t i = 0; i < args.n; i += kPanelRows) {
            for (int64_t j = 0; j < rows; ++j) {
                Sums<kPanelRows> sums;
                sums.clear();
                Panel x{args.panels + static_cast<size_t>(i / kPanelRows) * stride, kPanelRows};
                for (int64_t b = 0; b < blocks; ++b, x.next()) {
                    add_block<Format, kPanelRows, Whole>(unpacked[j * blocks + b], x, sums);
                }
                for (int64_t k = 0; k < kPanelRows && i + k < args.n; ++k) {
                    args.put(i + k, r + j, total<Format, kPanelRows, Whole>(sums, static_cast<int>(k)));
                }
            }
        }
    }
}

}  // namespace

void matvec_super(const Matrix& w, const uint8_t* panel, float* y, const float* residual, int64_t first, int64_t last) {
    switch (w.type) {
        case Type::Q2_K: return matvec_t<Q2K>(w, panel, y, residual, first, last);
        case Type::Q3_K: return matvec_t<Q3K>(w, panel, y, residual, first, last);
        case Type::Q4_K: return matvec_t<Q4K>(w, panel, y, residual, first, last);
        case Type::Q5_K: return matvec_t<Q5K>(w, panel, y, residual, first, last);
        case Type::Q6_K: return matvec_t<Q6K>(w, panel, y, residual, first, last);
        default: return matvec_t<Iq4Xs>(w, panel, y, residual, first, last);
    }
}

void matmul_super(const MatmulArgs& args) {
    switch (args.w.type) {
        case Type::Q2_K: return matmul_t<Q2K>(args);
        case Type::Q3_K: return matmul_t<Q3K>(args);
        case Type::Q4_K: return matmul_t<Q4K>(args);
        case Type::Q5_K: return matmul_t<Q5K>(args);
        case Type::Q6_K: return matmul_t<Q6K>(args);
        default:
            // From eight activation rows on, ggml decodes eight rows of IQ4_XS side by side and sums a block as one.
            return args.batch >= 8 && args.w.rows % 8 == 0 ? matmul_t<Iq4Xs, true>(args) : matmul_t<Iq4Xs>(args);
    }
}

}  // namespace bankml::BANKML_ISA
