// Where the quants and scales of integer weights lie: block by block in a file's rows, and in eight rows packed
// together.
#pragma once

#include "blocks.h"
#include "kernels.h"
#include "simd.h"

namespace bankml::BANKML_ISA {
namespace {

// --- One block of a row as files hold it ---------------------------------------------------------------------------

// Half d, half m, 16 bytes of nibbles: d * q + m.
struct Q41 {
    static constexpr size_t bytes = 20;
    static constexpr bool has_min = true;
    static float scale(const uint8_t* block) { return half_at(block); }
    static float min(const uint8_t* block) { return half_at(block + 2); }
    static B32 quants(const uint8_t* block) { return load_nibbles(block + 4); }
    // Two rows: the first one's quants in the low nibbles, the second's in the high ones.
    static void pack_pair(const uint8_t* first, const uint8_t* second, uint8_t* out) {
        store32(out, join_nibbles(quants(first), quants(second)));
    }
    static void load_pair(const uint8_t* p, B32& first, B32& second) { split_nibbles(load32(p), first, second); }
    static F8 dot(B32 w, B32 x) { return dot_u8_s8(w, x); }
    static void gather(const uint8_t* p, size_t stride, F8& d, F8& m) { gather_f16x2(p, stride, d, m); }
};

// Half d, 32 int8: d * q.
struct Q80 {
    static constexpr size_t bytes = 34;
    static constexpr bool has_min = false;
    static float scale(const uint8_t* block) { return half_at(block); }
    static float min(const uint8_t*) { return 0.0f; }
    static B32 quants(const uint8_t* block) { return load32(block + 2); }
    static void pack_pair(const uint8_t* first, const uint8_t* second, uint8_t* out) {
        store32(out, quants(first));
        store32(out + 32, quants(second));
    }
    static void load_pair(const uint8_t* p, B32& first, B32& second) {
        first = load32(p);
        second = load32(p + 32);
    }
    static F8 dot(B32 w, B32 x) { return dot_s8_s8(abs32(w), w, x); }
    static void gather(const uint8_t* p, size_t stride, F8& d, F8& m) {
        d = gather_f16(p, stride);
        m = zero8();
    }
};

// Half d, 16 bytes of nibbles: d * (q - 8).
struct Q40 {
    static constexpr size_t bytes = 18;
    static constexpr bool has_min = false;
    static float scale(const uint8_t* block) { return half_at(block); }
    static float min(const uint8_t*) { return 0.0f; }
    static B32 quants(const uint8_t* block) { return sub32(load_nibbles(block + 2), set32(8)); }
    static F8 dot(B32 w, B32 x) { return dot_s8_s8(abs32(w), w, x); }
    static void gather(const uint8_t* p, size_t stride, F8& d, F8& m) { Q80::gather(p, stride, d, m); }
};

// Half d, 32 fifth bits, 16 bytes of nibbles: d * (q - 16).
struct Q50 {
    static constexpr size_t bytes = 22;
    static constexpr bool has_min = false;
    static float scale(const uint8_t* block) { return half_at(block); }
    static float min(const uint8_t*) { return 0.0f; }
    static B32 quants(const uint8_t* block) { return join(load_nibbles(block + 6), block + 2); }
    static B32 join(B32 nibbles, const uint8_t* fifth) {
        return or32(nibbles, without32(set32(static_cast<int8_t>(0xf0)), bits32(fifth)));
    }
    // Nibbles as of Q4_1, then the fifth bits of both.
    static void pack_pair(const uint8_t* first, const uint8_t* second, uint8_t* out) {
        store32(out, join_nibbles(load_nibbles(first + 6), load_nibbles(second + 6)));
        std::memcpy(out + 32, first + 2, 4);
        std::memcpy(out + 36, second + 2, 4);
    }
    static void load_pair(const uint8_t* p, B32& first, B32& second) {
        split_nibbles(load32(p), first, second);
        first = join(first, p + 32);
        second = join(second, p + 36);
    }
    static F8 dot(B32 w, B32 x) { return dot_s8_s8(abs32(w), w, x); }
    static void gather(const uint8_t* p, size_t stride, F8& d, F8& m) { Q80::gather(p, stride, d, m); }
};

// Half d, half m, 32 fifth bits, 16 bytes of nibbles: d * q + m.
struct Q51 {
    static constexpr size_t bytes = 24;
    static constexpr bool has_min = true;
    static float scale(const uint8_t* block) { return half_at(block); }
    static float min(const uint8_t* block) { return half_at(block + 2); }
    static B32 quants(const uint8_t* block) { return join(load_nibbles(block + 8), block + 4); }
    static B32 join(B32 nibbles, const uint8_t* fifth) { return or32(nibbles, and32(set32(0x10), bits32(fifth))); }
    // As of Q5_0.
    static void pack_pair(const uint8_t* first, const uint8_t* second, uint8_t* out) {
        store32(out, join_nibbles(load_nibbles(first + 8), load_nibbles(second + 8)));
        std::memcpy(out + 32, first + 4, 4);
        std::memcpy(out + 36, second + 4, 4);
    }
    static void load_pair(const uint8_t* p, B32& first, B32& second) {
        split_nibbles(load32(p), first, second);
        first = join(first, p + 32);
        second = join(second, p + 36);
    }
    static F8 dot(B32 w, B32 x) { return dot_u8_s8(w, x); }
    static void gather(const uint8_t* p, size_t stride, F8& d, F8& m) { gather_f16x2(p, stride, d, m); }
};

// Half d, 16 bytes of nibbles: d * value[q].
struct Iq4Nl {
    static constexpr size_t bytes = 18;
    static constexpr bool has_min = false;
    static float scale(const uint8_t* block) { return half_at(block); }
    static float min(const uint8_t*) { return 0.0f; }
    static B32 quants(const uint8_t* block) { return lookup32(kIq4Values, load_nibbles(block + 2)); }
    static F8 dot(B32 w, B32 x) { return dot_s8_s8(abs32(w), w, x); }
    static void gather(const uint8_t* p, size_t stride, F8& d, F8& m) { Q80::gather(p, stride, d, m); }
};

// --- Eight rows, walked block by block -----------------------------------------------------------------------------

// Eight consecutive rows of a file.
template <class B>
class FileRows {
  public:
    using Block = B;
    FileRows(const Matrix& w, int64_t row) : at_(w.row(row)), row_bytes_(w.row_bytes), ahead_(at_ + 8 * row_bytes_) {}

    void scales(F8& d, F8& m) const { B::gather(at_, row_bytes_, d, m); }
    void quants(int pair, B32& first, B32& second) const {
        const uint8_t* block = at_ + static_cast<size_t>(2 * pair) * row_bytes_;
        first = B::quants(block);
        second = B::quants(block + row_bytes_);
    }
    void next() {
        at_ += B::bytes;
        ahead_ += 8 * B::bytes;
    }
    // These are eight streams, which no prefetcher follows well: asks for the next eight rows as they lie in memory.
    void look_ahead() const {
        for (size_t line = 0; line < 8 * B::bytes; line += 64) prefetch(ahead_ + line);
    }
    void ask_for_next(int64_t) const { look_ahead(); }

  private:
    const uint8_t* at_;
    size_t row_bytes_;
    const uint8_t* ahead_;
};

// Eight rows packed into one stream (is_streamed): for each block 8 halves d, 8 halves m if the format has minima, then
// four pairs of rows as Block::pack_pair joins them.
template <class B>
class PackedRows {
  public:
    using Block = B;
    static constexpr size_t bytes = 8 * B::bytes;
    static constexpr size_t header = B::has_min ? 32 : 16;
    static constexpr size_t pair_bytes = (bytes - header) / 4;
    PackedRows(const Matrix& w, int64_t row)
        : at_(w.packed + static_cast<size_t>(row / 8 * (w.cols / kBlock)) * bytes) {}

    void scales(F8& d, F8& m) const {
        d = load8_f16(reinterpret_cast<const uint16_t*>(at_));
        m = B::has_min ? load8_f16(reinterpret_cast<const uint16_t*>(at_ + 16)) : zero8();
    }
    void quants(int pair, B32& first, B32& second) const {
        B::load_pair(at_ + header + static_cast<size_t>(pair) * pair_bytes, first, second);
    }
    void next() { at_ += bytes; }
    void look_ahead() const { BANKML_ISA::look_ahead<bytes>(at_); }
    // Asks for the same block of the next eight rows, `blocks` blocks on.
    void ask_for_next(int64_t blocks) const {
        for (size_t line = 0; line < bytes; line += 64) prefetch(at_ + static_cast<size_t>(blocks) * bytes + line);
    }

    static void pack(const Matrix& w, uint8_t* out) {
        for (int64_t row = 0; row < w.rows; row += 8) {
            for (int64_t b = 0; b < w.cols / kBlock; ++b, out += bytes) {
                for (int r = 0; r < 8; ++r) {
                    const uint8_t* block = w.row(row + r) + static_cast<size_t>(b) * B::bytes;
                    std::memcpy(out + 2 * r, block, 2);
                    if (B::has_min) std::memcpy(out + 16 + 2 * r, block + 2, 2);
                    uint8_t* pair = out + header + static_cast<size_t>(r / 2) * pair_bytes;
                    if (r % 2 == 0) B::pack_pair(block, block + w.row_bytes, pair);
                }
            }
        }
    }

  private:
    const uint8_t* at_;
};

}  // namespace
}  // namespace bankml::BANKML_ISA
