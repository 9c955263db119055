// llama-server b11192's default sampler chain, with its arithmetic, its sort order, its ties and its generator.
//
// The chain: logit bias, penalties, DRY, top-n-sigma, top-k, typical, top-p, min-p, XTC, temperature (plain or
// dynamic), then one draw. The reference's library fuses no multiply-add here, so plain expressions give its bits;
// expf, logf, powf, pow and exp come from the C library in both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

namespace bankml {

using Token = int32_t;

// llama-server's names and units; what is out of range has been refused or clamped before.
struct SamplerParams {
    uint32_t seed = 0;
    int32_t min_keep = 0;
    int32_t top_k = 40;
    float top_p = 0.95f;
    float min_p = 0.05f;
    float typical_p = 1.0f;
    float top_n_sigma = -1.0f;
    float xtc_probability = 0.0f;
    float xtc_threshold = 0.1f;
    float temperature = 0.8f;
    float dynatemp_range = 0.0f;
    float dynatemp_exponent = 1.0f;
    int32_t repeat_last_n = 64;
    float repeat_penalty = 1.0f;
    float frequency_penalty = 0.0f;
    float presence_penalty = 0.0f;
    float dry_multiplier = 0.0f;
    float dry_base = 1.75f;
    int32_t dry_allowed_length = 2;
    int32_t dry_penalty_last_n = 64;
};

struct Candidate {
    Token id;
    float logit;
    float p;
};

// A restart sequence of DRY: a head token and the tokens that must follow it.
using Breaker = std::pair<Token, std::vector<Token>>;

class SamplerChain {
public:
    // `bias` in the order it is added; `keep_candidates` keeps what the draw saw for candidates(). A token outside the
    // vocabulary is a std::out_of_range here and in accept().
    SamplerChain(const SamplerParams & params, int32_t n_vocab, std::vector<std::pair<Token, float>> bias,
                 const std::vector<Breaker> & breakers, bool keep_candidates);

    // Counts a token of the prompt or the answer towards the penalties and DRY.
    void accept(Token token);

    // Draws a token from one row of `n_vocab` logits, which are not changed.
    Token sample(const float * logits);

    int32_t n_vocab() const { return n_vocab_; }
    // What the last draw chose from, with normalized probabilities; only with `keep_candidates`.
    std::vector<Candidate> candidates() const;

private:
    void check(Token token) const;
    bool penalties_on() const;
    bool dry_on() const;
    bool greedy() const;

    const float * adjusted(const float * logits);
    void penalize(float * logits) const;
    void apply_dry(float * logits);
    int dry_repeat_limit(int n) const;
    void dry_count_repeats(int n, int limit);
    void top_n_sigma(float * logits) const;
    void top_k(const float * logits);
    void typical();
    void top_p();
    void min_p();
    void xtc();
    void temperature();
    Token draw();

    void softmax(bool sort);
    void keep_best(int n);
    void sort_best(int n, std::vector<Candidate> & out);
    // `i` tokens before the newest accepted one
    Token recent(int i) const { return history_[history_.size() - 1 - static_cast<size_t>(i)]; }

    SamplerParams params_;
    int32_t n_vocab_;
    std::vector<std::pair<Token, float>> bias_;
    bool keep_candidates_;

    std::mt19937 draw_rng_;
    std::mt19937 xtc_rng_;

    std::vector<Token> history_;
    std::unordered_map<Token, int> counts_;
    std::unordered_map<Token, std::vector<std::vector<Token>>> breakers_;
    std::vector<int> dry_repeats_;
    std::unordered_map<Token, int> dry_longest_;

    // the candidates: [cur_, cur_ + size_) inside store_
    std::vector<Candidate> store_;
    Candidate * cur_ = nullptr;
    size_t size_ = 0;
    bool sorted_ = false;
    double p_sum_ = 1.0;

    // scratch kept between tokens
    std::vector<float> row_;
    std::vector<Candidate> best_;
    std::vector<float> scores_;
    std::vector<size_t> order_;
    std::vector<int> buckets_;
};

}  // namespace bankml
