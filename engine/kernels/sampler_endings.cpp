// How a chain ends: one token is drawn. Adaptive-p and the two Mirostats also decide what it is drawn from.
#include <algorithm>
#include <climits>
#include <cmath>

#include "sampler.h"

namespace bankml {

Token SamplerChain::draw() {
    switch (params_.ending) {
        case Ending::AdaptiveP: return draw_adaptive_p();
        case Ending::Mirostat: return draw_mirostat();
        case Ending::MirostatV2: return draw_mirostat_v2();
        case Ending::Plain: break;
    }
    return draw_plainly();
}

Token SamplerChain::draw_plainly() {
    std::uniform_real_distribution<double> uniform(0.0f, 1.0f);
    if (size_ == 1) {
        uniform(draw_rng_);
        cur_[0].p = 1.0f;
        p_sum_ = 1.0;
        return cur_[0].id;
    }
    const float max = largest_logit();
    double sum = 0.0;
    for (size_t i = 0; i < size_; ++i) {
        cur_[i].p = expf(cur_[i].logit - max);
        sum += cur_[i].p;
    }
    p_sum_ = sum;
    const double target = sum * uniform(draw_rng_);
    double run = 0.0;
    for (size_t i = 0; i < size_; ++i) {
        run += cur_[i].p;
        if (run >= target) {
            return cur_[i].id;
        }
    }
    return cur_[size_ - 1].id;
}

// The place of a candidate drawn by the probabilities that softmax left, with one number of the generator unless there
// is only one candidate.
size_t SamplerChain::draw_by_probability() {
    probabilities_.resize(size_);
    for (size_t i = 0; i < size_; ++i) {
        probabilities_[i] = cur_[i].p;
    }
    p_sum_ = 1.0;
    std::discrete_distribution<int> places(probabilities_.begin(), probabilities_.end());
    return static_cast<size_t>(places(draw_rng_));
}

// Mirostat's step: what surprised more than `tau` lowers how surprising the next token may be.
Token SamplerChain::surprised_by(size_t drawn) {
    const float surprise = -log2f(cur_[drawn].p);
    const float error = surprise - params_.mirostat_tau;
    mirostat_mu_ = mirostat_mu_ - params_.mirostat_eta * error;
    return cur_[drawn].id;
}

// Mirostat (https://arxiv.org/abs/2007.14966): keeps as many candidates as a power law, fitted to the best hundred, says.
Token SamplerChain::draw_mirostat() {
    constexpr size_t n_fitted = 100;
    softmax(true);
    float sum_ti_bi = 0.0f;
    float sum_ti_sq = 0.0f;
    for (size_t i = 0; i < n_fitted - 1 && i + 1 < size_; ++i) {
        const float t = logf(static_cast<float>(i + 2) / static_cast<float>(i + 1));
        const float b = logf(cur_[i].p / cur_[i + 1].p);
        sum_ti_bi += t * b;
        sum_ti_sq += t * t;
    }
    const float s_hat = sum_ti_bi / sum_ti_sq;
    const float epsilon = s_hat - 1;
    const float wanted = powf((epsilon * powf(2, mirostat_mu_)) / (1 - powf(static_cast<float>(n_vocab_), -epsilon)),
                              1 / s_hat);
    // What is no int becomes the lowest one, as x86's conversion has it.
    const int k = wanted >= -2147483648.0f && wanted < 2147483648.0f ? static_cast<int>(wanted) : INT_MIN;
    keep(std::max(k, 1));
    softmax(true);
    return surprised_by(draw_by_probability());
}

// Mirostat 2: keeps the candidates that surprise no more than `mu`, and always the first.
Token SamplerChain::draw_mirostat_v2() {
    softmax(true);
    const auto too_surprising = [this](const Candidate & candidate) { return -log2f(candidate.p) > mirostat_mu_; };
    const size_t kept = static_cast<size_t>(std::find_if(cur_, cur_ + size_, too_surprising) - cur_);
    size_ = std::max(kept, size_t{1});
    softmax(true);
    return surprised_by(draw_by_probability());
}

// Adaptive-p (https://github.com/ggml-org/llama.cpp/pull/17927): prefers candidates whose probability is near a target,
// which moves against what was drawn before.
Token SamplerChain::draw_adaptive_p() {
    constexpr float peak = 5.0f;
    constexpr float sharpness = 10.0f;
    constexpr float inverse_width = 1.0f / 0.3f;
    softmax(false);
    if (params_.adaptive_target < 0.0f) {
        return cur_[draw_by_probability()].id;
    }
    scores_.resize(size_);
    for (size_t i = 0; i < size_; ++i) {
        scores_[i] = cur_[i].p;
    }
    const float target = std::clamp(params_.adaptive_target, 0.0f, 1.0f);
    const float wanted =
        adaptive_weight_ == 0.0f ? target : 2.0f * target - (adaptive_sum_ / adaptive_weight_);
    const float adapted = std::clamp(wanted, 0.0f, 1.0f);
    for (size_t i = 0; i < size_; ++i) {
        if (cur_[i].logit != -INFINITY) {
            const float distance = std::abs((cur_[i].p - adapted) * inverse_width);
            cur_[i].logit = peak - sharpness * distance * distance / (1.0f + distance);
        }
    }
    softmax(false);
    const size_t drawn = draw_by_probability();
    pending_ = cur_[drawn].id;
    pending_p_ = scores_[drawn];
    return pending_;
}

}  // namespace bankml
