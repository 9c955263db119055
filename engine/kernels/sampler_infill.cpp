// The infill sampler (https://github.com/ggml-org/llama.cpp/pull/9896): for text in the middle of other text, where a
// model that could end should. It ends unless text is far likelier, and weighs tokens together that begin alike.
#include <algorithm>
#include <climits>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "sampler.h"

namespace bankml {

namespace {

// Which candidates are left, asked for by the order of their pieces: a segment tree of the lowest candidate in each
// range. The reference looks through all candidates for each of them; here each one that is found is also gone.
class Remaining {
public:
    explicit Remaining(const std::vector<int32_t> & candidates) : n_(candidates.size()), lowest_(2 * candidates.size()) {
        std::copy(candidates.begin(), candidates.end(), lowest_.begin() + static_cast<ptrdiff_t>(n_));
        for (size_t node = n_; node-- > 1;) {
            lowest_[node] = std::min(lowest_[2 * node], lowest_[2 * node + 1]);
        }
    }

    // The lowest candidate at the places [begin, end), INT32_MAX when there is none.
    int32_t lowest(size_t begin, size_t end) const {
        int32_t found = INT32_MAX;
        for (begin += n_, end += n_; begin < end; begin /= 2, end /= 2) {
            if (begin % 2 == 1) {
                found = std::min(found, lowest_[begin++]);
            }
            if (end % 2 == 1) {
                found = std::min(found, lowest_[--end]);
            }
        }
        return found;
    }

    void remove(size_t place) {
        size_t node = place + n_;
        lowest_[node] = INT32_MAX;
        while (node > 1) {
            node /= 2;
            lowest_[node] = std::min(lowest_[2 * node], lowest_[2 * node + 1]);
        }
    }

private:
    size_t n_;
    std::vector<int32_t> lowest_;
};

}  // namespace

InfillVocabulary::InfillVocabulary(const std::vector<std::string> & pieces, const std::vector<Token> & ending, Token end)
    : place(pieces.size()), first(pieces.size()), last(pieces.size()), ends(pieces.size(), 0), end(end) {
    const auto n = static_cast<Token>(pieces.size());
    for (const Token token : ending) {
        if (token < 0 || token >= n) {
            throw std::out_of_range("token outside the vocabulary");
        }
        ends[static_cast<size_t>(token)] = 1;
    }
    if (end < 0 || end >= n) {
        throw std::out_of_range("token outside the vocabulary");
    }
    std::vector<Token> order(pieces.size());
    std::iota(order.begin(), order.end(), 0);
    const auto piece = [&](int32_t at) -> const std::string & {
        return pieces[static_cast<size_t>(order[static_cast<size_t>(at)])];
    };
    std::sort(order.begin(), order.end(), [&](Token a, Token b) {
        return pieces[static_cast<size_t>(a)] < pieces[static_cast<size_t>(b)];
    });
    std::vector<int32_t> open;  // places whose piece begins the newest one's
    for (int32_t at = 0; at <= n; ++at) {
        while (!open.empty() && (at == n || piece(at).compare(0, piece(open.back()).size(), piece(open.back())) != 0)) {
            last[static_cast<size_t>(order[static_cast<size_t>(open.back())])] = at;
            open.pop_back();
        }
        if (at == n) {
            break;
        }
        const auto token = static_cast<size_t>(order[static_cast<size_t>(at)]);
        place[token] = at;
        if (pieces[token].empty()) {
            continue;  // begins nothing
        }
        const bool again = at > 0 && piece(at) == piece(at - 1);
        first[token] = again ? first[static_cast<size_t>(order[static_cast<size_t>(at - 1)])] : at;
        open.push_back(at);
    }
}

void SamplerChain::infill() {
    constexpr float likely = 0.2f;
    softmax(true);
    float p_text = 0.0f;
    float p_end = 0.0f;
    for (size_t i = 0; i < size_; ++i) {
        (infill_->ends_answer(cur_[i].id) ? p_end : p_text) += cur_[i].p;
    }
    if (3 * p_end * static_cast<float>(size_) > p_text) {
        keep_likely(INFINITY);  // the ends alone
        return;
    }
    merge_prefixes();
    if (const size_t n_text = keep_likely(likely); n_text > 0) {
        keep_likely(static_cast<float>(1.0 / static_cast<double>(n_text + 1)));
    } else {
        cur_[0] = {infill_->end, 1.0f, 1.0f};
        size_ = 1;
    }
}

// Where a candidate's piece begins another's, the less likely of the two adds its probability to the other and is gone.
// Each candidate in turn meets the others from the first to the last, until it is gone itself.
void SamplerChain::merge_prefixes() {
    const auto vocabulary_place = [this](int32_t candidate) {
        return infill_->place[static_cast<size_t>(cur_[candidate].id)];
    };
    std::vector<int32_t> order;
    for (size_t i = 0; i < size_; ++i) {
        if (cur_[i].logit != -INFINITY) {
            order.push_back(static_cast<int32_t>(i));
        }
    }
    const std::vector<int32_t> live = order;
    std::sort(order.begin(), order.end(),
              [&](int32_t a, int32_t b) { return vocabulary_place(a) < vocabulary_place(b); });
    std::vector<size_t> where(size_);
    for (size_t at = 0; at < order.size(); ++at) {
        where[static_cast<size_t>(order[at])] = at;
    }
    const auto first_from = [&](int32_t place) {
        const auto before = [&](int32_t candidate, int32_t limit) { return vocabulary_place(candidate) < limit; };
        return static_cast<size_t>(std::lower_bound(order.begin(), order.end(), place, before) - order.begin());
    };
    Remaining remaining(order);
    for (const int32_t i : live) {
        Candidate & shorter = cur_[i];
        const auto token = static_cast<size_t>(shorter.id);
        const size_t begin = first_from(infill_->first[token]);
        const size_t end = first_from(infill_->last[token]);
        const size_t own = where[static_cast<size_t>(i)];
        while (begin < end && shorter.logit != -INFINITY) {
            const int32_t other = std::min(remaining.lowest(begin, own), remaining.lowest(own + 1, end));
            if (other == INT32_MAX) {
                break;
            }
            Candidate & longer = cur_[other];
            const bool into_longer = longer.p > shorter.p;
            Candidate & kept = into_longer ? longer : shorter;
            Candidate & gone = into_longer ? shorter : longer;
            kept.p += gone.p;
            gone.logit = -INFINITY;
            gone.p = 0.0f;
            remaining.remove(where[static_cast<size_t>(into_longer ? i : other)]);
        }
    }
}

// Keeps the tokens that end the answer and those that are not below a probability, of which it returns the number.
size_t SamplerChain::keep_likely(float p) {
    size_t n_text = 0;
    size_t n = 0;
    float sum = 0.0f;
    for (size_t i = 0; i < size_; ++i) {
        const bool ends_answer = infill_->ends_answer(cur_[i].id);
        if (cur_[i].p < p && !ends_answer) {
            continue;
        }
        n_text += ends_answer ? 0 : 1;
        sum += cur_[i].p;
        cur_[n++] = cur_[i];
    }
    size_ = n;
    for (size_t i = 0; i < size_; ++i) {
        cur_[i].p /= sum;
    }
    return n_text;
}

}  // namespace bankml
