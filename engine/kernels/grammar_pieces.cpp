#include "grammar_pieces.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace bankml {

namespace {

// How many bytes follow the first one of a character, by its upper four bits.
constexpr std::array<int32_t, 16> N_FOLLOWING = {0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, 1, 1, 2, 3};

bool continues_character(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

// A token's way through the trie. It ends where the grammar reads the end of the token: at a code point of 0, which an
// overlong character gives.
struct Way {
    std::vector<uint32_t> code_points;
    PartialCharacter rest;
    Token token;

};

bool comes_before(const Way & a, const Way & b) {
    return std::tie(a.code_points, a.token) < std::tie(b.code_points, b.token);
}

}  // namespace

int kind_of(uint32_t code_point) {
    constexpr int n_shared = 6;
    const auto c = static_cast<int>(std::min(code_point, 0x80u));
    if (c < 0x20 || c == 0x7F) return 0;
    if (c == ' ') return 1;
    if ('a' <= c && c <= 'z') return 2;
    if ('A' <= c && c <= 'Z') return 3;
    if ('0' <= c && c <= '9') return 4;
    if (c == 0x80) return 5;
    // ! to /, : to @, [ to `, { to ~
    return n_shared + (c < '0' ? c - '!' : c < 'A' ? c - ':' + 15 : c < 'a' ? c - '[' + 22 : c - '{' + 28);
}

Decoded decode(std::string_view piece, PartialCharacter before) {
    Decoded found;
    size_t i = 0;
    const auto at_end = [&] { return i == piece.size() || piece[i] == 0; };
    int32_t n_missing = before.n_missing;
    uint32_t bits = before.bits;
    for (; n_missing > 0 && !at_end(); ++i, --n_missing) {
        if (!continues_character(piece[i])) {
            return {{}, {0, -1}};
        }
        bits = (bits << 6) + (static_cast<uint8_t>(piece[i]) & 0x3F);
    }
    if (before.n_missing > 0 && n_missing == 0) {
        found.code_points.push_back(bits);
    }
    while (!at_end()) {
        const auto first = static_cast<uint8_t>(piece[i++]);
        n_missing = N_FOLLOWING[first >> 4];
        if (n_missing < 0) {
            return {{}, {0, -1}};
        }
        bits = first & ((1u << (7 - n_missing)) - 1);
        for (; n_missing > 0 && !at_end(); ++i, --n_missing) {
            bits = (bits << 6) + (static_cast<uint8_t>(piece[i]) & 0x3F);
        }
        if (n_missing == 0) {
            found.code_points.push_back(bits);
        }
    }
    found.rest = {bits, n_missing};
    return found;
}

GrammarPieces::GrammarPieces(std::vector<std::string> pieces, const std::vector<Token> & eog)
    : pieces_(std::move(pieces)), eog_(eog), is_eog_(pieces_.size()), places_(pieces_.size(), -1) {
    for (const Token token : eog_) {
        if (token < 0 || token >= n_tokens()) {
            throw std::out_of_range("token outside the vocabulary");
        }
        is_eog_[static_cast<size_t>(token)] = true;
    }
    std::vector<Way> ways;
    for (Token token = 0; token < n_tokens(); ++token) {
        if (!has_text(token)) {
            continue;
        }
        if (continues_character(piece(token)[0])) {
            continuations_.push_back(token);
        }
        Decoded decoded = decode(piece(token), {});
        if (decoded.rest.n_missing < 0) {
            continue;  // no UTF-8 from the start: no grammar takes it there
        }
        auto & code_points = decoded.code_points;
        code_points.erase(std::find(code_points.begin(), code_points.end(), 0u), code_points.end());
        ways.push_back({std::move(code_points), decoded.rest, token});
    }
    std::sort(ways.begin(), ways.end(), comes_before);

    nodes_.push_back({0, 0, 0, 0, 0});
    std::vector<uint32_t> path = {0};  // the nodes from the root to the newest one
    const std::vector<uint32_t> nothing;
    const std::vector<uint32_t> * last = &nothing;
    for (const Way & way : ways) {
        const auto place = static_cast<uint32_t>(order_.size());
        const auto n_common = static_cast<size_t>(
            std::mismatch(last->begin(), last->end(), way.code_points.begin(), way.code_points.end()).first - last->begin());
        while (path.size() > n_common + 1) {
            nodes_[path.back()].skip = static_cast<uint32_t>(nodes_.size());
            path.pop_back();
        }
        for (size_t i = n_common; i < way.code_points.size(); ++i) {
            path.push_back(static_cast<uint32_t>(nodes_.size()));
            nodes_.push_back({way.code_points[i], 0, place, static_cast<uint32_t>(i + 1), 0});
        }
        places_[static_cast<size_t>(way.token)] = place;
        order_.push_back(way.token);
        rests_.push_back(way.rest);
        last = &way.code_points;
    }
    for (const uint32_t node : path) {
        nodes_[node].skip = static_cast<uint32_t>(nodes_.size());
    }
    find_kinds();
}

void GrammarPieces::find_kinds() {
    std::vector<uint32_t> path;
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
        path.resize(nodes_[i].depth);
        for (size_t above = path.size(); above-- > 0;) {
            const uint64_t kind = uint64_t{1} << kind_of(nodes_[i].code_point);
            if ((nodes_[path[above]].kinds_below & kind) != 0) {
                break;  // then it is known further up too
            }
            nodes_[path[above]].kinds_below |= kind;
        }
        path.push_back(i);
    }
}

}  // namespace bankml
