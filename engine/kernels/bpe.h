// Byte-level byte-pair encoding as llama.cpp b11192 does it: the same tokens for the same vocabulary and text.
//
// What lies between special tokens is cut into words by the pre-tokenizer, each byte of a word becomes a symbol, and
// the neighbouring symbols whose merge has the lowest rank are merged, the leftmost first, until none is left.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "merging.h"
#include "pretokenizer.h"
#include "vocabulary.h"

namespace bankml {

class Bpe : public Vocabulary {
public:
    // `tokens` as for Vocabulary; each of `merges` is two token texts with a space between. Throws
    // std::invalid_argument where a token stands twice or a splitter is unknown.
    Bpe(std::vector<std::string> tokens, const std::vector<std::string_view> & merges,
        const std::vector<std::string> & splitters, bool ignore_merges);

    std::vector<int32_t> encode(std::string_view text, bool parse_special) const override;

    // The words between which no merge happens, special tokens left aside.
    std::vector<std::string_view> split(std::string_view text) const;

private:
    struct Scratch;

    std::string normal_piece(const std::string & text) const override;
    int32_t symbol(std::string_view text, std::unordered_map<std::string, int32_t> & others);
    void add_merges(const std::vector<std::string_view> & merges);
    void encode_word(std::string_view word, Scratch & scratch, std::vector<int32_t> & tokens) const;
    void emit(int32_t symbol, std::vector<int32_t> & tokens) const;

    PreTokenizer pretokenizer_;
    bool ignore_merges_;
    // Symbols are token ids; past those, strings that merges make or bytes stand for though no token has them.
    std::vector<std::string> other_symbols_;
    MergeTable merges_;
    int32_t byte_symbols_[256];
};

}  // namespace bankml
