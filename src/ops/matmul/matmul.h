#pragma once

#include <span>

#include "graph/graph.h"
#include "ops/common/rescale_rule.h"
#include "smelt/tensor.h"

namespace smelt {

/// y = act(alpha * op(a) @ op(b) + beta * c), batched with broadcasting over leading dimensions (NumPy matmul; 1-D
/// operands are vectors). Fully connected layers are MatMul with transpose_b (weights [out, in]).
struct MatMulAttrs : Attrs {
  bool transpose_a = false, transpose_b = false;
  bool conjugate_a = false, conjugate_b = false;
  double alpha = 1, beta = 1;
  Activation act;
  Rounding rounding = Rounding::kFloatHalfEven;
  bool float_scale_product = false, dynamic_quant = false, asymmetric_inputs = false;  ///< as in ConvAttrs
  /// TFLite FULLY_CONNECTED: a is flattened to [-1, in] unless keep_dims, then all but the last dimension stay.
  bool flatten_a = false;
  /// The leading dimensions before the last (1) are one batch in transposition of com.microsoft.FusedMatMul
  /// (transBatch).
  bool trans_batch_a = false, trans_batch_b = false;
  /// Block size of dynamic quantization: float rows of a are quantized to int8 at run time, with one symmetric scale
  /// for each `row_block` entries (choose_block_quant_params, ops/common/dynamic_quant.h); b has blocks of that size
  /// too. 0: a is not quantized by blocks.
  int64_t row_block = 0;
  SMELT_FIELDS(transpose_a, transpose_b, conjugate_a, conjugate_b, alpha, beta, act, rounding, float_scale_product,
               dynamic_quant, asymmetric_inputs, flatten_a, trans_batch_a, trans_batch_b, row_block)
  RescaleRule rescale_rule() const { return {act, rounding, float_scale_product, alpha}; }
  /// See OpInfo::multiply_adds.
  double multiply_adds(std::span<const ValueType> inputs, const ValueType& output) const;
};

struct ExpertMatMulAttrs : Attrs {
  bool transposed = true;  ///< matrices are [out, in], else [in, out]
  SMELT_FIELDS(transposed)
};

struct EinsumAttrs : Attrs {
  std::string equation;
  SMELT_FIELDS(equation)
};

}  // namespace smelt
