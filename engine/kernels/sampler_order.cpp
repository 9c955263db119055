// The samplers after those of the whole row, in any order: each works on the candidates that those before it left.
#include <algorithm>

#include "sampler.h"

namespace bankml {

// The stages from `first` on, of which the candidates know those before.
void SamplerChain::apply_from(size_t first) {
    size_t n_xtc = 0;
    for (size_t i = first; i < params_.stages.size(); ++i) {
        if (params_.stages[i] == Stage::Xtc) {
            xtc(xtc_rngs_[n_xtc++]);
        } else {
            apply(params_.stages[i]);
        }
    }
}

void SamplerChain::apply(Stage stage) {
    switch (stage) {
        case Stage::Penalties:
            if (penalties_on()) {
                penalize(candidate_logits());
                sorted_ = false;
            }
            return;
        case Stage::Dry:
            if (dry_on() && apply_dry(candidate_logits())) {
                sorted_ = false;
            }
            return;
        case Stage::TopNSigma:
            if (params_.top_n_sigma > 0.0f && size_ > 1) {
                candidates_top_n_sigma();
            }
            return;
        case Stage::TopK:
            if (params_.top_k > 0) {
                keep(params_.top_k);
            }
            return;
        case Stage::Typical: return typical();
        case Stage::TopP: return top_p();
        case Stage::MinP: return min_p();
        case Stage::Temperature: return temperature();
        case Stage::Infill: return infill();
        case Stage::Xtc: return;  // has a generator of its own: see apply_from
    }
}

// Keeps the n best, in order.
void SamplerChain::keep(int n) {
    n = std::min(n, static_cast<int>(size_));
    if (!sorted_) {
        keep_best(n);
    }
    size_ = static_cast<size_t>(n);
}

void SamplerChain::candidates_top_n_sigma() {
    scores_.resize(size_);
    for (size_t i = 0; i < size_; ++i) {
        scores_[i] = cur_[i].logit;
    }
    top_n_sigma(scores_.data(), static_cast<int>(size_));
    for (size_t i = 0; i < size_; ++i) {
        cur_[i].logit = scores_[i];
    }
}

Logits SamplerChain::candidate_logits() {
    places_.assign(static_cast<size_t>(n_vocab_), -1);
    for (size_t i = 0; i < size_; ++i) {
        places_[static_cast<size_t>(cur_[i].id)] = static_cast<int32_t>(i);
    }
    return {&cur_->logit, sizeof(Candidate) / sizeof(float), static_cast<int32_t>(size_), places_.data()};
}

}  // namespace bankml
