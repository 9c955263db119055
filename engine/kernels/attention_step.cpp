// How the graph runs attention: which kernel by shape, and who computes what.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "expf.h"
#include "steps.h"

namespace bankml {
namespace {

constexpr int64_t kTileRows = 64;      // from so many query rows on, ggml's tiled attention
constexpr int64_t kSplitCells = 512;   // from so many cells on, one query row is split over the threads
constexpr int64_t kCellPadding = 256;  // ggml sees the cache in steps of so many cells

}  // namespace

// Norms, rotates and, for a quantized cache, transforms what is new, and writes the new keys and values into the cache.
void Graph::Attention::store(Graph& graph, const Batch& batch, int thread) {
    const Kernels& kernels = *graph.kernels_;
    KvCache& cache = graph.cache_;
    const int64_t size = cache.head();
    const auto transform = [&](float* x, int64_t width) {
        if (width != 0) kernels.hadamard(x, width, size);
    };
    const int64_t heads = spec.n_head + 2 * cache.n_head_kv();
    const auto turn = [&](float* x, const float* norm, int64_t i) {
        if (norm) kernels.rms_norm(x, norm, x, size, spec.norm_eps);
        kernels.rotate(x, graph.rope_row(i), graph.rope_.n_rot(), graph.rope_.neox());
        transform(x, cache.k_hadamard());
    };
    for (int64_t item = thread; item < batch.n * heads; item += graph.pool_.size()) {
        const int64_t i = item / heads;
        const int64_t position = batch.position + i;
        int64_t head = item % heads;
        if (head < spec.n_head) {
            turn(graph.at(spec.q).row(i) + head * size, spec.q_norm, i);
            continue;
        }
        head -= spec.n_head;
        if (head < cache.n_head_kv()) {
            float* k = graph.at(spec.k).row(i) + head * size;
            turn(k, spec.k_norm, i);
            cache.store_k(kernels, spec.layer, head, position, k);
            continue;
        }
        head -= cache.n_head_kv();
        float* v = graph.at(spec.v).row(i) + head * size;
        transform(v, cache.v_hadamard());
        cache.store_v(kernels, spec.layer, head, position, v);
    }
}

// What the softmax has gathered, divided by the sum of its weights, becomes the head's output.
void Graph::Attention::finish(const Graph& graph, float* values, float sum) const {
    const int64_t size = graph.cache_.head();
    const float inverse = 1.0f / sum;
    for (int64_t d = 0; d < size; ++d) values[d] *= inverse;
    const int64_t width = graph.cache_.v_hadamard();
    if (width != 0) graph.kernels_->hadamard(values, width, size);
}

// The queries first..last-1 of a batch, counted so that those of one key/value head are neighbours.
void Graph::Attention::run_queries(Graph& graph, const Batch& batch, int64_t first, int64_t last, int thread) {
    const int64_t size = graph.cache_.head();
    const int64_t group = spec.n_head / graph.cache_.n_head_kv();
    Scratch& scratch = graph.scratch_[static_cast<size_t>(thread)];
    while (first < last) {
        const int64_t kv = first / (batch.n * group);
        const int64_t n = std::min(std::min(last, (kv + 1) * batch.n * group) - first, kQueries);
        for (int64_t j = 0; j < n; ++j) {
            const int64_t i = (first + j) / group % batch.n;
            const int64_t at = (kv * group + (first + j) % group) * size;
            scratch.queries[j].q = graph.at(spec.q).row(i) + at;
            scratch.queries[j].values = graph.at(spec.output).row(i) + at;
            scratch.queries[j].last = batch.position + i + 1;
        }
        graph.kernels_->attend_rows(graph.cache_.at(spec.layer, kv), scratch.queries, n, spec.scale, 0,
                                    scratch.attention.as<float>());
        for (int64_t j = 0; j < n; ++j) finish(graph, scratch.queries[j].values, scratch.queries[j].sum);
        first += n;
    }
}

// A few rows. A single one is cut into as many parts as there are threads, more rows into parts that balance.
void Graph::Attention::run_rows(Graph& graph, const Batch& batch, int thread) {
    const int64_t group = spec.n_head / graph.cache_.n_head_kv();
    const int64_t total = batch.n * spec.n_head;
    const int64_t n_threads = graph.pool_.size();
    const int64_t most = std::max(kQueries / group, int64_t{1}) * group;
    const int64_t part = batch.n == 1 ? ceil_div(total, n_threads)
                                      : std::min(round_up(ceil_div(total, 4 * n_threads), group), most);
    for (int64_t first = work.take() * part; first < total; first = work.take() * part) {
        run_queries(graph, batch, first, std::min(first + part, total), thread);
    }
}

// One row over a long context: each thread takes a stretch of the cells, then the stretches are merged in order. The
// stretches, and so the bits, depend on the number of threads, as ggml's do.
void Graph::Attention::run_split(Graph& graph, int64_t position, int thread) {
    const int64_t size = graph.cache_.head();
    const int64_t n_threads = graph.pool_.size();
    const int64_t cells = std::min(round_up(position + 1, kCellPadding), graph.cache_.n_ctx());
    const int64_t stretch = ceil_div(cells, n_threads);
    const auto partial_of = [&](int64_t t, int64_t head) {
        return graph.scratch_[static_cast<size_t>(t)].partials.as<float>() + head * (2 + size);
    };
    const int64_t first = thread * stretch;
    const int64_t last = std::min(std::min(first + stretch, cells), position + 1);
    Scratch& scratch = graph.scratch_[static_cast<size_t>(thread)];
    const int64_t group = spec.n_head / graph.cache_.n_head_kv();
    for (int64_t head = 0; head < spec.n_head;) {
        const int64_t n = std::min(group - head % group, kQueries);
        for (int64_t j = 0; j < n; ++j) {
            const float* q = graph.at(spec.q).row(0) + (head + j) * size;
            scratch.queries[j] = {q, last, partial_of(thread, head + j) + 2, 0.0f, 0.0f};
        }
        graph.kernels_->attend_rows(graph.cache_.at(spec.layer, head / group), scratch.queries, n, spec.scale, first,
                                    scratch.attention.as<float>());
        for (int64_t j = 0; j < n; ++j, ++head) {
            partial_of(thread, head)[0] = scratch.queries[j].max;
            partial_of(thread, head)[1] = scratch.queries[j].sum;
        }
    }
    graph.pool_.barrier();

    for (int64_t head = thread; head < spec.n_head; head += n_threads) {
        float* y = graph.at(spec.output).row(0) + head * size;
        std::memset(y, 0, static_cast<size_t>(size) * sizeof(float));
        float max = -INFINITY;
        float sum = 0.0f;
        for (int64_t t = 0; t < n_threads; ++t) {
            const float* partial = partial_of(t, head);
            if (partial[1] == 0.0f) continue;
            const float new_max = fmaxf(max, partial[0]);
            const float keep = exp_nonpositive(max - new_max);
            const float add = exp_nonpositive(partial[0] - new_max);
            for (int64_t d = 0; d < size; ++d) y[d] = std::fma(y[d], keep, partial[2 + d] * add);
            sum = std::fma(sum, keep, partial[1] * add);
            max = new_max;
        }
        finish(graph, y, sum);
    }
}

void Graph::Attention::run_tiles(Graph& graph, const Batch& batch, int thread) {
    const int64_t size = graph.cache_.head();
    const int64_t ld = graph.width(spec.q);
    const int64_t group = spec.n_head / graph.cache_.n_head_kv();
    const int64_t tiles = ceil_div(batch.n, kTileRows);
    float* scratch = graph.scratch_[static_cast<size_t>(thread)].attention.as<float>();
    for (int64_t item = work.take(); item < tiles * spec.n_head; item = work.take()) {
        const int64_t head = item % spec.n_head;
        const int64_t i = (tiles - 1 - item / spec.n_head) * kTileRows;  // the longest rows first
        const int64_t rows = std::min(kTileRows, batch.n - i);
        graph.kernels_->attend_tile(graph.cache_.at(spec.layer, head / group), graph.at(spec.q).row(i) + head * size,
                                    graph.at(spec.output).row(i) + head * size, ld, rows, batch.position + i,
                                    spec.scale, scratch);
    }
}

// ggml's choice: a cache that is not all half precision always takes the row kernel, unsplit.
void Graph::Attention::run(Graph& graph, const Batch& batch, int thread) {
    store(graph, batch, thread);
    graph.pool_.barrier();
    const int64_t cells = std::min(round_up(batch.position + batch.n, kCellPadding), graph.cache_.n_ctx());
    if (graph.cache_.is_half() && batch.n == 1 && cells >= kSplitCells) {
        run_split(graph, batch.position, thread);
    } else if (graph.cache_.is_half() && batch.n >= kTileRows) {
        run_tiles(graph, batch, thread);
    } else {
        run_rows(graph, batch, thread);
    }
}

}  // namespace bankml
