#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <span>

namespace smelt {

/// Instruction set levels of the CPU kernels, each a superset of those of its processors before it.
enum class Isa : uint8_t {
  kBaseline,  ///< Highway's lowest vector target: SSE4.1 on x86, NEON on Arm
  kDot,       ///< on Arm: NEON with 8-bit dot products (Armv8.2 FEAT_DotProd)
  kAvx2,      ///< AVX2, FMA, F16C
  kAvx512,    ///< AVX-512 F, BW, DQ, VL
  kVnni,      ///< kAvx512 and AVX-512 VNNI
};

inline constexpr size_t kIsas = 5;

const char* to_string(Isa isa);  ///< "baseline", "dot", "avx2", "avx512", "vnni"
/// The levels of this machine, ascending.
std::span<const Isa> machine_isas();
/// Best level of this machine.
inline Isa best_isa() { return machine_isas().back(); }
/// SMELT_ISA if it names a level that the machine has, else best_isa(). Read once.
Isa active_isa();
/// False on processors below kBaseline (x86 without SSE4.1): no kernel applies there.
bool has_vectors();

/// What `make`, an expression of its own, gives for a level; made at the first use of that level, so that no code of
/// levels that the machine lacks is run.
template <class Make>
const auto& of_level(Isa isa, Make make) {
  static std::array<std::once_flag, kIsas> once;
  static std::array<decltype(make(isa)), kIsas> made;
  const auto at = static_cast<size_t>(isa);
  std::call_once(once[at], [&] { made[at] = make(isa); });
  return made[at];
}

}  // namespace smelt
