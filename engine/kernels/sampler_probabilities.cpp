// Probabilities as llama-server shows them beside a token: of the model's own logits, or of what the chain drew from.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "sampler.h"

namespace bankml {

namespace {

// The logarithm of a probability; JSON has no infinity, so the reference puts the lowest float there.
float logarithm(float p) { return p == 0.0f ? -FLT_MAX : logf(p); }

}  // namespace

// The sum of the softmax runs in the order in which std::partial_sort leaves the tokens, so the number of tokens asked
// for can change the last bit of a probability.
TokenProbabilities probabilities_of(const float * logits, int32_t n_vocab, size_t n_best, Token token) {
    std::vector<Candidate> all(static_cast<size_t>(n_vocab));
    for (int32_t i = 0; i < n_vocab; ++i) {
        all[static_cast<size_t>(i)] = {i, logits[i], 0.0f};
    }
    n_best = std::min(n_best, all.size());
    std::partial_sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(n_best), all.end(),
                      [](const Candidate & a, const Candidate & b) { return a.logit > b.logit; });
    const float max = all[0].logit;
    float sum = 0.0f;
    for (Candidate & candidate : all) {
        candidate.p = expf(candidate.logit - max);
        sum += candidate.p;
    }
    TokenProbabilities found;
    for (Candidate & candidate : all) {
        candidate.p /= sum;
        if (candidate.id == token) {
            found.p = candidate.p;
        }
    }
    for (size_t i = 0; i < n_best; ++i) {
        found.best.push_back({all[i].id, all[i].p, logarithm(all[i].p)});
    }
    found.logprob = logarithm(found.p);
    return found;
}

TokenProbabilities SamplerChain::probabilities(size_t n_best, Token token) const {
    std::vector<Candidate> left = candidates();
    if (!sorted_) {
        std::sort(left.begin(), left.end(), [](const Candidate & a, const Candidate & b) { return a.p > b.p; });
    }
    TokenProbabilities found;
    const auto drawn =
        std::find_if(left.begin(), left.end(), [token](const Candidate & candidate) { return candidate.id == token; });
    if (drawn != left.end()) {
        found.p = drawn->p;
    }
    for (size_t i = 0; i < std::min(n_best, left.size()) && left[i].p != 0.0f; ++i) {
        found.best.push_back({left[i].id, left[i].p, logarithm(left[i].p)});
    }
    found.logprob = logarithm(found.p);
    return found;
}

}  // namespace bankml
