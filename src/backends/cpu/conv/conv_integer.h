#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/cpu/core/kernel.h"
#include "ops/conv/conv_shape.h"

namespace smelt {

/// Of weights, one an output channel; scales where real numbers come out.
struct WeightQuantParams {
  std::vector<int32_t> zeros;
  std::vector<float> scales;
};
/// Those of the type of a filter (input 1) with so many output channels. nullopt: neither one for all nor one a
/// channel.
std::optional<WeightQuantParams> real_weight_params(const KernelSpec& spec, int64_t channels);
/// The parameters of the filter of a ConvInteger or MatMulInteger with so many output channels: of its type, or of
/// input 3. nullopt: neither one for all nor one an output channel, or not constant.
std::optional<WeightQuantParams> integer_weight_params(const KernelSpec& spec, int64_t channels);

/// The kernel of ConvInteger on channels-last images, also for MatMulInteger in the form of a pointwise convolution:
/// inputs are x, filter, x's zero point, the filter's zero points. Returns nullptr where zero points are neither one
/// for all nor one an output channel.
std::unique_ptr<Kernel> make_integer_kernel(const KernelSpec& spec, const ConvShape& g);

}  // namespace smelt
