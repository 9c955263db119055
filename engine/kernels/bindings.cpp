// Where the compiled kernels meet Python, tokenizers in bindings_tokenizers.cpp, files in
// bindings_files.cpp. Each section binds one header; no work
// is done here.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "graph.h"
#include "packing.h"
#include "sampler.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace nb = nanobind;

// --- sampler.h: the sampler chain -------------------------------------------------------------------------------

namespace {

using LogitsRow = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void bind_sampler(nb::module_ & m) {
    using bankml::InfillVocabulary;
    using bankml::SamplerChain;
    using bankml::SamplerParams;
    nb::enum_<bankml::Stage>(m, "Stage")
        .value("PENALTIES", bankml::Stage::Penalties)
        .value("DRY", bankml::Stage::Dry)
        .value("TOP_N_SIGMA", bankml::Stage::TopNSigma)
        .value("TOP_K", bankml::Stage::TopK)
        .value("TYP_P", bankml::Stage::Typical)
        .value("TOP_P", bankml::Stage::TopP)
        .value("MIN_P", bankml::Stage::MinP)
        .value("XTC", bankml::Stage::Xtc)
        .value("TEMPERATURE", bankml::Stage::Temperature)
        .value("INFILL", bankml::Stage::Infill);
    nb::enum_<bankml::Ending>(m, "Ending")
        .value("PLAIN", bankml::Ending::Plain)
        .value("ADAPTIVE_P", bankml::Ending::AdaptiveP)
        .value("MIROSTAT", bankml::Ending::Mirostat)
        .value("MIROSTAT_V2", bankml::Ending::MirostatV2);
    nb::class_<SamplerParams>(m, "SamplerParams")
        .def(nb::init<>())
        .def_rw("seed", &SamplerParams::seed)
        .def_rw("min_keep", &SamplerParams::min_keep)
        .def_rw("top_k", &SamplerParams::top_k)
        .def_rw("top_p", &SamplerParams::top_p)
        .def_rw("min_p", &SamplerParams::min_p)
        .def_rw("typical_p", &SamplerParams::typical_p)
        .def_rw("top_n_sigma", &SamplerParams::top_n_sigma)
        .def_rw("xtc_probability", &SamplerParams::xtc_probability)
        .def_rw("xtc_threshold", &SamplerParams::xtc_threshold)
        .def_rw("temperature", &SamplerParams::temperature)
        .def_rw("dynatemp_range", &SamplerParams::dynatemp_range)
        .def_rw("dynatemp_exponent", &SamplerParams::dynatemp_exponent)
        .def_rw("repeat_last_n", &SamplerParams::repeat_last_n)
        .def_rw("repeat_penalty", &SamplerParams::repeat_penalty)
        .def_rw("frequency_penalty", &SamplerParams::frequency_penalty)
        .def_rw("presence_penalty", &SamplerParams::presence_penalty)
        .def_rw("dry_multiplier", &SamplerParams::dry_multiplier)
        .def_rw("dry_base", &SamplerParams::dry_base)
        .def_rw("dry_allowed_length", &SamplerParams::dry_allowed_length)
        .def_rw("dry_penalty_last_n", &SamplerParams::dry_penalty_last_n)
        .def_rw("mirostat_tau", &SamplerParams::mirostat_tau)
        .def_rw("mirostat_eta", &SamplerParams::mirostat_eta)
        .def_rw("adaptive_target", &SamplerParams::adaptive_target)
        .def_rw("adaptive_decay", &SamplerParams::adaptive_decay)
        .def_rw("stages", &SamplerParams::stages)
        .def_rw("ending", &SamplerParams::ending);
    nb::class_<InfillVocabulary>(m, "InfillVocabulary")
        .def(
            "__init__",
            [](InfillVocabulary * self, const std::vector<nb::bytes> & pieces, const std::vector<bankml::Token> & ending,
               bankml::Token end) {
                std::vector<std::string> texts;
                texts.reserve(pieces.size());
                for (const nb::bytes & piece : pieces) {
                    texts.emplace_back(piece.c_str(), piece.size());
                }
                new (self) InfillVocabulary(texts, ending, end);
            },
            nb::arg("pieces"), nb::arg("ending"), nb::arg("end"));
    nb::class_<SamplerChain>(m, "SamplerChain")
        .def(nb::init<const SamplerParams &, int32_t, std::vector<std::pair<bankml::Token, float>>,
                      const std::vector<bankml::Breaker> &, bool, std::shared_ptr<const InfillVocabulary>>(),
             nb::arg("params"), nb::arg("n_vocab"), nb::arg("bias"), nb::arg("breakers"), nb::arg("keep_candidates"),
             nb::arg("infill") = nb::none())
        .def("accept", &SamplerChain::accept, nb::arg("token"))
        .def(
            "accept_many",
            [](SamplerChain & chain, const std::vector<bankml::Token> & tokens) {
                for (const bankml::Token token : tokens) {
                    chain.accept(token);
                }
            },
            nb::arg("tokens"))
        .def(
            "sample",
            [](SamplerChain & chain, const LogitsRow & logits) {
                if (logits.size() != static_cast<size_t>(chain.n_vocab())) {
                    throw nb::value_error("one row of n_vocab logits is needed");
                }
                const nb::gil_scoped_release unlocked;
                return chain.sample(logits.data());
            },
            nb::arg("logits"))
        .def(
            "probabilities",
            [](const SamplerChain & chain, size_t n_best, bankml::Token token) {
                const auto found = chain.probabilities(n_best, token);
                return std::tuple(found.p, found.logprob, found.best);
            },
            nb::arg("n_best"), nb::arg("token"))
        .def("candidates", [](const SamplerChain & chain) {
            std::vector<std::tuple<bankml::Token, float, float>> out;
            for (const auto & [id, logit, p] : chain.candidates()) {
                out.emplace_back(id, logit, p);
            }
            return out;
        });
    m.def(
        "probabilities",
        [](const LogitsRow & logits, size_t n_best, bankml::Token token) {
            if (logits.size() == 0 || n_best == 0) throw nb::value_error("no logits, or none asked for");
            const auto found =
                bankml::probabilities_of(logits.data(), static_cast<int32_t>(logits.size()), n_best, token);
            return std::tuple(found.p, found.logprob, found.best);
        },
        nb::arg("logits"), nb::arg("n_best"), nb::arg("token"));
}

}  // namespace

// --- graph.h: the forward pass ---------------------------------------------------------------------------------

namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using FloatRows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Tokens = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

const bankml::Kernels * kernels_for(const std::string & isa) {
    const bankml::Kernels * kernels = bankml::select_kernels(isa.c_str());
    if (kernels == nullptr) throw nb::value_error("these kernels do not run on this processor");
    return kernels;
}

void bind_matrix(nb::module_ & m) {
    using bankml::Arena;
    using bankml::Matrix;
    nb::class_<Arena>(m, "Arena").def(nb::init<size_t>(), nb::arg("bytes"));
    nb::class_<Matrix>(m, "Matrix")
        .def(
            "__init__",
            [](Matrix * self, uint32_t type, const Bytes & data, int64_t rows, int64_t cols) {
                const bankml::Type known = static_cast<bankml::Type>(type);
                const bankml::BlockSize block = bankml::block_size(known);
                if (block.weights == 0) throw nb::value_error("no kernel for this type");
                const size_t bytes = static_cast<size_t>(cols / block.weights * block.bytes);
                if (cols % bankml::kBlock != 0 || cols % block.weights != 0 ||
                    data.size() != bytes * static_cast<size_t>(rows)) {
                    throw nb::value_error("the data does not have the size of this matrix");
                }
                new (self) Matrix{known, data.data(), rows, cols, bytes};
            },
            nb::arg("type"), nb::arg("data"), nb::arg("rows"), nb::arg("cols"), nb::keep_alive<1, 3>())
        .def_prop_ro("packed_bytes", [](const Matrix & w) { return bankml::packed_bytes(w.type, w.rows, w.cols); })
        .def_ro("rows", &Matrix::rows)
        .def_ro("cols", &Matrix::cols);
    m.def(
        "pack",
        [](const nb::list & list, const nb::typed<nb::object, Arena> & owner, int n_threads) {
            std::vector<Matrix *> matrices;
            for (const nb::handle item : list) {
                matrices.push_back(nb::cast<Matrix *>(item));
                nb::keep_alive_obj(item, owner);
            }
            Arena & arena = nb::cast<Arena &>(owner);
            const nb::gil_scoped_release unlocked;
            arena.pack(*kernels_for(""), matrices, n_threads);
        },
        nb::arg("matrices"), nb::arg("arena"), nb::arg("n_threads") = 1);
}

using State = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstState = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void check_state(const bankml::Graph & graph, int64_t n, size_t bytes) {
    if (n < 0 || n > graph.n_ctx() || bytes != graph.cache().state_bytes(n)) {
        throw nb::value_error("the state of n positions has state_bytes(n) bytes");
    }
}


void bind_graph(nb::module_ & m) {
    using bankml::Graph;
    using bankml::Matrix;
    using bankml::RopeSpec;
    nb::class_<RopeSpec>(m, "Rope")
        .def(
            "__init__",
            [](RopeSpec * self, int64_t n_rot, bool neox, float freq_base, float freq_scale, bool yarn,
               int64_t n_ctx_orig, float attn_factor, std::vector<float> freq_factors) {
                if (n_rot < 0 || n_rot % 2 != 0) throw nb::value_error("dimensions turn in pairs");
                if (!freq_factors.empty() && static_cast<int64_t>(freq_factors.size()) != n_rot / 2) {
                    throw nb::value_error("one factor a pair is needed");
                }
                new (self) RopeSpec{n_rot,      neox,        freq_base, freq_scale, yarn,
                                    n_ctx_orig, attn_factor, std::move(freq_factors)};
            },
            nb::kw_only(), nb::arg("n_rot"), nb::arg("neox") = false, nb::arg("freq_base") = 10000.0f,
            nb::arg("freq_scale") = 1.0f, nb::arg("yarn") = false, nb::arg("n_ctx_orig") = 0,
            nb::arg("attn_factor") = 1.0f, nb::arg("freq_factors") = std::vector<float>())
        .def(
            "table",
            [](const RopeSpec & spec, int64_t n) {
                float * rows = new float[static_cast<size_t>(n * spec.n_rot)];
                const nb::capsule owner(rows, [](void * p) noexcept { delete[] static_cast<float *>(p); });
                const bankml::Rope rope(spec);
                for (int64_t i = 0; i < n; ++i) rope.fill(i, rows + i * spec.n_rot);
                return nb::ndarray<nb::numpy, float, nb::ndim<2>>(
                    rows, {static_cast<size_t>(n), static_cast<size_t>(spec.n_rot)}, owner);
            },
            nb::arg("n"));
    nb::class_<Graph>(m, "Graph")
        .def(
            "__init__",
            [](Graph * self, const std::string & isa, int n_threads, int64_t n_rows, int64_t n_ctx, int64_t n_layer,
               int64_t n_head_kv, int64_t head_size, const bankml::RopeSpec & rope, uint32_t k_type, uint32_t v_type) {
                const bankml::Type keys = static_cast<bankml::Type>(k_type);
                const bankml::Type values = static_cast<bankml::Type>(v_type);
                if (!bankml::is_cache_type(keys, head_size) || !bankml::is_cache_type(values, head_size)) {
                    throw nb::value_error("the cache cannot hold heads of this size in this type");
                }
                new (self) Graph(kernels_for(isa), n_threads, n_rows,
                                 bankml::KvCache(keys, values, n_layer, n_head_kv, head_size, n_ctx),
                                 bankml::Rope(rope));
            },
            nb::arg("isa"), nb::arg("n_threads"), nb::arg("n_rows"), nb::arg("n_ctx"), nb::arg("n_layer"),
            nb::arg("n_head_kv"), nb::arg("head_size"), nb::arg("rope"), nb::kw_only(),
            nb::arg("k_type") = static_cast<uint32_t>(bankml::Type::F16),
            nb::arg("v_type") = static_cast<uint32_t>(bankml::Type::F16))
        .def_prop_ro("cache_bytes", &Graph::cache_bytes)
        .def("state_bytes", [](const Graph & graph, int64_t n) { return graph.cache().state_bytes(n); }, nb::arg("n"))
        .def(
            "save_state",
            [](const Graph & graph, int64_t n, const State & state) {
                check_state(graph, n, state.size());
                const nb::gil_scoped_release unlocked;
                graph.cache().save(n, state.data());
            },
            nb::arg("n"), nb::arg("state"))
        .def(
            "restore_state",
            [](Graph & graph, int64_t n, const ConstState & state) {
                check_state(graph, n, state.size());
                const nb::gil_scoped_release unlocked;
                graph.cache().restore(n, state.data());
            },
            nb::arg("n"), nb::arg("state"))
        .def("buffer", &Graph::buffer, nb::arg("width"), nb::arg("single"))
        .def("next_pass", &Graph::next_pass)
        .def("embed", &Graph::embed, nb::arg("table"), nb::arg("output"), nb::keep_alive<1, 2>())
        .def(
            "rms_norm",
            [](Graph & graph, int input, int output, const Floats & weight, float eps) {
                if (static_cast<int64_t>(weight.size()) != graph.width(input)) {
                    throw nb::value_error("a norm has a weight a column");
                }
                graph.rms_norm(input, output, weight.data(), eps);
            },
            nb::arg("input"), nb::arg("output"), nb::arg("weight"), nb::arg("eps"), nb::keep_alive<1, 4>())
        .def(
            "linear",
            [](Graph & graph, int input, std::vector<Matrix> weights, std::vector<int> outputs,
               const std::vector<std::optional<Floats>> & biases, const std::optional<Floats> & norm_weight,
               float norm_eps, int up, int residual, bool last_row) {
                bankml::LinearSpec spec;
                spec.input = input;
                spec.biases.resize(weights.size());
                for (size_t i = 0; i < biases.size(); ++i) {
                    if (!biases[i]) continue;
                    const float * values = biases[i]->data();
                    if (static_cast<int64_t>(biases[i]->size()) != weights.at(i).rows) {
                        throw nb::value_error("a bias has a value a row of its weight");
                    }
                    spec.biases[i].assign(values, values + biases[i]->size());
                }
                spec.weights = std::move(weights);
                spec.outputs = std::move(outputs);
                if (norm_weight) {
                    spec.prologue = bankml::Prologue::RmsNorm;
                    spec.norm_weight = norm_weight->data();
                    spec.norm_eps = norm_eps;
                } else if (up >= 0) {
                    spec.prologue = bankml::Prologue::SwiGlu;
                    spec.up = up;
                }
                spec.residual = residual;
                spec.last_row = last_row;
                graph.linear(spec);
            },
            nb::arg("input"), nb::arg("weights"), nb::arg("outputs"), nb::kw_only(),
            nb::arg("biases") = std::vector<std::optional<Floats>>(), nb::arg("norm_weight") = nb::none(), nb::arg("norm_eps") = 0.0f, nb::arg("up") = -1,
            nb::arg("residual") = -1, nb::arg("last_row") = false, nb::keep_alive<1, 3>(), nb::keep_alive<1, 6>())
        .def(
            "attention",
            [](Graph & graph, int layer, int q, int k, int v, int output, int64_t n_head, float scale,
               const std::optional<Floats> & q_norm, const std::optional<Floats> & k_norm, float norm_eps) {
                graph.attention({layer, q, k, v, output, n_head, scale, q_norm ? q_norm->data() : nullptr,
                                 k_norm ? k_norm->data() : nullptr, norm_eps});
            },
            nb::arg("layer"), nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("output"), nb::arg("n_head"),
            nb::arg("scale"), nb::kw_only(), nb::arg("q_norm") = nb::none(), nb::arg("k_norm") = nb::none(),
            nb::arg("norm_eps") = 0.0f, nb::keep_alive<1, 9>(), nb::keep_alive<1, 10>())
        .def(
            "evaluate",
            [](Graph & graph, const Tokens & tokens, int64_t position, bool output, size_t pass) {
                const nb::gil_scoped_release unlocked;
                graph.evaluate({tokens.data(), static_cast<int64_t>(tokens.size()), position, output, pass});
            },
            nb::arg("tokens"), nb::arg("position"), nb::arg("output"), nb::arg("pass_number") = 0)
        .def(
            "row",
            [](const Graph & graph, int buffer, int64_t i) {
                return nb::ndarray<nb::numpy, const float, nb::ndim<1>>(
                    graph.row(buffer, i), {static_cast<size_t>(graph.width(buffer))}, nb::handle());
            },
            nb::arg("buffer"), nb::arg("i"), nb::rv_policy::reference_internal)
        .def(
            "rows",
            [](const Graph & graph, int buffer, int64_t n) {
                if (n < 1 || n > graph.n_rows()) throw nb::index_error("a buffer has n_rows rows");
                return nb::ndarray<nb::numpy, const float, nb::ndim<2>>(
                    graph.row(buffer, 0), {static_cast<size_t>(n), static_cast<size_t>(graph.width(buffer))},
                    nb::handle());
            },
            nb::arg("buffer"), nb::arg("n"), nb::rv_policy::reference_internal);
}

// One operation at a time, for the tests that compare each with the reference.
void bind_operations(nb::module_ & m) {
    using bankml::Matrix;
    m.def(
        "multiply",
        [](const std::string & isa, Matrix w, const FloatRows & x) {
            const bankml::Kernels * kernels = kernels_for(isa);
            std::vector<uint8_t> packed;
            if (w.packed == nullptr && bankml::is_interleaved(w.type, w.rows)) {
                packed.resize(bankml::packed_bytes(w.type, w.rows, w.cols));
                kernels->pack(w, packed.data());
                w.packed = packed.data();
            }
            const int64_t n = static_cast<int64_t>(x.shape(0));
            if (static_cast<int64_t>(x.shape(1)) != w.cols) throw nb::value_error("rows of w.cols floats are needed");
            const bankml::Activation kind = bankml::activation_of(w, n);
            const int64_t rows = n == 1 ? 1 : bankml::kPanelRows;
            const size_t bytes = bankml::panel_bytes(kind, rows, w.cols);
            std::vector<uint8_t> panels(bytes * static_cast<size_t>((n + rows - 1) / rows));
            for (int64_t i = 0; i < n; ++i) {
                kernels->pack_row(bankml::activation_of_row(kind, i, n), x.data() + i * w.cols, w.cols, i % rows, rows,
                                  panels.data() + bytes * static_cast<size_t>(i / rows));
            }
            float * y = new float[static_cast<size_t>(n * w.rows)];
            const nb::capsule owner(y, [](void * p) noexcept { delete[] static_cast<float *>(p); });
            if (n == 1) {
                kernels->matvec(w, panels.data(), y, nullptr, 0, w.rows);
            } else {
                std::vector<uint8_t> scratch(bankml::matmul_scratch_bytes(w.cols));
                kernels->matmul({w, panels.data(), y, nullptr, w.rows, n, n, 0, w.rows, scratch.data()});
            }
            return nb::ndarray<nb::numpy, float, nb::ndim<2>>(
                y, {static_cast<size_t>(n), static_cast<size_t>(w.rows)}, owner);
        },
        nb::arg("isa"), nb::arg("w"), nb::arg("x"));
    m.def(
        "quantize",
        [](const std::string & isa, int activation, const FloatRows & x) {
            if (activation < 0 || activation >= static_cast<int>(bankml::kActivations)) throw nb::value_error("no such kind");
            const bankml::Activation kind = static_cast<bankml::Activation>(activation);
            const bankml::Kernels * kernels = kernels_for(isa);
            const size_t n = x.shape(0);
            const int64_t cols = static_cast<int64_t>(x.shape(1));
            if (cols % bankml::kSuperBlock != 0) throw nb::value_error("rows of whole super-blocks are needed");
            const size_t bytes = bankml::panel_bytes(kind, 1, cols);
            uint8_t * y = new uint8_t[n * bytes];
            const nb::capsule owner(y, [](void * p) noexcept { delete[] static_cast<uint8_t *>(p); });
            for (size_t i = 0; i < n; ++i) {
                kernels->pack_row(kind, x.data() + i * x.shape(1), cols, 0, 1, y + i * bytes);
            }
            return nb::ndarray<nb::numpy, uint8_t, nb::ndim<2>>(y, {n, bytes}, owner);
        },
        nb::arg("isa"), nb::arg("activation"), nb::arg("x"));
    m.def(
        "sum_squares",
        [](const std::string & isa, const LogitsRow & logits, float mean) {
            return kernels_for(isa)->sum_squares(logits.data(), static_cast<int64_t>(logits.size()), mean);
        },
        nb::arg("isa"), nb::arg("logits"), nb::arg("mean"));
    m.def(
        "mean_rows",
        [](const std::string & isa, const FloatRows & x) {
            const bankml::Kernels * kernels = kernels_for(isa);
            if (x.shape(0) == 0 || x.shape(1) % 8 != 0) throw nb::value_error("rows of a multiple of eight are needed");
            float * y = new float[x.shape(1)];
            const nb::capsule owner(y, [](void * p) noexcept { delete[] static_cast<float *>(p); });
            kernels->mean_rows(x.data(), static_cast<int64_t>(x.shape(0)), static_cast<int64_t>(x.shape(1)), y);
            return nb::ndarray<nb::numpy, float, nb::ndim<1>>(y, {x.shape(1)}, owner);
        },
        nb::arg("isa"), nb::arg("x"));
    m.def(
        "soft_max",
        [](const std::string & isa, const Floats & x) {
            const bankml::Kernels * kernels = kernels_for(isa);
            if (x.size() == 0) throw nb::value_error("a softmax of something is needed");
            float * y = new float[x.size()];
            const nb::capsule owner(y, [](void * p) noexcept { delete[] static_cast<float *>(p); });
            kernels->soft_max(x.data(), static_cast<int64_t>(x.size()), y);
            return nb::ndarray<nb::numpy, float, nb::ndim<1>>(y, {x.size()}, owner);
        },
        nb::arg("isa"), nb::arg("x"));
    m.def(
        "descending",
        [](const std::vector<double> & scores) {
            // std::sort, for its order of equal scores is the reference's. A NaN would lead it astray.
            const auto higher = [&](size_t a, size_t b) { return scores[a] > scores[b]; };
            std::vector<size_t> order(scores.size());
            std::iota(order.begin(), order.end(), size_t{0});
            if (std::none_of(scores.begin(), scores.end(), [](double score) { return std::isnan(score); })) {
                std::sort(order.begin(), order.end(), higher);
            }
            return order;
        },
        nb::arg("scores"));
    m.def("isa", [](const std::string & isa) { return kernels_for(isa)->name; }, nb::arg("isa") = "");
}

}  // namespace

NB_MODULE(_kernels, m) {
    m.doc() = "bankml's compiled kernels.";
    nb::set_leak_warnings(false);  // what an interpreter that ends does not free is no news to a user
    bankml::bind_grammars(m);
    bankml::bind_tokenizers(m);
    bankml::bind_files(m);
    bind_sampler(m);
    bind_matrix(m);
    bind_graph(m);
    bind_operations(m);
}
