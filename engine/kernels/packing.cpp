#include "packing.h"

#include <atomic>
#include <stdexcept>

#include "thread_pool.h"

namespace bankml {

void Arena::pack(const Kernels& kernels, const std::vector<Matrix*>& matrices, int n_threads) {
    struct Copy {
        Matrix* matrix;
        uint8_t* out;
    };
    std::vector<Copy> copies;
    size_t used = used_;
    for (Matrix* w : matrices) {
        if (w->packed != nullptr) continue;
        const size_t bytes = packed_bytes(w->type, w->rows, w->cols);
        if (bytes > pages_.size() - used) throw std::length_error("the arena is full");
        copies.push_back({w, pages_.as<uint8_t>() + used});
        used += bytes;
    }
    used_ = used;
    std::atomic<size_t> next{0};
    ThreadPool(n_threads).run([&](int) {
        for (size_t i = next.fetch_add(1); i < copies.size(); i = next.fetch_add(1)) {
            kernels.pack(*copies[i].matrix, copies[i].out);
        }
    });
    for (const Copy& copy : copies) {
        copy.matrix->packed = copy.out;
        if (is_copied(copy.matrix->type, copy.matrix->rows)) copy.matrix->data = copy.out;
    }
}

}  // namespace bankml
