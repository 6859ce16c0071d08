// Gathers by indices that are not constant.
#include <array>

#include "backends/vulkan/core/strides.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "ops/common/index.h"
#include "ops/gather/gather.h"
#include "shaders/gather.h"

namespace smelt::vulkan {
namespace {

constexpr shaders::Variant<shaders::Gather> kShaders[][2] = {{shaders::gather_8_i32, shaders::gather_8_i64},
                                                             {shaders::gather_16_i32, shaders::gather_16_i64},
                                                             {shaders::gather_32_i32, shaders::gather_32_i64},
                                                             {shaders::gather_64_i32, shaders::gather_64_i64}};
constexpr size_t kMaxTuple = 4;

/// The dimensions that one tuple of indices addresses.
struct Addressed {
  bool negative = true;
  std::vector<uint32_t> extents, strides;
};

/// Specialization constants of Interface for them.
template <class Interface>
typename Interface::Constants constants_of(const Addressed& addressed) {
  const auto extent = [&](size_t k) { return k < addressed.extents.size() ? addressed.extents[k] : 1; };
  const auto stride = [&](size_t k) { return k < addressed.strides.size() ? addressed.strides[k] : 0; };
  return {.tuple = static_cast<uint32_t>(addressed.extents.size()),
          .negative = addressed.negative,
          .extent1 = extent(1),
          .extent2 = extent(2),
          .extent3 = extent(3),
          .stride1 = stride(1),
          .stride2 = stride(2),
          .stride3 = stride(3)};
}

/// How a node gathers: the output is written along `space`; x and the indices are read at `strides`.
struct Plan {
  size_t x, indices;  ///< inputs
  Shape space;
  std::array<Shape, 2> strides;
  Addressed addressed;
};

bool fits(const KernelSpec& spec, const Plan& p) {
  const DType index = spec.inputs[p.indices].dtype;
  return spec.inputs[p.x].dtype == spec.outputs[0].dtype && (index == DType::kI32 || index == DType::kI64) &&
         !p.addressed.extents.empty() && p.addressed.extents.size() <= kMaxTuple &&
         p.space.elements() == spec.outputs[0].shape.elements();
}

std::unique_ptr<Kernel> make(const KernelSpec& spec, const std::optional<Plan>& p) {
  const int width = element_width_index(spec.outputs[0].dtype);
  if (!p || width < 0 || !fits(spec, *p)) return nullptr;
  const auto walk = Walk<2>::make(p->space, p->strides);
  if (!walk) return nullptr;
  const bool wide = spec.inputs[p->indices].dtype == DType::kI64;
  return shader_kernel(
      kShaders[width][wide ? 1 : 0], constants_of<shaders::Gather>(p->addressed),
      {input(p->x), input(p->indices), output(0), faults()}, walk->n,
      {.walk = *walk, .extent = p->addressed.extents[0], .stride = p->addressed.strides[0], .fault_code = 0});
}

/// Slices of input 0 along `axis` by indices in another input, behind `batch` dimensions that both share.
Plan plan_slices(const KernelSpec& spec, size_t index_input, int axis, int batch, bool negative) {
  const Shape &x = spec.inputs[0].shape, &indices = spec.inputs[index_input].shape;
  const int64_t batches = product(x, 0, batch), outer = product(x, batch, axis), extent = x[axis];
  const int64_t run = product(x, axis + 1, x.rank()), count = indices.elements() / batches;
  return {0,
          index_input,
          Shape{batches, outer, count, run},
          {Shape{outer * extent * run, extent * run, 0, 1}, Shape{count, 0, 1, 0}},
          {negative, {u32(extent)}, {u32(run)}}};
}

Plan plan_gather(const KernelSpec& spec) {
  const auto& a = spec.attrs<GatherAttrs>();
  const Shape &x = spec.inputs[0].shape, &indices = spec.inputs[1].shape;
  const int axis = static_cast<int>(a.axis < 0 ? a.axis + x.rank() : a.axis);
  const int batch = static_cast<int>(a.batch_dims < 0 ? a.batch_dims + indices.rank() : a.batch_dims);
  return plan_slices(spec, 1, axis, batch, a.negative);
}

std::optional<Plan> plan_index_tensor(const KernelSpec& spec) {
  size_t only = 0;
  for (size_t i = 1; i < spec.inputs.size(); ++i) {
    if (!spec.has(i)) continue;
    if (only) return std::nullopt;
    only = i;
  }
  if (!only) return std::nullopt;
  return plan_slices(spec, only, static_cast<int>(only) - 1, 0, true);
}

Plan plan_embedding_lookup(const KernelSpec& spec) {
  const Shape& table = spec.inputs[1].shape;
  const int64_t run = product(table, 1, table.rank());
  return {1,
          0,
          Shape{spec.inputs[0].shape.elements(), run},
          {Shape{0, 1}, Shape{1, 0}},
          {false, {u32(table[0])}, {u32(run)}}};
}

std::optional<Plan> plan_gather_elements(const KernelSpec& spec) {
  const auto& a = spec.attrs<GatherAttrs>();
  const Shape &x = spec.inputs[0].shape, &indices = spec.inputs[1].shape;
  if (x.rank() == 0) return std::nullopt;
  const int axis = static_cast<int>(a.axis < 0 ? a.axis + x.rank() : a.axis);
  Shape strides = x.strides();
  const int64_t stride = strides[axis];
  strides[axis] = 0;
  return Plan{0, 1, indices, {strides, indices.strides()}, {a.negative, {u32(x[axis])}, {u32(stride)}}};
}

Plan plan_gather_nd(const KernelSpec& spec) {
  const auto& a = spec.attrs<GatherAttrs>();
  const Shape &x = spec.inputs[0].shape, &indices = spec.inputs[1].shape;
  const int batch = static_cast<int>(a.batch_dims);
  const auto tuple = static_cast<int>(indices.back());
  const int64_t batches = product(x, 0, batch), tuples = product(indices, batch, indices.rank() - 1);
  const int64_t run = product(x, batch + tuple, x.rank());
  const Shape strides = x.strides();
  Addressed addressed{a.negative, {}, {}};
  for (int d = batch; d < batch + tuple; ++d) {
    addressed.extents.push_back(u32(x[d]));
    addressed.strides.push_back(u32(strides[d]));
  }
  return {0,
          1,
          Shape{batches, tuples, run},
          {Shape{product(x, batch, x.rank()), 0, 1}, Shape{tuples * tuple, tuple, 0}},
          std::move(addressed)};
}

std::optional<Plan> plan_of(const KernelSpec& spec) {
  switch (spec.node.op) {
    case Op::kGather:
      return plan_gather(spec);
    case Op::kIndexTensors:
      return plan_index_tensor(spec);
    case Op::kEmbeddingLookup:
      return plan_embedding_lookup(spec);
    case Op::kGatherElements:
      return plan_gather_elements(spec);
    default:
      return plan_gather_nd(spec);
  }
}

}  // namespace

std::unique_ptr<Kernel> make_gather(const KernelSpec& spec) { return make(spec, plan_gather(spec)); }
std::unique_ptr<Kernel> make_index_tensor(const KernelSpec& spec) { return make(spec, plan_index_tensor(spec)); }
std::unique_ptr<Kernel> make_embedding_lookup(const KernelSpec& spec) {
  return make(spec, plan_embedding_lookup(spec));
}
std::unique_ptr<Kernel> make_gather_elements(const KernelSpec& spec) { return make(spec, plan_gather_elements(spec)); }
std::unique_ptr<Kernel> make_gather_nd(const KernelSpec& spec) { return make(spec, plan_gather_nd(spec)); }

std::unique_ptr<Kernel> make_gather_texture(const KernelSpec& spec) {
  const auto y = image_of(spec, spec.outputs[0]);
  const auto plan = y ? plan_of(spec) : std::nullopt;
  if (!plan || !fits(spec, *plan)) return nullptr;
  auto walk = Walk<2, 6>::make(plan->space, plan->strides);
  if (!walk) return nullptr;
  const DType index = spec.inputs[plan->indices].dtype;
  const std::string family = "gather_" + type_suffix(spec.outputs[0].dtype) + "_" + type_suffix(index);
  const auto volumes = shaders::find_variant<shaders::GatherTexture>(family + "_3d"),
             planes = shaders::find_variant<shaders::GatherTexture>(family + "_2d");
  if (!volumes || !planes) return nullptr;
  walk->n = static_cast<uint32_t>(y->count());
  // The result is an image; x and the indices are buffers.
  return texture_kernel({spec.form, {}, {y}}, {*volumes, *planes},
                        constants_of<shaders::GatherTexture>(plan->addressed),
                        {input(plan->x), input(plan->indices), output(0), faults()}, walk->n,
                        {.y_size = y->size,
                         .walk = *walk,
                         .extent = plan->addressed.extents[0],
                         .stride = plan->addressed.strides[0],
                         .fault_code = 0});
}

}  // namespace smelt::vulkan
