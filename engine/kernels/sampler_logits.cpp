// The samplers that change single logits: in the default order those of the whole row, before there are candidates.
#include <algorithm>
#include <cmath>

#include "sampler.h"

namespace bankml {

// The logits after bias and the samplers that the order begins with, as long as they change single logits of the whole
// row: the caller's row itself when none of them is on. `n_done` is how many stages that were.
const float * SamplerChain::adjusted(const float * logits, size_t & n_done) {
    bool copied = false;
    const auto row = [&] {
        if (!copied) {
            row_.assign(logits, logits + n_vocab_);
            copied = true;
        }
        return Logits{row_.data(), 1, n_vocab_, nullptr};
    };
    for (const auto & [token, amount] : bias_) {
        row().at(token) += amount;
    }
    for (n_done = 0; n_done < params_.stages.size(); ++n_done) {
        const Stage stage = params_.stages[n_done];
        if (stage == Stage::Penalties) {
            if (penalties_on()) {
                penalize(row());
            }
        } else if (stage == Stage::Dry) {
            if (dry_on()) {
                apply_dry(row());
            }
        } else if (stage == Stage::TopNSigma) {
            if (params_.top_n_sigma > 0.0f && n_vocab_ > 1) {
                top_n_sigma(row().first, n_vocab_);
            }
        } else {
            break;
        }
    }
    return copied ? row_.data() : logits;
}

void SamplerChain::penalize(const Logits & logits) const {
    for (const auto & [token, count] : counts_) {
        float * const found = logits.of(token);
        if (found == nullptr) {
            continue;
        }
        float & logit = *found;
        if (logit <= 0) {
            logit *= params_.repeat_penalty;
        } else {
            logit /= params_.repeat_penalty;
        }
        logit -= static_cast<float>(count) * params_.frequency_penalty + 1.0f * params_.presence_penalty;
    }
}

// How long a repetition may count: up to the newest restart sequence (a sequence breaker) in the last `n` tokens.
int SamplerChain::dry_repeat_limit(int n) const {
    for (int i = 0; i < n; ++i) {
        const auto found = breakers_.find(recent(i));
        if (found == breakers_.end()) {
            continue;
        }
        int longest = -1;
        for (const auto & tail : found->second) {
            const int length = static_cast<int>(tail.size());
            if (length <= longest || length > i) {
                continue;
            }
            bool match = true;
            for (int offset = 0; match && offset < length; ++offset) {
                match = tail[static_cast<size_t>(offset)] == recent(i - offset - 1);
            }
            if (match) {
                longest = length;
            }
        }
        if (longest >= 0) {
            return i - longest;
        }
    }
    return n;
}

// For each of the last `n` tokens, how many tokens up to it repeat the newest ones (Z-algorithm from the end). The
// limit is applied before the counts are used again, which the reference does too: it changes some of them.
void SamplerChain::dry_count_repeats(int n, int limit) {
    dry_repeats_.assign(static_cast<size_t>(n), 0);
    const auto repeats = [&](int back) -> int & { return dry_repeats_[static_cast<size_t>(n - 1 - back)]; };
    int left = 0;
    int right = 0;
    for (int k = 1; k < n; ++k) {
        if (k <= right && repeats(k - left) < right - k + 1) {
            repeats(k) = std::min(repeats(k - left), limit);
            continue;
        }
        const bool inside = k <= right;
        int end = inside ? right + 1 : k;
        while (end < n && recent(end - k) == recent(end)) {
            ++end;
        }
        repeats(k) = std::min(end - k, limit);
        if (inside || end > k) {
            left = k;
            right = end - 1;
        }
    }
}

// Whether it came to penalties, which leaves candidates in no order even when none of them had one.
bool SamplerChain::apply_dry(const Logits & logits) {
    constexpr float LOG_OF_FLT_MAX = 88.7228391f;
    const int allowed = params_.dry_allowed_length;
    const int n = static_cast<int>(std::min(history_.size(), static_cast<size_t>(params_.dry_penalty_last_n)));
    if (n <= allowed) {
        return false;
    }
    const int limit = dry_repeat_limit(n);
    if (limit < allowed) {
        return false;
    }
    dry_count_repeats(n, limit);
    dry_longest_.clear();
    for (int i = 0; i < n - 1; ++i) {
        const int length = dry_repeats_[static_cast<size_t>(i)];
        if (length >= allowed) {
            int & longest = dry_longest_.try_emplace(recent(n - 2 - i), length).first->second;
            longest = std::max(longest, length);
        }
    }
    int max_exponent = 0;
    if (params_.dry_base > 1.000001f) {
        max_exponent = static_cast<int>(LOG_OF_FLT_MAX / std::log(params_.dry_base));
    }
    for (const auto & [token, length] : dry_longest_) {
        float * const logit = logits.of(token);
        if (logit == nullptr) {
            continue;
        }
        const auto found = breakers_.find(token);
        if (found != breakers_.end() && std::any_of(found->second.begin(), found->second.end(),
                                                    [](const auto & tail) { return tail.empty(); })) {
            continue;
        }
        int exponent = length - allowed;
        if (max_exponent > 0 && exponent > max_exponent) {
            exponent = max_exponent;
        }
        const float penalty =
            static_cast<float>(params_.dry_multiplier * std::pow(static_cast<double>(params_.dry_base), exponent));
        *logit -= penalty;
    }
    return true;
}

}  // namespace bankml
