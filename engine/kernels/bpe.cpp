#include "bpe.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace bankml {

namespace {

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

}  // namespace

// --- building ---

Bpe::Bpe(std::vector<std::string> tokens, const std::vector<std::string_view> & merges,
         const std::vector<std::string> & splitters, bool ignore_merges)
    : Vocabulary(std::move(tokens)), pretokenizer_(splitters), ignore_merges_(ignore_merges) {
    add_merges(merges);
}

void Bpe::add_merges(const std::vector<std::string_view> & merges) {
    std::unordered_map<std::string, int32_t> others;
    for (size_t byte = 0; byte < 256; ++byte) {
        byte_symbols_[byte] = symbol(alphabet().text[byte], others);
    }
    merges_.reserve(merges.size());
    std::string joined;
    for (size_t rank = 0; rank < merges.size(); ++rank) {
        const std::string_view merge = merges[rank].substr(0, merges[rank].find('\0'));
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
        others.emplace(std::string(text), static_cast<int32_t>(size() + other_symbols_.size()));
    if (fresh) {
        other_symbols_.emplace_back(text);
    }
    return entry->second;
}

// --- encoding ---

struct Bpe::Scratch {
    std::vector<uint32_t> ends;
    std::vector<int32_t> symbols;
    std::string encoded;
    MergeScratch merging;
};

std::vector<int32_t> Bpe::encode(std::string_view text, bool parse_special) const {
    Scratch scratch;
    return encode_between_specials(text, parse_special, [&](std::string_view part, std::vector<int32_t> & tokens) {
        scratch.ends.clear();
        pretokenizer_.split(part, scratch.ends);
        uint32_t begin = 0;
        for (const uint32_t end : scratch.ends) {
            encode_word(part.substr(begin, end - begin), scratch, tokens);
            begin = end;
        }
    });
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

void Bpe::encode_word(std::string_view word, Scratch & scratch, std::vector<int32_t> & tokens) const {
    if (ignore_merges_ && word.size() <= longest_token()) {
        scratch.encoded.clear();
        for (const char c : word) {
            scratch.encoded += alphabet().text[static_cast<uint8_t>(c)];
        }
        if (const int32_t id = find(scratch.encoded); id >= 0) {
            tokens.push_back(id);
            return;
        }
    }
    scratch.symbols.clear();
    for (const char c : word) {
        scratch.symbols.push_back(byte_symbols_[static_cast<uint8_t>(c)]);
    }
    merge_symbols(merges_, scratch.symbols, scratch.merging);
    for (const int32_t symbol : scratch.symbols) {
        emit(symbol, tokens);
    }
}

// A symbol that is no token falls apart into the bytes of its text, of which those are kept that are tokens.
void Bpe::emit(int32_t symbol, std::vector<int32_t> & tokens) const {
    if (static_cast<size_t>(symbol) < size()) {
        tokens.push_back(symbol);
        return;
    }
    for (const char c : other_symbols_[static_cast<size_t>(symbol) - size()]) {
        if (const int32_t id = find(std::string_view(&c, 1)); id >= 0) {
            tokens.push_back(id);
        }
    }
}

// --- decoding ---

std::string Bpe::normal_piece(const std::string & text) const {
    return decode_alphabet(text);
}

}  // namespace bankml
