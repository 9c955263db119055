#include "pretokenizer.h"

#include <algorithm>
#include <cstring>
#include <iterator>
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
    const uint32_t * codes;
    uint32_t begin;
    uint32_t end;

    uint8_t kind(uint32_t at) const { return at < end ? kinds[at] : uint8_t{kNone}; }
    uint32_t code(uint32_t at) const { return at < end ? codes[at] : kCodePoints; }
};

uint32_t lower(uint32_t code) {
    return code >= 'A' && code <= 'Z' ? code + 32 : code;
}

// Length of 's 't 'm 'd 're 've 'll at `at`, or 0. Nothing outside ASCII has one of these letters as its lower case.
uint32_t contraction(const Piece & piece, uint32_t at, bool any_case) {
    if (piece.code(at) != '\'') {
        return 0;
    }
    uint32_t first = piece.code(at + 1);
    uint32_t second = piece.code(at + 2);
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
        const uint32_t body = at + (piece.code(at) == ' ');
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
        if (piece.code(stop) == '\r' || piece.code(stop) == '\n') {
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
        const uint32_t code = piece.code(at);
        if (kind == kNumber) {
            const uint32_t start = at;
            while (at - start < digits && piece.kind(at) == kNumber) {
                ++at;
            }
            continue;
        }
        if (code != '\r' && code != '\n' && ((kind | piece.kind(at + 1)) & letters)) {
            for (++at; piece.kind(at) & letters;) {
                ++at;
            }
            continue;
        }
        const uint32_t body = at + (code == ' ');
        if (piece.kind(body) & stops) {
            at = after_lines(piece, at);
            continue;
        }
        for (at = body; piece.kind(at) & ~stops;) {
            ++at;
        }
        while (piece.code(at) == '\r' || piece.code(at) == '\n') {
            ++at;
        }
    }
}

constexpr size_t kNowhere = std::string_view::npos;

bool in_ranges(std::span<const CodeRange> ranges, uint32_t code) {
    const auto after = std::upper_bound(ranges.begin(), ranges.end(), code,
                                        [](uint32_t wanted, const CodeRange & range) { return wanted < range.first; });
    return after != ranges.begin() && code <= std::prev(after)->last;
}

// Runs of `splitter`'s characters stand alone, what lies between them stays together.
void split_runs(const Piece & piece, const Splitter & splitter, Ends & ends) {
    const auto belongs = [&](uint32_t at) {
        const uint8_t kind = piece.kind(at);
        const uint32_t code = piece.code(at);
        return (kind & splitter.classes) != 0 ||
               (code < 128 && splitter.extra.find(static_cast<char>(code)) != kNowhere) ||
               (kind != kSpace && in_ranges(splitter.ranges, code));
    };
    uint32_t done = piece.begin;
    for (uint32_t at = piece.begin; at < piece.end;) {
        const uint32_t start = at + (splitter.space_before && piece.kind(at) == kSpace);
        uint32_t stop = start;
        while (stop - start < splitter.most && belongs(stop)) {
            ++stop;
        }
        if (stop == start || stop - start < splitter.least) {
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

// White space at the end stands alone.
void split_trailing_space(const Piece & piece, Ends & ends) {
    uint32_t stop = piece.end;
    while (stop > piece.begin && piece.kind(stop - 1) == kSpace) {
        --stop;
    }
    if (stop > piece.begin && stop < piece.end) {
        ends.push_back(stop);
    }
    ends.push_back(piece.end);
}

// Cased letters as the DeepSeek tokenizers list them; not those of any version of Unicode.
constexpr CodeRange kDeepseekLetters[] = {
    {0x41, 0x5A}, {0x61, 0x7A}, {0xB5, 0xB5}, {0xC0, 0xD6}, {0xD8, 0xF6}, {0xF8, 0x1BA}, {0x1BC, 0x1BF},
    {0x1C4, 0x293}, {0x295, 0x2AF}, {0x370, 0x373}, {0x376, 0x377}, {0x37B, 0x37D}, {0x37F, 0x37F}, {0x386, 0x386},
    {0x388, 0x38A}, {0x38C, 0x38C}, {0x38E, 0x3A1}, {0x3A3, 0x3F5}, {0x3F7, 0x481}, {0x48A, 0x52F}, {0x531, 0x556},
    {0x10A0, 0x10C5}, {0x13A0, 0x13F5}, {0x13F8, 0x13FD}, {0x1C90, 0x1CBA}, {0x1CBD, 0x1CBF}, {0x1D00, 0x1D2B},
    {0x1D6B, 0x1D77}, {0x1D79, 0x1D9A}, {0x1E00, 0x1F15}, {0x1F18, 0x1F1D}, {0x1F20, 0x1F45}, {0x1F48, 0x1F4D},
    {0x1F50, 0x1F57}, {0x1F59, 0x1F59}, {0x1F5B, 0x1F5B}, {0x1F5D, 0x1F5D}, {0x1F5F, 0x1F7D}, {0x1F80, 0x1FB4},
    {0x1FB6, 0x1FBC}, {0x1FBE, 0x1FBE}, {0x1FC2, 0x1FC4}, {0x1FC6, 0x1FCC}, {0x1FD0, 0x1FD3}, {0x1FD6, 0x1FDB},
    {0x1FE0, 0x1FEC}, {0x1FF2, 0x1FF4}, {0x1FF6, 0x1FFC}, {0x2102, 0x2102}, {0x2107, 0x2107}, {0x210A, 0x2113},
    {0x2115, 0x2115}, {0x2119, 0x211D}, {0x2124, 0x2124}, {0x2126, 0x2126}, {0x2128, 0x2128}, {0x212A, 0x212D},
    {0x212F, 0x2134}, {0x2139, 0x2139}, {0x213C, 0x213F}, {0x2145, 0x2149}, {0x214E, 0x214E}, {0x2183, 0x2184},
    {0x2C00, 0x2C7B}, {0x2C7E, 0x2CE4}, {0x2CEB, 0x2CEE}, {0x2CF2, 0x2CF3}, {0xA640, 0xA66D}, {0xA680, 0xA69B},
    {0xA722, 0xA76F}, {0xA771, 0xA787}, {0xA78B, 0xA78E}, {0xAB70, 0xABBF}, {0xFB00, 0xFB06}, {0xFB13, 0xFB17},
    {0xFF21, 0xFF3A}, {0xFF41, 0xFF5A}, {0x10400, 0x1044F}, {0x104B0, 0x104D3}, {0x104D8, 0x104FB}, {0x10C80, 0x10CB2},
    {0x10CC0, 0x10CF2}, {0x118A0, 0x118DF}, {0x1E900, 0x1E943},
};
constexpr CodeRange kDeepseekPunctuation[] = {
    {0x21, 0x2F}, {0x3A, 0x7E}, {0x2018, 0x201F}, {0x3000, 0x3002}, {0xFF01, 0xFF0F}, {0xFF1A, 0xFF5E},
};
// All that lies between Samaritan and the first Han characters belongs to them too.
constexpr CodeRange kDeepseekHanHangul[] = {{0x800, 0x9FA5}, {0xAC00, 0xD7FF}};

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
    {"each line break", {Splitter::Kind::kRuns, kNone, "\r\n", 1, 1}},
    {"space and letters", {Splitter::Kind::kRuns, kLetter, "", 1, kNoLimit, true}},
    {"space and punctuation", {Splitter::Kind::kRuns, kPunctuation, "", 1, kNoLimit, true}},
    {"deepseek letters", {Splitter::Kind::kRuns, kNone, "", 1, kNoLimit, true, kDeepseekLetters}},
    {"deepseek punctuation", {Splitter::Kind::kRuns, kNone, "", 1, kNoLimit, true, kDeepseekPunctuation}},
    {"deepseek han and hangul", {Splitter::Kind::kRuns, kNone, "", 1, kNoLimit, false, kDeepseekHanHangul}},
    {"trailing space", {Splitter::Kind::kTrailingSpace}},
};

Characters characters_of(std::string_view text) {
    const uint8_t * classes = char_classes();
    Characters found;
    found.kind.reserve(text.size());
    found.code.reserve(text.size());
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
        found.code.push_back(code);
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
            const Piece piece = {characters.kind.data(), characters.code.data(), begin, end};
            switch (step.kind) {
                case Splitter::Kind::kGpt2: split_gpt2(piece, cut); break;
                case Splitter::Kind::kCased: split_cased(piece, step.classes, step.most, cut); break;
                case Splitter::Kind::kRuns: split_runs(piece, step, cut); break;
                case Splitter::Kind::kTrailingSpace: split_trailing_space(piece, cut); break;
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
