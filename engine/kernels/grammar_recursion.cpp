#include "grammar_recursion.h"

#include <algorithm>
#include <cstdint>

namespace bankml {

namespace {

enum class Mark : uint8_t { Unseen, InProgress, Done };

// A rule on the way, and the next of the rules it may start with.
struct Visit {
    uint32_t rule;
    std::vector<uint32_t> leftmost;
    size_t next = 0;
};

bool has_empty_alternative(const Rule & rule) {
    bool at_start = true;
    for (const Element & element : rule) {
        if (element.ends_alternative() && at_start) {
            return true;
        }
        at_start = element.ends_alternative();
    }
    return false;
}

// The rules a rule may start with.
std::vector<uint32_t> leftmost(const Rule & rule, const std::vector<bool> & may_be_empty) {
    std::vector<uint32_t> found;
    bool at_start = true;
    for (const Element & element : rule) {
        if (element.ends_alternative()) {
            at_start = true;
        } else if (at_start && element.type == ElementType::RuleRef) {
            found.push_back(element.value);
            at_start = may_be_empty[element.value];
        } else {
            at_start = false;
        }
    }
    return found;
}

}  // namespace

bool recurses_on_the_left(const std::vector<Rule> & rules) {
    std::vector<bool> may_be_empty(rules.size());
    std::transform(rules.begin(), rules.end(), may_be_empty.begin(), has_empty_alternative);
    std::vector<Mark> marks(rules.size(), Mark::Unseen);
    std::vector<Visit> path;
    const auto enter = [&](uint32_t rule) {
        marks[rule] = Mark::InProgress;
        path.push_back({rule, leftmost(rules[rule], may_be_empty)});
    };
    for (uint32_t first = 0; first < rules.size(); ++first) {
        if (marks[first] == Mark::Unseen) {
            enter(first);
        }
        while (!path.empty()) {
            Visit & visit = path.back();
            if (visit.next == visit.leftmost.size()) {
                marks[visit.rule] = Mark::Done;
                path.pop_back();
                continue;
            }
            const uint32_t rule = visit.leftmost[visit.next++];
            if (marks[rule] == Mark::InProgress) {
                return true;
            }
            if (marks[rule] == Mark::Unseen) {
                enter(rule);
            }
        }
    }
    return false;
}

}  // namespace bankml
