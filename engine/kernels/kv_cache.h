// Keys and values of every position of one slot, in half precision, a region a layer and head.
#pragma once

#include <cstdint>

#include "pages.h"

namespace bankml {

class KvCache {
  public:
    KvCache(int64_t n_layer, int64_t n_head_kv, int64_t head, int64_t n_ctx)
        : n_head_kv_(n_head_kv), head_(head), n_ctx_(n_ctx),
          pages_(static_cast<size_t>(n_layer * n_head_kv * n_ctx * head) * 2 * sizeof(uint16_t)) {}

    int64_t head() const { return head_; }
    int64_t n_head_kv() const { return n_head_kv_; }
    int64_t n_ctx() const { return n_ctx_; }
    uint16_t* k(int64_t layer, int64_t head) { return region(layer, head, 0); }
    uint16_t* v(int64_t layer, int64_t head) { return region(layer, head, 1); }

  private:
    uint16_t* region(int64_t layer, int64_t head, int64_t which) {
        return pages_.as<uint16_t>() + ((layer * n_head_kv_ + head) * 2 + which) * n_ctx_ * head_;
    }

    int64_t n_head_kv_;
    int64_t head_;
    int64_t n_ctx_;
    Pages pages_;
};

}  // namespace bankml
