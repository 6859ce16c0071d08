// Scatters by indices that are not constant. One invocation applies all updates of a line in their order, and no two
// lines share an element, so results do not depend on the order of invocations.
#include "shaders/scatter.h"

#include "backends/vulkan/core/row_reduction.h"
#include "backends/vulkan/core/strides.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "base/cat.h"
#include "ops/gather/gather.h"

namespace smelt::vulkan {
namespace {

using Reduce = ScatterAttrs::Reduce;

using Push = shaders::Scatter::Push;

/// Which inputs hold what; x is missing where y begins with zeros.
struct ScatterInputs {
  std::optional<size_t> x;
  size_t indices, updates;
};

class ScatterKernel final : public Kernel {
 public:
  ScatterKernel(shaders::Variant<shaders::Scatter> shader, Reduce reduce, uint32_t tuple, bool negative,
                const ScatterInputs& in, const Push& push)
      : shader_(shader), reduce_(reduce), tuple_(tuple), negative_(negative), in_(in), push_(push) {}
  bool reads(size_t i) const override { return i == in_.indices || i == in_.updates || in_.x == i; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding indices, r.input(in_.indices));
    SMELT_ASSIGN(const Binding updates, r.input(in_.updates));
    if (in_.x) {
      SMELT_ASSIGN(const Binding x, r.input(*in_.x));
      r.copy(x, r.output(0));
    } else {
      r.fill(r.output(0), 0);
    }
    return run_checked(r, shader_, {.reduce = static_cast<uint32_t>(reduce_), .tuple = tuple_, .negative = negative_},
                       {indices, updates, r.output(0), r.faults()}, push_.lines.n, push_);
  }

 private:
  shaders::Variant<shaders::Scatter> shader_;
  Reduce reduce_;
  uint32_t tuple_;
  bool negative_;
  ScatterInputs in_;
  Push push_;
};

/// Null if there is no shader for the types, or a line has too many updates for one invocation.
std::unique_ptr<Kernel> make(const KernelSpec& spec, Reduce reduce, uint32_t tuple, bool negative,
                             const ScatterInputs& in, const std::optional<Walk<3, 4>>& lines, int64_t count,
                             Push push) {
  const DType dtype = spec.outputs[0].dtype, index = spec.inputs[in.indices].dtype;
  const bool wide = dtype == DType::kI64;
  if (!lines || count < 1 || count > kMaxLoopIterations / 2 || spec.inputs[in.updates].dtype != dtype) return nullptr;
  if (static_cast<int>(reduce) > static_cast<int>(Reduce::kMax) || index_words(index) == 0) return nullptr;
  if (dtype == DType::kBool || (wide && !spec.device.info().int64)) return nullptr;
  if (!in.x && bit_width(dtype) < 32) return nullptr;
  const auto shader =
      shaders::find_variant<shaders::Scatter>(Cat("scatter_", type_suffix(dtype), '_', type_suffix(index)));
  if (!shader) return nullptr;
  push.lines = *lines;
  push.count = static_cast<uint32_t>(count);
  return std::make_unique<ScatterKernel>(*shader, reduce, tuple, negative, in, push);
}

/// Tuples of indices that name slices of y.
std::unique_ptr<Kernel> make_scatter_tuples(const KernelSpec& spec, Reduce reduce, bool negative,
                                            const ScatterInputs& in) {
  const Shape &y = spec.outputs[0].shape, &indices = spec.inputs[in.indices].shape;
  if (indices.rank() < 1 || indices.back() < 1 || indices.back() > 4 || indices.back() > y.rank()) return nullptr;
  const auto tuple = static_cast<int>(indices.back());
  const int64_t count = indices.elements() / tuple, slice = product(y, tuple, y.rank());
  if (spec.inputs[in.updates].shape.elements() != count * slice) return nullptr;
  Push push{};
  for (int t = 0; t < tuple; ++t) {
    push.extent[t] = static_cast<int32_t>(y[t]);
    push.stride[t] = static_cast<int32_t>(y.strides()[t]);
  }
  push.update_step = static_cast<int32_t>(slice);
  push.index_step = tuple;
  const auto lines = Walk<3, 4>::make(Shape{slice}, {Shape{1}, Shape{1}, Shape{0}});
  return make(spec, reduce, static_cast<uint32_t>(tuple), negative, in, lines, count, push);
}

}  // namespace

std::unique_ptr<Kernel> make_scatter_elements(const KernelSpec& spec) {
  const auto& a = spec.attrs<ScatterAttrs>();
  const Shape &x = spec.inputs[0].shape, &indices = spec.inputs[1].shape, &updates = spec.inputs[2].shape;
  if (!a.include_self || x.rank() == 0 || indices.rank() != x.rank() || updates.rank() != x.rank()) return nullptr;
  const auto axis = normalize_axis(a.axis, x.rank());
  if (!axis.ok()) return nullptr;
  const Shape y_strides = x.strides(), update_strides = updates.strides(), index_strides = indices.strides();
  Shape dims, along[3];
  for (int d = 0; d < x.rank(); ++d) {
    if (indices[d] > updates[d] || (d != *axis && indices[d] > x[d])) return nullptr;
    if (d == *axis) continue;
    dims.push_back(indices[d]);
    along[0].push_back(y_strides[d]);
    along[1].push_back(update_strides[d]);
    along[2].push_back(index_strides[d]);
  }
  Push push{};
  push.extent[0] = static_cast<int32_t>(x[*axis]);
  push.stride[0] = static_cast<int32_t>(y_strides[*axis]);
  push.update_step = static_cast<int32_t>(update_strides[*axis]);
  push.index_step = static_cast<int32_t>(index_strides[*axis]);
  return make(spec, a.reduction, 1, true, {0, 1, 2}, Walk<3, 4>::make(dims, {along[0], along[1], along[2]}),
              indices[*axis], push);
}

std::unique_ptr<Kernel> make_scatter_nd(const KernelSpec& spec) {
  const auto& a = spec.attrs<ScatterAttrs>();
  return a.include_self ? make_scatter_tuples(spec, a.reduction, true, {0, 1, 2}) : nullptr;
}

std::unique_ptr<Kernel> make_scatter_new(const KernelSpec& spec) {
  return make_scatter_tuples(spec, Reduce::kAdd, false, {std::nullopt, 0, 1});
}

std::unique_ptr<Kernel> make_scatter_slices(const KernelSpec& spec) {
  const auto& a = spec.attrs<ScatterAttrs>();
  const Shape& x = spec.inputs[0].shape;
  if (!a.include_self || x.rank() == 0) return nullptr;
  const auto axis = normalize_axis(a.axis, x.rank());
  if (!axis.ok()) return nullptr;
  const AxisView v = axis_view(x, *axis);
  const int64_t count = spec.inputs[1].shape.elements();
  if (spec.inputs[2].shape.elements() != v.outer * count * v.inner) return nullptr;
  Push push{};
  push.extent[0] = static_cast<int32_t>(v.extent);
  push.stride[0] = push.update_step = static_cast<int32_t>(v.inner);
  push.index_step = 1;
  const auto lines =
      Walk<3, 4>::make(Shape{v.outer, v.inner}, {Shape{v.extent * v.inner, 1}, Shape{count * v.inner, 1}, Shape{0, 0}});
  return make(spec, a.reduction, 1, true, {0, 1, 2}, lines, count, push);
}

}  // namespace smelt::vulkan
