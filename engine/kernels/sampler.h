// llama-server b11192's sampler chain, with its arithmetic, its sort order, its ties and its generator.
//
// The chain: logit bias, then the samplers in the order that is asked for, then one draw. The samplers that change single
// logits work on the whole row as long as the order begins with them (sampler_logits.cpp); the others on candidates
// (sampler_order.cpp), few after a top-k that follows there, else every token. The reference's library fuses no
// multiply-add here, so plain expressions give its bits; expf, logf, log2f, powf, pow and exp come from the C library in
// both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace bankml {

using Token = int32_t;

enum class Stage : int32_t { Penalties, Dry, TopNSigma, TopK, Typical, TopP, MinP, Xtc, Temperature, Infill };

// How the chain ends: with a plain draw, or with one that also decides what it draws from.
enum class Ending : int32_t { Plain, AdaptiveP, Mirostat, MirostatV2 };

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
    float mirostat_tau = 5.0f;
    float mirostat_eta = 0.1f;
    float adaptive_target = -1.0f;
    float adaptive_decay = 0.9f;
    std::vector<Stage> stages = default_stages();
    Ending ending = Ending::Plain;

    static std::vector<Stage> default_stages();
};

struct Candidate {
    Token id;
    float logit;
    float p;
};

// The logits of n tokens, wherever they lie.
struct Logits {
    float * first;
    size_t stride;           // floats from one to the next
    int32_t n;
    const int32_t * places;  // which of them a token's is, -1 for none; nullptr where a token is its own place

    float & at(int32_t i) const { return first[static_cast<size_t>(i) * stride]; }
    float * of(Token token) const {
        const int32_t place = places == nullptr ? token : places[token];
        return place < 0 ? nullptr : &at(place);
    }
};

// How likely a token was, and the most likely tokens beside it: (token, probability, its logarithm).
struct TokenProbabilities {
    float p = 1.0f;
    float logprob = 0.0f;
    std::vector<std::tuple<Token, float, float>> best;
};

// By one row of `n_vocab` (at least one) logits, untouched by any sampler; `n_best` is at least one.
TokenProbabilities probabilities_of(const float * logits, int32_t n_vocab, size_t n_best, Token token);

// What the infill sampler needs of a vocabulary: which tokens' pieces begin which others', in time that does not grow
// with the square of the candidates.
struct InfillVocabulary {
    // `pieces` as tokens are written in a text, empty for control tokens; `ending` end an answer; `end` is the one to
    // end it with. A token outside the vocabulary is a std::out_of_range.
    InfillVocabulary(const std::vector<std::string> & pieces, const std::vector<Token> & ending, Token end);

    bool ends_answer(Token token) const { return ends[static_cast<size_t>(token)] != 0; }

    std::vector<int32_t> place;  // of each token, in the order of the pieces' bytes
    std::vector<int32_t> first;  // of the places whose pieces begin with the token's (its own and its like among them)
    std::vector<int32_t> last;   // one past them; no places for an empty piece
    std::vector<uint8_t> ends;
    Token end;
};

// A restart sequence of DRY: a head token and the tokens that must follow it.
using Breaker = std::pair<Token, std::vector<Token>>;

class SamplerChain {
public:
    // `bias` in the order it is added; `keep_candidates` keeps what the draw saw for candidates(); `infill` is needed
    // where the infill sampler is in the order, else a std::invalid_argument. A token outside the vocabulary is a
    // std::out_of_range here and in accept().
    SamplerChain(const SamplerParams & params, int32_t n_vocab, std::vector<std::pair<Token, float>> bias,
                 const std::vector<Breaker> & breakers, bool keep_candidates,
                 std::shared_ptr<const InfillVocabulary> infill = nullptr);

    // Counts a token of the prompt or the answer towards the penalties and DRY.
    void accept(Token token);

    // Draws a token from one row of `n_vocab` logits, which are not changed.
    Token sample(const float * logits);

    int32_t n_vocab() const { return n_vocab_; }
    // What the last draw chose from, with normalized probabilities; only with `keep_candidates`.
    std::vector<Candidate> candidates() const;
    // By what the last draw chose from; only with `keep_candidates`. Tokens without a probability are left out.
    TokenProbabilities probabilities(size_t n_best, Token token) const;

private:
    void check(Token token) const;
    bool penalties_on() const;
    bool dry_on() const;
    bool is_greedy() const;

    // Of a row: the samplers that the order begins with, before there are candidates.
    const float * adjusted(const float * logits, size_t & n_done);
    // Of candidates, in any order.
    void apply_from(size_t first);
    void apply(Stage stage);
    void candidates_top_n_sigma();
    Logits candidate_logits();

    void penalize(const Logits & logits) const;
    bool apply_dry(const Logits & logits);
    void top_n_sigma(float * logits, int n) const;
    int dry_repeat_limit(int n) const;
    void dry_count_repeats(int n, int limit);
    void top_k(const float * logits);
    void start_with_all(const float * logits);
    void keep(int n);
    void typical();
    void top_p();
    void min_p();
    void xtc(std::mt19937 & rng);
    void temperature();
    void infill();
    void merge_prefixes();
    size_t keep_likely(float p);
    Token draw();
    Token draw_plainly();
    Token draw_mirostat();
    Token draw_mirostat_v2();
    Token draw_adaptive_p();
    size_t draw_by_probability();
    Token surprised_by(size_t drawn);

    float largest_logit() const;  // the first one's where they are sorted
    void softmax(bool sort);
    void keep_best(int n);
    void sort_best(int n, std::vector<Candidate> & out);
    // `i` tokens before the newest accepted one
    Token recent(int i) const { return history_[history_.size() - 1 - static_cast<size_t>(i)]; }

    SamplerParams params_;
    int32_t n_vocab_;
    std::vector<std::pair<Token, float>> bias_;
    bool keep_candidates_;
    bool greedy_ = false;
    std::shared_ptr<const InfillVocabulary> infill_;

    std::mt19937 draw_rng_;
    std::vector<std::mt19937> xtc_rngs_;  // one for each time XTC is in the order

    float mirostat_mu_;      // how surprising a token may be
    float adaptive_sum_;     // of what was drawn, its probability: the newest counts most
    float adaptive_weight_;  // of that sum
    Token pending_ = -1;     // drawn by adaptive-p and not yet accepted
    float pending_p_ = 0.0f;

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
    std::vector<float> probabilities_;
    std::vector<int32_t> places_;
};

}  // namespace bankml
