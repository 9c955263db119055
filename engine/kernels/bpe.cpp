#include "bpe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <queue>
#include <stdexcept>
#include <unordered_set>

namespace bankml {

namespace {

// Words up to this many bytes are merged by scanning for the best pair, longer ones through a queue.
constexpr size_t kShortWord = 48;
constexpr uint32_t kNoRank = 0xFFFFFFFF;

void append_utf8(uint32_t code, std::string & text) {
    if (code < 0x80) {
        text.push_back(static_cast<char>(code));
    } else {  // the byte alphabet ends below U+0144
        text.push_back(static_cast<char>(0xC0 | code >> 6));
        text.push_back(static_cast<char>(0x80 | (code & 0x3F)));
    }
}

// GPT-2's byte alphabet: a printable character of Latin-1 for itself, the 68 other bytes from U+0100 on, in order.
struct ByteAlphabet {
    std::array<std::string, 256> text;
    std::array<int16_t, 324> byte_of;  // character -> byte, or -1

    ByteAlphabet() {
        byte_of.fill(-1);
        uint32_t next = 256;
        for (uint32_t byte = 0; byte < 256; ++byte) {
            const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
            const uint32_t code = printable ? byte : next++;
            append_utf8(code, text[byte]);
            byte_of[code] = static_cast<int16_t>(byte);
        }
    }
};

const ByteAlphabet & alphabet() {
    static const ByteAlphabet instance;
    return instance;
}

// A token's text back to the bytes it stands for. A character outside the alphabet is named, as by the reference.
std::string decode_alphabet(const std::string & text) {
    const auto & byte_of = alphabet().byte_of;
    std::string bytes;
    for (size_t at = 0; at < text.size();) {
        const uint8_t lead = static_cast<uint8_t>(text[at]);
        const size_t wanted = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
        const size_t length = std::min(wanted, text.size() - at);
        const uint32_t code = length == 1   ? lead
                              : length == 2 ? (lead & 0x1Fu) << 6 | (static_cast<uint8_t>(text[at + 1]) & 0x3Fu)
                                            : static_cast<uint32_t>(byte_of.size());
        if (code < byte_of.size() && byte_of[code] >= 0) {
            bytes.push_back(static_cast<char>(byte_of[code]));
        } else {
            bytes += "[UNK_BYTE_0x";
            for (size_t i = 0; i < length; ++i) {
                constexpr char hex[] = "0123456789abcdef";
                const uint8_t byte = static_cast<uint8_t>(text[at + i]);
                bytes.push_back(hex[byte >> 4]);
                bytes.push_back(hex[byte & 15]);
            }
            bytes += text + "]";
        }
        at += length;
    }
    return bytes;
}

bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

}  // namespace

// --- building ---

Bpe::Bpe(std::vector<std::string> tokens, const std::vector<std::string_view> & merges,
         const std::vector<std::string> & splitters, bool ignore_merges)
    : pretokenizer_(splitters), ignore_merges_(ignore_merges), tokens_(std::move(tokens)) {
    ids_.reserve(tokens_.size());
    for (size_t id = 0; id < tokens_.size(); ++id) {
        std::string & text = tokens_[id];
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
    add_merges(merges);
    std::fill(std::begin(trie_root_), std::end(trie_root_), -1);
    attributes_.assign(tokens_.size(), kNormal);
}

void Bpe::add_merges(const std::vector<std::string_view> & merges) {
    std::unordered_map<std::string, int32_t> others;
    for (size_t byte = 0; byte < 256; ++byte) {
        byte_symbols_[byte] = symbol(alphabet().text[byte], others);
    }
    merges_.reserve(merges.size());
    std::string joined;
    for (size_t rank = 0; rank < merges.size(); ++rank) {
        const std::string_view merge = merges[rank];
        const size_t space = merge.find(' ', 1);
        if (space == std::string_view::npos) {
            continue;  // ranks a pair of empty symbols in the reference, which no word has
        }
        const std::string_view left = merge.substr(0, space);
        const std::string_view right = merge.substr(space + 1);
        joined.assign(left).append(right);
        const int32_t merged = symbol(joined, others);
        merges_.insert(symbol(left, others), symbol(right, others), static_cast<uint32_t>(rank), merged);
    }
}

int32_t Bpe::symbol(std::string_view text, std::unordered_map<std::string, int32_t> & others) {
    const int32_t id = find(text);
    if (id >= 0) {
        return id;
    }
    const auto [entry, fresh] =
        others.emplace(std::string(text), static_cast<int32_t>(tokens_.size() + other_symbols_.size()));
    if (fresh) {
        other_symbols_.emplace_back(text);
    }
    return entry->second;
}

std::vector<int32_t> Bpe::in_map_order(const std::vector<std::string_view> & texts) const {
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

void Bpe::set_attributes(const std::vector<uint16_t> & attributes) {
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
        add_special(tokens_[specials_[i].token], static_cast<int32_t>(i));
    }
}

void Bpe::add_special(std::string_view text, int32_t special) {
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

// --- encoding ---

struct Bpe::Scratch {
    struct Link {
        int32_t previous, next;
        int32_t symbol;
        uint32_t length;  // bytes of the word it covers; 0 once merged away
    };
    struct Candidate {
        uint32_t rank, left, right, length;
        bool operator<(const Candidate & other) const {  // std::priority_queue yields the greatest
            return rank != other.rank ? rank > other.rank : left > other.left;
        }
    };
    std::vector<uint32_t> ends;
    std::vector<Link> links;
    std::vector<Candidate> candidates;
    std::string encoded;
};

// Where special tokens stand. The reference goes through them from the longest to the shortest and cuts each out of
// what text is left, from left to right. That is what happens here too, but on occurrences found in one pass for all
// tokens, so a text is not read once per token.
std::vector<Bpe::Cut> Bpe::cut_specials(std::string_view text, bool parse_special) const {
    std::vector<std::pair<int32_t, uint32_t>> hits;  // (index in specials_, where)
    for (size_t at = 0; at < text.size(); ++at) {
        int32_t node = trie_root_[static_cast<uint8_t>(text[at])];
        for (size_t stop = at + 1; node >= 0; ++stop) {
            const int32_t special = trie_[node].special;
            if (special >= 0 && (parse_special || !(specials_[special].attributes & (kControl | kUnknown)))) {
                hits.emplace_back(special, static_cast<uint32_t>(at));
            }
            if (stop == text.size()) {
                break;
            }
            node = trie_[node].child;
            while (node >= 0 && trie_[node].byte != static_cast<uint8_t>(text[stop])) {
                node = trie_[node].sibling;
            }
        }
    }
    std::vector<Cut> cuts;
    if (hits.empty()) {
        return cuts;
    }
    std::sort(hits.begin(), hits.end());
    std::vector<bool> taken(text.size());
    for (const auto & [index, where] : hits) {
        const Special & special = specials_[index];
        size_t begin = where;
        size_t end = begin + special.length;
        // What was taken before is at least as long, so it cannot lie between the two ends without touching one.
        if (taken[begin] || taken[end - 1]) {
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
    std::sort(cuts.begin(), cuts.end(), [](const Cut & a, const Cut & b) { return a.begin < b.begin; });
    return cuts;
}

std::vector<int32_t> Bpe::encode(std::string_view text, bool parse_special) const {
    if (text.size() > 0x7FFFFFFF) {
        throw std::length_error("it has more than 2 GiB");
    }
    std::vector<int32_t> tokens;
    tokens.reserve(text.size() / 3);
    Scratch scratch;
    size_t at = 0;
    for (const Cut & cut : cut_specials(text, parse_special)) {
        encode_text(text.substr(at, cut.begin - at), scratch, tokens);
        tokens.push_back(cut.token);
        at = cut.end;
    }
    encode_text(text.substr(at), scratch, tokens);
    return tokens;
}

std::vector<std::string_view> Bpe::split(std::string_view text) const {
    std::vector<uint32_t> ends;
    pretokenizer_.split(text, ends);
    std::vector<std::string_view> words;
    uint32_t begin = 0;
    for (const uint32_t end : ends) {
        words.push_back(text.substr(begin, end - begin));
        begin = end;
    }
    return words;
}

void Bpe::encode_text(std::string_view text, Scratch & scratch, std::vector<int32_t> & tokens) const {
    scratch.ends.clear();
    pretokenizer_.split(text, scratch.ends);
    uint32_t begin = 0;
    for (const uint32_t end : scratch.ends) {
        encode_word(text.substr(begin, end - begin), scratch, tokens);
        begin = end;
    }
}

void Bpe::encode_word(std::string_view word, Scratch & scratch, std::vector<int32_t> & tokens) const {
    if (ignore_merges_ && word.size() <= longest_token_) {
        scratch.encoded.clear();
        for (const char c : word) {
            scratch.encoded += alphabet().text[static_cast<uint8_t>(c)];
        }
        if (const int32_t id = find(scratch.encoded); id >= 0) {
            tokens.push_back(id);
            return;
        }
    }
    if (word.size() <= kShortWord) {
        merge_short(word, tokens);
    } else {
        merge_long(word, scratch, tokens);
    }
}

void Bpe::merge_short(std::string_view word, std::vector<int32_t> & tokens) const {
    int32_t symbols[kShortWord];
    uint32_t ranks[kShortWord];   // of the pair that starts here
    int32_t merged[kShortWord];  // what that pair becomes
    size_t count = word.size();
    const auto look_up = [&](size_t left) {
        const MergeTable::Merge * merge = left + 1 < count ? merges_.find(symbols[left], symbols[left + 1]) : nullptr;
        ranks[left] = merge == nullptr ? kNoRank : merge->rank;
        merged[left] = merge == nullptr ? -1 : merge->merged;
    };
    for (size_t i = 0; i < count; ++i) {
        symbols[i] = byte_symbols_[static_cast<uint8_t>(word[i])];
    }
    for (size_t i = 0; i < count; ++i) {
        look_up(i);
    }
    while (true) {
        const size_t best = static_cast<size_t>(std::min_element(ranks, ranks + count) - ranks);
        if (ranks[best] == kNoRank) {
            break;
        }
        symbols[best] = merged[best];
        const size_t tail = count - best - 2;
        std::memmove(symbols + best + 1, symbols + best + 2, tail * sizeof(symbols[0]));
        std::memmove(ranks + best + 1, ranks + best + 2, tail * sizeof(ranks[0]));
        std::memmove(merged + best + 1, merged + best + 2, tail * sizeof(merged[0]));
        --count;
        look_up(best);
        if (best > 0) {
            look_up(best - 1);
        }
    }
    for (size_t i = 0; i < count; ++i) {
        emit(symbols[i], tokens);
    }
}

void Bpe::merge_long(std::string_view word, Scratch & scratch, std::vector<int32_t> & tokens) const {
    using Candidate = Scratch::Candidate;
    auto & links = scratch.links;
    const int32_t count = static_cast<int32_t>(word.size());
    links.resize(word.size());
    for (int32_t i = 0; i < count; ++i) {
        links[i] = {i - 1, i + 1 < count ? i + 1 : -1, byte_symbols_[static_cast<uint8_t>(word[i])], 1};
    }
    const auto candidate = [&](int32_t left, int32_t right, Candidate & found) {
        if (left < 0 || right < 0) {
            return false;
        }
        const MergeTable::Merge * merge = merges_.find(links[left].symbol, links[right].symbol);
        if (merge == nullptr) {
            return false;
        }
        found = {merge->rank, static_cast<uint32_t>(left), static_cast<uint32_t>(right),
                 links[left].length + links[right].length};
        return true;
    };
    Candidate found;
    scratch.candidates.clear();
    for (int32_t i = 1; i < count; ++i) {
        if (candidate(i - 1, i, found)) {
            scratch.candidates.push_back(found);
        }
    }
    std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(scratch.candidates));
    while (!queue.empty()) {
        const Candidate best = queue.top();
        queue.pop();
        Scratch::Link & left = links[best.left];
        Scratch::Link & right = links[best.right];
        // One of the two was merged elsewhere since: their lengths tell.
        if (left.length == 0 || right.length == 0 || left.length + right.length != best.length) {
            continue;
        }
        left.symbol = merges_.find(left.symbol, right.symbol)->merged;
        left.length = best.length;
        right.length = 0;
        left.next = right.next;
        if (right.next >= 0) {
            links[right.next].previous = static_cast<int32_t>(best.left);
        }
        for (const auto & [a, b] : {std::pair(left.previous, static_cast<int32_t>(best.left)),
                                   std::pair(static_cast<int32_t>(best.left), left.next)}) {
            if (candidate(a, b, found)) {
                queue.push(found);
            }
        }
    }
    for (int32_t i = 0; i >= 0; i = links[i].next) {
        emit(links[i].symbol, tokens);
    }
}

// A symbol that is no token falls apart into the bytes of its text, of which those are kept that are tokens.
void Bpe::emit(int32_t symbol, std::vector<int32_t> & tokens) const {
    if (static_cast<size_t>(symbol) < tokens_.size()) {
        tokens.push_back(symbol);
        return;
    }
    for (const char c : other_symbols_[static_cast<size_t>(symbol) - tokens_.size()]) {
        if (const int32_t id = find(std::string_view(&c, 1)); id >= 0) {
            tokens.push_back(id);
        }
    }
}

// --- decoding ---

std::string Bpe::piece(int32_t token, bool special) const {
    const std::string & text = tokens_.at(static_cast<size_t>(token));
    const uint16_t attributes = attributes_[static_cast<size_t>(token)];
    if (!special && attributes & (kUnknown | kControl)) {
        return {};
    }
    if (attributes & (kUnknown | kControl | kUserDefined)) {
        return text;
    }
    if (attributes & kNormal) {
        return decode_alphabet(text);
    }
    if (attributes & kByte) {  // <0xHH>
        return std::string(1, static_cast<char>(std::strtol(text.substr(3, 2).c_str(), nullptr, 16)));
    }
    return {};
}

}  // namespace bankml
