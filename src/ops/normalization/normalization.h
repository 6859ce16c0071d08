#pragma once

#include "ops/common/enums.h"
#include "smelt/tensor.h"

namespace smelt {

struct BatchNormAttrs : Attrs {
  double epsilon = 1e-5, momentum = 0.9;
  bool training = false;
  Layout layout = Layout::kChannelsFirst;
  bool torch_outputs =
      false;  ///< outputs 1 and 2 are the saved mean and inverse standard deviation (empty without training)
  SMELT_FIELDS(epsilon, momentum, training, layout, torch_outputs)
};

/// Over the dimensions from `axis` on: y = (x - mean) / sqrt(var + epsilon) * scale + bias.
struct LayerNormAttrs : Attrs {
  int64_t axis = -1;
  double epsilon = 1e-5;
  bool rms = false;           ///< no mean: y = x / sqrt(mean(x^2) + epsilon) * scale
  DType stash = DType::kF32;  ///< dtype of the statistics
  SMELT_FIELDS(axis, epsilon, rms, stash)
};

struct GroupNormAttrs : Attrs {
  int64_t groups = 1;  ///< 0: one group a channel (instance normalization)
  double epsilon = 1e-5;
  Layout layout = Layout::kChannelsFirst;
  bool per_group_affine = false;  ///< ONNX opset 18: scale and bias have one entry a group
  Activation act;                 ///< com.microsoft.GroupNorm's SiLU is a node of its own
  SMELT_FIELDS(groups, epsilon, layout, per_group_affine, act)
};

struct LrnAttrs : Attrs {
  int64_t size = 1;  ///< window over channels: floor((size-1)/2) before, ceil((size-1)/2) after
  double alpha = 1e-4, beta = 0.75,
         bias = 1;  ///< y = x / (bias + alpha * sum(x^2))^beta (alpha already divided where a format does)
  Layout layout = Layout::kChannelsFirst;
  SMELT_FIELDS(size, alpha, beta, bias, layout)
};

struct LpNormAttrs : Attrs {
  int64_t axis = -1;
  int64_t p = 2;
  double epsilon = 0;  ///< y = x / max(norm, epsilon) for epsilon_max, else x / sqrt(sum + epsilon)
  bool epsilon_max = false;
  Activation act;
  Rounding rounding = Rounding::kFloatHalfEven;
  SMELT_FIELDS(axis, p, epsilon, epsilon_max, act, rounding)
};

struct MeanVarianceNormAttrs : Attrs {
  std::vector<int64_t> axes{0, 2, 3};
  SMELT_FIELDS(axes)
};

}  // namespace smelt
