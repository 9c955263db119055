// Top-n-sigma (https://arxiv.org/abs/2411.07641): drops what lies more than n standard deviations under the best logit.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels.h"
#include "sampler.h"

namespace bankml {

namespace {

using F4 = float __attribute__((vector_size(16)));
using I4 = int32_t __attribute__((vector_size(16)));

// Of the logits that are not -inf: how many, their sum in order, the largest (of all).
struct Totals {
    int n;
    float sum;
    float max;
};

// The additions wait for each other; the rest is done four at a time meanwhile.
Totals totals_of(const float * logits, int n) {
    F4 largest = {logits[0], logits[0], logits[0], logits[0]};
    I4 counts{};
    float sum = 0.0f;
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        F4 four;
        std::memcpy(&four, logits + i, sizeof(four));
        largest = largest < four ? four : largest;
        const I4 valid = four != -INFINITY;
        counts -= valid;
        four = (F4)((I4)four & valid);
        sum += four[0];
        sum += four[1];
        sum += four[2];
        sum += four[3];
    }
    Totals found{counts[0] + counts[1] + counts[2] + counts[3], sum,
                 std::max(std::max(largest[0], largest[1]), std::max(largest[2], largest[3]))};
    for (; i < n; ++i) {
        found.max = std::max(found.max, logits[i]);
        if (logits[i] != -INFINITY) {
            found.sum += logits[i];
            ++found.n;
        }
    }
    return found;
}

}  // namespace

void SamplerChain::top_n_sigma(float * logits, int n) const {
    static const Kernels * const kernels = select_kernels("");
    const Totals totals = totals_of(logits, n);
    const auto count = static_cast<float>(totals.n);
    const float mean = totals.n > 0 ? totals.sum / count : 0;
    const float sigma = totals.n > 0 ? std::sqrt(kernels->sum_squares(logits, n, mean) / count) : 0;
    const float lowest = totals.max - (params_.top_n_sigma * sigma);
    for (int i = 0; i < n; ++i) {
        logits[i] = logits[i] < lowest ? -INFINITY : logits[i];
    }
}

}  // namespace bankml
