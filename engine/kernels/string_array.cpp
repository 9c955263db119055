#include "string_array.h"

#include <cstring>

namespace bankml {

std::optional<std::string_view> StringArray::next() {
    uint64_t length = 0;
    if (size_ - at_ < sizeof length) {
        return std::nullopt;
    }
    std::memcpy(&length, data_ + at_, sizeof length);
    if (length > size_ - at_ - sizeof length) {
        return std::nullopt;
    }
    const char * text = reinterpret_cast<const char *>(data_ + at_ + sizeof length);
    at_ += sizeof length + length;
    return std::string_view(text, length);
}

std::pair<size_t, size_t> skip_strings(const uint8_t * data, size_t size, size_t count) {
    StringArray strings(data, size);
    size_t n_whole = 0;
    while (n_whole < count && strings.next()) {
        ++n_whole;
    }
    return {n_whole, strings.at()};
}

}  // namespace bankml
