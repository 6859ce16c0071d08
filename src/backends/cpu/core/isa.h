#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"

namespace smelt {

/// Instruction set features that kernels are compiled for, and what they keep to; each is one bit of an Isa.
enum class IsaFeature : uint8_t {
  kAvx2,    ///< x86: AVX2, FMA, BMI2, F16C
  kAvx512,  ///< x86: AVX-512 F, BW, DQ, VL
  kVnni,    ///< x86: AVX-512 VNNI
  kAmx,     ///< x86: AMX tiles of 8-bit integers and of bfloat16, and the system's permission to use them
  kBf16,    ///< x86: AVX-512 BF16. Kernels that need it round float32 operands to bfloat16
  kDot,     ///< Arm: 8-bit dot products (Armv8.2 FEAT_DotProd)
  /// A float result is summed in one order, wherever it lies in its tensor: SessionOptions::deterministic.
  kOneOrder,
};

/// A set of features on top of Highway's lowest vector target (SSE4.1 on x86, NEON on Arm). The sets that have a name
/// are the levels that SMELT_ISA chooses among.
class Isa {
 public:
  static constexpr size_t kSets = 128;  ///< how many sets there are
  constexpr Isa() = default;
  constexpr Isa(std::initializer_list<IsaFeature> features) {
    for (const IsaFeature f : features) bits_ |= bit(f);
  }
  constexpr bool has(IsaFeature f) const { return (bits_ & bit(f)) != 0; }
  constexpr bool contains(Isa other) const { return (bits_ & other.bits_) == other.bits_; }
  constexpr size_t index() const { return bits_; }  ///< below kSets
  constexpr Isa with(IsaFeature f) const { return Isa(bits_ | bit(f)); }
  constexpr Isa without(IsaFeature f) const { return Isa(bits_ & ~bit(f)); }
  constexpr bool operator==(const Isa&) const = default;

  static const Isa kBaseline, kDot, kAvx2, kAvx512, kVnni, kAmx, kBf16, kAmxBf16;

 private:
  constexpr explicit Isa(uint32_t bits) : bits_(bits) {}
  static constexpr uint32_t bit(IsaFeature f) { return 1u << static_cast<uint32_t>(f); }
  uint32_t bits_ = 0;
};
inline constexpr Isa Isa::kBaseline{};
inline constexpr Isa Isa::kDot{IsaFeature::kDot};
inline constexpr Isa Isa::kAvx2{IsaFeature::kAvx2};
inline constexpr Isa Isa::kAvx512{IsaFeature::kAvx2, IsaFeature::kAvx512};
inline constexpr Isa Isa::kVnni{IsaFeature::kAvx2, IsaFeature::kAvx512, IsaFeature::kVnni};
inline constexpr Isa Isa::kAmx = kVnni.with(IsaFeature::kAmx);
inline constexpr Isa Isa::kBf16 = kVnni.with(IsaFeature::kBf16);
inline constexpr Isa Isa::kAmxBf16 = kAmx.with(IsaFeature::kBf16);

/// "baseline", "dot", "avx2", "avx512", "vnni", "amx", "bf16", "amx_bf16"; "custom" for sets without a name.
const char* to_string(Isa isa);
/// The levels of this machine that are within float32 rounding of each other, each a superset of those before it.
std::span<const Isa> machine_isas();
/// machine_isas() and what this machine has that is used where it is named only, since it rounds more: Isa::kBf16 and
/// Isa::kAmxBf16.
std::span<const Isa> named_isas();
/// The best of named_isas() with IsaFeature::kBf16; Isa::kBf16 where there is none.
inline Isa best_bf16_isa() { return named_isas().back().has(IsaFeature::kBf16) ? named_isas().back() : Isa::kBf16; }
/// "baseline, avx2, ...": the names of named_isas().
std::string list_of_isas();
/// The best of machine_isas().
inline Isa best_isa() { return machine_isas().back(); }
/// The level called `name`; nullptr: best_isa(). A name that is none of named_isas() is an error that lists them and
/// tells `source`, the option that gave it.
Result<Isa> isa_named(const char* name, const char* source = "SMELT_ISA");
/// The level that SMELT_ISA names, read once; best_isa() without it. Session::create() reports its error.
const Result<Isa>& selected_isa();
/// selected_isa(), or best_isa() where that is an error.
Isa active_isa();
/// False on processors below Isa::kBaseline (x86 without SSE4.1): no kernel applies there.
bool has_vectors();
/// Bytes of the level-1 data cache of this machine's processors; 0: unknown.
int64_t level1_cache_bytes();

/// The value of make(isa), made once a set at its first use, so that no code is run that the machine lacks. Every call
/// site's `make` is an expression of its own, which identifies the cache. Empty optionals take no bytes of the program.
template <class Make>
const auto& of_level(Isa isa, Make make) {
  static std::array<std::once_flag, Isa::kSets> once;
  static std::array<std::optional<decltype(make(isa))>, Isa::kSets> made;
  std::call_once(once[isa.index()], [&] { made[isa.index()].emplace(make(isa)); });
  return *made[isa.index()];
}

}  // namespace smelt
