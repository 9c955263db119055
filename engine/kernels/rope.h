// Rotary positions (https://arxiv.org/abs/2104.09864) with what stretches them over a longer context: a factor on every
// angle, divisors a pair (Llama 3), or YaRN (https://arxiv.org/abs/2309.00071).
#pragma once

#include <cstdint>
#include <vector>

namespace bankml {

struct RopeSpec {
    int64_t n_rot;        // dimensions of a head that turn, an even number
    bool neox;            // a pair is half of them apart; else neighbours
    float freq_base;
    float freq_scale;     // factor on the angles: one over the context's stretch
    bool yarn;            // fast pairs are not stretched
    int64_t n_ctx_orig;   // YaRN: tokens of the context that was stretched
    float attn_factor;    // factor on cosines and sines
    std::vector<float> freq_factors;  // n_rot / 2 divisors of the angles, or none
};

class Rope {
  public:
    explicit Rope(RopeSpec spec);

    int64_t n_rot() const { return spec_.n_rot; }
    bool neox() const { return spec_.neox; }
    // Writes n_rot floats: cosine, sine, cosine, ... of every pair at a position.
    void fill(int64_t position, float* cos_sin) const;

  private:
    RopeSpec spec_;
    float theta_scale_;        // from a pair's angle to the next one's
    float magnitude_;
    std::vector<float> kept_;  // YaRN, a pair: the part of the angle that is not stretched
};

}  // namespace bankml
