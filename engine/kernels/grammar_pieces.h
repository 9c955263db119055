// The texts of a vocabulary as a grammar reads them: code points, in a trie over all tokens.
//
// The decoding is llama-server b11192's (`decode_utf8` in src/llama-grammar.cpp), which does not check everything: inside
// a character that starts in the same token, any byte counts as a continuation byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bankml {

using Token = int32_t;

// A character whose first bytes have been read: their bits, and how many bytes are missing. Less than none are missing
// when what was read is no UTF-8.
struct PartialCharacter {
    uint32_t bits = 0;
    int32_t n_missing = 0;
};

struct Decoded {
    std::vector<uint32_t> code_points;
    PartialCharacter rest;
};

// The code points of a token's bytes up to its first NUL, after a character that may have been cut.
Decoded decode(std::string_view piece, PartialCharacter before);

// A coarse kind of code points, below 64: each punctuation mark of ASCII is one, other characters share a few.
int kind_of(uint32_t code_point);

class GrammarPieces {
public:
    // A node stands for the code points on the way to it. Nodes come in the order of a walk, children after parents, so
    // that a walk which leaves out a subtree goes on at `skip`.
    struct Node {
        uint32_t code_point;
        uint32_t skip;         // the next node outside of this subtree
        uint32_t first;        // of this subtree's tokens in order()
        uint32_t depth;
        uint64_t kinds_below;  // a bit for each kind of code point further down
    };

    // `pieces` by token, with special tokens' texts; `eog` the tokens that end an answer, which have no text here.
    GrammarPieces(std::vector<std::string> pieces, const std::vector<Token> & eog);

    int32_t n_tokens() const { return static_cast<int32_t>(pieces_.size()); }
    const std::string & piece(Token token) const { return pieces_[static_cast<size_t>(token)]; }
    bool is_eog(Token token) const { return is_eog_[static_cast<size_t>(token)]; }
    // Whether a grammar can read the token: not one without text, and none that ends an answer.
    bool has_text(Token token) const { return !is_eog(token) && !piece(token).empty() && piece(token)[0] != 0; }

    const std::vector<Token> & eog() const { return eog_; }
    const std::vector<Node> & nodes() const { return nodes_; }
    // Where, behind the tokens that end at a node, those of the nodes below start.
    uint32_t below(uint32_t node) const { return first_of(node + 1); }
    uint32_t subtree_end(uint32_t node) const { return first_of(nodes_[node].skip); }
    // The tokens in the trie by the order of its nodes, and the cut character each ends in.
    const std::vector<Token> & order() const { return order_; }
    PartialCharacter rest(uint32_t place) const { return rests_[place]; }
    // Where a token is in order(), or -1.
    int64_t place(Token token) const { return places_[static_cast<size_t>(token)]; }
    // The tokens that can go on with a cut character: those that start with a continuation byte.
    const std::vector<Token> & continuations() const { return continuations_; }

private:
    uint32_t first_of(uint32_t node) const {
        return node < nodes_.size() ? nodes_[node].first : static_cast<uint32_t>(order_.size());
    }

    void find_kinds();

    std::vector<std::string> pieces_;
    std::vector<Token> eog_;
    std::vector<bool> is_eog_;
    std::vector<Node> nodes_;
    std::vector<Token> order_;
    std::vector<PartialCharacter> rests_;
    std::vector<int64_t> places_;
    std::vector<Token> continuations_;
};

}  // namespace bankml
