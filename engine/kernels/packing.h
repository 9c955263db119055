// Copies of weights in the order the kernels read them.
#pragma once

#include <vector>

#include "kernels.h"
#include "pages.h"

namespace bankml {

// Memory for packed weights, handed out from its start. It outlives the matrices packed into it.
class Arena {
  public:
    explicit Arena(size_t bytes) : pages_(bytes, true) {}

    // Packs the matrices that are not packed yet, on n_threads threads.
    // Throws std::length_error, and packs nothing, if they do not all fit.
    void pack(const Kernels& kernels, const std::vector<Matrix*>& matrices, int n_threads);

  private:
    Pages pages_;
    size_t used_ = 0;
};

}  // namespace bankml
