// A grammar over a vocabulary: which tokens may come next, and the step that one of them takes.
#pragma once

#include <memory>
#include <regex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar_automaton.h"
#include "grammar_pieces.h"
#include "grammar_rules.h"

namespace bankml {

// What a lazy grammar waits for. The answer is free until a trigger comes; the grammar starts with the trigger.
class GrammarTriggers {
public:
    // `patterns` are ECMAScript regular expressions over the answer's text. Throws GrammarError for what is none, is
    // longer than 4096 bytes, looks ahead, or refers back to one of its groups.
    GrammarTriggers(std::vector<Token> tokens, const std::vector<std::string> & patterns);

    bool has_token(Token token) const;
    // Where in a text the grammar starts by one of the patterns, or npos. Throws GrammarError when that took a second.
    size_t find(const std::string & text) const;

private:
    struct Pattern {
        std::regex regex;
        bool whole;  // has to match all of the text, if it can
    };

    std::vector<Token> tokens_;
    std::vector<Pattern> patterns_;
};

class GrammarMatcher {
public:
    // With `triggers` the grammar is lazy.
    GrammarMatcher(std::shared_ptr<const GrammarRules> rules, std::shared_ptr<const GrammarPieces> pieces,
                   std::shared_ptr<const GrammarTriggers> triggers);

    // Whether the token may come next. `token` must be in the vocabulary, here and below.
    bool allows(Token token);
    // Sets the logits of all tokens that may not to minus infinity; `logits` has one for each token.
    void mask(float * logits);
    // Takes the token. Returns false where the grammar cannot go on after it, and leaves the matcher of no more use.
    [[nodiscard]] bool accept(Token token);

    bool awaits_trigger() const { return awaits_trigger_; }
    // After accept() returned false: the token that was not taken, which a trigger may have brought with others, and
    // what of its text the grammar was to read.
    Token refused_token() const { return refused_token_; }
    const std::string & refused_text() const { return refused_text_; }
    int32_t n_tokens() const { return pieces_->n_tokens(); }

private:
    using State = GrammarAutomaton::State;
    using Bits = std::vector<uint64_t>;

    // A token of the free part, and where its text ends there.
    struct Free {
        Token token;
        size_t end;
    };

    const Bits & allowed();
    void find_allowed(Bits & bits);
    void walk(Bits & bits);
    void add_places(uint32_t first, uint32_t end, State state, Bits & bits);
    void add_tokens_by_number(State state, uint32_t node, Bits & bits);
    bool fits(Token token);
    State after_text(State state, const Decoded & decoded);
    bool take(Token token, std::string_view text);
    bool await_trigger(Token token);

    std::shared_ptr<const GrammarPieces> pieces_;
    GrammarAutomaton automaton_;
    State state_;
    PartialCharacter cut_;  // what the last token left of a character

    std::shared_ptr<const GrammarTriggers> triggers_;
    bool awaits_trigger_;
    Token refused_token_ = -1;
    std::string refused_text_;
    std::string free_text_;
    std::vector<Free> free_;

    // Masks by state, for answers that come back to one, as a string's characters do.
    std::unordered_map<State, Bits> masks_;
    Bits cut_mask_;
    std::vector<State> path_;
};

}  // namespace bankml
