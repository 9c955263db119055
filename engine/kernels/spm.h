// SentencePiece as llama.cpp b11192 does it (`tokenizer.ggml.model` llama): the same tokens for the same vocabulary and
// text.
//
// What lies between special tokens is cut into characters, a space being U+2581, and of all neighbours that together
// are a token those of the highest score are merged, the leftmost first, until none is left. What is no token then is
// written as the tokens of its bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "merging.h"
#include "vocabulary.h"

namespace bankml {

class Spm : public Vocabulary {
public:
    // `tokens` as for Vocabulary, with a score each. With `add_space_prefix` a space goes before each text and after
    // each special token. Throws std::invalid_argument for another count of scores, or one that is not a number.
    Spm(std::vector<std::string> tokens, const std::vector<float> & scores, bool add_space_prefix);

    // Also throws std::invalid_argument for a text with a byte that no token stands for.
    std::vector<int32_t> encode(std::string_view text, bool parse_special) const override;

private:
    struct Scratch;

    std::string normal_piece(const std::string & text) const override;
    int32_t symbol(std::string_view character);
    int32_t symbol_in_text(std::string_view character) const;
    void add_merges(const std::vector<uint32_t> & ranks);
    void encode_text(std::string_view text, Scratch & scratch, std::vector<int32_t> & tokens) const;
    void flush(Scratch & scratch, std::vector<int32_t> & tokens) const;
    void emit_bytes(std::string_view character, std::vector<int32_t> & tokens) const;

    bool add_space_prefix_;
    // Symbols are token ids; past those, characters of tokens that are no token themselves.
    std::vector<std::string> other_symbols_;
    std::unordered_map<std::string, int32_t> others_;
    MergeTable merges_;
    // The characters that stand side by side in some token: where two others meet, no merge crosses, and a word ends.
    MergeTable neighbours_;
    int32_t ascii_symbols_[128];
    int32_t byte_tokens_[256];
};

}  // namespace bankml
