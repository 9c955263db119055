// Byte-level byte-pair encoding as llama.cpp b11192 does it: the same tokens for the same vocabulary and text.
//
// A text travels: special tokens are cut out first, the rest is cut into words by the pre-tokenizer, each byte of a
// word becomes a symbol, and the neighbouring symbols whose merge has the lowest rank are merged, the leftmost first,
// until none is left.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bpe_tables.h"
#include "pretokenizer.h"

namespace bankml {

// A token's attributes, llama.h's llama_token_attr.
enum TokenAttribute : uint16_t {
    kUnknown = 1 << 0,
    kUnused = 1 << 1,
    kNormal = 1 << 2,
    kControl = 1 << 3,
    kUserDefined = 1 << 4,
    kByte = 1 << 5,
    kLstrip = 1 << 7,
    kRstrip = 1 << 8,
};

class Bpe {
public:
    // `tokens` in the order of their ids; each of `merges` is two token texts with a space between. Throws
    // std::invalid_argument where a token stands twice or a splitter is unknown.
    Bpe(std::vector<std::string> tokens, const std::vector<std::string_view> & merges,
        const std::vector<std::string> & splitters, bool ignore_merges);

    // One TokenAttribute set per token; fixes which tokens are special and how each is written.
    void set_attributes(const std::vector<uint16_t> & attributes);

    // The tokens of a text (valid UTF-8). Without `parse_special`, control and unknown tokens are text. Throws
    // std::length_error past 2 GiB.
    std::vector<int32_t> encode(std::string_view text, bool parse_special) const;

    // The words between which no merge happens, special tokens left aside.
    std::vector<std::string_view> split(std::string_view text) const;

    // The bytes a token stands for; nothing for control and unknown tokens unless `special`. `token` must exist.
    std::string piece(int32_t token, bool special) const;

    // The id of the token with exactly this text, or -1.
    int32_t find(std::string_view text) const { return ids_.find(text); }

    // Those of `texts` that are tokens, in the order in which the reference's std::unordered_map yields them: where
    // several tokens could fill one role, the reference takes the first.
    std::vector<int32_t> in_map_order(const std::vector<std::string_view> & texts) const;

    size_t size() const { return tokens_.size(); }

private:
    struct Special {
        int32_t token;
        uint32_t length;
        uint16_t attributes;
    };
    struct TrieNode {
        int32_t special = -1;
        int32_t child = -1;
        int32_t sibling = -1;
        uint8_t byte = 0;
    };
    struct Cut {
        uint32_t begin, end;
        int32_t token;
    };
    struct Scratch;

    int32_t symbol(std::string_view text, std::unordered_map<std::string, int32_t> & others);
    void add_merges(const std::vector<std::string_view> & merges);
    void add_special(std::string_view text, int32_t special);
    std::vector<Cut> cut_specials(std::string_view text, bool parse_special) const;
    void encode_text(std::string_view text, Scratch & scratch, std::vector<int32_t> & tokens) const;
    void encode_word(std::string_view word, Scratch & scratch, std::vector<int32_t> & tokens) const;
    void merge_short(std::string_view word, std::vector<int32_t> & tokens) const;
    void merge_long(std::string_view word, Scratch & scratch, std::vector<int32_t> & tokens) const;
    void emit(int32_t symbol, std::vector<int32_t> & tokens) const;

    PreTokenizer pretokenizer_;
    bool ignore_merges_;
    std::vector<std::string> tokens_;
    std::vector<uint16_t> attributes_;
    TextTable ids_;
    // Symbols are token ids; past those, strings that merges make or bytes stand for though no token has them.
    std::vector<std::string> other_symbols_;
    MergeTable merges_;
    int32_t byte_symbols_[256];
    size_t longest_token_ = 0;
    std::vector<Special> specials_;
    std::vector<TrieNode> trie_;
    int32_t trie_root_[256];
};

}  // namespace bankml
