#include "token_tables.h"

#include <algorithm>
#include <bit>

namespace bankml {

// --- MergeTable ---

void MergeTable::reserve(size_t count) {
    const size_t size = std::bit_ceil(std::max<size_t>(2 * count, 16));
    slots_.assign(size, Merge{});
    shift_ = 64 - static_cast<unsigned>(std::countr_zero(size));
}

size_t MergeTable::slot(uint64_t pair) const {
    return (pair * 0x9E3779B97F4A7C15u) >> shift_;
}

void MergeTable::insert(int32_t left, int32_t right, uint32_t rank, int32_t merged) {
    const uint64_t pair = static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    size_t at = slot(pair);
    for (; slots_[at].pair != kEmpty; at = (at + 1) & (slots_.size() - 1)) {
        if (slots_[at].pair == pair) {
            return;
        }
    }
    slots_[at] = {pair, rank, merged};
}

const MergeTable::Merge * MergeTable::find(int32_t left, int32_t right) const {
    const uint64_t pair = static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    for (size_t at = slot(pair); slots_[at].pair != kEmpty; at = (at + 1) & (slots_.size() - 1)) {
        if (slots_[at].pair == pair) {
            return &slots_[at];
        }
    }
    return nullptr;
}

// --- TextTable ---

void TextTable::reserve(size_t count) {
    slots_.assign(std::bit_ceil(std::max<size_t>(2 * count, 16)), Entry{});
}

int32_t TextTable::find(std::string_view text, size_t hash) const {
    const uint32_t tag = static_cast<uint32_t>(hash >> 32);
    for (size_t at = hash & (slots_.size() - 1); slots_[at].number >= 0; at = (at + 1) & (slots_.size() - 1)) {
        if (slots_[at].tag == tag && slots_[at].text == text) {
            return slots_[at].number;
        }
    }
    return -1;
}

void TextTable::insert(std::string_view text, size_t hash, int32_t number) {
    size_t at = hash & (slots_.size() - 1);
    while (slots_[at].number >= 0) {
        at = (at + 1) & (slots_.size() - 1);
    }
    slots_[at] = {text, static_cast<uint32_t>(hash >> 32), number};
}

}  // namespace bankml
