#include "merging.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace bankml {

namespace {

// Words up to this many symbols are merged by scanning for the best pair, longer ones through a queue.
constexpr size_t kShortWord = 48;
constexpr uint32_t kNoRank = 0xFFFFFFFF;

void merge_short(const MergeTable & merges, std::vector<int32_t> & word) {
    int32_t * symbols = word.data();
    uint32_t ranks[kShortWord];  // of the pair that starts here
    int32_t merged[kShortWord];  // what that pair becomes
    size_t count = word.size();
    const auto look_up = [&](size_t left) {
        const MergeTable::Merge * merge = left + 1 < count ? merges.find(symbols[left], symbols[left + 1]) : nullptr;
        ranks[left] = merge == nullptr ? kNoRank : merge->rank;
        merged[left] = merge == nullptr ? -1 : merge->merged;
    };
    for (size_t i = 0; i < count; ++i) {
        look_up(i);
    }
    while (true) {
        const size_t best = static_cast<size_t>(std::min_element(ranks, ranks + count) - ranks);
        if (ranks[best] == kNoRank) {
            break;
        }
        symbols[best] = merged[best];
        const size_t tail = count - best - 2;
        std::memmove(symbols + best + 1, symbols + best + 2, tail * sizeof(symbols[0]));
        std::memmove(ranks + best + 1, ranks + best + 2, tail * sizeof(ranks[0]));
        std::memmove(merged + best + 1, merged + best + 2, tail * sizeof(merged[0]));
        --count;
        look_up(best);
        if (best > 0) {
            look_up(best - 1);
        }
    }
    word.resize(count);
}

void merge_long(const MergeTable & merges, std::vector<int32_t> & word, MergeScratch & scratch) {
    auto & links = scratch.links;
    auto & heap = scratch.heap;
    const int32_t count = static_cast<int32_t>(word.size());
    links.resize(word.size());
    for (int32_t i = 0; i < count; ++i) {
        links[i] = {i - 1, i + 1 < count ? i + 1 : -1, word[i], 1};
    }
    const auto add_pair_at = [&](int32_t left) {
        const int32_t right = left < 0 ? -1 : links[left].next;
        if (right < 0) {
            return false;
        }
        const MergeTable::Merge * merge = merges.find(links[left].symbol, links[right].symbol);
        if (merge == nullptr) {
            return false;
        }
        heap.push_back({merge->rank, static_cast<uint32_t>(left), links[left].length + links[right].length,
                        merge->merged});
        return true;
    };
    heap.clear();
    for (int32_t i = 0; i + 1 < count; ++i) {
        add_pair_at(i);
    }
    std::make_heap(heap.begin(), heap.end());
    while (!heap.empty()) {
        std::pop_heap(heap.begin(), heap.end());
        const MergeScratch::Candidate best = heap.back();
        heap.pop_back();
        MergeScratch::Link & left = links[best.left];
        if (left.length == 0 || left.next < 0) {
            continue;
        }
        // If one of the two was merged elsewhere since, their lengths tell.
        MergeScratch::Link & right = links[left.next];
        if (left.length + right.length != best.length) {
            continue;
        }
        left.symbol = best.merged;
        left.length = best.length;
        right.length = 0;
        left.next = right.next;
        if (right.next >= 0) {
            links[right.next].previous = static_cast<int32_t>(best.left);
        }
        for (const int32_t pair : {left.previous, static_cast<int32_t>(best.left)}) {
            if (add_pair_at(pair)) {
                std::push_heap(heap.begin(), heap.end());
            }
        }
    }
    word.clear();
    for (int32_t i = 0; i >= 0; i = links[i].next) {
        word.push_back(links[i].symbol);
    }
}

}  // namespace

void merge_symbols(const MergeTable & merges, std::vector<int32_t> & symbols, MergeScratch & scratch) {
    if (symbols.size() < 2) {
        return;
    }
    if (symbols.size() <= kShortWord) {
        merge_short(merges, symbols);
    } else {
        merge_long(merges, symbols, scratch);
    }
}

}  // namespace bankml
