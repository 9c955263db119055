// The loop behind byte-pair encoding and SentencePiece: of all neighbouring symbols that may merge, the pair of the
// lowest rank does, and of equal ranks the leftmost, until none is left.
#pragma once

#include <cstdint>
#include <vector>

#include "token_tables.h"

namespace bankml {

// What merging a long word needs; kept from word to word, so that its memory is.
struct MergeScratch {
    struct Link {
        int32_t previous, next;
        int32_t symbol;
        uint32_t length;  // symbols of the word it covers; 0 once merged away
    };
    struct Candidate {
        uint32_t rank, left, length;  // of the merge, of its left symbol, of both symbols together
        int32_t merged;
        bool operator<(const Candidate & other) const {  // a heap yields the greatest
            return rank != other.rank ? rank > other.rank : left > other.left;
        }
    };
    std::vector<Link> links;
    std::vector<Candidate> heap;
};

// Merges the symbols of one word in place. Takes n log n steps for n symbols.
void merge_symbols(const MergeTable & merges, std::vector<int32_t> & symbols, MergeScratch & scratch);

}  // namespace bankml
