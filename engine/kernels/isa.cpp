#include <cstring>

#include "kernels.h"

namespace bankml {

namespace portable {
extern const Kernels kernels;
}
#if defined(BANKML_HAVE_AVX2)
namespace avx2 {
extern const Kernels kernels;
}
static bool avx2_runs_here() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}
#endif

const Kernels* select_kernels(const char* isa) {
    const bool any = *isa == '\0';
#if defined(BANKML_HAVE_AVX2)
    if ((any || std::strcmp(isa, "avx2") == 0) && avx2_runs_here()) return &avx2::kernels;
#endif
    return any || std::strcmp(isa, "portable") == 0 ? &portable::kernels : nullptr;
}

}  // namespace bankml
