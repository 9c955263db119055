// The two hash tables behind the tokenizers: which pairs merge, and which texts are tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace bankml {

// (left symbol, right symbol) -> (rank, merged symbol), open addressing.
class MergeTable {
public:
    struct Merge {
        uint64_t pair = kEmpty;
        uint32_t rank = 0;
        int32_t merged = 0;
    };

    void reserve(size_t count);
    void insert(int32_t left, int32_t right, uint32_t rank, int32_t merged);  // the first of two equal pairs stays
    const Merge * find(int32_t left, int32_t right) const;                     // nullptr if the pair has no merge

private:
    static constexpr uint64_t kEmpty = ~uint64_t{0};
    size_t slot(uint64_t pair) const;

    std::vector<Merge> slots_;
    unsigned shift_ = 64;
};

// text -> number, open addressing. The texts stay where they are: the caller keeps them alive.
class TextTable {
public:
    void reserve(size_t count);
    // The number of a text, or -1.
    int32_t find(std::string_view text) const { return find(text, hash(text)); }
    int32_t find(std::string_view text, size_t hash) const;
    // Adds a text that is not in the table; there must be room for it.
    void insert(std::string_view text, size_t hash, int32_t number);
    static size_t hash(std::string_view text) { return std::hash<std::string_view>()(text); }

private:
    struct Entry {
        std::string_view text;
        uint32_t tag = 0;
        int32_t number = -1;
    };
    std::vector<Entry> slots_;
};

}  // namespace bankml
