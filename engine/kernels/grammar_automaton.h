// The pushdown automaton of a grammar, made deterministic as it goes: a state is the set of stacks that the code points
// so far can lead to. Which code points and tokens may follow is what llama-server b11192 allows (`llama_grammar_*` in
// src/llama-grammar.cpp); it keeps its stacks as they are and asks each of them for each token.
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

    // Throws GrammarError, as every function here that leads to a new state does, when the grammar is so ambiguous, or
    // recurses on the left in so hidden a way, that its stacks do not fit in memory.
    explicit GrammarAutomaton(std::shared_ptr<const GrammarRules> rules);
    GrammarAutomaton(const GrammarAutomaton &) = delete;
    GrammarAutomaton & operator=(const GrammarAutomaton &) = delete;

    // Only until the first trim().
    State start() const { return start_; }

    // After one more code point.
    State next(State state, uint32_t code_point) {
        const uint32_t symbol = symbol_of(code_point);
        if (dense_) {
            const State known = table_[static_cast<size_t>(state) * n_symbols_ + symbol];
            return known != UNKNOWN ? known : compute_next(state, symbol);
        }
        const auto known = sparse_.find(uint64_t{state} << 32 | symbol);
        return known != sparse_.end() ? known->second : compute_next(state, symbol);
    }

    // Whether the grammar may end here.
    bool may_end(State state) const { return states_[state].may_end; }
    // Whether a cut character may come next: whether a code point that completes it may. One of no UTF-8 may not.
    bool may_continue(State state, PartialCharacter cut) const;
    // Whether a token may come next by its number, which is asked of it wherever its text has not ended.
    bool has_token_elements(State state) const { return states_[state].has_tokens; }
    bool may_take_token(State state, Token token) const;
    // The elements of a state that name tokens: Token or TokenNot.
    std::vector<Element> token_elements(State state) const;
    // After the token's number.
    State next_by_token(State state, Token token);
    // The stacks that wait for a code point.
    State awaiting_text(State state);

    State unite(State a, State b);

    // Forgets all states but one when they have become many; that one gets a new number. Returns whether it did.
    bool trim(State & state);

private:
    using Stack = uint32_t;  // the place of its top in stacks_
    static constexpr Stack EMPTY = 0;
    static constexpr State UNKNOWN = UINT32_MAX;

    struct StackTop {
        uint32_t element;  // what has to come next
        Stack below;
    };
    struct StateInfo {
        uint32_t first;  // of its stacks in members_
        uint32_t n;
        bool may_end;
        bool has_tokens;
    };
    struct SameStacks {
        const GrammarAutomaton * of;
        bool operator()(State a, State b) const;
        size_t operator()(State state) const;
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

    bool awaits_text(Stack stack) const;
    const Element & top(Stack stack) const { return rules_->elements[stacks_[stack].element]; }
    Stack push(Stack below, uint32_t element);
    // `stack` with the element at its top replaced by the one at `element`, if the alternative goes on there.
    Stack go_on(Stack stack, uint32_t element);
    // Adds the stacks that `stack` stands for to `found`, each with a character or a token at its top.
    void expand(Stack stack, std::vector<Stack> & found);
    void expand_anew(Stack stack, std::vector<Stack> & found);
    State compute_next(State state, uint32_t symbol);
    State intern(std::vector<Stack> & stacks);
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

    std::vector<StackTop> stacks_;
    std::unordered_map<uint64_t, Stack> stack_of_;
    std::unordered_map<Stack, std::pair<uint32_t, uint32_t>> expansions_;
    std::vector<Stack> expanded_;

    std::vector<StateInfo> states_;
    std::vector<Stack> members_;
    std::unordered_set<State, SameStacks, SameStacks> state_of_;
    std::vector<State> table_;
    std::unordered_map<uint64_t, State> sparse_;
    State start_ = DEAD;
};

}  // namespace bankml
