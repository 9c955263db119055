// What every kind of vocabulary has: tokens, their attributes, and special tokens that are cut out of a text before the
// rest of it is tokenized. As llama.cpp b11192 does it (`llama_vocab` in src/llama-vocab.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "token_tables.h"

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

class Vocabulary {
public:
    // `tokens` in the order of their ids. A text ends at its first NUL, as for the reference; one that is empty becomes
    // "[EMPTY_id]". Throws std::invalid_argument where two tokens have one text.
    explicit Vocabulary(std::vector<std::string> tokens);
    virtual ~Vocabulary() = default;
    Vocabulary(const Vocabulary &) = delete;
    Vocabulary & operator=(const Vocabulary &) = delete;

    // One TokenAttribute set per token; fixes which tokens are special and how each is written. Throws
    // std::invalid_argument for another count, or a byte token that names no byte.
    void set_attributes(const std::vector<uint16_t> & attributes);

    // The tokens of a text (valid UTF-8). Without `parse_special`, control and unknown tokens are text. Throws
    // std::length_error past 2 GiB, std::invalid_argument for a text the vocabulary cannot write.
    virtual std::vector<int32_t> encode(std::string_view text, bool parse_special) const = 0;

    // The bytes a token stands for; nothing for control and unknown tokens unless `special`. `token` must exist.
    std::string piece(int32_t token, bool special) const;

    // The id of the token with exactly this text, or -1.
    int32_t find(std::string_view text) const { return ids_.find(text); }

    // Those of `texts` that are tokens, in the order in which the reference's std::unordered_map yields them: where
    // several tokens could fill one role, the reference takes the first.
    std::vector<int32_t> in_map_order(const std::vector<std::string_view> & texts) const;

    size_t size() const { return tokens_.size(); }

protected:
    // What lies between special tokens goes to `encode_text(text, tokens)`, piece by piece, none of them empty.
    template <typename EncodeText>
    std::vector<int32_t> encode_between_specials(std::string_view text, bool parse_special,
                                                 const EncodeText & encode_text) const;

    // The bytes a normal token's text stands for.
    virtual std::string normal_piece(const std::string & text) const = 0;

    const std::string & text(int32_t token) const { return tokens_[static_cast<size_t>(token)]; }
    size_t longest_token() const { return longest_token_; }

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

    void add_special(std::string_view text, int32_t special);
    int32_t special_at(std::string_view text, size_t at, size_t limit, bool parse_special) const;
    std::vector<Cut> cut_specials(std::string_view text, bool parse_special) const;

    std::vector<std::string> tokens_;
    std::vector<uint16_t> attributes_;
    TextTable ids_;
    size_t longest_token_ = 0;
    std::vector<Special> specials_;
    std::vector<TrieNode> trie_;
    int32_t trie_root_[256];
};

template <typename EncodeText>
std::vector<int32_t> Vocabulary::encode_between_specials(std::string_view text, bool parse_special,
                                                         const EncodeText & encode_text) const {
    std::vector<int32_t> tokens;
    tokens.reserve(text.size() / 3);
    size_t at = 0;
    for (const Cut & cut : cut_specials(text, parse_special)) {
        if (cut.begin > at) {
            encode_text(text.substr(at, cut.begin - at), tokens);
        }
        tokens.push_back(cut.token);
        at = cut.end;
    }
    if (at < text.size()) {
        encode_text(text.substr(at), tokens);
    }
    return tokens;
}

}  // namespace bankml
