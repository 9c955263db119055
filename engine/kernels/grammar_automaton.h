// The pushdown automaton of a grammar, made deterministic as it goes. Which code points and tokens may follow is what
// llama-server b11192 allows (`llama_grammar_*` in src/llama-grammar.cpp).
//
// The reference keeps a list of stacks: what has to come next at the top, what has to come when that is done below. Here
// a state is the set of them, as a tree that starts at the tops: from each element that is at the top of some stack, one
// branch to the set of what lies below it. Equal sets are one object, so that a grammar that can read a text in very many
// ways still has few of them, and coming back to a state is seen.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "grammar_pieces.h"
#include "grammar_rules.h"

namespace bankml {

class GrammarAutomaton {
public:
    using State = uint32_t;
    static constexpr State DEAD = 0;  // no stack is left

    // Throws GrammarError, as every function here that leads to a new state does, when the grammar recurses on the left
    // in so hidden a way, or is so ambiguous, that its stacks do not fit in memory.
    explicit GrammarAutomaton(std::shared_ptr<const GrammarRules> rules);
    GrammarAutomaton(const GrammarAutomaton &) = delete;
    GrammarAutomaton & operator=(const GrammarAutomaton &) = delete;

    // Only until the first trim().
    State start() const { return start_; }

    // After one more code point.
    State next(State state, uint32_t code_point) {
        const uint32_t symbol = symbol_of(code_point);
        if (dense_) {
            const uint32_t row = rows_[state];
            const State known = row == NONE ? NONE : table_[row + symbol];
            return known != NONE ? known : compute_next(state, symbol);
        }
        const auto known = sparse_.find(uint64_t{state} << 32 | symbol);
        return known != sparse_.end() ? known->second : compute_next(state, symbol);
    }

    // Starts counting anew what one token may cost; what costs more throws.
    void begin() { work_ = 0; }

    // Whether the grammar may end here.
    bool may_end(State state) const { return sets_[state].may_end; }
    // Whether a cut character may come next: whether a code point that completes it may. One of no UTF-8 may not.
    bool may_continue(State state, PartialCharacter cut) const;
    // Whether a token may come next by its number, which is asked of it wherever its text has not ended.
    bool has_token_elements(State state) const { return sets_[state].has_tokens; }
    bool may_take_token(State state, Token token) const;
    // The elements of a state that name tokens: Token or TokenNot.
    std::vector<Element> token_elements(State state) const;
    // After the token's number.
    State next_by_token(State state, Token token);
    // The stacks that wait for a code point.
    State awaiting_text(State state);

    State unite(State a, State b) { return unite(a, b, 0); }

    // A bit for each kind of code points that all lead from the state back to it.
    uint64_t looping_kinds(State state);

    // Forgets all states but one when they have become many; that one gets a new number. Returns whether it did.
    bool trim(State & state);

private:
    static constexpr State ONLY_EMPTY = 1;  // the set of the empty stack, which has all done
    static constexpr uint32_t NONE = UINT32_MAX;

    // The stacks with one element at their tops.
    struct Branch {
        uint32_t element;
        State below;  // what lies below it
        bool operator==(const Branch &) const = default;
    };
    struct StackSet {
        uint32_t first;  // of its branches in branches_, by element
        uint32_t n;
        bool may_end;     // it has the empty stack
        bool has_tokens;
    };
    // A set being collected, its branches in any order, several from one element.
    struct Collected {
        std::vector<Branch> branches;
        bool may_end = false;
    };
    struct SameSet {
        const GrammarAutomaton * of;
        bool operator()(State a, State b) const;
        size_t operator()(State set) const;
    };

    void clear();
    void find_symbols();
    uint32_t symbol_of(uint32_t code_point) const {
        if (code_point < N_DIRECT) {
            return direct_[code_point];
        }
        const uint32_t page = code_point >> PAGE_BITS;
        return page < pages_.size() && pages_[page] != MIXED ? pages_[page] : search_symbol(code_point);
    }
    uint32_t search_symbol(uint32_t code_point) const;

    const Element & at(uint32_t element) const { return rules_->elements[element]; }
    bool awaits_text(uint32_t element) const;
    void add(Collected & found, State set);
    // What some sets, each with an element done, lead to: each of them once.
    State expand_all(std::vector<State> & sets);
    void spend(size_t n);
    // What is left of a branch when its element is done: the alternative's next one, if there is one.
    State go_on(uint32_t next_element, State below);
    // The same stacks, each rule at a top replaced by what it may start with: characters or tokens.
    State expand(State set);
    State expand_anew(State set);
    State compute_next(State state, uint32_t symbol);
    State intern(Collected & found);
    State unite(State a, State b, int depth);
    uint32_t row_of(State state);
    bool matches(uint32_t element, uint32_t code_point, uint32_t & after) const;

    static constexpr uint32_t N_DIRECT = 256;
    static constexpr uint32_t PAGE_BITS = 8;
    static constexpr uint32_t MIXED = UINT32_MAX;

    std::shared_ptr<const GrammarRules> rules_;
    // Code points that no element tells apart are one symbol: those from bounds_[i] up to bounds_[i + 1] are symbol i.
    std::vector<uint32_t> bounds_;
    std::array<uint32_t, N_DIRECT> direct_{};
    std::vector<uint32_t> pages_;
    size_t n_symbols_ = 0;
    bool dense_ = true;

    std::vector<StackSet> sets_;
    std::vector<Branch> branches_;
    std::unordered_set<State, SameSet, SameSet> set_of_;
    std::unordered_map<State, State> expanded_;
    std::unordered_map<uint64_t, State> united_;
    // What follows a state: a row of symbols for each state that was asked for it, or one by one where there are many.
    std::vector<uint32_t> rows_;
    std::vector<State> table_;
    std::unordered_map<uint64_t, State> sparse_;
    State start_ = DEAD;
    size_t work_ = 0;
};

}  // namespace bankml
