#include "steps.h"

#include <algorithm>

namespace bankml {
namespace {

constexpr int64_t kPanelCache = 256 * 1024;  // bytes of activations that stay in the second-level cache
constexpr int64_t kRowChunk = 32;      // weight rows taken at once in a product with many rows

// y += bias (+ residual) in columns first..last-1 of n rows, each at a multiple of ld.
void add_bias(float* y, const float* bias, const float* residual, int64_t ld, int64_t n, int64_t first, int64_t last) {
    for (int64_t i = 0; i < n; ++i) {
        float* row = y + i * ld;
        for (int64_t c = first; c < last; ++c) row[c] += bias[c];
        if (!residual) continue;
        for (int64_t c = first; c < last; ++c) row[c] += residual[i * ld + c];
    }
}

// Activation rows taken at once: as many as the cache holds, in whole panels and in threes for the floats.
int64_t batch_chunk(const bool (&kinds)[kActivations], int64_t cols) {
    size_t row_bytes = 0;
    for (size_t kind = 0; kind < kActivations; ++kind) {
        if (kinds[kind]) row_bytes = std::max(row_bytes, panel_bytes(static_cast<Activation>(kind), 1, cols));
    }
    return std::clamp<int64_t>(kPanelCache / static_cast<int64_t>(row_bytes), 36, 264) / 12 * 12;
}

}  // namespace

void Graph::Embed::run(Graph& graph, const Batch& batch, int thread) {
    for (int64_t i = thread; i < batch.n; i += graph.pool_.size()) {
        dequantize_row(table.type, table.row(batch.tokens[i]), graph.at(output).row(i), table.cols);
    }
}

void Graph::Norm::run(Graph& graph, const Batch& batch, int thread) {
    const int64_t width = graph.width(input);
    for (int64_t i = thread; i < batch.n; i += graph.pool_.size()) {
        graph.kernels_->rms_norm(graph.at(input).row(i), weight, graph.at(output).row(i), width, eps);
    }
}

// --- Linear -----------------------------------------------------------------------------------------------------

const float* Graph::Linear::prepare(Graph& graph, int64_t i, float* scratch) const {
    const float* x = graph.at(spec.input).row(i);
    const int64_t cols = spec.weights[0].cols;
    switch (spec.prologue) {
        case Prologue::None: return x;
        case Prologue::RmsNorm: graph.kernels_->rms_norm(x, spec.norm_weight, scratch, cols, spec.norm_eps); break;
        case Prologue::SwiGlu: graph.kernels_->swiglu(x, graph.at(spec.up).row(i), scratch, cols); break;
    }
    return scratch;
}

// One row: every thread prepares it for itself, which costs less than waiting for one that does.
void Graph::Linear::run_row(Graph& graph, int64_t i, int thread) {
    Scratch& scratch = graph.scratch_[static_cast<size_t>(thread)];
    const float* x = prepare(graph, i, scratch.row.as<float>());
    uint8_t* panel = scratch.panel.as<uint8_t>();
    int64_t total = 0;
    for (const Matrix& w : spec.weights) total += w.rows;
    const int64_t chunk = std::clamp<int64_t>(round_up(total / (graph.pool_.size() * 8), 8), 8, 256);

    int packed = -1;
    int64_t item = work.take();
    int64_t passed = 0;  // items of the matrices before this one
    for (size_t m = 0; m < spec.weights.size(); ++m) {
        const Matrix& w = spec.weights[m];
        const int64_t items = ceil_div(w.rows, chunk);
        const Activation kind = activation_of(w, 1);
        for (; item < passed + items; item = work.take()) {
            if (packed != static_cast<int>(kind)) {
                graph.kernels_->pack_row(activation_of_row(kind, 0, 1), x, w.cols, 0, 1, panel);
                packed = static_cast<int>(kind);
            }
            const int64_t first = (item - passed) * chunk;
            const int64_t last = std::min(first + chunk, w.rows);
            const float* residual = spec.residual >= 0 ? graph.at(spec.residual).row(i) : nullptr;
            float* y = graph.at(spec.outputs[m]).row(i);
            const std::vector<float>& bias = spec.biases[m];
            graph.kernels_->matvec(w, panel, y, bias.empty() ? residual : nullptr, first, last);
            if (!bias.empty()) add_bias(y, bias.data(), residual, w.rows, 1, first, last);
        }
        passed += items;
    }
}

void Graph::Linear::run_rows(Graph& graph, int64_t n, int thread) {
    Scratch& scratch = graph.scratch_[static_cast<size_t>(thread)];
    const int64_t cols = spec.weights[0].cols;
    bool kinds[kActivations] = {};
    for (const Matrix& w : spec.weights) kinds[static_cast<size_t>(activation_of(w, n))] = true;
    for (int64_t i = thread; i < n; i += graph.pool_.size()) {
        const float* x = prepare(graph, i, scratch.row.as<float>());
        for (size_t kind = 0; kind < kActivations; ++kind) {
            if (!kinds[kind]) continue;
            const Activation activation = static_cast<Activation>(kind);
            const int64_t panel = i / kPanelRows;
            uint8_t* at = graph.panels_[kind].as<uint8_t>() +
                          static_cast<size_t>(panel) * panel_bytes(activation, kPanelRows, cols);
            graph.kernels_->pack_row(activation_of_row(activation, i, n), x, cols, i % kPanelRows, kPanelRows, at);
        }
    }
    graph.pool_.barrier();

    const int64_t chunk = batch_chunk(kinds, cols);
    const int64_t chunks = ceil_div(n, chunk);
    int64_t item = work.take();
    int64_t passed = 0;
    for (int64_t c = 0; c < chunks; ++c) {
        const int64_t first_row = c * chunk;
        const int64_t rows = std::min(chunk, n - first_row);
        for (size_t m = 0; m < spec.weights.size(); ++m) {
            const Matrix& w = spec.weights[m];
            const Activation kind = activation_of(w, n);
            const uint8_t* panels = graph.panels_[static_cast<size_t>(kind)].as<uint8_t>() +
                                    static_cast<size_t>(first_row / kPanelRows) * panel_bytes(kind, kPanelRows, cols);
            const int64_t items = ceil_div(w.rows, kRowChunk);
            for (; item < passed + items; item = work.take()) {
                const int64_t first = (item - passed) * kRowChunk;
                const int64_t last = std::min(first + kRowChunk, w.rows);
                float* y = graph.at(spec.outputs[m]).row(first_row);
                const float* residual = spec.residual >= 0 ? graph.at(spec.residual).row(first_row) : nullptr;
                const std::vector<float>& bias = spec.biases[m];
                graph.kernels_->matmul({w, panels, y, bias.empty() ? residual : nullptr, w.rows, rows, n, first, last,
                                        scratch.unpacked.as<uint8_t>()});
                if (!bias.empty()) add_bias(y, bias.data(), residual, w.rows, rows, first, last);
            }
            passed += items;
        }
    }
}

void Graph::Linear::run(Graph& graph, const Batch& batch, int thread) {
    if (spec.last_row || batch.n == 1) {
        run_row(graph, batch.n - 1, thread);
    } else {
        run_rows(graph, batch.n, thread);
    }
}

}  // namespace bankml
