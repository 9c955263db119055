// Pooling: what is left of the rows of a text when one vector shall stand for it.
#include "pooling.h"

#include <algorithm>
#include <cmath>

namespace bankml::BANKML_ISA {

// ggml makes the mean as a product: each column, laid out as a row, with a vector of 1/n. So each column is summed as
// its dot product sums: in 32 partial sums, added at the end in a fixed tree, and what is left over one by one. Of that
// the reference's compiler fused only the last one to three, that make no four.
void mean_rows(const float* x, int64_t n, int64_t width, float* y) {
    const F8 share = set8(1.0f / static_cast<float>(n));
    const int64_t whole = n / 32 * 32;
    const int64_t fours = n / 4 * 4;
    for (int64_t c = 0; c < width; c += 8) {
        F8 sums[32];
        for (F8& sum : sums) sum = zero8();
        for (int64_t i = 0; i < whole; i += 32) {
            for (int64_t j = 0; j < 32; ++j) sums[j] = fma8(load8(x + (i + j) * width + c), share, sums[j]);
        }
        F8 lanes[8];
        for (int j = 0; j < 8; ++j) lanes[j] = add8(add8(sums[j], sums[j + 16]), add8(sums[j + 8], sums[j + 24]));
        for (int j = 0; j < 4; ++j) lanes[j] = add8(lanes[j], lanes[j + 4]);
        F8 sum = add8(add8(lanes[0], lanes[1]), add8(lanes[2], lanes[3]));
        for (int64_t i = whole; i < fours; ++i) sum = add8(sum, mul8(load8(x + i * width + c), share));
        for (int64_t i = fours; i < n; ++i) sum = fma8(load8(x + i * width + c), share, sum);
        store8(y + c, sum);
    }
}

// As ggml's softmax of one row: eight at once by its own exponential, what is left over by the C library's.
void soft_max(const float* x, int64_t n, float* y) {
    const float largest = *std::max_element(x, x + n);
    double sum = 0.0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const F8 powers = exp8(sub8(load8(x + i), set8(largest)));
        store8(y + i, powers);
        sum += static_cast<double>(sum_lanes(powers));
    }
    for (; i < n; ++i) {
        y[i] = exp_nonpositive(x[i] - largest);
        sum += static_cast<double>(y[i]);
    }
    const float scale = static_cast<float>(1.0 / sum);
    for (i = 0; i < n; ++i) y[i] *= scale;
}

}  // namespace bankml::BANKML_ISA
