// Gathers by indices that are not constant.
#include <array>

#include "backends/vulkan/core/strides.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "ops/common/index.h"
#include "ops/gather/gather.h"

namespace smelt::vulkan {
namespace {

constexpr const char* kShaders[][2] = {{"gather_8_i32", "gather_8_i64"},
                                       {"gather_16_i32", "gather_16_i64"},
                                       {"gather_32_i32", "gather_32_i64"},
                                       {"gather_64_i32", "gather_64_i64"}};
constexpr size_t kMaxTuple = 4;

struct Push {
  Walk<2> walk;
  uint32_t extent = 1, stride = 0;
  uint32_t fault_code = 0;
};

/// The dimensions that one tuple of indices addresses.
struct Picked {
  bool negative = true;
  std::vector<uint32_t> extents, strides;
};

/// Specialization constants from id 1 on.
std::vector<uint32_t> constants_of(const Picked& picked) {
  std::vector<uint32_t> c{static_cast<uint32_t>(picked.extents.size()), picked.negative ? 1u : 0u, 1, 1, 1, 0, 0, 0};
  for (size_t k = 1; k < picked.extents.size(); ++k) {
    c[1 + k] = picked.extents[k];
    c[4 + k] = picked.strides[k];
  }
  return c;
}

class GatherKernel final : public Kernel {
 public:
  GatherKernel(const char* shader, size_t x, size_t indices, const Walk<2>& walk, const Picked& picked)
      : shader_(shader), x_(x), indices_(indices) {
    push_.walk = walk;
    push_.extent = picked.extents[0];
    push_.stride = picked.strides[0];
    constants_ = constants_of(picked);
    constants_.insert(constants_.begin(), kWidth);
  }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(x_));
    SMELT_ASSIGN(const Binding indices, r.input(indices_));
    Dispatch d{shader_, constants_, {x, indices, r.output(0), r.faults()}};
    return dispatch_checked(r, std::move(d), push_.walk.n, push_);
  }

 private:
  const char* shader_;
  size_t x_, indices_;
  Push push_;
  std::vector<uint32_t> constants_;
};

/// How a node gathers: the output is written along `space`; x and the indices are read at `strides`.
struct Plan {
  size_t x, indices;  ///< inputs
  Shape space;
  std::array<Shape, 2> strides;
  Picked picked;
};

bool fits(const KernelSpec& spec, const Plan& p) {
  const DType index = spec.inputs[p.indices].dtype;
  return spec.inputs[p.x].dtype == spec.outputs[0].dtype && (index == DType::kI32 || index == DType::kI64) &&
         !p.picked.extents.empty() && p.picked.extents.size() <= kMaxTuple &&
         p.space.elements() == spec.outputs[0].shape.elements();
}

std::unique_ptr<Kernel> make(const KernelSpec& spec, const std::optional<Plan>& p) {
  const int width = element_width_index(spec.outputs[0].dtype);
  if (!p || width < 0 || !fits(spec, *p)) return nullptr;
  const auto walk = Walk<2>::make(p->space, p->strides);
  if (!walk) return nullptr;
  const bool wide = spec.inputs[p->indices].dtype == DType::kI64;
  return std::make_unique<GatherKernel>(kShaders[width][wide ? 1 : 0], p->x, p->indices, *walk, p->picked);
}

uint32_t word(int64_t v) { return static_cast<uint32_t>(v); }

/// Slices of input 0 along `axis` by indices in another input, behind `batch` dimensions that both share.
Plan plan_slices(const KernelSpec& spec, size_t index_input, int axis, int batch, bool negative) {
  const Shape &x = spec.inputs[0].shape, &indices = spec.inputs[index_input].shape;
  const int64_t batches = product(x, 0, batch), outer = product(x, batch, axis), extent = x[axis];
  const int64_t run = product(x, axis + 1, x.rank()), picks = indices.elements() / batches;
  return {0,
          index_input,
          Shape{batches, outer, picks, run},
          {Shape{outer * extent * run, extent * run, 0, 1}, Shape{picks, 0, 1, 0}},
          {negative, {word(extent)}, {word(run)}}};
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
          {false, {word(table[0])}, {word(run)}}};
}

std::optional<Plan> plan_gather_elements(const KernelSpec& spec) {
  const auto& a = spec.attrs<GatherAttrs>();
  const Shape &x = spec.inputs[0].shape, &indices = spec.inputs[1].shape;
  if (x.rank() == 0) return std::nullopt;
  const int axis = static_cast<int>(a.axis < 0 ? a.axis + x.rank() : a.axis);
  Shape strides = x.strides();
  const int64_t stride = strides[axis];
  strides[axis] = 0;
  return Plan{0, 1, indices, {strides, indices.strides()}, {a.negative, {word(x[axis])}, {word(stride)}}};
}

Plan plan_gather_nd(const KernelSpec& spec) {
  const auto& a = spec.attrs<GatherAttrs>();
  const Shape &x = spec.inputs[0].shape, &indices = spec.inputs[1].shape;
  const int batch = static_cast<int>(a.batch_dims);
  const auto tuple = static_cast<int>(indices.back());
  const int64_t batches = product(x, 0, batch), tuples = product(indices, batch, indices.rank() - 1);
  const int64_t run = product(x, batch + tuple, x.rank());
  const Shape strides = x.strides();
  Picked picked{a.negative, {}, {}};
  for (int d = batch; d < batch + tuple; ++d) {
    picked.extents.push_back(word(x[d]));
    picked.strides.push_back(word(strides[d]));
  }
  return {0,
          1,
          Shape{batches, tuples, run},
          {Shape{product(x, batch, x.rank()), 0, 1}, Shape{tuples * tuple, tuple, 0}},
          std::move(picked)};
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

/// The result is an image; x and the indices are buffers.
class GatherTexture final : public TextureKernel {
 public:
  GatherTexture(const ImageLayout& y, const Plan& plan, const Walk<2, 6>& walk, std::string shader)
      : TextureKernel(Images{}, y), x_(plan.x), indices_(plan.indices), shader_(std::move(shader)) {
    push_.y = y.size;
    push_.walk = walk;
    push_.walk.n = static_cast<uint32_t>(y.count());
    push_.extent = plan.picked.extents[0];
    push_.stride = plan.picked.strides[0];
    constants_ = constants_of(plan.picked);
    constants_.push_back(packed());
  }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(x_));
    SMELT_ASSIGN(const Binding indices, r.input(indices_));
    TexturePush push = push_;
    push.fault_code = r.fault_code();
    return dispatch(r, shader_.c_str(), constants_, {x, indices, r.output(0), r.faults()}, push.walk.n, push);
  }

 private:
  struct TexturePush {
    GpuSize y{};
    Walk<2, 6> walk;
    uint32_t extent = 1, stride = 0;
    uint32_t fault_code = 0;
  };
  size_t x_, indices_;
  std::string shader_;
  TexturePush push_;
  std::vector<uint32_t> constants_;
};

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
  if (!plan || !fits(spec, *plan) || !unquantized_floats(spec, {plan->x}, {0})) return nullptr;
  const auto walk = Walk<2, 6>::make(plan->space, plan->strides);
  if (!walk) return nullptr;
  const DType index = spec.inputs[plan->indices].dtype;
  return std::make_unique<GatherTexture>(*y, *plan, *walk,
                                         "gather_" + type_suffix(spec.outputs[0].dtype) + "_" + type_suffix(index));
}

}  // namespace smelt::vulkan
