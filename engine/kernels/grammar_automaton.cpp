#include "grammar_automaton.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace bankml {

namespace {

constexpr size_t MAX_DENSE_SYMBOLS = 128;
// More than this ends the answer; what is kept between tokens is forgotten at a quarter of it.
constexpr size_t MAX_STACKS = 500'000;
constexpr size_t MAX_MEMBERS = 16'000'000;
constexpr size_t MAX_CELLS = 48'000'000;
constexpr size_t MAX_EXPANSION = 100'000;  // stacks that one stack may stand for

// Of an element that names a token.
bool takes_token(const Element & element, Token token) {
    return (element.value == static_cast<uint32_t>(token)) == (element.type == ElementType::Token);
}

[[noreturn]] void too_ambiguous() { throw GrammarError("the grammar is too ambiguous"); }

}  // namespace

GrammarAutomaton::GrammarAutomaton(std::shared_ptr<const GrammarRules> rules)
    : rules_(std::move(rules)), state_of_(0, SameStacks{this}, SameStacks{this}) {
    find_symbols();
    clear();
    std::vector<Stack> stacks;
    uint32_t element = rules_->starts[rules_->root];
    for (;; ++element) {
        const Stack stack = rules_->elements[element].ends_alternative() ? EMPTY : push(EMPTY, element);
        expand(stack, stacks);
        while (!rules_->elements[element].ends_alternative()) {
            ++element;
        }
        if (rules_->elements[element].type == ElementType::End) {
            break;
        }
    }
    start_ = intern(stacks);
}

void GrammarAutomaton::clear() {
    stacks_ = {{0, EMPTY}};
    stack_of_.clear();
    expansions_.clear();
    expanded_.clear();
    states_.clear();
    members_.clear();
    state_of_.clear();
    table_.clear();
    sparse_.clear();
    std::vector<Stack> none;
    intern(none);  // DEAD
}

void GrammarAutomaton::find_symbols() {
    bounds_ = {0};
    const auto & elements = rules_->elements;
    for (size_t i = 0; i < elements.size(); ++i) {
        const Element & element = elements[i];
        const bool is_character = element.type == ElementType::Char || element.type == ElementType::CharNot ||
                                  element.type == ElementType::CharAlt;
        if (is_character) {
            bounds_.push_back(element.value);
            const bool is_range = elements[i + 1].type == ElementType::CharUpper;
            bounds_.push_back((is_range ? elements[i + 1].value : element.value) + 1);
        }
    }
    std::sort(bounds_.begin(), bounds_.end());
    bounds_.erase(std::unique(bounds_.begin(), bounds_.end()), bounds_.end());
    n_symbols_ = bounds_.size();
    dense_ = n_symbols_ <= MAX_DENSE_SYMBOLS;
    for (uint32_t i = 0; i < N_DIRECT; ++i) {
        direct_[i] = search_symbol(i);
    }
    constexpr uint32_t n_pages = 0x110000 >> PAGE_BITS;
    for (uint32_t page = 0; page < n_pages; ++page) {
        const uint32_t first = search_symbol(page << PAGE_BITS);
        const uint32_t last = search_symbol((page << PAGE_BITS) + (1u << PAGE_BITS) - 1);
        pages_.push_back(first == last ? first : MIXED);
    }
}

uint32_t GrammarAutomaton::search_symbol(uint32_t code_point) const {
    return static_cast<uint32_t>(std::upper_bound(bounds_.begin(), bounds_.end(), code_point) - bounds_.begin() - 1);
}

// --- stacks ------------------------------------------------------------------------------------------------------

GrammarAutomaton::Stack GrammarAutomaton::push(Stack below, uint32_t element) {
    const auto [place, is_new] =
        stack_of_.try_emplace(uint64_t{element} << 32 | below, static_cast<Stack>(stacks_.size()));
    if (is_new) {
        if (stacks_.size() >= MAX_STACKS) {
            too_ambiguous();
        }
        stacks_.push_back({element, below});
    }
    return place->second;
}

GrammarAutomaton::Stack GrammarAutomaton::go_on(Stack stack, uint32_t element) {
    const Stack below = stacks_[stack].below;
    return rules_->elements[element].ends_alternative() ? below : push(below, element);
}

void GrammarAutomaton::expand(Stack stack, std::vector<Stack> & found) {
    const auto known = expansions_.find(stack);
    if (known != expansions_.end()) {
        const auto [first, n] = known->second;
        found.insert(found.end(), expanded_.begin() + first, expanded_.begin() + first + n);
        return;
    }
    const size_t n_before = found.size();
    expand_anew(stack, found);
    const auto first = static_cast<uint32_t>(expanded_.size());
    expanded_.insert(expanded_.end(), found.begin() + static_cast<ptrdiff_t>(n_before), found.end());
    if (expanded_.size() > MAX_MEMBERS) {
        too_ambiguous();
    }
    expansions_[stack] = {first, static_cast<uint32_t>(expanded_.size()) - first};
}

void GrammarAutomaton::expand_anew(Stack stack, std::vector<Stack> & found) {
    std::vector<Stack> to_do = {stack};
    std::unordered_set<Stack> seen;
    while (!to_do.empty()) {
        const Stack current = to_do.back();
        to_do.pop_back();
        if (!seen.insert(current).second) {
            continue;
        }
        if (seen.size() > MAX_EXPANSION) {
            too_ambiguous();
        }
        if (current == EMPTY || top(current).type != ElementType::RuleRef) {
            found.push_back(current);
            continue;
        }
        const Stack after = go_on(current, stacks_[current].element + 1);
        for (uint32_t element = rules_->starts[top(current).value];; ++element) {
            to_do.push_back(rules_->elements[element].ends_alternative() ? after : push(after, element));
            while (!rules_->elements[element].ends_alternative()) {
                ++element;
            }
            if (rules_->elements[element].type == ElementType::End) {
                break;
            }
        }
    }
}

bool GrammarAutomaton::awaits_text(Stack stack) const {
    return stack != EMPTY && top(stack).type != ElementType::Token && top(stack).type != ElementType::TokenNot;
}

// --- what an element takes ---------------------------------------------------------------------------------------

// Whether the character class at `element` takes a code point; `after` is the element behind the class.
bool GrammarAutomaton::matches(uint32_t element, uint32_t code_point, uint32_t & after) const {
    const Element * const first = &rules_->elements[element];
    const Element * at = first;
    bool found = false;
    do {
        if (at->type == ElementType::CharAny) {
            found = true;
            ++at;
        } else if (at[1].type == ElementType::CharUpper) {
            found |= at->value <= code_point && code_point <= at[1].value;
            at += 2;
        } else {
            found |= at->value == code_point;
            ++at;
        }
    } while (at->type == ElementType::CharAlt);
    after = element + static_cast<uint32_t>(at - first);
    return found != (first->type == ElementType::CharNot);
}

bool GrammarAutomaton::may_continue(State state, PartialCharacter cut) const {
    if (cut.n_missing < 0 || (cut.n_missing == 1 && cut.bits < 2)) {
        return false;  // no UTF-8, or an overlong character of one byte
    }
    uint32_t low = cut.bits << (cut.n_missing * 6);
    const uint32_t high = low | ((1u << (cut.n_missing * 6)) - 1);
    if (low == 0) {
        low = cut.n_missing == 2 ? 1 << 11 : cut.n_missing == 3 ? 1 << 16 : 0;
    }
    // Of the code points in question, some in the class is enough; for a class of others, the reference wants none in it.
    const auto touches = [&](const Element * at) {
        if (at->type == ElementType::CharAny) {
            return true;
        }
        const bool is_not = at->type == ElementType::CharNot;
        do {
            const bool is_range = at[1].type == ElementType::CharUpper;
            if (at->value <= high && low <= (is_range ? at[1].value : at->value)) {
                return !is_not;
            }
            at += is_range ? 2 : 1;
        } while (at->type == ElementType::CharAlt);
        return is_not;
    };
    const StateInfo & info = states_[state];
    return std::any_of(members_.begin() + info.first, members_.begin() + info.first + info.n, [&](Stack stack) {
        return awaits_text(stack) && touches(&top(stack));
    });
}

std::vector<Element> GrammarAutomaton::token_elements(State state) const {
    std::vector<Element> found;
    const StateInfo & info = states_[state];
    for (uint32_t i = info.first; i < info.first + info.n; ++i) {
        if (members_[i] != EMPTY && !awaits_text(members_[i])) {
            found.push_back(top(members_[i]));
        }
    }
    return found;
}

bool GrammarAutomaton::may_take_token(State state, Token token) const {
    if (!states_[state].has_tokens) {
        return false;
    }
    const auto elements = token_elements(state);
    return std::any_of(elements.begin(), elements.end(),
                       [token](const Element & element) { return takes_token(element, token); });
}

// --- states ------------------------------------------------------------------------------------------------------

GrammarAutomaton::State GrammarAutomaton::compute_next(State state, uint32_t symbol) {
    std::vector<Stack> stacks;
    for (uint32_t i = 0; i < states_[state].n; ++i) {
        const Stack stack = members_[states_[state].first + i];
        uint32_t after = 0;
        if (awaits_text(stack) && matches(stacks_[stack].element, bounds_[symbol], after)) {
            expand(go_on(stack, after), stacks);
        }
    }
    const State found = intern(stacks);
    if (dense_) {
        table_[static_cast<size_t>(state) * n_symbols_ + symbol] = found;
    } else {
        sparse_[uint64_t{state} << 32 | symbol] = found;
    }
    return found;
}

GrammarAutomaton::State GrammarAutomaton::next_by_token(State state, Token token) {
    std::vector<Stack> stacks;
    for (uint32_t i = 0; i < states_[state].n; ++i) {
        const Stack stack = members_[states_[state].first + i];
        if (stack != EMPTY && !awaits_text(stack) && takes_token(top(stack), token)) {
            expand(go_on(stack, stacks_[stack].element + 1), stacks);
        }
    }
    return intern(stacks);
}

GrammarAutomaton::State GrammarAutomaton::awaiting_text(State state) {
    std::vector<Stack> stacks;
    const auto first = members_.begin() + states_[state].first;
    std::copy_if(first, first + states_[state].n, std::back_inserter(stacks),
                 [this](Stack stack) { return awaits_text(stack); });
    return intern(stacks);
}

GrammarAutomaton::State GrammarAutomaton::unite(State a, State b) {
    if (a == DEAD || b == DEAD) {
        return a == DEAD ? b : a;
    }
    std::vector<Stack> stacks;
    for (const State state : {a, b}) {
        const StateInfo & info = states_[state];
        stacks.insert(stacks.end(), members_.begin() + info.first, members_.begin() + info.first + info.n);
    }
    return intern(stacks);
}

// Sorts `stacks`, which are taken as a set.
GrammarAutomaton::State GrammarAutomaton::intern(std::vector<Stack> & stacks) {
    std::sort(stacks.begin(), stacks.end());
    stacks.erase(std::unique(stacks.begin(), stacks.end()), stacks.end());
    const auto state = static_cast<State>(states_.size());
    StateInfo info{static_cast<uint32_t>(members_.size()), static_cast<uint32_t>(stacks.size()), false, false};
    for (const Stack stack : stacks) {
        members_.push_back(stack);
        info.may_end |= stack == EMPTY;
        info.has_tokens |= stack != EMPTY && !awaits_text(stack);
    }
    states_.push_back(info);
    const auto [known, is_new] = state_of_.insert(state);
    if (!is_new) {
        states_.pop_back();
        members_.resize(info.first);
        return *known;
    }
    if (dense_) {
        table_.resize(table_.size() + n_symbols_, UNKNOWN);
    }
    if (members_.size() > MAX_MEMBERS || table_.size() > MAX_CELLS) {
        too_ambiguous();
    }
    return state;
}

bool GrammarAutomaton::SameStacks::operator()(State a, State b) const {
    const StateInfo & one = of->states_[a];
    const StateInfo & other = of->states_[b];
    const auto members = of->members_.begin();
    return std::equal(members + one.first, members + one.first + one.n, members + other.first,
                      members + other.first + other.n);
}

size_t GrammarAutomaton::SameStacks::operator()(State state) const {
    const StateInfo & info = of->states_[state];
    size_t hash = info.n;
    for (uint32_t i = info.first; i < info.first + info.n; ++i) {
        hash = (hash ^ of->members_[i]) * 0x9E3779B97F4A7C15;
        hash ^= hash >> 32;
    }
    return hash;
}

bool GrammarAutomaton::trim(State & state) {
    const bool many = stacks_.size() > MAX_STACKS / 4 || members_.size() > MAX_MEMBERS / 4 ||
                      expanded_.size() > MAX_MEMBERS / 4 || table_.size() > MAX_CELLS / 4 ||
                      sparse_.size() > MAX_STACKS / 4;
    if (!many) {
        return false;
    }
    std::vector<std::vector<uint32_t>> kept;  // the elements of each stack, the lowest last
    for (uint32_t i = 0; i < states_[state].n; ++i) {
        auto & elements = kept.emplace_back();
        for (Stack at = members_[states_[state].first + i]; at != EMPTY; at = stacks_[at].below) {
            elements.push_back(stacks_[at].element);
        }
    }
    clear();
    std::vector<Stack> stacks;
    for (const auto & elements : kept) {
        Stack stack = EMPTY;
        for (size_t i = elements.size(); i-- > 0;) {
            stack = push(stack, elements[i]);
        }
        stacks.push_back(stack);
    }
    state = intern(stacks);
    return true;
}

}  // namespace bankml
