#include "rope.h"

#include <algorithm>
#include <cmath>

namespace bankml {
namespace {

// YaRN's ramp runs between the pairs that turn so many times within the original context.
constexpr float kTurnsFast = 32.0f;
constexpr float kTurnsSlow = 1.0f;

// The pair, as a fraction, that turns `turns` times within the original context.
float pair_of_turns(const RopeSpec& spec, float turns) {
    const float pi = 3.14159265358979323846f;
    const float ratio = static_cast<float>(spec.n_ctx_orig) / (turns * 2.0f * pi);
    return static_cast<float>(spec.n_rot) * logf(ratio) / (2.0f * logf(spec.freq_base));
}

// The parts of the angles that YaRN does not stretch: 1 for the fastest pairs, 0 for the slowest, a ramp between.
std::vector<float> kept_parts(const RopeSpec& spec) {
    const float low = std::max(0.0f, floorf(pair_of_turns(spec, kTurnsFast)));
    const float high = std::min(static_cast<float>(spec.n_rot - 1), ceilf(pair_of_turns(spec, kTurnsSlow)));
    std::vector<float> kept;
    for (int64_t pair = 0; pair < spec.n_rot / 2; ++pair) {
        const float y = (static_cast<float>(pair) - low) / std::max(0.001f, high - low);
        kept.push_back(1.0f - std::min(1.0f, std::max(0.0f, y)));
    }
    return kept;
}

// What YaRN multiplies cosines and sines by: 1 + log(stretch) / 10. llama.cpp's loader knows that ggml's operation will
// multiply by that, so it hands over the quotient of the two; only the operation has a fused multiply-add.
float yarn_magnitude(const RopeSpec& spec) {
    const float stretch = 1.0f / spec.freq_scale;
    const float wanted = stretch <= 1.0f ? 1.0f : 0.1f * 1.0f * logf(stretch) + 1.0f;
    const float factor = wanted * (1.0f / (1.0f + 0.1f * logf(stretch))) * spec.attn_factor;
    return factor * std::fma(0.1f, logf(stretch), 1.0f);
}

}  // namespace

Rope::Rope(RopeSpec spec)
    : spec_(std::move(spec)), theta_scale_(powf(spec_.freq_base, -2.0f / static_cast<float>(spec_.n_rot))),
      magnitude_(spec_.yarn ? yarn_magnitude(spec_) : spec_.attn_factor) {
    if (spec_.yarn) kept_ = kept_parts(spec_);
}

// As ggml fills its table: theta is multiplied up from the position, one float rounding a pair.
void Rope::fill(int64_t position, float* cos_sin) const {
    float theta = static_cast<float>(position);
    for (size_t pair = 0; pair < static_cast<size_t>(spec_.n_rot / 2); ++pair, theta *= theta_scale_) {
        const float whole = spec_.freq_factors.empty() ? theta : theta / spec_.freq_factors[pair];
        float angle = spec_.freq_scale * whole;
        if (spec_.yarn) angle = std::fma(angle, 1.0f - kept_[pair], whole * kept_[pair]);
        cos_sin[2 * pair] = cosf(angle) * magnitude_;
        cos_sin[2 * pair + 1] = sinf(angle) * magnitude_;
    }
}

}  // namespace bankml
