// Whether a grammar recurses on the left, by llama-server b11192's rule (`llama_grammar_detect_left_recursion` in
// src/llama-grammar.cpp).
#pragma once

#include <vector>

#include "grammar_rules.h"

namespace bankml {

// The alternatives of a rule, an Alt between them and an End behind them.
using Rule = std::vector<Element>;

// Every rule that is referred to must be there. Only a rule with an alternative of no elements counts as one that may
// be empty, not one whose elements may all be: recursion behind the latter goes unseen.
bool recurses_on_the_left(const std::vector<Rule> & rules);

}  // namespace bankml
