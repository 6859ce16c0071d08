#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/gemm/gemm_i8.h"
#include "ops/conv/conv_shape.h"
#include "ops/matmul/matmul_shape.h"
#include "tensor/pages.h"

namespace smelt {

// Constant integer weights of products. A plan asks what they are like from types and parameters where those tell; the
// weights themselves are read when they are packed, once a model.

/// True if 8-bit weights fit int8 with any of these zero points subtracted, whatever they are.
bool always_int8(bool is_signed, const std::vector<int32_t>& zeros);
bool fits_int8(const std::vector<int16_t>& values);

/// A filter of 8-bit integers as [output][tap][channel], zero points (one an output) subtracted.
std::vector<int16_t> ordered_filter(const ConvShape& g, const Tensor& filter, const std::vector<int32_t>& zeros);
/// ordered_filter() in int8. Precondition: filter_fits_int8().
std::vector<int8_t> ordered_filter_int8(const ConvShape& g, const Tensor& filter, const std::vector<int32_t>& zeros);
/// True if the filter itself is what ordered_filter() gives, in int8.
bool is_ordered_filter(const ConvShape& g, const Tensor& filter, const std::vector<int32_t>& zeros);
bool filter_fits_int8(const ConvShape& g, const Tensor& filter, const std::vector<int32_t>& zeros);
/// pack(weights): those of the filter itself where is_ordered_filter(), else of ordered_filter(), in int8 where `int8`.
template <class F>
auto pack_ordered_filter(const ConvShape& g, const Tensor& filter, const std::vector<int32_t>& zeros, bool int8,
                         F&& pack) {
  if (is_ordered_filter(g, filter, zeros)) return pack(static_cast<const int8_t*>(elements_once(filter).get()));
  if (int8) return pack(ordered_filter_int8(g, filter, zeros).data());
  return pack(ordered_filter(g, filter, zeros).data());
}

/// Weights of a constant b as [n][k], zero points subtracted, cut along k into blocks of one scale each.
class QuantizedWeights {
 public:
  /// nullopt: no integers of at most 8 bits whose scales are one for all, one a column, or one a block and column.
  /// b must live as long.
  static std::optional<QuantizedWeights> make(const Tensor& b, const MatMulShape& s);

  int64_t blocks() const { return blocks_; }
  int64_t block() const { return block_; }  ///< entries of k in a block; the last may be shorter
  int64_t depth(int64_t i) const { return std::min(block_, k_ - i * block_); }
  const std::vector<float>& scales() const { return scales_; }  ///< [block][n]
  /// What was subtracted from the quantized entries of a column's block.
  int32_t zero(int64_t block, int64_t n) const {
    return zeros_.empty() ? 0 : zeros_[static_cast<size_t>(block * n_ + n)];
  }
  bool all_zeros_are(int32_t zero) const;
  /// The constant itself, where it is just values() and lies in memory; else null.
  const int8_t* unquantized() const;
  /// The constant as bytes that the packed form takes as they lie; nullopt where it needs values().
  std::optional<BytesOfB> bytes() const;
  /// The codes of column n of 4-bit weights, signed ones plus 8, eight a word from its low bits on; 0 beyond k. Zero
  /// points are not subtracted. `to`: a word for each eight begun.
  void codes_4bit(int64_t n, uint32_t* to) const;
  std::vector<int16_t> values() const;
  bool all_within(int32_t low, int32_t high) const;

 private:
  bool read_quant_params(const MatMulShape& s);
  /// values(), of weights that `weight` reads by their index in the constant.
  template <class Weight>
  void read_values(const Weight& weight, int16_t* to) const;
  const Tensor* b_ = nullptr;
  int64_t n_ = 0, k_ = 0, row_stride_ = 0, column_stride_ = 0;
  int64_t blocks_ = 1, block_ = 1;
  std::vector<float> scales_;
  std::vector<int16_t> zeros_;  ///< as `scales`; empty: all 0
};

/// The product of a node of dense rows of a with one matrix b; nullopt: it is none.
std::optional<MatMulShape> matmul_by_matrix(const KernelSpec& spec);
/// The product of a node of dense rows of a with one quantized constant b; nullopt: it is none.
std::optional<MatMulShape> matmul_by_constant(const KernelSpec& spec);
/// A product written as a 1x1 convolution: rows become pixels, columns output channels.
ConvShape pixels(const MatMulShape& s);
/// True if there is no bias, or a float32 one, one entry a column.
bool float_bias(const KernelSpec& spec, const MatMulShape& s);
/// True if rows of a are 8-bit integers with a scale each, one a row of the product.
bool has_per_token_params(const KernelSpec& spec, const MatMulShape& s);
/// What a product of such rows needs when it runs. `rows`: how many there are.
Status check_per_token_params(const Tensor& a, int64_t rows);

}  // namespace smelt
