#pragma once

#include <cstdint>

namespace smelt {

/// Instruction set levels of the CPU kernels, each a superset of the ones before.
enum class Isa : uint8_t {
  kBaseline,  ///< Highway's lowest vector target: SSE4.1 on x86, NEON on Arm
  kAvx2,      ///< AVX2, FMA, F16C
  kAvx512,    ///< AVX-512 F, BW, DQ, VL
  kVnni,      ///< kAvx512 and AVX-512 VNNI
};

const char* to_string(Isa isa);  ///< "baseline", "avx2", "avx512", "vnni"
/// Best level of this machine.
Isa best_isa();
/// SMELT_ISA if it names a level that the machine has, else best_isa(). Read once.
Isa active_isa();
/// False on processors below kBaseline (x86 without SSE4.1): no kernel applies there.
bool has_vectors();

}  // namespace smelt
