// Zeroed memory that costs nothing until it is touched.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <utility>

namespace bankml {

class Pages {
  public:
    Pages() = default;
    explicit Pages(size_t bytes, bool large = false) : bytes_(bytes) {
        if (bytes_ == 0) return;
        data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (data_ == MAP_FAILED) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
        // Filled whole and read whole: large pages save most of the page faults. Memory that may stay half empty does
        // not ask for them.
        if (large) madvise(data_, bytes_, MADV_HUGEPAGE);
#endif
    }
    ~Pages() {
        if (bytes_ != 0) munmap(data_, bytes_);
    }
    Pages(Pages&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Pages& operator=(Pages&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }

    size_t size() const { return bytes_; }
    template <class T>
    T* as() const {
        return static_cast<T*>(data_);
    }

  private:
    void* data_ = nullptr;
    size_t bytes_ = 0;
};

}  // namespace bankml
