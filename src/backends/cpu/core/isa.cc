#include "backends/cpu/core/isa.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace smelt {

const char* to_string(Isa isa) {
  static const char* const names[] = {"baseline", "dot", "avx2", "avx512", "vnni"};
  return names[static_cast<int>(isa)];
}

#if defined(__x86_64__)
bool has_vectors() { return __builtin_cpu_supports("sse4.1"); }
#else
bool has_vectors() { return true; }
#endif

namespace {

std::vector<Isa> find_isas() {
  std::vector<Isa> isas{Isa::kBaseline};
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
                    __builtin_cpu_supports("f16c");
  if (!avx2) return isas;
  isas.push_back(Isa::kAvx2);
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!avx512) return isas;
  isas.push_back(Isa::kAvx512);
  if (__builtin_cpu_supports("avx512vnni")) isas.push_back(Isa::kVnni);
#elif defined(__aarch64__) && defined(__linux__)
  if (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) isas.push_back(Isa::kDot);
#endif
  return isas;
}

}  // namespace

std::span<const Isa> machine_isas() {
  static const std::vector<Isa> isas = find_isas();
  return isas;
}

Isa active_isa() {
  static const Isa active = [] {
    const char* wanted = std::getenv("SMELT_ISA");
    for (const Isa isa : machine_isas())
      if (wanted && std::strcmp(wanted, to_string(isa)) == 0) return isa;
    return best_isa();
  }();
  return active;
}

}  // namespace smelt
