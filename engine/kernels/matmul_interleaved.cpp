// Products of matrices that lie eight rows side by side: Q4_0, Q4_K and IQ4_NL as ggml repacks them, and Q2_0, whose
// rows ggml multiplies in plain C.
//
// Here a lane is a weight row. A block is summed as one integer, exactly, so the order inside it is free; then it is
// added with one fused multiply-add (Q2_0: one for each half, then one for the block).
//
// The packed order, for each block of eight rows: their scales, then vectors of 32 bytes in which row r has the four
// bytes 4r..4r+3, quants of four neighbouring columns.
#include "blocks.h"
#include "matmul.h"

namespace bankml::BANKML_ISA {
namespace {

// Quant `i` of a block of 4-bit quants with the low nibbles first, from `nibbles`.
int nibble(const uint8_t* nibbles, int i) { return nibbles[i % 16] >> (i / 16 * 4) & 15; }

// The W16 sums of the unsigned weights w[0..7] with the 32 int8 at x: lanes 2r and 2r + 1 belong to row r.
BANKML_LANES W16 dot_groups(const B32 (&w)[8], const int8_t* x) {
    W16 sum = pairs16w(w[0], repeat4(x));
BANKML_UNROLL(7)
    for (int g = 1; g < 8; ++g) sum = add16w(sum, pairs16w(w[g], repeat4(x + 4 * g)));
    return sum;
}

// Four vectors of nibbles: groups 0..3 low, 4..7 high.
BANKML_LANES void load_groups(const uint8_t* p, B32 (&w)[8]) {
BANKML_UNROLL(4)
    for (int v = 0; v < 4; ++v) split_nibbles(load32(p + 32 * v), w[v], w[v + 4]);
}

// --- Formats: N activation rows are added to `sums` block by block ------------------------------------------------

template <int N>
struct Sums {
    F8 lanes[N];

    BANKML_LANES void clear() {
BANKML_UNROLL(4)
        for (int i = 0; i < N; ++i) lanes[i] = zero8();
    }
    BANKML_LANES F8 total(int i) const { return lanes[i]; }
};

// 8 halves d, 4 vectors of nibbles.
struct Q40x8 {
    static constexpr int64_t weights = 32;
    static constexpr size_t bytes = 144;
    static constexpr Activation activation = Activation::Q8_0;
    template <int N>
    using Accumulator = Sums<N>;

    template <int N>
    BANKML_LANES static void add(const uint8_t* block, Q8Block& x, int, Sums<N>& sums) {
        const F8 d = load8_f16(reinterpret_cast<const uint16_t*>(block));
        B32 w[8];
        load_groups(block + 16, w);
BANKML_UNROLL(4)
        for (int i = 0; i < N; ++i) {
            // The quants are 8 too high. The sum is that of a NaN's row too, and wraps.
            const I8 all = pairs8i(set16w(1), dot_groups(w, x.quants(i)));
            const I8 products = sub8i(all, set8i(static_cast<int32_t>(8 * static_cast<uint32_t>(x.sum(i)))));
            sums.lanes[i] = fma8(to_f32(products), mul8(d, set8(x.d(i))), sums.lanes[i]);
        }
        x.next();
    }
    static void pack(const uint8_t* rows, size_t row_bytes, uint8_t* out) {
        for (int r = 0; r < 8; ++r, rows += row_bytes) {
            std::memcpy(out + 2 * r, rows, 2);
            for (int v = 0; v < 4; ++v) {
                for (int j = 0; j < 4; ++j) {
                    const int low = nibble(rows + 2, 4 * v + j);
                    const int high = nibble(rows + 2, 16 + 4 * v + j);
                    out[16 + 32 * v + 4 * r + j] = static_cast<uint8_t>(low | high << 4);
                }
            }
        }
    }
};

// As Q4_0; the nibbles stand for kIq4Values.
struct Iq4Nlx8 {
    static constexpr int64_t weights = 32;
    static constexpr size_t bytes = 144;
    static constexpr Activation activation = Activation::Q8_0;
    template <int N>
    using Accumulator = Sums<N>;

    template <int N>
    BANKML_LANES static void add(const uint8_t* block, Q8Block& x, int, Sums<N>& sums) {
        const F8 d = load8_f16(reinterpret_cast<const uint16_t*>(block));
        I8 products[N];
BANKML_UNROLL(4)
        for (int i = 0; i < N; ++i) products[i] = zero8i();
        for (int v = 0; v < 4; ++v) {
            B32 w[2];
            split_nibbles(load32(block + 16 + 32 * v), w[0], w[1]);
BANKML_UNROLL(2)
            for (int half = 0; half < 2; ++half) {
                const B32 value = lookup32(kIq4Values, w[half]);
                const B32 magnitude = abs32(value);
BANKML_UNROLL(4)
                for (int i = 0; i < N; ++i) {
                    const B32 y = sign32(repeat4(x.quants(i) + 4 * v + 16 * half), value);
                    products[i] = add8i(products[i], pairs8i(set16w(1), pairs16w(magnitude, y)));
                }
            }
        }
BANKML_UNROLL(4)
        for (int i = 0; i < N; ++i) {
            sums.lanes[i] = fma8(to_f32(products[i]), mul8(d, set8(x.d(i))), sums.lanes[i]);
        }
        x.next();
    }
    static void pack(const uint8_t* rows, size_t row_bytes, uint8_t* out) { Q40x8::pack(rows, row_bytes, out); }
};

// 8 halves d, 4 vectors; vector v holds groups v, v + 4, v + 8 and v + 12 in pairs of bits from the lowest up.
struct Q20x8 {
    static constexpr int64_t weights = 64;
    static constexpr size_t bytes = 144;
    static constexpr Activation activation = Activation::Q8_0;
    template <int N>
    using Accumulator = Sums<N>;

    template <int N>
    BANKML_LANES static void add(const uint8_t* block, Q8Block& x, int, Sums<N>& sums) {
        const F8 d = load8_f16(reinterpret_cast<const uint16_t*>(block));
        F8 partial[N];
BANKML_UNROLL(4)
        for (int i = 0; i < N; ++i) partial[i] = zero8();
        add_half<0>(block + 16, x, partial);
        add_half<4>(block + 16, x, partial);
BANKML_UNROLL(4)
        for (int i = 0; i < N; ++i) sums.lanes[i] = fma8(d, partial[i], sums.lanes[i]);
    }
    template <int Bit, int N>
    BANKML_LANES static void add_half(const uint8_t* vectors, Q8Block& x, F8 (&partial)[N]) {
        B32 w[8];
BANKML_UNROLL(4)
        for (int v = 0; v < 4; ++v) {
            const B32 bits = load32(vectors + 32 * v);
            w[v] = shift_right32<Bit>(bits, 3);
            w[v + 4] = shift_right32<Bit + 2>(bits, 3);
        }
BANKML_UNROLL(4)
        for (int i = 0; i < N; ++i) {
            // The quants are 1 too high.
            const I8 all = pairs8i(set16w(1), dot_groups(w, x.quants(i)));
            partial[i] = fma8(set8(x.d(i)), to_f32(sub8i(all, set8i(x.sum(i)))), partial[i]);
        }
        x.next();
    }
    static void pack(const uint8_t* rows, size_t row_bytes, uint8_t* out) {
        for (int r = 0; r < 8; ++r, rows += row_bytes) {
            std::memcpy(out + 2 * r, rows, 2);
            for (int v = 0; v < 4; ++v) {
                for (int j = 0; j < 4; ++j) {
                    int bits = 0;
                    for (int part = 0; part < 4; ++part) {
                        const int i = 16 * part + 4 * v + j;
                        bits |= (rows[2 + i / 4] >> (i % 4 * 2) & 3) << (2 * part);
                    }
                    out[16 + 32 * v + 4 * r + j] = static_cast<uint8_t>(bits);
                }
            }
        }
    }
};

// The minima of Q4_K have sums of their own, taken away at the end.
template <int N>
struct SumsK {
    F8 lanes[N];
    F8 minima[N];

    BANKML_LANES void clear() {
BANKML_UNROLL(4)
        for (int i = 0; i < N; ++i) lanes[i] = minima[i] = zero8();
    }
    BANKML_LANES F8 total(int i) const { return sub8(lanes[i], minima[i]); }
};

// 8 halves d, 8 halves of the minima's scale, and for each pair of chunks of 32 weights: 16 bytes of scales (8 rows of
// the first chunk, 8 of the second), 16 bytes of minima (row after row, both chunks), 8 vectors of nibbles (the first
// chunk in the low ones).
struct Q4Kx8 {
    static constexpr int64_t weights = 256;
    static constexpr size_t bytes = 1184;
    static constexpr Activation activation = Activation::Q8_K;
    template <int N>
    using Accumulator = SumsK<N>;

    // ggml adds a block as one where it takes rows one by one, and in four steps where it takes four at once (then N
    // is 4; `single` counts the rows at the end of the batch that it takes one by one).
    template <int N>
    BANKML_LANES static void add(const uint8_t* block, Q8KBlock<const uint8_t>& x, int single, SumsK<N>& sums) {
        const F8 d = load8_f16(reinterpret_cast<const uint16_t*>(block));
        const F8 min = load8_f16(reinterpret_cast<const uint16_t*>(block + 16));
        if (single > 0) {
            add_whole(block + 32, d, min, x, sums);
        } else {
            for (int pair = 0; pair < 4; ++pair) {
                I8 products[N], minima[N];
                clear(products, minima);
                add_pair(block + 32 + 288 * pair, pair, x, products, minima);
                scale(d, min, x, products, minima, sums);
            }
        }
        x.next();
    }
    template <int N>
    BANKML_LANES static void add_whole(const uint8_t* pairs, F8 d, F8 min, const Q8KBlock<const uint8_t>& x,
                                       SumsK<N>& sums) {
        I8 products[N], minima[N];
        clear(products, minima);
        for (int pair = 0; pair < 4; ++pair) add_pair(pairs + 288 * pair, pair, x, products, minima);
        scale(d, min, x, products, minima, sums);
    }
    template <int N>
    BANKML_LANES static void scale(F8 d, F8 min, const Q8KBlock<const uint8_t>& x, const I8 (&products)[N],
                                   const I8 (&minima)[N], SumsK<N>& sums) {
BANKML_UNROLL(4)
        for (int i = 0; i < N; ++i) {
            const F8 dx = set8(x.d(i));
            sums.lanes[i] = fma8(to_f32(products[i]), mul8(d, dx), sums.lanes[i]);
            sums.minima[i] = fma8(to_f32(minima[i]), mul8(min, dx), sums.minima[i]);
        }
    }
    template <int N>
    BANKML_LANES static void clear(I8 (&products)[N], I8 (&minima)[N]) {
BANKML_UNROLL(4)
        for (int i = 0; i < N; ++i) products[i] = minima[i] = zero8i();
    }
    template <int N>
    BANKML_LANES static void add_pair(const uint8_t* p, int pair, const Q8KBlock<const uint8_t>& x, I8 (&products)[N],
                                      I8 (&minima)[N]) {
        const W16 scale0 = twice8w(p);
        const W16 scale1 = twice8w(p + 8);
        const W16 mins = widen16w(p + 16);
BANKML_UNROLL(2)
        for (int chunk = 0; chunk < 2; ++chunk) {
            B32 w[8];
BANKML_UNROLL(8)
            for (int g = 0; g < 8; ++g) {
                const B32 both = load32(p + 32 + 32 * g);
                w[g] = chunk == 0 ? and32(both, set32(15)) : shift_right32<4>(both, 15);
            }
BANKML_UNROLL(4)
            for (int i = 0; i < N; ++i) {
                const W16 dots = dot_groups(w, x.quants(i) + 64 * pair + 32 * chunk);
                products[i] = add8i(products[i], pairs8i(dots, chunk == 0 ? scale0 : scale1));
            }
        }
BANKML_UNROLL(4)
        for (int i = 0; i < N; ++i) {
            minima[i] = add8i(minima[i], pairs8i(repeat2w(x.sums32(i) + 2 * pair), mins));
        }
    }
    static void pack(const uint8_t* rows, size_t row_bytes, uint8_t* out) {
        for (int r = 0; r < 8; ++r, rows += row_bytes) {
            std::memcpy(out + 2 * r, rows, 2);
            std::memcpy(out + 16 + 2 * r, rows + 2, 2);
            uint8_t scales[8], mins[8];
            scales_of_k4(rows + 4, scales, mins);
            for (int pair = 0; pair < 4; ++pair) {
                uint8_t* p = out + 32 + 288 * pair;
                p[r] = scales[2 * pair];
                p[8 + r] = scales[2 * pair + 1];
                p[16 + 2 * r] = mins[2 * pair];
                p[16 + 2 * r + 1] = mins[2 * pair + 1];
                for (int i = 0; i < 32; ++i) p[32 + 32 * (i / 4) + 4 * r + i % 4] = rows[16 + 32 * pair + i];
            }
        }
    }
};

// --- Products ----------------------------------------------------------------------------------------------------

template <class Format>
using PanelOf = std::conditional_t<Format::activation == Activation::Q8_K, Q8KBlock<const uint8_t>, Q8Block>;

// Eight weight rows, from row `r`, by the N rows of a panel.
template <class Format, int N>
BANKML_LANES typename Format::template Accumulator<N> dot_rows(const Matrix& w, int64_t r, const uint8_t* panel,
                                                               int single) {
    const int64_t blocks = w.cols / Format::weights;
    const uint8_t* block = w.packed + static_cast<size_t>(r / 8 * blocks) * Format::bytes;
    typename Format::template Accumulator<N> sums;
    sums.clear();
    PanelOf<Format> x{panel, N};
    for (int64_t b = 0; b < blocks; ++b, block += Format::bytes) {
        if constexpr (N == 1) look_ahead<Format::bytes>(block);
        Format::template add<N>(block, x, single, sums);
    }
    return sums;
}

template <class Format>
void matvec_t(const Matrix& w, const uint8_t* panel, float* y, const float* residual, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; r += 8) {
        alignas(32) float out[8];
        store8(out, dot_rows<Format, 1>(w, r, panel, 1).total(0));
        for (int64_t j = 0; j < 8 && r + j < last; ++j) y[r + j] = residual ? out[j] + residual[r + j] : out[j];
    }
}

template <class Format>
void matmul_t(const MatmulArgs& args) {
    const size_t stride = panel_bytes(Format::activation, kPanelRows, args.w.cols);
    for (int64_t r = args.first; r < args.last; r += 8) {
        for (int64_t i = 0; i < args.n; i += kPanelRows) {
            const int64_t rows = args.n - i < kPanelRows ? args.n - i : kPanelRows;
            const uint8_t* panel = args.panels + static_cast<size_t>(i / kPanelRows) * stride;
            const int single = rows < kPanelRows ? static_cast<int>(rows) : 0;
            const auto sums = dot_rows<Format, kPanelRows>(args.w, r, panel, single);
BANKML_UNROLL(4)
            for (int k = 0; k < kPanelRows; ++k) {
                alignas(32) float out[8];
                store8(out, sums.total(k));
                if (k >= rows) break;
                for (int64_t j = 0; j < 8 && r + j < args.last; ++j) args.put(i + k, r + j, out[j]);
            }
        }
    }
}

template <class Format>
void pack_t(const Matrix& w, uint8_t* out) {
    const BlockSize size = block_size(w.type);
    const int64_t blocks = w.cols / size.weights;
    const size_t block_bytes = static_cast<size_t>(size.bytes);
    const uint8_t* data = w.data;
    uint8_t last[8 * 1184];  // eight blocks of any type here
    for (int64_t r = 0; r < w.rows; r += 8) {
        const int64_t rows = w.rows - r < 8 ? w.rows - r : 8;
        for (int64_t b = 0; b < blocks; ++b, out += Format::bytes) {
            const uint8_t* at = data + static_cast<size_t>(r) * w.row_bytes + static_cast<size_t>(b) * block_bytes;
            if (rows == 8) {
                Format::pack(at, w.row_bytes, out);
                continue;
            }
            std::memset(last, 0, sizeof last);
            for (int64_t j = 0; j < rows; ++j) {
                std::memcpy(last + static_cast<size_t>(j) * block_bytes, at + static_cast<size_t>(j) * w.row_bytes,
                            block_bytes);
            }
            Format::pack(last, block_bytes, out);
        }
    }
}

}  // namespace

void pack_interleaved(const Matrix& w, uint8_t* out) {
    switch (w.type) {
        case Type::Q4_0: return pack_t<Q40x8>(w, out);
        case Type::Q4_K: return pack_t<Q4Kx8>(w, out);
        case Type::IQ4_NL: return pack_t<Iq4Nlx8>(w, out);
        default: return pack_t<Q20x8>(w, out);
    }
}

void matvec_interleaved(const Matrix& w, const uint8_t* panel, float* y, const float* residual, int64_t first,
                        int64_t last) {
    switch (w.type) {
        case Type::Q4_0: return matvec_t<Q40x8>(w, panel, y, residual, first, last);
        case Type::Q4_K: return matvec_t<Q4Kx8>(w, panel, y, residual, first, last);
        case Type::IQ4_NL: return matvec_t<Iq4Nlx8>(w, panel, y, residual, first, last);
        default: return matvec_t<Q20x8>(w, panel, y, residual, first, last);
    }
}

void matmul_interleaved(const MatmulArgs& args) {
    switch (args.w.type) {
        case Type::Q4_0: return matmul_t<Q40x8>(args);
        case Type::Q4_K: return matmul_t<Q4Kx8>(args);
        case Type::IQ4_NL: return matmul_t<Iq4Nlx8>(args);
        default: return matmul_t<Q20x8>(args);
    }
}

}  // namespace bankml::BANKML_ISA
