// Cuts a text into the words that byte-pair merges never cross, as llama.cpp b11192 does for each kind of vocabulary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bankml {

// What the pre-tokenizers want to know of a character; each character has exactly one class.
enum CharClass : uint8_t {
    kNone = 0,  // no character: before or past the text
    kLetter = 1,
    kNumber = 2,
    kMark = 4,
    kPunctuation = 8,
    kSymbol = 16,
    kSpace = 32,
    kOther = 64,
};

constexpr uint32_t kCodePoints = 0x110000;

// The CharClass of every code point: Unicode 15.1's general category, or kSpace where White_Space holds.
const uint8_t * char_classes();

// A text as characters, in the form the splitters read.
struct Characters {
    std::vector<uint8_t> kind;     // CharClass
    std::vector<uint32_t> code;    // code point
    std::vector<uint32_t> offset;  // where its bytes start; one more at the end
};

struct CodeRange {
    uint32_t first, last;
};

constexpr uint32_t kNoLimit = 0xFFFFFFFF;

// One step of a pre-tokenizer: cuts each piece that the step before it left.
struct Splitter {
    enum class Kind { kGpt2, kCased, kRuns, kTrailingSpace } kind;
    // kCased: the classes that make up a word, and the most digits in a number.
    // kRuns: the classes, the ASCII characters and the ranges of characters that are no white space of which a run
    // consists, its least and its greatest length, and whether one white space before it belongs to it.
    uint8_t classes = 0;
    std::string_view extra = {};
    uint32_t least = 1;
    uint32_t most = kNoLimit;
    bool space_before = false;
    std::span<const CodeRange> ranges = {};
};

class PreTokenizer {
public:
    // `splitters` names the steps in order; throws std::invalid_argument for an unknown name.
    explicit PreTokenizer(const std::vector<std::string> & splitters);

    // Appends the end of each word of `text` (valid UTF-8), in bytes. No word is empty; the last ends with the text.
    void split(std::string_view text, std::vector<uint32_t> & ends) const;

private:
    std::vector<Splitter> steps_;
};

}  // namespace bankml
