#include "spm.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <utility>

namespace bankml {

namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581, which stands for a space
constexpr int32_t kInNoToken = -1;

size_t character_length(char lead) {
    const uint8_t byte = static_cast<uint8_t>(lead);
    return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// The character at the start of a text.
std::string_view first_character(std::string_view text) {
    return text.substr(0, character_length(text.front()));
}

std::string name_of(uint8_t byte) {
    constexpr char hex[] = "0123456789ABCDEF";
    return std::string("0x") + hex[byte >> 4] + hex[byte & 15];
}

// Each token's rank by its score: 0 for the highest, the same for equal ones.
std::vector<uint32_t> ranks_of(const std::vector<float> & scores) {
    std::vector<float> order = scores;
    std::sort(order.begin(), order.end(), std::greater<float>());
    order.erase(std::unique(order.begin(), order.end()), order.end());
    std::vector<uint32_t> ranks;
    ranks.reserve(scores.size());
    for (const float score : scores) {
        const auto place = std::lower_bound(order.begin(), order.end(), score, std::greater<float>());
        ranks.push_back(static_cast<uint32_t>(place - order.begin()));
    }
    return ranks;
}

}  // namespace

// --- building ---

Spm::Spm(std::vector<std::string> tokens, const std::vector<float> & scores, bool add_space_prefix)
    : Vocabulary(std::move(tokens)), add_space_prefix_(add_space_prefix) {
    if (scores.size() != size()) {
        throw std::invalid_argument("one score per token is needed");
    }
    if (std::any_of(scores.begin(), scores.end(), [](float score) { return std::isnan(score); })) {
        throw std::invalid_argument("a score is not a number");
    }
    for (size_t byte = 0; byte < 256; ++byte) {
        const char text = static_cast<char>(byte);
        const int32_t token = find("<" + name_of(static_cast<uint8_t>(byte)) + ">");
        byte_tokens_[byte] = token >= 0 ? token : find(std::string_view(&text, 1));
    }
    add_merges(ranks_of(scores));
    for (size_t code = 0; code < 128; ++code) {
        const char text = static_cast<char>(code);
        ascii_symbols_[code] = symbol_in_text(code == ' ' ? kSpace : std::string_view(&text, 1));
    }
}

// A token merges from any two symbols of which it consists: tokens, or single characters.
void Spm::add_merges(const std::vector<uint32_t> & ranks) {
    struct Found {
        int32_t left, right, merged;
    };
    std::vector<Found> found;
    std::vector<int32_t> characters;
    std::vector<size_t> starts;
    std::vector<std::pair<int32_t, int32_t>> neighbours;
    for (size_t id = 0; id < size(); ++id) {
        const std::string_view token = text(static_cast<int32_t>(id));
        characters.clear();
        starts.clear();
        for (size_t at = 0; at < token.size(); at += first_character(token.substr(at)).size()) {
            starts.push_back(at);
            characters.push_back(symbol(first_character(token.substr(at))));
        }
        const size_t last = starts.size() - 1;
        for (size_t i = 1; i <= last; ++i) {
            neighbours.emplace_back(characters[i - 1], characters[i]);
            const int32_t left = i == 1 ? characters[0] : find(token.substr(0, starts[i]));
            const int32_t right = left < 0 ? -1 : i == last ? characters[last] : find(token.substr(starts[i]));
            if (left >= 0 && right >= 0) {
                found.push_back({left, right, static_cast<int32_t>(id)});
            }
        }
    }
    merges_.reserve(found.size());
    for (const Found & merge : found) {
        merges_.insert(merge.left, merge.right, ranks[static_cast<size_t>(merge.merged)], merge.merged);
    }
    std::sort(neighbours.begin(), neighbours.end());
    neighbours.erase(std::unique(neighbours.begin(), neighbours.end()), neighbours.end());
    neighbours_.reserve(neighbours.size());
    for (const auto & [left, right] : neighbours) {
        neighbours_.insert(left, right, 0, 0);
    }
}

// The symbol of a character of a token.
int32_t Spm::symbol(std::string_view character) {
    if (const int32_t id = find(character); id >= 0) {
        return id;
    }
    const auto [entry, fresh] =
        others_.emplace(std::string(character), static_cast<int32_t>(size() + other_symbols_.size()));
    if (fresh) {
        other_symbols_.emplace_back(character);
    }
    return entry->second;
}

// The symbol of a character of a text, kInNoToken for one that no token has.
int32_t Spm::symbol_in_text(std::string_view character) const {
    if (const int32_t id = find(character); id >= 0) {
        return id;
    }
    const auto other = others_.find(std::string(character));
    return other == others_.end() ? kInNoToken : other->second;
}

// --- encoding ---

struct Spm::Scratch {
    std::vector<int32_t> word;
    MergeScratch merging;
};

std::vector<int32_t> Spm::encode(std::string_view text, bool parse_special) const {
    Scratch scratch;
    return encode_between_specials(text, parse_special, [&](std::string_view part, std::vector<int32_t> & tokens) {
        encode_text(part, scratch, tokens);
    });
}

void Spm::encode_text(std::string_view text, Scratch & scratch, std::vector<int32_t> & tokens) const {
    scratch.word.clear();
    const auto add = [&](std::string_view character, int32_t symbol) {
        if (!scratch.word.empty() &&
            (symbol == kInNoToken || neighbours_.find(scratch.word.back(), symbol) == nullptr)) {
            flush(scratch, tokens);
        }
        if (symbol == kInNoToken) {
            emit_bytes(character, tokens);
        } else {
            scratch.word.push_back(symbol);
        }
    };
    if (add_space_prefix_) {
        add(kSpace, ascii_symbols_[' ']);
    }
    for (size_t at = 0; at < text.size();) {
        const std::string_view character = first_character(text.substr(at));
        const uint8_t lead = static_cast<uint8_t>(text[at]);
        add(lead == ' ' ? kSpace : character, lead < 0x80 ? ascii_symbols_[lead] : symbol_in_text(character));
        at += character.size();
    }
    flush(scratch, tokens);
}

void Spm::flush(Scratch & scratch, std::vector<int32_t> & tokens) const {
    merge_symbols(merges_, scratch.word, scratch.merging);
    for (const int32_t symbol : scratch.word) {
        if (static_cast<size_t>(symbol) < size()) {
            tokens.push_back(symbol);
        } else {
            emit_bytes(other_symbols_[static_cast<size_t>(symbol) - size()], tokens);
        }
    }
    scratch.word.clear();
}

void Spm::emit_bytes(std::string_view character, std::vector<int32_t> & tokens) const {
    for (const char c : character) {
        const int32_t token = byte_tokens_[static_cast<uint8_t>(c)];
        if (token < 0) {
            throw std::invalid_argument("the vocabulary has no token for the byte " + name_of(static_cast<uint8_t>(c)));
        }
        tokens.push_back(token);
    }
}

// --- decoding ---

std::string Spm::normal_piece(const std::string & text) const {
    std::string piece;
    for (size_t at = 0; at < text.size();) {
        if (text.compare(at, kSpace.size(), kSpace) == 0) {
            piece.push_back(' ');
            at += kSpace.size();
        } else {
            piece.push_back(text[at++]);
        }
    }
    return piece;
}

}  // namespace bankml
