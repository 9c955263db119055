// The strings of a GGUF array: each a little-endian 64-bit length and as many bytes, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace bankml {

// Reads strings from the front of some bytes. The bytes may be a map that somebody writes to meanwhile: no length is
// believed beyond `size`, and none is read twice.
class StringArray {
  public:
    StringArray(const uint8_t * data, size_t size) : data_(data), size_(size) {}

    // The next string; none where what is left does not hold a whole one.
    std::optional<std::string_view> next();

    // Where the next string begins, from the front.
    size_t at() const { return at_; }

  private:
    const uint8_t * data_;
    size_t size_;
    size_t at_ = 0;
};

// Moves past up to `count` strings: how many were whole, and where the first that is not begins.
std::pair<size_t, size_t> skip_strings(const uint8_t * data, size_t size, size_t count);

}  // namespace bankml
