// A model's forward passes as lists of steps over row buffers, walked by a thread pool.
//
// The lists are written once, by engine/graph.py, from what engine/architectures/ describes. A step is already fused
// where fusing changes no bit: a product takes the norm before it and the residual after it along. All passes share the
// buffers and the KV cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels.h"
#include "kv_cache.h"
#include "pages.h"
#include "rope.h"
#include "thread_pool.h"

namespace bankml {

// A micro-batch: n tokens at positions position..position+n-1, to take through one pass. With `output`, the last row's
// logits are wanted.
struct Batch {
    const int32_t* tokens;
    int64_t n;
    int64_t position;
    bool output;
    size_t pass = 0;
};

// What a product's input goes through first.
enum class Prologue { None, RmsNorm, SwiGlu };

struct LinearSpec {
    int input;                         // buffer
    Prologue prologue = Prologue::None;
    const float* norm_weight = nullptr;  // RmsNorm
    float norm_eps = 0.0f;               // RmsNorm
    int up = -1;                         // SwiGlu: input is the gate, this the other factor
    std::vector<Matrix> weights;         // all of the same number of columns
    std::vector<std::vector<float>> biases;  // one a weight, empty for none; added before the residual
    std::vector<int> outputs;            // one buffer a weight
    int residual = -1;                   // added to the only output
    bool last_row = false;               // only for the row whose logits are wanted
};

struct AttentionSpec {
    int layer;
    int q, k, v, output;  // buffers
    int64_t n_head;
    float scale;
    const float* q_norm = nullptr;  // weights of a norm of every query head, before it is rotated
    const float* k_norm = nullptr;  // and of every key head
    float norm_eps = 0.0f;
};

class Graph {
  public:
    // n_rows: the largest micro-batch. kernels outlives the graph, as does every weight.
    Graph(const Kernels* kernels, int n_threads, int64_t n_rows, KvCache cache, Rope rope);
    ~Graph();

    // A new buffer of n_rows rows, or (single) of the one row whose logits are wanted.
    int buffer(int64_t width, bool single);
    // The steps from here on are those of another pass; returns its number. Those before the first call are pass 0.
    size_t next_pass();
    void embed(const Matrix& table, int output);
    // Every row of `output` is that of `input`, normed.
    void rms_norm(int input, int output, const float* weight, float eps);
    void linear(const LinearSpec& spec);
    void attention(const AttentionSpec& spec);

    void evaluate(const Batch& batch);
    const float* row(int buffer, int64_t i) const { return buffers_[static_cast<size_t>(buffer)].row(i); }
    int64_t width(int buffer) const { return buffers_[static_cast<size_t>(buffer)].width; }
    int64_t n_rows() const { return n_rows_; }
    int64_t n_ctx() const { return cache_.n_ctx(); }
    size_t cache_bytes() const { return cache_.size(); }
    const KvCache& cache() const { return cache_; }
    KvCache& cache() { return cache_; }

  private:
    struct Buffer {
        int64_t width;
        bool single;
        Pages pages;
        float* row(int64_t i) const { return pages.as<float>() + (single ? 0 : i * width); }
    };
    // A counter from which threads take the items of a phase; its own cache line.
    struct alignas(64) Work {
        std::atomic<int64_t> next{0};
        int64_t take() { return next.fetch_add(1, std::memory_order_relaxed); }
    };
    struct Step {
        virtual ~Step() = default;
        virtual void run(Graph& graph, const Batch& batch, int thread) = 0;
        virtual bool wanted(const Batch&) const { return true; }
        Work work;
    };
    struct Embed;
    struct Norm;
    struct Linear;
    struct Attention;
    // What a thread works in, sized for the widest step.
    struct Scratch {
        Pages row;        // floats: a row after its prologue
        Pages panel;      // a panel of one activation row
        Pages unpacked;   // a group of weight rows
        Pages attention;  // of attend_tile and attend_rows
        Pages partials;   // [head][2 + head size] of one stretch of a long context
        Query queries[kQueries];
    };

    Buffer& at(int buffer) { return buffers_[static_cast<size_t>(buffer)]; }
    void fill_rope(const Batch& batch, int thread);
    const float* rope_row(int64_t i) const { return rope_table_.as<float>() + i * rope_.n_rot(); }

    const Kernels* kernels_;
    ThreadPool pool_;
    const int64_t n_rows_;
    KvCache cache_;
    Rope rope_;
    std::vector<Buffer> buffers_;
    std::vector<std::vector<std::unique_ptr<Step>>> passes_;
    std::vector<Scratch> scratch_;
    Pages panels_[kActivations];
    Pages rope_table_;   // [n_rows][n_rot]: cosine, sine, cosine, ...
    int64_t max_cols_ = 0;
    int64_t max_heads_ = 0;
};

}  // namespace bankml
