#include "grammar_rules.h"

#include "grammar_recursion.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

namespace bankml {

namespace {

constexpr uint64_t MAX_REPETITIONS = 2000;    // the reference's: times one repetition, and times repetitions within it
constexpr int MAX_NESTED_GROUPS = 1000;       // ours: the reference overflows its stack
constexpr size_t MAX_ELEMENTS = 2'000'000;    // ours: the reference takes all the memory there is
constexpr size_t MAX_SHOWN = 40;              // bytes of the grammar in a message
constexpr uint64_t UNBOUNDED = std::numeric_limits<uint64_t>::max();

bool is_digit(char c) { return '0' <= c && c <= '9'; }

bool is_name(char c) { return is_digit(c) || ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || c == '-'; }

int hex_digit(char c) {
    if (is_digit(c)) return c - '0';
    if ('a' <= c && c <= 'f') return c - 'a' + 10;
    if ('A' <= c && c <= 'F') return c - 'A' + 10;
    return -1;
}

// How many bytes of UTF-8 the character at `text` has; 0 for what is none.
int character_bytes(const char * text) {
    const auto first = static_cast<uint8_t>(*text);
    const int n = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    for (int i = 1; i < n; ++i) {
        const auto byte = static_cast<uint8_t>(text[i]);
        // not a continuation, or behind it an overlong character, a surrogate, or one past the last
        const bool is_off = (byte & 0xC0) != 0x80 || (i == 1 && first == 0xE0 && byte < 0xA0) ||
                            (i == 1 && first == 0xED && byte > 0x9F) || (i == 1 && first == 0xF0 && byte < 0x90) ||
                            (i == 1 && first == 0xF4 && byte > 0x8F);
        if (is_off) {
            return 0;
        }
    }
    return n;
}

// The part of a sequence that a repetition after it repeats.
struct Item {
    size_t start = 0;         // of its elements in the rule
    uint64_t n_repeated = 1;  // how many times its parts are there already
};

class Parser {
public:
    // A text's end is the NUL that c_str() has there, so reading one character ahead is always allowed.
    Parser(const char * text, const TokenOfText & token_of) : pos_(text), token_of_(token_of) {}

    GrammarRules parse() {
        skip_space(true);
        while (*pos_ != 0) {
            rule();
        }
        check_references();
        const auto root = ids_.find("root");
        if (root == ids_.end() || root->second >= rules_.size()) {
            throw GrammarError("there is no rule named root");
        }
        if (recurses_on_the_left(rules_)) {
            throw GrammarError("it recurses on the left");
        }
        GrammarRules found;
        for (const Rule & rule : rules_) {
            found.starts.push_back(static_cast<uint32_t>(found.elements.size()));
            found.elements.insert(found.elements.end(), rule.begin(), rule.end());
        }
        found.root = root->second;
        return found;
    }

private:
    void rule() {
        const std::string_view name = this->name();
        const uint32_t id = id_of(name);
        skip_space(false);
        if (pos_[0] != ':' || pos_[1] != ':' || pos_[2] != '=') {
            fail("expected ::=");
        }
        pos_ += 3;
        skip_space(true);
        alternatives(id, false);
        if (*pos_ == '\r') {
            pos_ += pos_[1] == '\n' ? 2 : 1;
        } else if (*pos_ == '\n') {
            ++pos_;
        } else if (*pos_ != 0) {
            fail("expected the end of the line");
        }
        skip_space(true);
    }

    void alternatives(uint32_t id, bool nested) {
        Rule rule;
        sequence(rule, nested);
        while (*pos_ == '|') {
            push(rule, ElementType::Alt, 0);
            ++pos_;
            skip_space(true);
            sequence(rule, nested);
        }
        push(rule, ElementType::End, 0);
        define(id, std::move(rule));
    }

    void sequence(Rule & rule, bool nested) {
        Item item{rule.size(), 1};
        for (bool more = true; more;) {
            const Item next{rule.size(), 1};
            switch (*pos_) {
                case '"':
                    item = next;
                    literal(rule);
                    break;
                case '[':
                    item = next;
                    character_class(rule);
                    break;
                case '<':
                case '!':
                    item = next;
                    token(rule);
                    break;
                case '(':
                    item = {next.start, group(rule)};
                    break;
                case '.':
                    item = next;
                    push(rule, ElementType::CharAny, 0);
                    ++pos_;
                    break;
                case '*':
                    ++pos_;
                    repeat(rule, item, 0, UNBOUNDED);
                    break;
                case '+':
                    ++pos_;
                    repeat(rule, item, 1, UNBOUNDED);
                    break;
                case '?':
                    ++pos_;
                    repeat(rule, item, 0, 1);
                    break;
                case '{':
                    counted_repetition(rule, item, nested);
                    break;
                default:
                    more = is_name(*pos_);
                    if (more) {
                        item = next;
                        push(rule, ElementType::RuleRef, id_of(name()));
                    }
            }
            if (more) {
                skip_space(nested);
            }
        }
    }

    void literal(Rule & rule) {
        ++pos_;
        while (*pos_ != '"') {
            push(rule, ElementType::Char, character());
        }
        ++pos_;
    }

    void character_class(Rule & rule) {
        ++pos_;
        ElementType type = ElementType::Char;
        if (*pos_ == '^') {
            ++pos_;
            type = ElementType::CharNot;
        }
        while (*pos_ != ']') {
            push(rule, type, character());
            type = ElementType::CharAlt;
            if (pos_[0] == '-' && pos_[1] != ']') {
                ++pos_;
                push(rule, ElementType::CharUpper, character());
            }
        }
        ++pos_;
    }

    void token(Rule & rule) {
        ElementType type = ElementType::Token;
        if (*pos_ == '!') {
            type = ElementType::TokenNot;
            ++pos_;
        }
        if (*pos_ != '<') {
            fail("expected <");
        }
        const char * const start = pos_++;
        if (*pos_ == '[') {
            ++pos_;
            const uint64_t id = number();
            if (id > std::numeric_limits<uint32_t>::max()) {
                fail("a token's number is too large");
            }
            if (pos_[0] != ']' || pos_[1] != '>') {
                fail("expected ]>");
            }
            pos_ += 2;
            push(rule, type, static_cast<uint32_t>(id));
            return;
        }
        while (*pos_ != 0 && *pos_ != '>') {
            ++pos_;
        }
        if (*pos_ == 0) {
            fail("expected >");
        }
        ++pos_;
        const int32_t id = token_of_(std::string_view(start, static_cast<size_t>(pos_ - start)));
        if (id < 0) {
            fail("a token's text is not exactly one token");
        }
        push(rule, type, static_cast<uint32_t>(id));
    }

    // A group becomes a rule of its own. Returns how many rules it made, which repetitions of it count.
    uint64_t group(Rule & rule) {
        if (++n_nested_ > MAX_NESTED_GROUPS) {
            fail("groups are nested too deep");
        }
        ++pos_;
        skip_space(true);
        const uint32_t id = n_rules_++;
        alternatives(id, true);
        push(rule, ElementType::RuleRef, id);
        if (*pos_ != ')') {
            fail("expected )");
        }
        ++pos_;
        --n_nested_;
        return n_rules_ - id;
    }

    void counted_repetition(Rule & rule, Item & item, bool nested) {
        ++pos_;
        skip_space(nested);
        const uint64_t min = number();
        uint64_t max = min;
        skip_space(nested);
        if (*pos_ == ',') {
            ++pos_;
            skip_space(nested);
            max = UNBOUNDED;
            if (is_digit(*pos_)) {
                max = number();
                skip_space(nested);
            }
        }
        if (*pos_ != '}') {
            fail("expected , or }");
        }
        ++pos_;
        if (min > MAX_REPETITIONS) {
            fail("too many repetitions");
        }
        if (max != UNBOUNDED && max < min) {
            fail("a repetition's maximum is below its minimum");
        }
        // as the reference has it: a maximum beyond the limit is none
        repeat(rule, item, min, max > MAX_REPETITIONS ? UNBOUNDED : max);
    }

    // Replaces the item X by X written `min` times, and by a rule for what may follow: without a maximum R ::= X R |,
    // else a chain of (max - min) rules R1 ::= X |, R2 ::= X R1 |, ...
    void repeat(Rule & rule, Item & item, uint64_t min, uint64_t max) {
        if (item.start == rule.size()) {
            fail("there is nothing to repeat");
        }
        const bool bounded = max != UNBOUNDED;
        const uint64_t times = bounded && max > 0 ? max : std::max<uint64_t>(min, 1);
        if (item.n_repeated * times > MAX_REPETITIONS) {
            fail("too many repetitions within repetitions");
        }
        item.n_repeated *= times;
        const Rule repeated(rule.begin() + static_cast<ptrdiff_t>(item.start), rule.end());
        rule.resize(item.start);
        n_elements_ -= repeated.size();
        for (uint64_t i = 0; i < min; ++i) {
            append(rule, repeated);
        }
        const uint64_t n_optional = bounded ? max - min : 1;
        uint32_t last = 0;
        for (uint64_t i = 0; i < n_optional; ++i) {
            const uint32_t id = n_rules_++;
            Rule optional;
            append(optional, repeated);
            if (i > 0 || !bounded) {
                push(optional, ElementType::RuleRef, bounded ? last : id);
            }
            push(optional, ElementType::Alt, 0);
            push(optional, ElementType::End, 0);
            define(id, std::move(optional));
            last = id;
        }
        if (n_optional > 0) {
            push(rule, ElementType::RuleRef, last);
        }
    }

    std::string_view name() {
        const char * const start = pos_;
        while (is_name(*pos_)) {
            ++pos_;
        }
        if (pos_ == start) {
            fail("expected a name");
        }
        return {start, static_cast<size_t>(pos_ - start)};
    }

    uint64_t number() {
        if (!is_digit(*pos_)) {
            fail("expected a number");
        }
        uint64_t value = 0;
        for (; is_digit(*pos_); ++pos_) {
            const auto digit = static_cast<uint64_t>(*pos_ - '0');
            if (value > (std::numeric_limits<uint64_t>::max() - digit) / 10) {
                fail("a number is too large");
            }
            value = value * 10 + digit;
        }
        return value;
    }

    uint32_t character() {
        if (*pos_ == 0) {
            fail("something has no end");
        }
        if (*pos_ == '\\') {
            return escape();
        }
        // the text is valid UTF-8; a byte that is not is read as the reference reads it
        const auto first = static_cast<uint8_t>(*pos_++);
        const int length = first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
        uint32_t value = first & ((1u << (8 - length)) - 1);
        for (int i = 1; i < length && *pos_ != 0; ++i, ++pos_) {
            value = (value << 6) + (static_cast<uint8_t>(*pos_) & 0x3F);
        }
        return value;
    }

    uint32_t escape() {
        const char kind = pos_[1];
        switch (kind) {
            case 'x': return hexadecimal(2);
            case 'u': return hexadecimal(4);
            case 'U': return hexadecimal(8);
            case 't': pos_ += 2; return '\t';
            case 'r': pos_ += 2; return '\r';
            case 'n': pos_ += 2; return '\n';
            case '\\':
            case '"':
            case '[':
            case ']':
            case '-': pos_ += 2; return static_cast<uint8_t>(kind);
            default: fail("unknown escape");
        }
    }

    uint32_t hexadecimal(int n_digits) {
        pos_ += 2;
        uint32_t value = 0;
        for (int i = 0; i < n_digits; ++i, ++pos_) {
            const int digit = hex_digit(*pos_);
            if (digit < 0) {
                fail("expected a hexadecimal digit");
            }
            value = (value << 4) + static_cast<uint32_t>(digit);
        }
        return value;
    }

    void skip_space(bool lines_too) {
        for (;; ++pos_) {
            if (*pos_ == '#') {
                while (*pos_ != 0 && *pos_ != '\r' && *pos_ != '\n') {
                    ++pos_;
                }
            }
            if (!(*pos_ == ' ' || *pos_ == '\t' || (lines_too && (*pos_ == '\r' || *pos_ == '\n')))) {
                return;
            }
        }
    }

    uint32_t id_of(std::string_view name) {
        const auto [place, is_new] = ids_.try_emplace(std::string(name), n_rules_);
        if (is_new) {
            ++n_rules_;
        }
        return place->second;
    }

    void define(uint32_t id, Rule && rule) {
        if (rules_.size() <= id) {
            rules_.resize(id + 1);
        }
        rules_[id] = std::move(rule);
    }

    void push(Rule & rule, ElementType type, uint32_t value) {
        count(1);
        rule.push_back({type, value});
    }

    void append(Rule & rule, const Rule & more) {
        count(more.size());
        rule.insert(rule.end(), more.begin(), more.end());
    }

    void count(size_t n) {
        n_elements_ += n;
        if (n_elements_ > MAX_ELEMENTS) {
            fail("it has too many elements");
        }
    }

    // A rule that only a replaced rule refers to may be missing, unless a later rule has been defined.
    void check_references() const {
        if (rules_.empty()) {
            throw GrammarError("there are no rules");
        }
        for (const auto & [name, id] : ids_) {
            if (id < rules_.size() && rules_[id].empty()) {
                throw GrammarError("there is no rule named " + name.substr(0, 100));
            }
        }
        for (const Rule & rule : rules_) {
            for (const Element & element : rule) {
                if (element.type != ElementType::RuleRef || element.value < rules_.size()) {
                    continue;
                }
                const auto named = std::find_if(ids_.begin(), ids_.end(),
                                                [&](const auto & known) { return known.second == element.value; });
                throw GrammarError("there is no rule named " + named->first.substr(0, 100));
            }
        }
    }

    [[noreturn]] void fail(const char * reason) const {
        if (*pos_ == 0 || *pos_ == '\r' || *pos_ == '\n') {
            throw GrammarError(std::string(reason) + (*pos_ == 0 ? ", at the end of the text" : ", at the end of a line"));
        }
        throw GrammarError(std::string(reason) + " at \"" + excerpt() + "\"");
    }

    // The start of what is left of the line, in UTF-8 whatever the text is.
    std::string excerpt() const {
        std::string shown;
        for (const char * at = pos_; *at != 0 && *at != '\r' && *at != '\n' && shown.size() < MAX_SHOWN;) {
            const int n = character_bytes(at);
            shown += n > 0 ? std::string(at, static_cast<size_t>(n)) : "?";
            at += std::max(n, 1);
        }
        return shown;
    }

    const char * pos_;
    const TokenOfText & token_of_;
    std::map<std::string, uint32_t, std::less<>> ids_;  // of named rules; groups and repetitions have numbers only
    uint32_t n_rules_ = 0;
    std::vector<Rule> rules_;
    size_t n_elements_ = 0;
    int n_nested_ = 0;
};

}  // namespace

GrammarRules parse_grammar(const std::string & text, const TokenOfText & token_of) {
    return Parser(text.c_str(), token_of).parse();
}

}  // namespace bankml
