#include "pretokenizer.h"

#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>

namespace bankml {

namespace {

constexpr uint32_t kRuns[] = {
#include "unicode_table.inc"
};

using Ends = std::vector<uint32_t>;

// The characters of one piece: outside of it there is nothing, as for a regular expression run over the piece alone.
struct Piece {
    const uint8_t * kinds;
    const uint8_t * characters;
    uint32_t begin;
    uint32_t end;

    uint8_t kind(uint32_t at) const { return at < end ? kinds[at] : uint8_t{kNone}; }
    uint8_t ascii(uint32_t at) const { return at < end ? characters[at] : uint8_t{0xFF}; }
};

uint8_t lower(uint8_t c) {
    return c >= 'A' && c <= 'Z' ? static_cast<uint8_t>(c + 32) : c;
}

// Length of 's 't 'm 'd 're 've 'll at `at`, or 0. Nothing outside ASCII has one of these letters as its lower case.
uint32_t contraction(const Piece & piece, uint32_t at, bool any_case) {
    if (piece.ascii(at) != '\'') {
        return 0;
    }
    uint8_t first = piece.ascii(at + 1);
    uint8_t second = piece.ascii(at + 2);
    if (any_case) {
        first = lower(first);
        second = lower(second);
    }
    if (first == 's' || first == 't' || first == 'm' || first == 'd') {
        return 2;
    }
    const bool three = ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l');
    return three ? 3 : 0;
}

// White space up to the next word: all of it at the end of the piece, else all but the last one, which the word takes.
uint32_t after_spaces(const Piece & piece, uint32_t at) {
    uint32_t stop = at;
    while (piece.kind(stop) == kSpace) {
        ++stop;
    }
    return stop - at > 1 && stop < piece.end ? stop - 1 : stop;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
void split_gpt2(const Piece & piece, Ends & ends) {
    for (uint32_t at = piece.begin; at < piece.end; ends.push_back(at)) {
        if (const uint32_t length = contraction(piece, at, false)) {
            at += length;
            continue;
        }
        const uint32_t body = at + (piece.ascii(at) == ' ');
        const uint8_t kind = piece.kind(body);
        if (kind == kLetter || kind == kNumber) {
            for (at = body; piece.kind(at) == kind;) {
                ++at;
            }
        } else if (kind != kNone && kind != kSpace) {
            for (at = body; piece.kind(at) & ~(kSpace | kLetter | kNumber);) {
                ++at;
            }
        } else {
            at = after_spaces(piece, at);
        }
    }
}

// White space up to the last line break in it, or as after_spaces where it has none.
uint32_t after_lines(const Piece & piece, uint32_t at) {
    uint32_t last = 0;
    for (uint32_t stop = at; piece.kind(stop) == kSpace; ++stop) {
        if (piece.ascii(stop) == '\r' || piece.ascii(stop) == '\n') {
            last = stop + 1;
        }
    }
    return last > 0 ? last : after_spaces(piece, at);
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
// with `letters` for \p{L} and `digits` for 3.
void split_cased(const Piece & piece, uint8_t letters, uint32_t digits, Ends & ends) {
    const uint8_t stops = static_cast<uint8_t>(kSpace | kNumber | letters);
    for (uint32_t at = piece.begin; at < piece.end; ends.push_back(at)) {
        if (const uint32_t length = contraction(piece, at, true)) {
            at += length;
            continue;
        }
        const uint8_t kind = piece.kind(at);
        const uint8_t ascii = piece.ascii(at);
        if (kind == kNumber) {
            const uint32_t start = at;
            while (at - start < digits && piece.kind(at) == kNumber) {
                ++at;
            }
            continue;
        }
        if (ascii != '\r' && ascii != '\n' && ((kind | piece.kind(at + 1)) & letters)) {
            for (++at; piece.kind(at) & letters;) {
                ++at;
            }
            continue;
        }
        const uint32_t body = at + (ascii == ' ');
        if (piece.kind(body) & stops) {
            at = after_lines(piece, at);
            continue;
        }
        for (at = body; piece.kind(at) & ~stops;) {
            ++at;
        }
        while (piece.ascii(at) == '\r' || piece.ascii(at) == '\n') {
            ++at;
        }
    }
}

// Runs of `splitter`'s characters stand alone, what lies between them stays together.
void split_runs(const Piece & piece, const Splitter & splitter, Ends & ends) {
    const auto belongs = [&](uint32_t at) {
        const uint8_t ascii = piece.ascii(at);
        return (piece.kind(at) & splitter.classes) != 0 ||
               (ascii != 0 && ascii < 128 && std::strchr(splitter.extra, ascii) != nullptr);
    };
    uint32_t done = piece.begin;
    for (uint32_t at = piece.begin; at < piece.end;) {
        uint32_t stop = at;
        while (stop - at < splitter.most && belongs(stop)) {
            ++stop;
        }
        if (stop == at || stop - at < splitter.least) {
            ++at;
            continue;
        }
        if (at > done) {
            ends.push_back(at);
        }
        ends.push_back(stop);
        at = done = stop;
    }
    if (done < piece.end) {
        ends.push_back(piece.end);
    }
}

// Every step a pre-tokenizer can name. Those of one regular expression over letters, numbers and white space have code
// of their own, the rest are runs.
const std::pair<const char*, Splitter> kSplitters[] = {
    {"gpt2", {Splitter::Kind::kGpt2}},
    {"llama3", {Splitter::Kind::kCased, kLetter, "", 1, 3}},
    {"qwen2", {Splitter::Kind::kCased, kLetter, "", 1, 1}},
    {"qwen35", {Splitter::Kind::kCased, kLetter | kMark, "", 1, 1}},
    {"each number", {Splitter::Kind::kRuns, kNumber, "", 1, 1}},
    {"numbers", {Splitter::Kind::kRuns, kNumber}},
    {"three digits", {Splitter::Kind::kRuns, kNone, "0123456789", 3, 3}},
    {"punctuation", {Splitter::Kind::kRuns, kPunctuation, "$+<=>^~|"}},
    {"punctuation and backtick", {Splitter::Kind::kRuns, kPunctuation, "$+<=>^~|`"}},
};

Characters characters_of(std::string_view text) {
    const uint8_t * classes = char_classes();
    Characters found;
    found.kind.reserve(text.size());
    found.ascii.reserve(text.size());
    found.offset.reserve(text.size() + 1);
    size_t at = 0;
    while (at < text.size()) {
        const uint8_t lead = static_cast<uint8_t>(text[at]);
        const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
        uint32_t code = length == 1 ? lead : lead & (0x7Fu >> length);
        for (size_t i = 1; i < length && at + i < text.size(); ++i) {
            code = code << 6 | (static_cast<uint8_t>(text[at + i]) & 0x3F);
        }
        found.kind.push_back(code < kCodePoints ? classes[code] : uint8_t{kOther});
        found.ascii.push_back(length == 1 ? lead : uint8_t{128});
        found.offset.push_back(static_cast<uint32_t>(at));
        at += length;
    }
    found.offset.push_back(static_cast<uint32_t>(text.size()));
    return found;
}

}  // namespace

const uint8_t * char_classes() {
    static const std::unique_ptr<uint8_t[]> classes = [] {
        auto table = std::make_unique<uint8_t[]>(kCodePoints);
        constexpr size_t count = std::size(kRuns);
        for (size_t i = 0; i < count; ++i) {
            const uint32_t start = kRuns[i] >> 8;
            const uint32_t stop = i + 1 < count ? kRuns[i + 1] >> 8 : kCodePoints;
            std::memset(table.get() + start, static_cast<int>(kRuns[i] & 0xFF), stop - start);
        }
        return table;
    }();
    return classes.get();
}

PreTokenizer::PreTokenizer(const std::vector<std::string> & splitters) {
    for (const std::string & name : splitters) {
        const Splitter * found = nullptr;
        for (const auto & [known, splitter] : kSplitters) {
            found = name == known ? &splitter : found;
        }
        if (found == nullptr) {
            throw std::invalid_argument("unknown splitter: " + name);
        }
        steps_.push_back(*found);
    }
}

void PreTokenizer::split(std::string_view text, std::vector<uint32_t> & ends) const {
    if (text.empty()) {
        return;
    }
    const Characters characters = characters_of(text);
    Ends pieces = {static_cast<uint32_t>(characters.kind.size())};
    Ends cut;
    for (const Splitter & step : steps_) {
        cut.clear();
        uint32_t begin = 0;
        for (const uint32_t end : pieces) {
            const Piece piece = {characters.kind.data(), characters.ascii.data(), begin, end};
            switch (step.kind) {
                case Splitter::Kind::kGpt2: split_gpt2(piece, cut); break;
                case Splitter::Kind::kCased: split_cased(piece, step.classes, step.most, cut); break;
                case Splitter::Kind::kRuns: split_runs(piece, step, cut); break;
            }
            begin = end;
        }
        pieces.swap(cut);
    }
    ends.reserve(ends.size() + pieces.size());
    for (const uint32_t end : pieces) {
        ends.push_back(characters.offset[end]);
    }
}

}  // namespace bankml
