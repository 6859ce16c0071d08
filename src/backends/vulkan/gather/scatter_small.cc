// Scatters of at most 256 slices along one axis, without reduction. Every element of the result searches the indices
// from the last, so that the last of equal ones wins as in the reference kernels.
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/shader_kernel.h"
#include "ops/common/index.h"
#include "ops/gather/gather.h"
#include "shaders/index_copy.h"

namespace smelt::vulkan {
namespace {

constexpr shaders::Variant<shaders::IndexCopy> kShaders[][2] = {
    {shaders::index_copy_8_i32, shaders::index_copy_8_i64},
    {shaders::index_copy_16_i32, shaders::index_copy_16_i64},
    {shaders::index_copy_32_i32, shaders::index_copy_32_i64},
    {shaders::index_copy_64_i32, shaders::index_copy_64_i64}};
/// The search is linear.
constexpr int64_t kMaxIndices = 256;

/// Which inputs hold what.
struct Inputs {
  size_t indices, values;
};

std::unique_ptr<Kernel> make(const KernelSpec& spec, const Inputs& in, int64_t axis) {
  const Shape& x = spec.inputs[0].shape;
  const DType dtype = spec.outputs[0].dtype, index = spec.inputs[in.indices].dtype;
  const int width = element_width_index(dtype);
  if (width < 0 || x.rank() == 0 || spec.inputs[in.values].dtype != dtype || index_words(index) == 0) return nullptr;
  const auto at = normalize_axis(axis, x.rank());
  if (!at.ok()) return nullptr;
  const AxisView v = axis_view(x, *at);
  const shaders::IndexCopy::Push push{.n = u32(x.elements()),
                                      .extent = u32(v.extent),
                                      .inner = u32(v.inner),
                                      .indices_count = u32(spec.inputs[in.indices].shape.elements()),
                                      .fault_code = 0};
  const int64_t places = x.elements() / push.extent * push.indices_count;
  if (push.indices_count > kMaxIndices || push.indices_count == 0 || spec.inputs[in.values].shape.elements() != places)
    return nullptr;
  return shader_kernel(kShaders[width][index_words(index) - 1], {},
                       {input(0), input(in.indices), input(in.values), output(0), faults()}, push.n, push);
}

}  // namespace

std::unique_ptr<Kernel> make_scatter_slices_small(const KernelSpec& spec) {
  const auto& a = spec.attrs<ScatterAttrs>();
  if (a.reduction != ScatterAttrs::Reduce::kNone) return nullptr;
  return make(spec, {1, 2}, a.axis);
}

std::unique_ptr<Kernel> make_scatter_nd_small(const KernelSpec& spec) {
  const Shape& indices = spec.inputs[1].shape;
  if (spec.attrs<ScatterAttrs>().reduction != ScatterAttrs::Reduce::kNone) return nullptr;
  if (indices.rank() < 1 || indices.back() != 1) return nullptr;  // tuples of one index
  return make(spec, {1, 2}, 0);
}

std::unique_ptr<Kernel> make_index_scatter_small(const KernelSpec& spec) {
  if (spec.attrs<IndexAttrs>().accumulate) return nullptr;
  size_t only = 0;
  for (size_t i = 2; i < spec.inputs.size(); ++i) {
    if (!spec.has(i)) continue;
    if (only) return nullptr;
    only = i;
  }
  return only ? make(spec, {only, 1}, static_cast<int64_t>(only) - 2) : nullptr;
}

}  // namespace smelt::vulkan
