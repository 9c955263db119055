// Grammars for Python: each section of bindings.cpp binds one header, and so does this file for grammar_*.h.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "grammar_matcher.h"
#include "grammar_pieces.h"
#include "grammar_rules.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace nb = nanobind;

namespace {

using LogitsToMask = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void check(const bankml::GrammarMatcher & matcher, bankml::Token token) {
    if (token < 0 || token >= matcher.n_tokens()) {
        throw nb::index_error("token outside the vocabulary");
    }
}

}  // namespace

namespace bankml {

void bind_grammars(nb::module_ & m) {
    nb::exception<GrammarError>(m, "GrammarError", PyExc_ValueError);
    nb::class_<GrammarRules>(m, "GrammarRules");
    m.def(
        "parse_grammar",
        [](const nb::bytes & text, const nb::callable & token_of) {
            const std::string copy(text.c_str(), text.size());
            const auto locked_token_of = [&](std::string_view special) {
                const nb::gil_scoped_acquire locked;
                return nb::cast<int32_t>(token_of(nb::bytes(special.data(), special.size())));
            };
            const nb::gil_scoped_release unlocked;
            return std::make_shared<GrammarRules>(parse_grammar(copy, locked_token_of));
        },
        nb::arg("text"), nb::arg("token_of"));
    nb::class_<GrammarPieces>(m, "GrammarPieces")
        .def(
            "__init__",
            [](GrammarPieces * self, const std::vector<nb::bytes> & pieces, const std::vector<Token> & eog) {
                std::vector<std::string> texts;
                texts.reserve(pieces.size());
                for (const nb::bytes & piece : pieces) {
                    texts.emplace_back(piece.c_str(), piece.size());
                }
                const nb::gil_scoped_release unlocked;
                new (self) GrammarPieces(std::move(texts), eog);
            },
            nb::arg("pieces"), nb::arg("eog"));
    nb::class_<GrammarTriggers>(m, "GrammarTriggers")
        .def(nb::init<std::vector<Token>, const std::vector<std::string> &>(), nb::arg("tokens"), nb::arg("patterns"));
    nb::class_<GrammarMatcher>(m, "GrammarMatcher")
        .def(nb::init<std::shared_ptr<const GrammarRules>, std::shared_ptr<const GrammarPieces>,
                      std::shared_ptr<const GrammarTriggers>>(),
             nb::arg("rules"), nb::arg("pieces"), nb::arg("triggers").none(), nb::call_guard<nb::gil_scoped_release>())
        .def(
            "allows",
            [](GrammarMatcher & matcher, Token token) {
                check(matcher, token);
                return matcher.allows(token);
            },
            nb::arg("token"))
        .def(
            "mask",
            [](GrammarMatcher & matcher, const LogitsToMask & logits) {
                if (logits.size() != static_cast<size_t>(matcher.n_tokens())) {
                    throw nb::value_error("one row of n_vocab logits is needed");
                }
                const nb::gil_scoped_release unlocked;
                matcher.mask(logits.data());
            },
            nb::arg("logits"))
        .def(
            "accept",
            [](GrammarMatcher & matcher, Token token) {
                check(matcher, token);
                const nb::gil_scoped_release unlocked;
                return matcher.accept(token);
            },
            nb::arg("token"))
        .def_prop_ro("awaits_trigger", &GrammarMatcher::awaits_trigger)
        .def_prop_ro("refused", [](const GrammarMatcher & matcher) {
            const std::string & text = matcher.refused_text();
            return nb::make_tuple(matcher.refused_token(), nb::bytes(text.data(), text.size()));
        });
}

}  // namespace bankml
