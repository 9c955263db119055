#include "grammar_automaton.h"

#include <algorithm>
#include <utility>

namespace bankml {

namespace {

constexpr size_t MAX_DENSE_SYMBOLS = 128;
// More than this ends the answer; what is kept between tokens is forgotten at a quarter of it.
constexpr size_t MAX_SETS = 1'000'000;
constexpr size_t MAX_BRANCHES = 8'000'000;
constexpr size_t MAX_CELLS = 48'000'000;
constexpr size_t MAX_EXPANSION = 100'000;  // branches that one set may start with
constexpr size_t MAX_WORK = 30'000'000;    // branches looked at or copied for one token: about a second
constexpr int MAX_DEPTH = 10'000;          // of stacks that are united

// Of an element that names a token.
bool takes_token(const Element & element, Token token) {
    return (element.value == static_cast<uint32_t>(token)) == (element.type == ElementType::Token);
}

[[noreturn]] void too_ambiguous() { throw GrammarError("the grammar is too large or too ambiguous"); }

}  // namespace

GrammarAutomaton::GrammarAutomaton(std::shared_ptr<const GrammarRules> rules)
    : rules_(std::move(rules)), set_of_(0, SameSet{this}, SameSet{this}) {
    find_symbols();
    clear();
    Collected alternatives;
    for (uint32_t element = rules_->starts[rules_->root];; ++element) {
        add(alternatives, go_on(element, ONLY_EMPTY));
        while (!at(element).ends_alternative()) {
            ++element;
        }
        if (at(element).type == ElementType::End) {
            break;
        }
    }
    start_ = expand(intern(alternatives));
}

void GrammarAutomaton::clear() {
    sets_.clear();
    branches_.clear();
    set_of_.clear();
    expanded_.clear();
    united_.clear();
    rows_.clear();
    table_.clear();
    sparse_.clear();
    Collected none;
    intern(none);  // DEAD
    none.may_end = true;
    intern(none);  // ONLY_EMPTY
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

// --- sets of stacks -----------------------------------------------------------------------------------------------

bool GrammarAutomaton::awaits_text(uint32_t element) const {
    return at(element).type != ElementType::Token && at(element).type != ElementType::TokenNot;
}

void GrammarAutomaton::spend(size_t n) {
    work_ += n;
    if (work_ > MAX_WORK) {
        too_ambiguous();
    }
}

void GrammarAutomaton::add(Collected & found, State set) {
    const StackSet & info = sets_[set];
    spend(info.n);
    found.branches.insert(found.branches.end(), branches_.begin() + info.first, branches_.begin() + info.first + info.n);
    found.may_end |= info.may_end;
}

GrammarAutomaton::State GrammarAutomaton::go_on(uint32_t next_element, State below) {
    if (at(next_element).ends_alternative()) {
        return below;
    }
    Collected one{{{next_element, below}}, false};
    return intern(one);
}

GrammarAutomaton::State GrammarAutomaton::expand(State set) {
    const auto known = expanded_.find(set);
    if (known != expanded_.end()) {
        return known->second;
    }
    const State found = expand_anew(set);
    expanded_[set] = found;
    return found;
}

GrammarAutomaton::State GrammarAutomaton::expand_all(std::vector<State> & sets) {
    std::sort(sets.begin(), sets.end());
    sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
    if (sets.size() == 1) {
        return expand(sets[0]);
    }
    Collected found;
    size_t n_merged = 0;
    for (const State set : sets) {
        add(found, expand(set));
        if (found.branches.size() > 2 * n_merged + 100'000) {  // many of them are the same
            const State merged = intern(found);
            found = {};
            add(found, merged);
            n_merged = found.branches.size();
        }
    }
    return intern(found);
}

GrammarAutomaton::State GrammarAutomaton::expand_anew(State set) {
    Collected to_do;
    add(to_do, set);
    Collected found;
    std::unordered_set<uint64_t> seen;
    while (!to_do.branches.empty()) {
        const Branch branch = to_do.branches.back();
        to_do.branches.pop_back();
        if (!seen.insert(uint64_t{branch.element} << 32 | branch.below).second) {
            continue;
        }
        if (seen.size() > MAX_EXPANSION) {
            too_ambiguous();
        }
        spend(1);
        if (at(branch.element).type != ElementType::RuleRef) {
            found.branches.push_back(branch);
            continue;
        }
        const State after = go_on(branch.element + 1, branch.below);
        for (uint32_t element = rules_->starts[at(branch.element).value];; ++element) {
            if (at(element).ends_alternative()) {
                add(to_do, after);
            } else {
                to_do.branches.push_back({element, after});
            }
            const uint32_t first = element;
            while (!at(element).ends_alternative()) {
                ++element;
            }
            spend(element - first + 1);
            if (at(element).type == ElementType::End) {
                break;
            }
        }
    }
    found.may_end = to_do.may_end;
    return intern(found);
}

// The set of what was collected. Branches from one element become one, to all that lies below it.
GrammarAutomaton::State GrammarAutomaton::intern(Collected & found) {
    auto & branches = found.branches;
    std::sort(branches.begin(), branches.end(), [](const Branch & a, const Branch & b) {
        return a.element != b.element ? a.element < b.element : a.below < b.below;
    });
    size_t n = 0;
    for (const Branch & branch : branches) {
        if (n > 0 && branches[n - 1].element == branch.element) {
            branches[n - 1].below = unite(branches[n - 1].below, branch.below);
        } else {
            branches[n++] = branch;
        }
    }
    branches.resize(n);
    const auto set = static_cast<State>(sets_.size());
    const bool has_tokens =
        std::any_of(branches.begin(), branches.end(), [this](const Branch & b) { return !awaits_text(b.element); });
    sets_.push_back({static_cast<uint32_t>(branches_.size()), static_cast<uint32_t>(n), found.may_end, has_tokens});
    branches_.insert(branches_.end(), branches.begin(), branches.end());
    const auto [known, is_new] = set_of_.insert(set);
    if (!is_new) {
        branches_.resize(sets_.back().first);
        sets_.pop_back();
        return *known;
    }
    rows_.push_back(NONE);
    if (sets_.size() > MAX_SETS || branches_.size() > MAX_BRANCHES) {
        too_ambiguous();
    }
    return set;
}

GrammarAutomaton::State GrammarAutomaton::unite(State a, State b, int depth) {
    if (a == b || a == DEAD || b == DEAD) {
        return a == DEAD ? b : a;
    }
    const uint64_t pair = uint64_t{std::min(a, b)} << 32 | std::max(a, b);
    const auto known = united_.find(pair);
    if (known != united_.end()) {
        return known->second;
    }
    if (depth > MAX_DEPTH || united_.size() > MAX_SETS) {
        too_ambiguous();
    }
    Collected found;
    const StackSet one = sets_[a];
    const StackSet other = sets_[b];
    spend(one.n + other.n);
    found.may_end = one.may_end || other.may_end;
    uint32_t i = one.first;
    uint32_t j = other.first;
    while (i < one.first + one.n || j < other.first + other.n) {
        const bool has_one = i < one.first + one.n;
        const bool has_other = j < other.first + other.n;
        if (has_one && has_other && branches_[i].element == branches_[j].element) {
            const Branch left = branches_[i++];
            const State below = unite(left.below, branches_[j++].below, depth + 1);
            found.branches.push_back({left.element, below});
        } else if (has_one && (!has_other || branches_[i].element < branches_[j].element)) {
            found.branches.push_back(branches_[i++]);
        } else {
            found.branches.push_back(branches_[j++]);
        }
    }
    const State set = intern(found);
    united_[pair] = set;
    return set;
}

bool GrammarAutomaton::SameSet::operator()(State a, State b) const {
    const StackSet & one = of->sets_[a];
    const StackSet & other = of->sets_[b];
    const auto branches = of->branches_.begin();
    return one.may_end == other.may_end && std::equal(branches + one.first, branches + one.first + one.n,
                                                      branches + other.first, branches + other.first + other.n);
}

size_t GrammarAutomaton::SameSet::operator()(State set) const {
    const StackSet & info = of->sets_[set];
    size_t hash = info.n * 2 + (info.may_end ? 1 : 0);
    for (uint32_t i = info.first; i < info.first + info.n; ++i) {
        hash = (hash ^ (uint64_t{of->branches_[i].element} << 32 | of->branches_[i].below)) * 0x9E3779B97F4A7C15;
        hash ^= hash >> 32;
    }
    return hash;
}

bool GrammarAutomaton::trim(State & state) {
    const bool many = sets_.size() > MAX_SETS / 4 || branches_.size() > MAX_BRANCHES / 4 ||
                      united_.size() > MAX_SETS / 4 || table_.size() > MAX_CELLS / 4 || sparse_.size() > MAX_SETS / 4;
    if (!many) {
        return false;
    }
    std::vector<State> to_do = {state};
    std::unordered_set<State> reached = {state};
    while (!to_do.empty()) {
        const StackSet info = sets_[to_do.back()];
        to_do.pop_back();
        for (uint32_t i = info.first; i < info.first + info.n; ++i) {
            if (reached.insert(branches_[i].below).second) {
                to_do.push_back(branches_[i].below);
            }
        }
    }
    // a set comes after what lies below it
    std::vector<State> kept(reached.begin(), reached.end());
    std::sort(kept.begin(), kept.end());
    std::vector<Collected> contents(kept.size());
    for (size_t i = 0; i < kept.size(); ++i) {
        add(contents[i], kept[i]);
    }
    clear();
    std::unordered_map<State, State> renamed;
    for (size_t i = 0; i < kept.size(); ++i) {
        for (Branch & branch : contents[i].branches) {
            branch.below = renamed.at(branch.below);
        }
        renamed[kept[i]] = intern(contents[i]);
    }
    state = renamed.at(state);
    return true;
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
    const StackSet & info = sets_[state];
    const auto first = branches_.begin() + info.first;
    return std::any_of(first, first + info.n, [&](const Branch & branch) {
        return awaits_text(branch.element) && touches(&at(branch.element));
    });
}

std::vector<Element> GrammarAutomaton::token_elements(State state) const {
    std::vector<Element> found;
    const StackSet & info = sets_[state];
    for (uint32_t i = info.first; i < info.first + info.n; ++i) {
        if (!awaits_text(branches_[i].element)) {
            found.push_back(at(branches_[i].element));
        }
    }
    return found;
}

bool GrammarAutomaton::may_take_token(State state, Token token) const {
    if (!sets_[state].has_tokens) {
        return false;
    }
    const auto elements = token_elements(state);
    return std::any_of(elements.begin(), elements.end(),
                       [token](const Element & element) { return takes_token(element, token); });
}

// --- states -------------------------------------------------------------------------------------------------------

uint32_t GrammarAutomaton::row_of(State state) {
    if (rows_[state] == NONE) {
        rows_[state] = static_cast<uint32_t>(table_.size());
        table_.resize(table_.size() + n_symbols_, NONE);
        if (table_.size() > MAX_CELLS) {
            too_ambiguous();
        }
    }
    return rows_[state];
}

GrammarAutomaton::State GrammarAutomaton::compute_next(State state, uint32_t symbol) {
    std::vector<State> sets;
    const StackSet info = sets_[state];
    spend(info.n);
    for (uint32_t i = info.first; i < info.first + info.n; ++i) {
        const Branch branch = branches_[i];
        uint32_t after = 0;
        if (awaits_text(branch.element) && matches(branch.element, bounds_[symbol], after)) {
            sets.push_back(go_on(after, branch.below));
        }
    }
    const State next = expand_all(sets);
    if (dense_) {
        table_[row_of(state) + symbol] = next;
    } else {
        sparse_[uint64_t{state} << 32 | symbol] = next;
    }
    return next;
}

uint64_t GrammarAutomaton::looping_kinds(State state) {
    if (!dense_) {
        return 0;  // too many symbols to ask for each
    }
    uint64_t leaving = 0;
    for (size_t symbol = 0; symbol < n_symbols_; ++symbol) {
        if (next(state, bounds_[symbol]) == state) {
            continue;
        }
        const uint32_t end = symbol + 1 < n_symbols_ ? bounds_[symbol + 1] : UINT32_MAX;
        for (uint32_t code_point = bounds_[symbol]; code_point < std::min(end, 0x81u); ++code_point) {
            leaving |= uint64_t{1} << kind_of(code_point);
        }
        if (end > 0x81) {
            leaving |= uint64_t{1} << kind_of(0x80);  // all others are of one kind
        }
    }
    return ~leaving;
}

GrammarAutomaton::State GrammarAutomaton::next_by_token(State state, Token token) {
    std::vector<State> sets;
    const StackSet info = sets_[state];
    spend(info.n);
    for (uint32_t i = info.first; i < info.first + info.n; ++i) {
        const Branch branch = branches_[i];
        if (!awaits_text(branch.element) && takes_token(at(branch.element), token)) {
            sets.push_back(go_on(branch.element + 1, branch.below));
        }
    }
    return expand_all(sets);
}

GrammarAutomaton::State GrammarAutomaton::awaiting_text(State state) {
    if (!sets_[state].may_end && !sets_[state].has_tokens) {
        return state;
    }
    Collected found;
    add(found, state);
    found.may_end = false;
    std::erase_if(found.branches, [this](const Branch & branch) { return !awaits_text(branch.element); });
    return intern(found);
}

}  // namespace bankml
