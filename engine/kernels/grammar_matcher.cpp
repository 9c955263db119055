#include "grammar_matcher.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace bankml {

namespace {

constexpr size_t MAX_MASKS = 64;
constexpr size_t MAX_PATTERN = 4096;
constexpr std::chrono::seconds MAX_SEARCH{1};

void set_bit(std::vector<uint64_t> & bits, Token token) {
    bits[static_cast<size_t>(token) >> 6] |= uint64_t{1} << (token & 63);
}

// The place where the grammar starts: the first group that is not empty, else the match.
size_t start_of(const std::smatch & match) {
    for (size_t group = 1; group < match.size(); ++group) {
        if (match.length(group) > 0) {
            return static_cast<size_t>(match.position(group));
        }
    }
    return static_cast<size_t>(match.position(0));
}

}  // namespace

GrammarMatcher::GrammarMatcher(std::shared_ptr<const GrammarRules> rules, std::shared_ptr<const GrammarPieces> pieces,
                               std::shared_ptr<const GrammarTriggers> triggers)
    : pieces_(std::move(pieces)),
      automaton_(std::move(rules)),
      state_(automaton_.start()),
      triggers_(std::move(triggers)),
      awaits_trigger_(triggers_ != nullptr) {}

// --- which tokens may come next ----------------------------------------------------------------------------------

bool GrammarMatcher::allows(Token token) {
    if (awaits_trigger_) {
        return true;
    }
    automaton_.begin();
    if (pieces_->is_eog(token)) {
        return automaton_.may_end(state_);
    }
    return pieces_->has_text(token) && fits(token);
}

bool GrammarMatcher::fits(Token token) {
    const Decoded decoded = decode(pieces_->piece(token), cut_);
    if (decoded.rest.n_missing < 0) {
        return false;
    }
    State state = state_;
    for (const uint32_t code_point : decoded.code_points) {
        if (code_point == 0) {
            break;  // the grammar takes it for the end of the token
        }
        if (automaton_.may_take_token(state, token)) {
            return true;
        }
        state = automaton_.next(state, code_point);
    }
    if (state == GrammarAutomaton::DEAD) {
        return false;
    }
    return decoded.rest.n_missing == 0 || automaton_.may_continue(state, decoded.rest);
}

void GrammarMatcher::mask(float * logits) {
    if (awaits_trigger_) {
        return;
    }
    automaton_.begin();
    const Bits & bits = allowed();
    for (Token token = 0; token < n_tokens(); ++token) {
        if ((bits[static_cast<size_t>(token) >> 6] >> (token & 63) & 1) == 0) {
            logits[token] = -INFINITY;
        }
    }
}

const GrammarMatcher::Bits & GrammarMatcher::allowed() {
    if (cut_.n_missing != 0) {
        find_allowed(cut_mask_);
        return cut_mask_;
    }
    if (masks_.size() >= MAX_MASKS && !masks_.contains(state_)) {
        masks_.clear();
    }
    const auto [place, is_new] = masks_.try_emplace(state_);
    if (is_new) {
        find_allowed(place->second);
    }
    return place->second;
}

void GrammarMatcher::find_allowed(Bits & bits) {
    bits.assign(static_cast<size_t>(n_tokens() + 63) / 64, 0);
    if (automaton_.may_end(state_)) {
        for (const Token token : pieces_->eog()) {
            set_bit(bits, token);
        }
    }
    if (cut_.n_missing > 0) {
        for (const Token token : pieces_->continuations()) {
            if (fits(token)) {
                set_bit(bits, token);
            }
        }
    } else {
        walk(bits);
    }
}

void GrammarMatcher::walk(Bits & bits) {
    const auto & nodes = pieces_->nodes();
    path_.resize(1);
    path_[0] = state_;
    // Inside a string, say, almost all tokens lead back to where they start: such a subtree needs no walk.
    const uint64_t loops = automaton_.has_token_elements(state_) ? 0 : automaton_.looping_kinds(state_);
    for (uint32_t i = 0; i < nodes.size();) {
        const GrammarPieces::Node & node = nodes[i];
        const State state = i == 0 ? state_ : automaton_.next(path_[node.depth - 1], node.code_point);
        if (state == GrammarAutomaton::DEAD) {
            i = node.skip;
            continue;
        }
        if (path_.size() <= node.depth) {
            path_.resize(node.depth + 1);
        }
        if (state == state_ && (node.kinds_below & ~loops) == 0) {
            add_places(node.first, pieces_->subtree_end(i), state, bits);
            i = node.skip;
            continue;
        }
        path_[node.depth] = state;
        add_places(node.first, pieces_->below(i), state, bits);
        if (automaton_.has_token_elements(state)) {
            add_tokens_by_number(state, i, bits);
        }
        ++i;
    }
}

// Of the tokens at these places, which all lead to the state, those that end there.
void GrammarMatcher::add_places(uint32_t first, uint32_t end, State state, Bits & bits) {
    for (uint32_t place = first; place < end; ++place) {
        const PartialCharacter rest = pieces_->rest(place);
        if (rest.n_missing == 0 || automaton_.may_continue(state, rest)) {
            set_bit(bits, pieces_->order()[place]);
        }
    }
}

// Of the tokens below a node, those that the state takes by their numbers.
void GrammarMatcher::add_tokens_by_number(State state, uint32_t node, Bits & bits) {
    const uint32_t first = pieces_->below(node);
    const uint32_t end = pieces_->subtree_end(node);
    for (const Element & element : automaton_.token_elements(state)) {
        const bool exists = element.value < static_cast<uint32_t>(n_tokens());
        const int64_t place = exists ? pieces_->place(static_cast<Token>(element.value)) : -1;
        if (element.type == ElementType::Token) {
            if (place >= first && place < end) {
                set_bit(bits, static_cast<Token>(element.value));
            }
            continue;
        }
        for (uint32_t other = first; other < end; ++other) {
            if (other != place) {
                set_bit(bits, pieces_->order()[other]);
            }
        }
    }
}

// --- the step of a token -----------------------------------------------------------------------------------------

bool GrammarMatcher::accept(Token token) {
    if (awaits_trigger_) {
        return await_trigger(token);
    }
    if (pieces_->is_eog(token)) {
        refused_token_ = token;
        refused_text_ = pieces_->piece(token);
        return automaton_.may_end(state_);
    }
    return take(token, pieces_->piece(token));
}

bool GrammarMatcher::take(Token token, std::string_view text) {
    automaton_.begin();
    if (automaton_.trim(state_)) {
        masks_.clear();
    }
    const Decoded decoded = decode(text, cut_);
    const State by_number = automaton_.has_token_elements(state_) ? automaton_.next_by_token(state_, token)
                                                                  : GrammarAutomaton::DEAD;
    State by_text = automaton_.awaiting_text(state_);
    for (const uint32_t code_point : decoded.code_points) {
        by_text = automaton_.next(by_text, code_point);
    }
    state_ = automaton_.unite(by_number, by_text);
    cut_ = decoded.rest;
    if (state_ == GrammarAutomaton::DEAD) {
        refused_token_ = token;
        refused_text_ = text;
        return false;
    }
    return true;
}

// --- triggers ----------------------------------------------------------------------------------------------------

bool GrammarMatcher::await_trigger(Token token) {
    const std::string & piece = pieces_->piece(token);
    if (triggers_->has_token(token)) {
        awaits_trigger_ = false;
        return take(token, piece);
    }
    free_text_ += piece;
    free_.push_back({token, free_text_.size()});
    const size_t start = triggers_->find(free_text_);
    if (start == std::string::npos) {
        return true;
    }
    awaits_trigger_ = false;
    size_t at = 0;
    for (const auto & [free_token, end] : free_) {
        const size_t from = std::max(at, start);
        if (end > start && !take(free_token, std::string_view(free_text_).substr(from, end - from))) {
            return false;
        }
        at = end;
    }
    free_text_.clear();
    free_.clear();
    return true;
}

GrammarTriggers::GrammarTriggers(std::vector<Token> tokens, const std::vector<std::string> & patterns)
    : tokens_(std::move(tokens)) {
    for (const std::string & pattern : patterns) {
        if (pattern.size() > MAX_PATTERN) {
            throw GrammarError("a trigger's pattern is too long");
        }
        if (pattern.find("(?=") != std::string::npos || pattern.find("(?!") != std::string::npos) {
            throw GrammarError("a trigger's pattern may not look ahead");  // it can take forever
        }
        try {
            // The reference's library and syntax, with its other engine: the one that neither goes back over all ways to
            // match, which can take forever, nor overflows the stack.
            const auto syntax = std::regex::ECMAScript | std::regex_constants::__polynomial;
            const bool whole = !pattern.empty() && pattern.front() == '^' && pattern.back() == '$';
            patterns_.push_back({std::regex(pattern, syntax), whole});
        } catch (const std::regex_error & error) {
            throw GrammarError(error.what());
        }
    }
}

bool GrammarTriggers::has_token(Token token) const {
    return std::find(tokens_.begin(), tokens_.end(), token) != tokens_.end();
}

size_t GrammarTriggers::find(const std::string & text) const {
    std::smatch match;
    for (const auto & [regex, whole] : patterns_) {
        const auto started = std::chrono::steady_clock::now();
        if ((whole && std::regex_match(text, match, regex)) || std::regex_search(text, match, regex)) {
            return start_of(match);
        }
        // The text grows by a token at a time, and what takes long now takes longer next time.
        if (std::chrono::steady_clock::now() - started > MAX_SEARCH) {
            throw GrammarError("a trigger's pattern takes too long to search for");
        }
    }
    return std::string::npos;
}

}  // namespace bankml
