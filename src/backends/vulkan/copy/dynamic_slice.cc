// Slices whose start is a dynamic operand.
#include "shaders/dynamic_slice.h"

#include "backends/vulkan/record/shader_kernel.h"

namespace smelt::vulkan {
namespace {

constexpr int kMostDims = 8;

using Push = shaders::DynamicSlice::Push;
using Variant = shaders::Variant<shaders::DynamicSlice>;

/// The slice of x that starts at input 1; or, for `update`, x with input 1 written from input 2 on. `start`: the input
/// that says where a slice of shape `part` begins.
std::unique_ptr<Kernel> make(const KernelSpec& spec, bool update, size_t start, const Shape& part) {
  static constexpr Variant kShaders[][2] = {{shaders::dynamic_slice_8, shaders::dynamic_update_slice_8},
                                            {shaders::dynamic_slice_16, shaders::dynamic_update_slice_16},
                                            {shaders::dynamic_slice_32, shaders::dynamic_update_slice_32},
                                            {shaders::dynamic_slice_64, shaders::dynamic_update_slice_64}};
  const Shape& x = spec.inputs[0].shape;
  const int width = element_width_index(spec.outputs[0].dtype), rank = x.rank();
  const uint32_t words = index_words(spec.inputs[start].dtype);
  if (width < 0 || rank < 1 || rank > kMostDims || part.rank() != rank) return nullptr;
  if (spec.inputs[0].dtype != spec.outputs[0].dtype || spec.inputs[start].shape.elements() != rank) return nullptr;
  Push push{.n = u32(spec.outputs[0].shape.elements()), .rank = u32(rank), .size = {}, .part = {}, .fault_code = 0};
  for (int d = 0; d < rank; ++d) {
    if (part[d] > x[d]) return nullptr;
    push.size[rank - 1 - d] = u32(x[d]);
    push.part[rank - 1 - d] = u32(part[d]);
  }
  const Variant shader = kShaders[width][update ? 1 : 0];
  if (update)
    return shader_kernel(shader, {.start_words = words}, {input(0), input(2), output(0), input(1)}, push.n, push);
  return shader_kernel(shader, {.start_words = words}, {input(0), input(1), output(0), faults()}, push.n, push);
}

}  // namespace

std::unique_ptr<Kernel> make_dynamic_update_slice(const KernelSpec& spec) {
  if (spec.inputs[0].dtype != spec.inputs[1].dtype) return nullptr;
  return make(spec, true, 2, spec.inputs[1].shape);
}

std::unique_ptr<Kernel> make_dynamic_slice(const KernelSpec& spec) {
  return make(spec, false, 1, spec.outputs[0].shape);
}

}  // namespace smelt::vulkan
