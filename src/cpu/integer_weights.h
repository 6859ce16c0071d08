#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "cpu/kernel.h"
#include "ops/matmul/matmul_shape.h"

namespace smelt {

/// Weights of a constant b as [n][k], zero points subtracted, cut along k into blocks of one scale each.
struct IntegerWeights {
  int64_t blocks = 1, block = 0;  ///< entries of k in a block; the last may be shorter
  std::vector<float> scales;      ///< [block][n]
  std::vector<int16_t> values;
  const int8_t* plain = nullptr;  ///< the constant itself, where it is just that; `values` are empty then

  int64_t depth(int64_t i, int64_t k) const { return std::min(block, k - i * block); }
  /// nullopt: no integers of at most 8 bits whose scales are one for all, one a column, or one a block and column.
  static std::optional<IntegerWeights> make(const Tensor& b, const MatMulShape& s);
};

/// The product of a node of dense rows of a with one constant b; nullopt: it is none.
std::optional<MatMulShape> rows_times_constant(const KernelSpec& spec);
/// Whether there is no bias, or a float32 one, one entry a column.
bool float_bias(const KernelSpec& spec, const MatMulShape& s);
/// Whether rows of a are 8-bit integers with scales of their own, one a row of the product.
bool carries_row_grids(const KernelSpec& spec, const MatMulShape& s);
/// What a product of such rows needs when it runs. `rows`: how many there are.
Status check_row_grids(const Tensor& a, int64_t rows);

}  // namespace smelt
