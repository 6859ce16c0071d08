#pragma once

#include <cstdint>
#include <vector>

#include "ops/common/dynamic_quant.h"
#include "ops/common/enums.h"
#include "ops/core/op.h"

// Pieces that TFLite's recurrent operators share.
namespace smelt::tf_cells {

/// A matrix of weights: float, or 8-bit with one scale (uint8 is int8 under another name, as old files have it).
struct Matrix {
  const float* real = nullptr;
  const int8_t* quantized = nullptr;
  std::vector<float> widened;  ///< of float16 weights
  float scale = 1;
  int64_t rows = 0, columns = 0;
  bool defined() const { return real || quantized; }
};

/// Rows of activations, and the same quantized where a matrix needs it.
class Rows {
 public:
  Rows(const float* values, int64_t rows, int64_t columns, bool asymmetric)
      : values_(values), rows_(rows), columns_(columns), asymmetric_(asymmetric) {}
  /// out[r][i] += weights[i] . values[r]; out has weights.rows columns.
  void accumulate(const Matrix& weights, float* out);

 private:
  const float* values_;
  int64_t rows_, columns_;
  bool asymmetric_;
  std::vector<int8_t> quantized_;
  std::vector<QuantParams> params_;
};

/// Input `i` as a matrix of `rows` x `columns` (-1: any), or undefined when absent.
Result<Matrix> matrix(const KernelContext& ctx, int i, int64_t rows, int64_t columns);
/// Input `i` as a float vector of n entries (8-bit ones dequantized); empty when absent.
Result<std::vector<float>> vector(const KernelContext& ctx, int i, int64_t n);
/// A float copy of a state input of `n` elements.
Result<std::vector<float>> state(const KernelContext& ctx, int i, int64_t n);
/// Writes a state's new contents where they are wanted.
void write_state(KernelContext& ctx, int output, const std::vector<float>& values);

/// Sizes of a sequence operator (time steps, batch rows, features) and the offset of each step's rows.
struct Walk {
  int64_t time = 1, batch = 1, features = 0;
  bool time_major = true;
  /// Gathers the rows of step t into `out` [batch, features].
  void gather(const float* x, int64_t t, float* out) const;
  /// Scatters rows [batch, n] of step t into y, whose rows have `stride` entries, at column `offset`.
  void scatter(const float* rows, int64_t n, int64_t t, float* y, int64_t stride, int64_t offset) const;
};
Result<Walk> walk_of(const Tensor& x, bool sequence, bool time_major);

/// Output type: x's shape with another last dimension.
ValueType like_input(const ValueType& x, int64_t features);

}  // namespace smelt::tf_cells
