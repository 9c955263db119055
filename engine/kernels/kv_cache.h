// Keys and values of every position of one slot, a region a layer and head, each a type of its own.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels.h"
#include "pages.h"

namespace bankml {

class KvCache {
  public:
    // k_type and v_type: what is_cache_type(type, head) allows.
    KvCache(Type k_type, Type v_type, int64_t n_layer, int64_t n_head_kv, int64_t head, int64_t n_ctx)
        : k_type_(k_type), v_type_(v_type), n_head_kv_(n_head_kv), head_(head), n_ctx_(n_ctx),
          k_bytes_(cache_row_bytes(k_type, head) * static_cast<size_t>(n_ctx)),
          v_bytes_(cache_row_bytes(v_type, head) * static_cast<size_t>(n_ctx)),
          bytes_(static_cast<size_t>(n_layer * n_head_kv) * (k_bytes_ + v_bytes_)),
          pages_(bytes_ + kKeysAtOnce * cache_row_bytes(k_type, head)) {}

    int64_t head() const { return head_; }
    int64_t n_head_kv() const { return n_head_kv_; }
    int64_t n_ctx() const { return n_ctx_; }
    size_t size() const { return bytes_; }
    HeadCache at(int64_t layer, int64_t head) const {
        const uint8_t* k = keys(layer, head);
        return {k_type_, v_type_, head_, k, k + k_bytes_};
    }
    bool is_half() const { return k_type_ == Type::F16 && v_type_ == Type::F16; }

    void store_k(const Kernels& kernels, int64_t layer, int64_t head, int64_t position, const float* k) {
        const size_t at = static_cast<size_t>(position) * cache_row_bytes(k_type_, head_);
        kernels.store_cache_row(k_type_, k, keys(layer, head) + at, head_);
    }
    void store_v(const Kernels& kernels, int64_t layer, int64_t head, int64_t position, const float* v) {
        const size_t at = k_bytes_ + static_cast<size_t>(position) * cache_row_bytes(v_type_, head_);
        kernels.store_cache_row(v_type_, v, keys(layer, head) + at, head_);
    }

    // The first n positions as one block of memory: for each layer and head its rows of keys, then its rows of values.
    size_t state_bytes(int64_t n) const { return bytes_ / static_cast<size_t>(n_ctx_) * static_cast<size_t>(n); }
    void save(int64_t n, uint8_t* state) const {
        for_each_region([&](uint8_t* region, size_t row) {
            const size_t bytes = row * static_cast<size_t>(n);
            std::memcpy(state, region, bytes);
            state += bytes;
        });
    }
    void restore(int64_t n, const uint8_t* state) {
        for_each_region([&](uint8_t* region, size_t row) {
            const size_t bytes = row * static_cast<size_t>(n);
            std::memcpy(region, state, bytes);
            state += bytes;
        });
    }

    // Rows of a quantized cache are Hadamard transforms, which leaves quantization fewer outliers; so are the queries,
    // and the result is transformed back (llama-kv-cache.cpp). These are the sizes of the transforms, 0 for none: keys
    // take the largest power of two that divides a head, values 64; heads that are no multiple of 64 take none.
    int64_t k_hadamard() const { return k_type_ == Type::Q8_0 && head_ % 64 == 0 ? head_ & -head_ : 0; }
    int64_t v_hadamard() const { return v_type_ == Type::Q8_0 && head_ % 64 == 0 ? 64 : 0; }

  private:
    uint8_t* keys(int64_t layer, int64_t head) const {
        return pages_.as<uint8_t>() + static_cast<size_t>(layer * n_head_kv_ + head) * (k_bytes_ + v_bytes_);
    }

    // Calls visit(first row, bytes of a row) for every region, in the order they lie in.
    template <class Visit>
    void for_each_region(Visit visit) const {
        const size_t n = bytes_ / (k_bytes_ + v_bytes_);
        for (size_t i = 0; i < n; ++i) {
            uint8_t* region = pages_.as<uint8_t>() + i * (k_bytes_ + v_bytes_);
            visit(region, k_bytes_ / static_cast<size_t>(n_ctx_));
            visit(region + k_bytes_, v_bytes_ / static_cast<size_t>(n_ctx_));
        }
    }

    Type k_type_;
    Type v_type_;
    int64_t n_head_kv_;
    int64_t head_;
    int64_t n_ctx_;
    size_t k_bytes_;  // of one region of keys
    size_t v_bytes_;
    size_t bytes_;    // of all of them
    Pages pages_;
};

}  // namespace bankml
