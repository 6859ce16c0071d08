// For tests: runs one node on the Vulkan device in textures of several forms.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backends/vulkan/layout/image_layout.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {

inline constexpr Packing kPackings[] = {Packing::kWidth, Packing::kHeight, Packing::kChannels};
inline constexpr Storage kStorages[] = {Storage::kTexture3D, Storage::kTexture2D};

/// The inputs behind the first are constants; the result has the first one's element type.
template <class A>
OpCase make_case(std::string label, Op op, A attrs, std::vector<Tensor> inputs) {
  OpCase c;
  c.label = std::move(label);
  c.op = op;
  c.attrs = std::make_shared<A>(std::move(attrs));
  c.outputs[0].dtype = inputs[0].dtype();
  for (size_t i = 1; i < inputs.size(); ++i) c.constants.push_back(i);
  c.inputs = std::move(inputs);
  return c;
}

inline void add_constant(OpCase& c, Tensor value) {
  c.constants.push_back(c.inputs.size());
  c.inputs.push_back(std::move(value));
}

/// The operator runs with that kernel, or one of several, A|B, in the packings given, in images of both kinds.
inline void check_forms(const OpRunner& op, const std::string& kernel, Tolerance near,
                        const std::vector<Packing>& packings = {std::begin(kPackings), std::end(kPackings)}) {
  for (const Storage storage : kStorages)
    for (const Packing packing : packings) {
      SCOPED_TRACE(to_string(TextureForm{storage, packing}));
      check_on_gpu(op, kernel, near, {{storage, packing}, DeviceStorage::kTexture});
    }
}
inline void check_forms(const OpCase& c, const std::string& kernel,
                        const std::vector<Packing>& packings = {std::begin(kPackings), std::end(kPackings)}) {
  SCOPED_TRACE(c.label);
  const bool half = c.outputs[0].dtype == DType::kF16 || c.inputs[0].dtype() == DType::kF16;
  check_forms(OpRunner(c), kernel, half ? 4e-3 : 2e-5, packings);
}

}  // namespace smelt::vulkan
