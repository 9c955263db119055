// The steps of a graph.
#pragma once

#include "graph.h"

namespace bankml {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

struct Graph::Embed final : Graph::Step {
    Matrix table;
    int output;

    void run(Graph& graph, const Batch& batch, int thread) override;
};

struct Graph::Norm final : Graph::Step {
    int input;
    int output;
    const float* weight;
    float eps;

    void run(Graph& graph, const Batch& batch, int thread) override;
};

struct Graph::Linear final : Graph::Step {
    LinearSpec spec;

    void run(Graph& graph, const Batch& batch, int thread) override;
    bool wanted(const Batch& batch) const override { return batch.output || !spec.last_row; }

  private:
    // Input row i after the prologue; in `scratch` unless there is none.
    const float* prepare(Graph& graph, int64_t i, float* scratch) const;
    void run_row(Graph& graph, int64_t i, int thread);
    void run_rows(Graph& graph, int64_t n, int thread);
};

struct Graph::Attention final : Graph::Step {
    AttentionSpec spec;

    void run(Graph& graph, const Batch& batch, int thread) override;

  private:
    void store(Graph& graph, const Batch& batch, int thread);
    void finish(const Graph& graph, float* values, float sum) const;
    void run_queries(Graph& graph, const Batch& batch, int64_t first, int64_t last, int thread);
    void run_rows(Graph& graph, const Batch& batch, int thread);
    void run_split(Graph& graph, int64_t position, int thread);
    void run_tiles(Graph& graph, const Batch& batch, int thread);
};

}  // namespace bankml
