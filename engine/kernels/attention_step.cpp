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

HeadCache Graph::Attention::cache_of(Graph& graph, int64_t head) const {
    KvCache& cache = graph.cache_;
    const int64_t kv = head / (spec.n_head / cache.n_head_kv());
    return {cache.k(spec.layer, kv), cache.v(spec.layer, kv), cache.head()};
}

// Norms and rotates the new queries and keys, and writes the new keys and values into the cache.
void Graph::Attention::store(Graph& graph, const Batch& batch, int thread) {
    KvCache& cache = graph.cache_;
    const int64_t size = cache.head();
    const int64_t heads = spec.n_head + 2 * cache.n_head_kv();
    const auto turn = [&](float* x, const float* norm, int64_t i) {
        if (norm) graph.kernels_->rms_norm(x, norm, x, size, spec.norm_eps);
        graph.kernels_->rotate(x, graph.rope_row(i), graph.rope_.n_rot(), graph.rope_.neox());
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
            graph.kernels_->store_f16(k, cache.k(spec.layer, head) + position * size, size);
            continue;
        }
        head -= cache.n_head_kv();
        const float* v = graph.at(spec.v).row(i) + head * size;
        graph.kernels_->store_f16(v, cache.v(spec.layer, head) + position * size, size);
    }
}

// `heads` query heads that share a key/value head, for row i.
void Graph::Attention::run_row(Graph& graph, int64_t first_head, int64_t heads, int64_t i, int64_t position,
                               int thread) {
    const int64_t size = graph.cache_.head();
    float* y = graph.at(spec.output).row(i) + first_head * size;
    Partial* partials = graph.scratch_[static_cast<size_t>(thread)].heads.data();
    for (int64_t h = 0; h < heads; ++h) partials[h].values = y + h * size;
    const float* q = graph.at(spec.q).row(i) + first_head * size;
    graph.kernels_->attend_heads(cache_of(graph, first_head), q, heads, spec.scale, 0, position + 1, partials);
    for (int64_t h = 0; h < heads; ++h) {
        const float inverse = 1.0f / partials[h].sum;
        for (int64_t d = 0; d < size; ++d) partials[h].values[d] *= inverse;
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
    Partial* mine = graph.scratch_[static_cast<size_t>(thread)].heads.data();
    const int64_t group = spec.n_head / graph.cache_.n_head_kv();
    for (int64_t head = 0; head < spec.n_head; head += group) {
        for (int64_t h = 0; h < group; ++h) mine[h] = {-INFINITY, 0.0f, partial_of(thread, head + h) + 2};
        const float* q = graph.at(spec.q).row(0) + head * size;
        if (first < last) graph.kernels_->attend_heads(cache_of(graph, head), q, group, spec.scale, first, last, mine);
        for (int64_t h = 0; h < group; ++h) {
            float* partial = partial_of(thread, head + h);
            partial[0] = mine[h].max;
            partial[1] = mine[h].sum;
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
        const float inverse = 1.0f / sum;
        for (int64_t d = 0; d < size; ++d) y[d] *= inverse;
    }
}

void Graph::Attention::run_tiles(Graph& graph, const Batch& batch, int thread) {
    const int64_t size = graph.cache_.head();
    const int64_t ld = graph.width(spec.q);
    const int64_t tiles = ceil_div(batch.n, kTileRows);
    float* scratch = graph.scratch_[static_cast<size_t>(thread)].attention.as<float>();
    for (int64_t item = work.take(); item < tiles * spec.n_head; item = work.take()) {
        const int64_t head = item % spec.n_head;
        const int64_t i = (tiles - 1 - item / spec.n_head) * kTileRows;  // the longest rows first
        const int64_t rows = std::min(kTileRows, batch.n - i);
        graph.kernels_->attend_tile(cache_of(graph, head), graph.at(spec.q).row(i) + head * size,
                                    graph.at(spec.output).row(i) + head * size, ld, rows, batch.position + i,
                                    spec.scale, scratch);
    }
}

void Graph::Attention::run(Graph& graph, const Batch& batch, int thread) {
    store(graph, batch, thread);
    graph.pool_.barrier();
    const int64_t cells = std::min(round_up(batch.position + batch.n, kCellPadding), graph.cache_.n_ctx());
    if (batch.n == 1 && cells >= kSplitCells) {
        run_split(graph, batch.position, thread);
    } else if (batch.n >= kTileRows) {
        run_tiles(graph, batch, thread);
    } else {
        // Heads that share keys go together, save for a single row: there the threads need more, smaller items.
        const int64_t heads = batch.n == 1 ? 1 : spec.n_head / graph.cache_.n_head_kv();
        const int64_t groups = spec.n_head / heads;
        for (int64_t item = work.take(); item < batch.n * groups; item = work.take()) {
            const int64_t i = item / groups;
            run_row(graph, item % groups * heads, heads, i, batch.position + i, thread);
        }
    }
}

}  // namespace bankml
