#include "backends/cpu/core/isa.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#if defined(__linux__)
#include <unistd.h>
#endif

namespace smelt {
namespace {

constexpr struct {
  const char* name;
  Isa isa;
} kLevels[] = {{"baseline", Isa::kBaseline}, {"dot", Isa::kDot}, {"avx2", Isa::kAvx2}, {"avx512", Isa::kAvx512},
               {"vnni", Isa::kVnni},         {"amx", Isa::kAmx}, {"bf16", Isa::kBf16}, {"amx_bf16", Isa::kAmxBf16}};

#if defined(__x86_64__)
/// AMX-TILE, AMX-INT8 and AMX-BF16 (CPUID leaf 7: EDX bits 24, 25, 22), whose registers the system saves (XCR0 bits 17
/// and 18) once a process has asked for them, which this does. The processor has AVX-512, whose registers the system
/// saves. Hosts trap CPUID: one is enough.
bool has_amx() {
#if defined(__linux__)
  constexpr unsigned kFeatures = 1u << 24 | 1u << 25 | 1u << 22, kTileState = 3u << 17;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, of Linux 5.16 and newer
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  __cpuid_count(7, 0, eax, ebx, ecx, edx);
  if ((edx & kFeatures) != kFeatures) return false;
  __asm__("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
  return (eax & kTileState) == kTileState && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#endif

Isa detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
#ifdef __clang__  // clang 14 does not know the feature's name; processors with AVX2 and FMA have it
  const bool f16c = true;
#else
  const bool f16c = __builtin_cpu_supports("f16c");
#endif
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") && f16c;
  if (!avx2) return Isa::kBaseline;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!avx512) return Isa::kAvx2;
  if (!__builtin_cpu_supports("avx512vnni")) return Isa::kAvx512;
  if (!__builtin_cpu_supports("avx512bf16")) return Isa::kVnni;  // what has AMX has BF16
  return (has_amx() ? Isa::kAmx : Isa::kVnni).with(IsaFeature::kBf16);
#elif defined(__aarch64__) && defined(__linux__)
  return getauxval(AT_HWCAP) & HWCAP_ASIMDDP ? Isa::kDot : Isa::kBaseline;
#else
  return Isa::kBaseline;
#endif
}

}  // namespace

int64_t level1_cache_bytes() {
#ifdef _SC_LEVEL1_DCACHE_SIZE
  static const int64_t bytes = ::sysconf(_SC_LEVEL1_DCACHE_SIZE);
  return bytes;
#else
  return 0;
#endif
}

const char* to_string(Isa isa) {
  for (const auto& level : kLevels)
    if (level.isa == isa.without(IsaFeature::kOneOrder)) return level.name;
  return "custom";
}

#if defined(__x86_64__)
bool has_vectors() { return __builtin_cpu_supports("sse4.1"); }
#else
bool has_vectors() { return true; }
#endif

std::span<const Isa> named_isas() {
  static const std::vector<Isa> isas = [] {
    std::vector<Isa> found;
    const Isa machine = detect();
    for (const auto& level : kLevels)
      if (machine.contains(level.isa)) found.push_back(level.isa);
    return found;
  }();
  return isas;
}

std::span<const Isa> machine_isas() {
  const std::span<const Isa> all = named_isas();
  size_t n = all.size();
  while (all[n - 1].has(IsaFeature::kBf16)) --n;
  return all.first(n);
}

std::string list_of_isas() {
  std::string list;
  for (const Isa isa : named_isas()) list += Cat(list.empty() ? "" : ", ", to_string(isa));
  return list;
}

Result<Isa> isa_named(const char* name, const char* source) {
  if (!name) return best_isa();
  for (const Isa isa : named_isas())
    if (std::strcmp(name, to_string(isa)) == 0) return isa;
  return InvalidInput(source, " is ", name, "; this machine has ", list_of_isas());
}

const Result<Isa>& selected_isa() {
  static const Result<Isa> selected = isa_named(std::getenv("SMELT_ISA"));
  return selected;
}

Isa active_isa() { return selected_isa().ok() ? *selected_isa() : best_isa(); }

}  // namespace smelt
