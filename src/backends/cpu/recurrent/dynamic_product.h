#pragma once

#include <cstdint>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/gemm/gemm_i8.h"
#include "backends/cpu/quantize/dynamic_quant.h"
#include "tensor/quant_params.h"

namespace smelt {

/// Gates of a recurrent operator: `count` of them, each of `units` columns that lie `stride` apart. Columns between are
/// zeros.
struct GateColumns {
  int64_t count = 0, units = 0, stride = 0, directions = 1;
  int64_t columns() const { return count * stride; }
  int64_t rows() const { return count * units; }  ///< of a direction's weights
};

/// The product of float32 rows, quantized at run time to uint8 with one scale for all, and constant 8-bit weights, one
/// matrix a direction.
class DynamicProduct {
 public:
  /// operand: the weights, quantized, [directions * gates * units][depth]. biases: an operand [directions][2][gates *
  /// units] whose two halves are added up, or -1: none.
  DynamicProduct(const KernelSpec& spec, int operand, int biases, const GateColumns& gates, int64_t depth);

  /// Bytes of workspace for products of `rows` rows.
  int64_t workspace_bytes(int64_t rows) const;
  /// Quantizes rows that lie `ldx` apart; entries between them are zeros. The workspace then serves multiply().
  void quantize(const float* x, int64_t ldx, int64_t rows, char* workspace) const;
  int64_t panels() const { return gemm_.panels(gates_.columns()); }  ///< of a direction
  /// y: rows of the gates' columns(), of which those of the panels [begin, end) are written.
  void multiply(int64_t direction, int64_t rows, const char* workspace, int64_t begin, int64_t end, float* y) const;

 private:
  struct Key;
  struct Row;  ///< what quantize() leaves of a row beside its bytes
  Packed pack(const Tensor& weights, const Tensor* biases) const;
  static int64_t packed_at(int64_t rows);  ///< where the bytes lie in a workspace, behind as many Rows
  int64_t lda() const { return gemm_.a_row_bytes(depth_); }
  const char* direction(int64_t d) const { return packed_->data<char>() + d * direction_bytes_; }

  GateColumns gates_;
  int64_t depth_;
  const GemmI8& gemm_;
  const DynamicQuantOps& quant_;
  bool has_bias_, has_zeros_ = false;
  /// Of a direction: panels, then a number a column of each of these.
  int64_t scales_at_ = 0, sums_at_ = 0, biases_at_ = 0, zeros_at_ = 0, direction_bytes_ = 0;
  Packed packed_;
};

}  // namespace smelt
