#include "vocabulary.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <unordered_set>
#include <utility>

namespace bankml {

namespace {

bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

}  // namespace

// --- building ---

Vocabulary::Vocabulary(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
    ids_.reserve(tokens_.size());
    for (size_t id = 0; id < tokens_.size(); ++id) {
        std::string & text = tokens_[id];
        if (const size_t end = text.find('\0'); end != std::string::npos) {
            text.resize(end);
        }
        if (text.empty()) {
            text = "[EMPTY_" + std::to_string(id) + "]";
        }
        const size_t hash = TextTable::hash(text);
        if (ids_.find(text, hash) >= 0) {
            throw std::invalid_argument("the token " + std::to_string(id) + " has the text of another one");
        }
        ids_.insert(text, hash, static_cast<int32_t>(id));
        longest_token_ = std::max(longest_token_, text.size());
    }
    std::fill(std::begin(trie_root_), std::end(trie_root_), -1);
    attributes_.assign(tokens_.size(), kNormal);
}

std::vector<int32_t> Vocabulary::in_map_order(const std::vector<std::string_view> & texts) const {
    std::unordered_set<int32_t> wanted;
    for (const std::string_view text : texts) {
        if (const int32_t id = find(text); id >= 0) {
            wanted.insert(id);
        }
    }
    if (wanted.size() <= 1) {
        return {wanted.begin(), wanted.end()};
    }
    // The order hangs on the hashes and on how the buckets grew, not on what is stored: a set of ids that hash as their
    // texts, filled in the same order and as the reference's map without a reserve, has it too.
    std::vector<size_t> hashes;
    hashes.reserve(tokens_.size());
    for (const std::string & text : tokens_) {
        hashes.push_back(std::hash<std::string>()(text));
    }
    const auto hash = [&hashes](int32_t id) { return hashes[static_cast<size_t>(id)]; };
    std::unordered_set<int32_t, decltype(hash)> map(0, hash);
    for (size_t id = 0; id < tokens_.size(); ++id) {
        map.insert(static_cast<int32_t>(id));
    }
    std::vector<int32_t> order;
    for (const int32_t id : map) {
        if (wanted.contains(id)) {
            order.push_back(id);
        }
    }
    return order;
}

void Vocabulary::set_attributes(const std::vector<uint16_t> & attributes) {
    if (attributes.size() != tokens_.size()) {
        throw std::invalid_argument("one attribute set per token is needed");
    }
    attributes_ = attributes;
    specials_.clear();
    trie_.clear();
    std::fill(std::begin(trie_root_), std::end(trie_root_), -1);
    for (size_t id = 0; id < tokens_.size(); ++id) {
        if (attributes_[id] & kByte && tokens_[id].size() < 3) {
            throw std::invalid_argument("the byte token " + std::to_string(id) + " does not name a byte");
        }
        if (attributes_[id] & (kControl | kUserDefined | kUnknown)) {
            specials_.push_back({static_cast<int32_t>(id), static_cast<uint32_t>(tokens_[id].size()), attributes_[id]});
        }
    }
    // The same std::sort on the same order as in the reference, so that tokens of one length keep its order.
    std::sort(specials_.begin(), specials_.end(),
              [](const Special & a, const Special & b) { return a.length > b.length; });
    for (size_t i = 0; i < specials_.size(); ++i) {
        add_special(tokens_[static_cast<size_t>(specials_[i].token)], static_cast<int32_t>(i));
    }
}

void Vocabulary::add_special(std::string_view text, int32_t special) {
    int32_t node = -1;
    for (const char c : text) {
        const uint8_t byte = static_cast<uint8_t>(c);
        int32_t next = node < 0 ? trie_root_[byte] : trie_[node].child;
        while (node >= 0 && next >= 0 && trie_[next].byte != byte) {
            next = trie_[next].sibling;
        }
        if (next < 0) {
            next = static_cast<int32_t>(trie_.size());
            trie_.push_back({-1, -1, node < 0 ? -1 : trie_[node].child, byte});
            (node < 0 ? trie_root_[byte] : trie_[node].child) = next;
        }
        node = next;
    }
    trie_[node].special = special;
}

// --- special tokens in a text ---

// The index of the longest special token, of those shorter than `limit` bytes, that stands at `at`; -1 for none.
int32_t Vocabulary::special_at(std::string_view text, size_t at, size_t limit, bool parse_special) const {
    int32_t found = -1;
    const size_t last = std::min(text.size(), at + limit - 1);
    int32_t node = trie_root_[static_cast<uint8_t>(text[at])];
    for (size_t stop = at + 1; node >= 0 && stop <= last; ++stop) {
        const int32_t special = trie_[node].special;
        if (special >= 0 && (parse_special || !(specials_[special].attributes & (kControl | kUnknown)))) {
            found = special;
        }
        if (stop == last) {
            break;
        }
        node = trie_[node].child;
        while (node >= 0 && trie_[node].byte != static_cast<uint8_t>(text[stop])) {
            node = trie_[node].sibling;
        }
    }
    return found;
}

// Where special tokens stand. The reference goes through them from the longest to the shortest and cuts each out of
// what text is left, from left to right. So does this, but over places found in one pass for all tokens: a text is not
// read once per token. Of the tokens that could begin at one place the longest is tried first, a shorter one when
// another token lies over the longer one's end.
std::vector<Vocabulary::Cut> Vocabulary::cut_specials(std::string_view text, bool parse_special) const {
    if (text.size() > 0x7FFFFFFF) {
        throw std::length_error("it has more than 2 GiB");
    }
    std::map<int32_t, std::vector<uint32_t>> places;  // index in specials_ -> where it could begin
    for (size_t at = 0; at < text.size(); ++at) {
        if (trie_root_[static_cast<uint8_t>(text[at])] < 0) {
            continue;
        }
        if (const int32_t special = special_at(text, at, text.size() + 1, parse_special); special >= 0) {
            places[special].push_back(static_cast<uint32_t>(at));
        }
    }
    std::vector<Cut> cuts;
    std::vector<bool> taken(places.empty() ? 0 : text.size());
    for (auto & [index, begins] : places) {
        const Special & special = specials_[index];
        std::sort(begins.begin(), begins.end());
        for (const uint32_t at : begins) {
            size_t begin = at;
            size_t end = begin + special.length;
            // What was taken before is at least as long, so it cannot lie between the two ends without touching one.
            if (taken[begin]) {
                continue;
            }
            if (taken[end - 1]) {
                const int32_t shorter = special_at(text, at, special.length, parse_special);
                if (shorter >= 0) {
                    places[shorter].push_back(at);  // comes after this one
                }
                continue;
            }
            while (special.attributes & kLstrip && begin > 0 && !taken[begin - 1] && is_space(text[begin - 1])) {
                --begin;
            }
            while (special.attributes & kRstrip && end < text.size() && !taken[end] && is_space(text[end])) {
                ++end;
            }
            std::fill_n(taken.begin() + static_cast<std::ptrdiff_t>(begin), end - begin, true);
            cuts.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end), special.token});
        }
    }
    std::sort(cuts.begin(), cuts.end(), [](const Cut & a, const Cut & b) { return a.begin < b.begin; });
    return cuts;
}

// --- decoding ---

std::string Vocabulary::piece(int32_t token, bool special) const {
    const std::string & text = tokens_.at(static_cast<size_t>(token));
    const uint16_t attributes = attributes_[static_cast<size_t>(token)];
    if (!special && attributes & (kUnknown | kControl)) {
        return {};
    }
    if (attributes & (kUnknown | kControl | kUserDefined)) {
        return text;
    }
    if (attributes & kNormal) {
        return normal_piece(text);
    }
    if (attributes & kByte) {  // <0xHH>
        return std::string(1, static_cast<char>(std::strtol(text.substr(3, 2).c_str(), nullptr, 16)));
    }
    return {};
}

}  // namespace bankml
