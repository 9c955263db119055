#include "sampler.h"

#include <algorithm>
#include <array>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>

namespace bankml {

namespace {

constexpr int N_BUCKETS = 128;
constexpr float BUCKET_LOW = -10.0f;
constexpr float BUCKET_HIGH = 10.0f;
constexpr int SMALL_SORT = 128;        // up to here the reference sorts in one go, above it buckets first
constexpr size_t TOP_P_SMALL = 1024;   // up to here top-p sorts all candidates at once
constexpr size_t TOP_P_FIRST = 256;    // above it, it sorts this many first

constexpr auto by_logit = [](const Candidate & a, const Candidate & b) { return a.logit > b.logit; };

// The bucket of a logit. Out-of-range conversions give what x86's cvttss2si gives, as in the reference's binary.
int bucket_of(float logit) {
    constexpr float scale = N_BUCKETS / (BUCKET_HIGH - BUCKET_LOW);
    constexpr float offset = -BUCKET_LOW * scale;
    const float x = scale * logit + offset;
    const int bucket = x >= -2147483648.0f && x < 2147483648.0f ? static_cast<int>(x) : INT_MIN;
    return std::clamp(bucket, 0, N_BUCKETS - 1);
}

// Sixteen logits at a time, in GCC's and Clang's portable vectors: almost every block is passed over.
constexpr int BLOCK = 16;
using F4 = float __attribute__((vector_size(16)));
using I4 = int32_t __attribute__((vector_size(16)));

struct Block {
    std::array<F4, 4> lanes;

    explicit Block(const float * logits) { std::memcpy(lanes.data(), logits, sizeof(lanes)); }

    bool any_above(float threshold) const {
        const I4 above = (lanes[0] > threshold) | (lanes[1] > threshold) | (lanes[2] > threshold) | (lanes[3] > threshold);
        return (above[0] | above[1] | above[2] | above[3]) != 0;
    }

    bool all_below(float threshold) const {
        const I4 below = (lanes[0] < threshold) & (lanes[1] < threshold) & (lanes[2] < threshold) & (lanes[3] < threshold);
        return (below[0] & below[1] & below[2] & below[3]) != 0;
    }
};

// First index from `i` on whose logit is above `threshold`, or `n`.
int next_above(const float * logits, int i, int n, float threshold) {
    while (i + BLOCK <= n && !Block(logits + i).any_above(threshold)) {
        i += BLOCK;
    }
    while (i < n && !(logits[i] > threshold)) {
        ++i;
    }
    return i;
}

// The index of the largest logit if it is finite, no other equals it and none is NaN, else -1.
int unique_max(const float * logits, int n) {
    int best = 0;
    bool alone = std::isfinite(logits[0]);
    for (int i = 1; i < n; ++i) {
        while (i + BLOCK <= n && Block(logits + i).all_below(logits[best])) {
            i += BLOCK;
        }
        if (i == n || logits[i] < logits[best]) {
            continue;
        }
        if (logits[i] > logits[best]) {
            best = i;
            alone = std::isfinite(logits[i]);
        } else if (logits[i] == logits[best]) {
            alone = false;
        } else {
            return -1;  // NaN
        }
    }
    return alone ? best : -1;
}

void scale_by_temperature(Candidate * cur, size_t size, float temperature) {
    if (size == 0) {
        return;
    }
    if (temperature > 0.0f || std::isnan(temperature)) {
        for (size_t i = 0; i < size; ++i) {
            cur[i].logit /= temperature;
        }
        return;
    }
    // greedy: only the first of the largest logits stays
    size_t top = 0;
    for (size_t i = 1; i < size; ++i) {
        if (cur[i].logit > cur[top].logit) {
            cur[top].logit = -INFINITY;
            top = i;
        } else {
            cur[i].logit = -INFINITY;
        }
    }
}

}  // namespace

SamplerChain::SamplerChain(const SamplerParams & params, int32_t n_vocab, std::vector<std::pair<Token, float>> bias,
                           const std::vector<Breaker> & breakers, bool keep_candidates,
                           std::shared_ptr<const InfillVocabulary> infill)
    : params_(params),
      n_vocab_(n_vocab),
      bias_(std::move(bias)),
      keep_candidates_(keep_candidates),
      infill_(std::move(infill)),
      draw_rng_(params.seed),
      xtc_rngs_(static_cast<size_t>(std::count(params.stages.begin(), params.stages.end(), Stage::Xtc)),
                std::mt19937(params.seed)),
      mirostat_mu_(2.0f * params.mirostat_tau),
      adaptive_sum_(params.adaptive_target / (1.0f - params.adaptive_decay)),
      adaptive_weight_(1.0f / (1.0f - params.adaptive_decay)) {
    for (const auto & [token, amount] : bias_) {
        check(token);
    }
    const bool infills = std::find(params.stages.begin(), params.stages.end(), Stage::Infill) != params.stages.end();
    if (infills && (infill_ == nullptr || infill_->place.size() != static_cast<size_t>(n_vocab))) {
        throw std::invalid_argument("the infill sampler needs the vocabulary");
    }
    for (const auto & [head, tail] : breakers) {
        breakers_[head].push_back(tail);
    }
    greedy_ = is_greedy();
}

void SamplerChain::check(Token token) const {
    if (token < 0 || token >= n_vocab_) {
        throw std::out_of_range("token outside the vocabulary");
    }
}

bool SamplerChain::penalties_on() const {
    return params_.repeat_last_n > 0 && !(params_.repeat_penalty == 1.0f && params_.frequency_penalty == 0.0f &&
                                          params_.presence_penalty == 0.0f);
}

bool SamplerChain::dry_on() const {
    return params_.dry_multiplier != 0.0f && params_.dry_base >= 1.0f && params_.dry_penalty_last_n > 0;
}

std::vector<Stage> SamplerParams::default_stages() {
    return {Stage::Penalties, Stage::Dry,  Stage::TopNSigma, Stage::TopK,       Stage::Typical,
            Stage::TopP,      Stage::MinP, Stage::Xtc,       Stage::Temperature};
}

// Whether the chain, in the default order, can only end at the largest logit: no sampler before the temperature may
// drop it.
bool SamplerChain::is_greedy() const {
    return params_.stages == SamplerParams::default_stages() && params_.ending == Ending::Plain &&
           params_.temperature <= 0.0f && !(params_.dynatemp_range > 0.0f) &&
           params_.typical_p >= 1.0f && (params_.xtc_probability <= 0.0f || params_.xtc_threshold > 0.5f);
}

void SamplerChain::accept(Token token) {
    check(token);
    if (pending_ == token) {
        adaptive_sum_ = pending_p_ + params_.adaptive_decay * adaptive_sum_;
        adaptive_weight_ = 1.0f + params_.adaptive_decay * adaptive_weight_;
    }
    pending_ = -1;
    if (!penalties_on() && !dry_on()) {
        return;
    }
    if (penalties_on()) {
        ++counts_[token];
        const auto window = static_cast<size_t>(params_.repeat_last_n);
        if (history_.size() >= window) {
            const auto oldest = counts_.find(history_[history_.size() - window]);
            if (--oldest->second == 0) {
                counts_.erase(oldest);
            }
        }
    }
    history_.push_back(token);
}

Token SamplerChain::sample(const float * logits) {
    size_t n_done = 0;
    const float * row = adjusted(logits, n_done);
    if (greedy_ && !keep_candidates_) {
        // The generator is not advanced: no later draw of this chain depends on it either.
        const int top = unique_max(row, n_vocab_);
        if (top >= 0) {
            return top;
        }
    }
    if (n_done < params_.stages.size() && params_.stages[n_done] == Stage::TopK) {
        top_k(row);
        ++n_done;
    } else {
        start_with_all(row);
    }
    apply_from(n_done);
    return draw();
}

std::vector<Candidate> SamplerChain::candidates() const {
    std::vector<Candidate> out(cur_, cur_ + size_);
    for (auto & candidate : out) {
        candidate.p = static_cast<float>(candidate.p / p_sum_);
    }
    return out;
}

// Fills the candidates. Up to SMALL_SORT of them this is std::partial_sort over the whole vocabulary, done on the
// best k alone with the heap steps libstdc++'s partial_sort consists of, so that ties fall the same way.
void SamplerChain::top_k(const float * logits) {
    const int k = std::min(params_.top_k, n_vocab_);
    if (k > 0 && k <= SMALL_SORT) {
        if (store_.size() < SMALL_SORT + 1) {
            store_.resize(SMALL_SORT + 1);
        }
        cur_ = store_.data();
        for (int i = 0; i < k; ++i) {
            cur_[i] = {i, logits[i], 0.0f};
        }
        std::make_heap(cur_, cur_ + k, by_logit);
        for (int i = k; (i = next_above(logits, i, n_vocab_, cur_[0].logit)) < n_vocab_; ++i) {
            cur_[k] = {i, logits[i], 0.0f};
            std::pop_heap(cur_, cur_ + k + 1, by_logit);
        }
        std::sort_heap(cur_, cur_ + k, by_logit);
        size_ = static_cast<size_t>(k);
        sorted_ = true;
        return;
    }
    start_with_all(logits);
    if (k > 0) {
        keep_best(k);
    }
}

void SamplerChain::start_with_all(const float * logits) {
    store_.resize(static_cast<size_t>(n_vocab_));
    cur_ = store_.data();
    for (int i = 0; i < n_vocab_; ++i) {
        cur_[i] = {i, logits[i], 0.0f};
    }
    size_ = store_.size();
    sorted_ = false;
}

// Sorts the `n` best candidates into `out`: by bucket of the logit first, then within the buckets that matter.
void SamplerChain::sort_best(int n, std::vector<Candidate> & out) {
    std::array<int, N_BUCKETS> histogram{};
    buckets_.resize(size_);
    for (size_t i = 0; i < size_; ++i) {
        const int bucket = bucket_of(cur_[i].logit);
        buckets_[i] = bucket;
        ++histogram[static_cast<size_t>(bucket)];
    }
    int n_in = 0;
    int lowest = N_BUCKETS;
    while (lowest > 0 && n_in < n) {
        n_in += histogram[static_cast<size_t>(--lowest)];
    }
    out.resize(static_cast<size_t>(n_in));
    std::array<Candidate *, N_BUCKETS> next{};
    Candidate * start = out.data();
    for (int bucket = N_BUCKETS - 1; bucket >= lowest; --bucket) {
        next[static_cast<size_t>(bucket)] = start;
        start += histogram[static_cast<size_t>(bucket)];
    }
    for (size_t i = 0; i < size_; ++i) {
        if (buckets_[i] >= lowest) {
            *next[static_cast<size_t>(buckets_[i])]++ = cur_[i];
        }
    }
    start = out.data();
    for (int bucket = N_BUCKETS - 1; bucket > lowest; --bucket) {
        Candidate * const end = start + histogram[static_cast<size_t>(bucket)];
        std::sort(start, end, by_logit);
        start = end;
    }
    std::partial_sort(start, out.data() + n, out.data() + n_in, by_logit);
}

void SamplerChain::keep_best(int n) {
    if (n <= SMALL_SORT) {
        std::partial_sort(cur_, cur_ + n, cur_ + size_, by_logit);
    } else {
        sort_best(n, best_);
        std::copy(best_.begin(), best_.begin() + n, cur_);
    }
    size_ = static_cast<size_t>(n);
    sorted_ = true;
}

float SamplerChain::largest_logit() const {
    float max = cur_[0].logit;
    if (!sorted_) {
        for (size_t i = 1; i < size_; ++i) {
            max = std::max(max, cur_[i].logit);
        }
    }
    return max;
}

void SamplerChain::softmax(bool sort) {
    if (sort && !sorted_) {
        keep_best(static_cast<int>(size_));
    }
    const float max = largest_logit();
    float sum = 0.0f;
    for (size_t i = 0; i < size_; ++i) {
        cur_[i].p = expf(cur_[i].logit - max);
        sum += cur_[i].p;
    }
    for (size_t i = 0; i < size_; ++i) {
        cur_[i].p /= sum;
    }
}

void SamplerChain::typical() {
    if (params_.typical_p >= 1.0f) {
        return;
    }
    softmax(true);
    float entropy = 0.0f;
    for (size_t i = 0; i < size_; ++i) {
        entropy += -cur_[i].p * logf(cur_[i].p);
    }
    scores_.resize(size_);
    for (size_t i = 0; i < size_; ++i) {
        scores_[i] = fabsf(-logf(cur_[i].p) - entropy);
    }
    order_.resize(size_);
    std::iota(order_.begin(), order_.end(), 0);
    std::sort(order_.begin(), order_.end(), [this](size_t a, size_t b) { return scores_[a] < scores_[b]; });
    const auto min_keep = static_cast<size_t>(params_.min_keep);
    float sum = 0.0f;
    size_t n = size_;
    for (size_t i = 0; i < size_; ++i) {
        sum += cur_[order_[i]].p;
        if (sum > params_.typical_p && (min_keep == 0 || i >= min_keep - 1)) {
            n = i + 1;
            break;
        }
    }
    best_.resize(n);
    for (size_t i = 0; i < n; ++i) {
        best_[i] = cur_[order_[i]];
    }
    std::copy(best_.begin(), best_.end(), cur_);
    size_ = n;
    sorted_ = false;
}

void SamplerChain::top_p() {
    if (params_.top_p >= 1.0f) {
        return;
    }
    softmax(false);
    const auto min_keep = static_cast<size_t>(params_.min_keep);
    const Candidate * ranked = cur_;
    size_t n_ranked = size_;
    if (!sorted_ && size_ > TOP_P_SMALL) {
        n_ranked = TOP_P_FIRST;
        sort_best(static_cast<int>(n_ranked), best_);
        ranked = best_.data();
    } else if (!sorted_) {
        keep_best(static_cast<int>(size_));
    }
    float sum = 0.0f;
    size_t n = size_;
    for (size_t i = 0; i < size_; ++i) {
        sum += ranked[i].p;
        if (sum >= params_.top_p && i + 1 >= min_keep) {
            n = i + 1;
            break;
        }
        if (!sorted_ && i + 1 == n_ranked) {
            n_ranked = size_;
            sort_best(static_cast<int>(size_), best_);
            ranked = best_.data();
        }
    }
    if (!sorted_) {
        std::copy(best_.begin(), best_.begin() + static_cast<ptrdiff_t>(n), cur_);
        sorted_ = true;
    }
    size_ = n;
}

void SamplerChain::min_p() {
    if (params_.min_p <= 0.0f || size_ == 0) {
        return;
    }
    const auto min_keep = static_cast<size_t>(params_.min_keep);
    if (!sorted_) {
        float max = -FLT_MAX;
        for (size_t i = 0; i < size_; ++i) {
            max = std::max(max, cur_[i].logit);
        }
        const float lowest = max + logf(params_.min_p);
        best_.clear();
        for (size_t i = 0; i < size_; ++i) {
            if (cur_[i].logit >= lowest) {
                best_.push_back(cur_[i]);
            }
        }
        if (!best_.empty() && best_.size() >= min_keep) {
            std::copy(best_.begin(), best_.end(), cur_);
            size_ = best_.size();
            return;
        }
        keep_best(static_cast<int>(size_));
    }
    const float lowest = cur_[0].logit + logf(params_.min_p);
    size_t n = 1;
    while (n < size_ && !(cur_[n].logit < lowest && n >= min_keep)) {
        ++n;
    }
    size_ = n;
}

void SamplerChain::xtc(std::mt19937 & rng) {
    if (params_.xtc_probability <= 0.0f || params_.xtc_threshold > 0.5f || size_ < 2) {
        return;
    }
    std::uniform_real_distribution<float> uniform(0.0f, 1.0f);
    if (uniform(rng) > params_.xtc_probability) {
        return;
    }
    softmax(true);
    size_t last = 0;  // of the tokens above the threshold, the least likely one stays
    for (size_t i = 0; i < size_ && cur_[i].p >= params_.xtc_threshold; ++i) {
        last = i;
    }
    if (last > 0 && size_ - last >= static_cast<size_t>(params_.min_keep)) {
        cur_ += last;
        size_ -= last;
    }
}

void SamplerChain::temperature() {
    const float range = params_.dynatemp_range;
    if (!(range > 0)) {
        if (params_.temperature != 1.0f) {
            scale_by_temperature(cur_, size_, params_.temperature);
        }
        return;
    }
    if (size_ <= 1) {
        return;
    }
    const float lowest = std::max(0.0f, params_.temperature - range);
    const float highest = params_.temperature + range;
    const float max_entropy = -logf(1.0f / size_);
    softmax(true);
    float entropy = 0.0f;
    for (size_t i = 0; i < size_; ++i) {
        const float p = cur_[i].p;
        if (p > 0.0f) {
            entropy -= p * logf(p);
        }
    }
    const float dynamic = lowest + (highest - lowest) * powf(entropy / max_entropy, params_.dynatemp_exponent);
    scale_by_temperature(cur_, size_, dynamic);
    // The reference recomputes the probabilities here; the draw overwrites them.
}

}  // namespace bankml
