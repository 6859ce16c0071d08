#include "cpu/isa.h"

#include <cstdlib>
#include <cstring>

namespace smelt {

const char* to_string(Isa isa) {
  static const char* const names[] = {"baseline", "avx2", "avx512", "vnni"};
  return names[static_cast<int>(isa)];
}

#if defined(__x86_64__)
bool has_vectors() { return __builtin_cpu_supports("sse4.1"); }

Isa best_isa() {
  static const Isa best = [] {
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c");
    if (!avx2) return Isa::kBaseline;
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (!avx512) return Isa::kAvx2;
    return __builtin_cpu_supports("avx512vnni") ? Isa::kVnni : Isa::kAvx512;
  }();
  return best;
}
#else
bool has_vectors() { return true; }
Isa best_isa() { return Isa::kBaseline; }
#endif

Isa active_isa() {
  static const Isa active = [] {
    const char* wanted = std::getenv("SMELT_ISA");
    for (int i = 0; wanted && i <= static_cast<int>(best_isa()); ++i)
      if (std::strcmp(wanted, to_string(static_cast<Isa>(i))) == 0) return static_cast<Isa>(i);
    return best_isa();
  }();
  return active;
}

}  // namespace smelt
