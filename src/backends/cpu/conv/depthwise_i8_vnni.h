#pragma once

#include <cstdint>

namespace smelt {

/// One row of output pixels of an 8-bit depthwise convolution by AVX-512 VNNI, in depthwise_vnni_rows.cc. Pixels come
/// in bundles whose channels lie side by side; their channels come in blocks of 64.
///
/// Accumulators of a block are four vectors: lane 4 * l + j of vector v belongs to channel 16 * l + 4 * v + j, an order
/// that narrowing to bytes undoes.
struct DepthwiseRow {
  static constexpr int64_t kBlock = 64, kVectors = 4, kVectorBytes = 64;
  static constexpr int64_t channel(int64_t vector, int64_t lane) { return lane / 4 * 16 + 4 * vector + lane % 4; }

  /// How accumulators are rescaled; the vectors that a block has for it, kVectors of each kind.
  enum class Rule : uint8_t {
    kFloat,     ///< factors
    kDouble,    ///< multipliers, those of odd lanes, shifts, what is added to products of even lanes, of odd lanes
    kPositive,  ///< the same; the sign of the sum does not matter
  };
  static int64_t rule_bytes(Rule rule) { return (rule == Rule::kFloat ? 1 : 5) * kVectors * kVectorBytes; }
  static int64_t weight_bytes(int64_t groups) { return (1 + groups) * kVectors * kVectorBytes; }

  const uint8_t* const* taps = nullptr;   ///< 4 * groups: where the taps of the first bundle are, unsigned
  int64_t groups = 0;                     ///< of four taps
  int64_t channels = 0;                   ///< of a bundle
  int64_t count = 0, step = 0, last = 0;  ///< bundle i is min(i * step, last) bytes behind the first
  const char* weights = nullptr;          ///< a block: addends, then weights [group][vector][lane][tap]
  const char* rules = nullptr;
  int32_t zero = 0, low = 0, high = 0;
  uint8_t* out = nullptr;
};

using DepthwiseRowFunction = void (*)(const DepthwiseRow&);
DepthwiseRowFunction depthwise_row_vnni(DepthwiseRow::Rule rule, bool is_signed, int64_t taps);

/// LineBuffer::Gather of quantized uint8, and of int8, which become unsigned by counting from -128.
void gather_pixels_vnni(const uint8_t* from, int64_t n, int64_t step, int64_t channels, uint8_t* to);
void gather_signed_pixels_vnni(const uint8_t* from, int64_t n, int64_t step, int64_t channels, uint8_t* to);

}  // namespace smelt
