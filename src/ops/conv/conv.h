#pragma once

#include <span>

#include "graph/graph.h"
#include "ops/common/rescale_rule.h"
#include "smelt/tensor.h"

namespace smelt {

/// Convolution of any spatial rank >= 1 with groups. Lists are per spatial dimension; pads are begins then ends.
struct ConvAttrs : Attrs {
  std::vector<int64_t> strides, dilations, pads;
  AutoPad auto_pad = AutoPad::kExplicit;
  int64_t groups = 1;
  Layout layout = Layout::kChannelsFirst;
  FilterLayout filter = FilterLayout::kOIS;
  Activation act;
  Rounding rounding = Rounding::kFloatHalfEven;  ///< of quantized kernels
  /// Fixed-point rules: scale of x * scale of the filter is rounded to float32 before it is divided by the output's
  /// scale. False: all in float64.
  bool float_scale_product = false;
  /// TFLite hybrid: float x is quantized to int8 at run time, with one scale for each image of the batch (symmetric
  /// unless asymmetric_inputs).
  bool dynamic_quant = false, asymmetric_inputs = false;
  SMELT_FIELDS(strides, dilations, pads, auto_pad, groups, layout, filter, act, rounding, float_scale_product,
               dynamic_quant, asymmetric_inputs)
  RescaleRule rescale_rule() const { return {act, rounding, float_scale_product}; }
  /// See OpInfo::multiply_adds.
  double multiply_adds(std::span<const ValueType> inputs, const ValueType& output) const;
};

/// Transposed convolution (gradient of Conv with respect to x).
struct ConvTransposeAttrs : ConvAttrs {
  std::vector<int64_t> output_padding;
  std::vector<int64_t> output_shape;  ///< spatial sizes; empty: from pads. With SAME the pads follow from it
  SMELT_FIELDS(strides, dilations, pads, auto_pad, groups, layout, filter, act, rounding, float_scale_product,
               dynamic_quant, asymmetric_inputs, output_padding, output_shape)
  /// See OpInfo::multiply_adds.
  double multiply_adds(std::span<const ValueType> inputs, const ValueType& output) const;
};

struct DeformConvAttrs : ConvAttrs {
  int64_t offset_groups = 1;
  SMELT_FIELDS(strides, dilations, pads, groups, offset_groups)
};

struct Im2ColAttrs : Attrs {
  std::vector<int64_t> kernel, strides, dilations, pads;
  SMELT_FIELDS(kernel, strides, dilations, pads)
};

}  // namespace smelt
