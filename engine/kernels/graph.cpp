#include "graph.h"

#include <algorithm>
#include <stdexcept>

#include "steps.h"

namespace bankml {

Graph::Graph(const Kernels* kernels, int n_threads, int64_t n_rows, KvCache cache, Rope rope)
    : kernels_(kernels), pool_(n_threads), n_rows_(n_rows), cache_(std::move(cache)), rope_(std::move(rope)),
      passes_(1), scratch_(static_cast<size_t>(n_threads)),
      rope_table_(static_cast<size_t>(n_rows * rope_.n_rot()) * sizeof(float)) {}

Graph::~Graph() = default;

int Graph::buffer(int64_t width, bool single) {
    buffers_.push_back({width, single, Pages(static_cast<size_t>((single ? 1 : n_rows_) * width) * sizeof(float))});
    return static_cast<int>(buffers_.size()) - 1;
}

size_t Graph::next_pass() {
    passes_.emplace_back();
    return passes_.size() - 1;
}

void Graph::embed(const Matrix& table, int output) {
    auto step = std::make_unique<Embed>();
    step->table = table;
    step->output = output;
    passes_.back().push_back(std::move(step));
}

void Graph::rms_norm(int input, int output, const float* weight, float eps) {
    auto step = std::make_unique<Norm>();
    step->input = input;
    step->output = output;
    step->weight = weight;
    step->eps = eps;
    passes_.back().push_back(std::move(step));
}

void Graph::linear(const LinearSpec& spec) {
    const int64_t cols = spec.weights.at(0).cols;
    if (cols > max_cols_) {
        max_cols_ = cols;
        for (Scratch& s : scratch_) {
            s.row = Pages(static_cast<size_t>(cols) * sizeof(float));
            s.panel = Pages(panel_bytes(Activation::F32, 1, cols));
            s.unpacked = Pages(matmul_scratch_bytes(cols));
        }
    }
    const int64_t rows = (n_rows_ + kPanelRows - 1) / kPanelRows * kPanelRows;
    for (const Matrix& w : spec.weights) {
        if (is_interleaved(w.type, w.rows) && !w.packed) throw std::invalid_argument("the matrix is not packed");
        const Activation kind = activation_of(w, n_rows_);
        Pages& panels = panels_[static_cast<size_t>(kind)];
        panels = panels.size() >= panel_bytes(kind, rows, cols) ? std::move(panels)
                                                                : Pages(panel_bytes(kind, rows, cols));
    }
    auto step = std::make_unique<Linear>();
    step->spec = spec;
    passes_.back().push_back(std::move(step));
}

void Graph::attention(const AttentionSpec& spec) {
    if (spec.n_head > max_heads_) {
        max_heads_ = spec.n_head;
        for (Scratch& s : scratch_) {
            s.attention = Pages(attend_scratch_floats(cache_.head()) * sizeof(float));
            s.partials = Pages(static_cast<size_t>(spec.n_head * (2 + cache_.head())) * sizeof(float));
        }
    }
    auto step = std::make_unique<Attention>();
    step->spec = spec;
    passes_.back().push_back(std::move(step));
}

void Graph::fill_rope(const Batch& batch, int thread) {
    for (int64_t i = thread; i < batch.n; i += pool_.size()) {
        rope_.fill(batch.position + i, rope_table_.as<float>() + i * rope_.n_rot());
    }
}

void Graph::evaluate(const Batch& batch) {
    if (batch.n < 1 || batch.n > n_rows_ || batch.position < 0 || batch.position + batch.n > cache_.n_ctx()) {
        throw std::out_of_range("the micro-batch does not fit the context");
    }
    const auto& steps = passes_.at(batch.pass);
    for (auto& step : steps) step->work.next.store(0, std::memory_order_relaxed);
    pool_.run([&](int thread) {
        fill_rope(batch, thread);
        for (auto& step : steps) {
            if (!step->wanted(batch)) continue;
            step->run(*this, batch, thread);
            pool_.barrier();
        }
    });
}

}  // namespace bankml
