// A grammar in GBNF, read into rules of elements: as llama-server b11192's parser reads it (src/llama-grammar.cpp).
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace bankml {

// A grammar that cannot be played; the message says why in one line.
class GrammarError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// A character class is Char or CharNot, then any number of CharAlt; CharUpper after one of them makes it a range.
enum class ElementType : uint8_t { End, Alt, RuleRef, Char, CharNot, CharUpper, CharAlt, CharAny, Token, TokenNot };

struct Element {
    ElementType type;
    uint32_t value;  // a code point, a token, or the rule referred to

    bool ends_alternative() const { return type == ElementType::End || type == ElementType::Alt; }
};

struct GrammarRules {
    std::vector<Element> elements;  // rule after rule, each with an End after its last alternative
    std::vector<uint32_t> starts;   // where each rule starts
    uint32_t root = 0;              // the rule "root"
};

// The token that a special token's text ("<|im_end|>") stands for, or -1 when it is not exactly one token.
using TokenOfText = std::function<int32_t(std::string_view)>;

// Reads a grammar up to its first NUL; where a rule is given twice, the last one counts. Throws GrammarError where the
// reference does not take the grammar, and for what would exhaust it: groups nested too deep, a repetition whose
// maximum is below its minimum, or repetitions that multiply out to millions of elements.
GrammarRules parse_grammar(const std::string & text, const TokenOfText & token_of);

}  // namespace bankml
