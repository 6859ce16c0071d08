// Reduce, ArgReduce and Cumulative.
#include "ops/reduce/reduce.h"

#include <bit>
#include <cstring>
#include <numeric>
#include <optional>

#include "backends/vulkan/core/row_reduction.h"
#include "backends/vulkan/gemm/operand.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "ops/reduce/reduce_quantized.h"
#include "shaders/arg_reduce.h"
#include "shaders/cumulative.h"
#include "shaders/reduce.h"
#include "shaders/reduce_texture.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::vulkan {
namespace {

/// The function's code in reduce_functions.inc; -1: it has none.
int code_of(Reduction fn) {
  switch (fn) {
#define SMELT_REDUCTION(name, code, first, map, combine, finish) \
  case Reduction::k##name:                                       \
    return code;
#include "backends/vulkan/reduce/reduce_functions.inc"
#undef SMELT_REDUCTION
  }
  return -1;
}

/// The kernel of a shader of rows, on each of which `constants.lanes` invocations work.
template <class Interface>
std::unique_ptr<Kernel> row_kernel(shaders::Variant<Interface> shader, typename Interface::Constants constants,
                                   uint64_t rows, uint32_t lanes, const typename Interface::Push& push) {
  constants.width = row_width(lanes);
  if constexpr (requires { constants.lanes; }) constants.lanes = lanes;
  return shader_kernel(shader, constants, {input(0), output(0)}, row_grid(rows, lanes), push);
}

/// Nullopt: no shader reduces these types by `fn`.
std::optional<shaders::Variant<shaders::Reduce>> reduce_shader(const KernelSpec& spec, Reduction fn, uint32_t lanes) {
  const DType x = spec.inputs[0].dtype, y = spec.outputs[0].dtype;
  if (x != y || spec.inputs[0].quant || spec.outputs[0].quant) return std::nullopt;
  switch (x) {
    case DType::kF32:
      return uses_subgroups(spec, lanes) ? shaders::reduce_f32_subgroups : shaders::reduce_f32;
    case DType::kF16:
      return uses_subgroups(spec, lanes) ? shaders::reduce_f16_subgroups : shaders::reduce_f16;
    case DType::kI32:
      // The mean of int32 values sums in 64 bits; the others go through real numbers.
      if (fn == Reduction::kMean || code_of(fn) > code_of(Reduction::kSumSquare)) return std::nullopt;
      return shaders::reduce_i32;
    case DType::kI64:
      if (code_of(fn) > code_of(Reduction::kSumSquare) || !spec.device.info().int64) return std::nullopt;
      return shaders::reduce_i64;
    case DType::kBool:
      if (fn != Reduction::kAny && fn != Reduction::kAll) return std::nullopt;
      return shaders::reduce_bool;
    default:
      return std::nullopt;
  }
}

/// The integers of the axes, input i; nullopt when they are not known at make time.
std::optional<std::vector<int64_t>> constant_ints(const KernelSpec& spec, size_t i) {
  const Tensor* t = spec.constant(i);
  if (!t) {
    spec.refuse("the axes (input ", i, ") are computed");
    return std::nullopt;
  }
  std::vector<int64_t> v(static_cast<size_t>(t->elements()));
  to_ints(*t, v.data());
  return v;
}

std::optional<std::vector<int>> reduced_axes(const KernelSpec& spec, bool noop) {
  const int rank = spec.inputs[0].shape.rank();
  std::vector<int64_t> given;
  if (spec.has(1)) {
    const auto v = constant_ints(spec, 1);
    if (!v) return std::nullopt;
    given = *v;
  }
  if (rank == 0) return std::vector<int>{};
  if (given.empty() && !noop)
    for (int d = 0; d < rank; ++d) given.push_back(d);
  auto axes = normalize_axes(given, rank);
  if (!axes.ok()) return std::nullopt;
  return *axes;
}

/// [outer, extent, inner] along one axis as push constants.
std::optional<AxisPush> axis_push(const Shape& shape, int64_t axis) {
  if (shape.rank() == 0) return AxisPush({1, 1, 1});
  const auto a = normalize_axis(axis, shape.rank());
  if (!a.ok()) return std::nullopt;
  return AxisPush(axis_view(shape, *a));
}

}  // namespace

std::unique_ptr<Kernel> make_reduce(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ReduceAttrs>();
  const auto axes = reduced_axes(spec, attrs.noop_with_empty_axes);
  if (!axes || !reduce_shader(spec, attrs.fn, 1)) return nullptr;
  const Shape& in = spec.inputs[0].shape;
  const auto walk = RowWalk<1, 4>::make(in, *axes, {in.strides()});
  if (!walk || walk->rows.n != spec.outputs[0].shape.elements()) return nullptr;
  const uint32_t lanes = walk->lanes(2);
  if (lanes == 0) return nullptr;
  return row_kernel(*reduce_shader(spec, attrs.fn, lanes),
                    {.function = static_cast<uint32_t>(code_of(attrs.fn)), .straight = walk->straight()}, walk->rows.n,
                    lanes, {.walk = *walk, .correction = static_cast<float>(attrs.correction)});
}

std::unique_ptr<Kernel> make_reduce_texture(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ReduceAttrs>();
  const bool mean = attrs.fn == Reduction::kMean, most = attrs.fn == Reduction::kMax,
             least = attrs.fn == Reduction::kMin;
  if (!mean && !most && !least && attrs.fn != Reduction::kSum) return nullptr;
  const auto axes = reduced_axes(spec, attrs.noop_with_empty_axes);
  if (!axes || axes->empty()) return nullptr;
  const int rank = spec.inputs[0].shape.rank();
  const auto y = image_of(spec, spec.outputs[0]);
  if (!y || rank > 4) return nullptr;
  const auto p = static_cast<size_t>(y->packed());
  shaders::ReduceTexture::Push push{.y_size = y->size};
  for (int d : *axes) push.reduced[static_cast<size_t>(rank - 1 - d)] = 1;
  // Dimensions that are kept, innermost first, then those that are not; or each its own.
  uint32_t order = 0, next = 0;
  for (int gone = 0; gone < 2; ++gone)
    for (uint32_t d = 0; d < 4; ++d) {
      const bool last = static_cast<int>(d) >= rank || push.reduced[d];
      if (attrs.keep_dims ? gone == 0 : last == (gone == 1)) order |= d << 2 * next++;
    }
  const uint32_t own = order >> 2 * p & 3;  // of x, along the result's texels
  // Texels of one element each are worth it only where x leaves no choice.
  if (y->size[p] == 1 && spec.outputs[0].shape.elements() > 1 && !push.reduced[p]) return nullptr;
  const auto in = [&](const TextureForm& form) {
    return ImageLayout::of(spec.inputs[0].shape, spec.inputs[0].dtype, form, spec.device);
  };
  auto x = existing_image(spec, 0);
  if (!x || x != in(x->form) || !(spec.images.size() > 0 && spec.images[0]))
    x = in({spec.form.storage, static_cast<Packing>(std::min(own, 2u) + 1), spec.form.float16});
  if (!x) return nullptr;
  for (uint32_t d = 0; d < 4; ++d)
    if (const uint32_t from = order >> 2 * d & 3; y->size[d] != (push.reduced[from] ? 1 : x->size[from]))
      return nullptr;
  push.x_size = x->size;
  uint64_t iterations = 1;
  for (int d = 0; d < 4; ++d)
    if (const auto k = static_cast<size_t>(d); push.reduced[k])
      iterations *= static_cast<uint64_t>(d == x->packed() ? (x->size[k] + 3) / 4 : x->size[k]);
  if (4 * iterations > kMaxLoopIterations) return nullptr;
  const auto count = static_cast<double>(spec.inputs[0].shape.elements() / spec.outputs[0].shape.elements());
  push.scale = mean ? static_cast<float>(1 / count) : 1.0f;
  push.n = static_cast<uint32_t>(y->count());
  return texture_kernel({spec.form, {x}, {y}}, {shaders::reduce_3d, shaders::reduce_2d},
                        {.function = most    ? 1u
                                     : least ? 2u
                                             : 0u,
                         .axes = order},
                        {input(0), output(0)}, push.n, push);
}

namespace {

constexpr int64_t kMaxTable = 4 << 20;

class ReduceTableKernel final : public Kernel {
 public:
  ReduceTableKernel(const KernelSpec& spec, const ReduceAttrs& attrs, const RowWalk<1, 4>& walk, uint32_t lanes)
      : attrs_(attrs), x_(spec.inputs[0]), y_(spec.outputs[0]), walk_(walk), lanes_(lanes) {}
  bool reads(size_t i) const override { return i == 0; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    const int64_t count = walk_.row.n, entries = table_entries(x_.dtype, count);
    std::string key = Cat("sums ", count, " ", to_string(attrs_.fn), " ", static_cast<int>(attrs_.rounding));
    for (const ValueType* t : {&x_, &y_})
      key += Cat(" ", to_string(t->dtype), " ", std::bit_cast<uint32_t>(t->quant->scale()), " ", t->quant->zero_point(),
                 " ", static_cast<int>(t->quant->rounding));
    SMELT_ASSIGN(const Binding table, r.table(key, Tensor::byte_size(y_.dtype, entries), [&](void* to) {
      std::vector<int64_t> sums(static_cast<size_t>(entries));
      std::iota(sums.begin(), sums.end(), int_min(x_.dtype) * count);
      Tensor quantized(y_.dtype, Shape{entries});
      quantized.set_quant(y_.quant);
      finish_accumulators(attrs_, x_.dtype, *x_.quant, count, std::move(sums), quantized);
      std::memcpy(to, quantized.raw(), quantized.bytes());
    }));
    const auto shader = x_.dtype == DType::kI8   ? shaders::reduce_lookup_i8
                        : x_.dtype == DType::kU8 ? shaders::reduce_lookup_u8
                                                 : shaders::reduce_lookup_i16;
    return r.run(shader,
                 {.width = row_width(lanes_),
                  .lanes = lanes_,
                  .function = static_cast<uint32_t>(code_of(Reduction::kSum)),
                  .straight = walk_.straight()},
                 {x, r.output(0), table}, row_grid(walk_.rows.n, lanes_), {.walk = walk_, .correction = 0});
  }
  /// Sums of `count` integers that differ.
  static int64_t table_entries(DType dtype, int64_t count) { return count * (int_max(dtype) - int_min(dtype)) + 1; }

 private:
  ReduceAttrs attrs_;
  ValueType x_, y_;
  RowWalk<1, 4> walk_;
  uint32_t lanes_;
};

}  // namespace

std::unique_ptr<Kernel> make_reduce_lookup_table(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ReduceAttrs>();
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (x.dtype != y.dtype || !reduces_in_integers(attrs, x.dtype, y.dtype) || !is_per_tensor(x.quant) ||
      !is_per_tensor(y.quant))
    return nullptr;
  const auto axes = reduced_axes(spec, attrs.noop_with_empty_axes);
  if (!axes) return nullptr;
  const auto walk = RowWalk<1, 4>::make(x.shape, *axes, {x.shape.strides()});
  if (!walk || walk->rows.n != y.shape.elements() || ReduceTableKernel::table_entries(x.dtype, walk->row.n) > kMaxTable)
    return nullptr;
  const uint32_t lanes = walk->lanes(1);
  return lanes ? std::make_unique<ReduceTableKernel>(spec, attrs, *walk, lanes) : nullptr;
}

namespace {

/// Nullopt: there is none. `wide`: indices are of 64 bits.
std::optional<shaders::Variant<shaders::ArgReduce>> arg_shader(DType x, bool wide) {
  switch (x) {
    case DType::kF32:
      return wide ? shaders::arg_reduce_f32_i64 : shaders::arg_reduce_f32_i32;
    case DType::kF16:
      return wide ? shaders::arg_reduce_f16_i64 : shaders::arg_reduce_f16_i32;
    case DType::kI64:
      return wide ? shaders::arg_reduce_i64_i64 : shaders::arg_reduce_i64_i32;
    case DType::kI32:
      return wide ? shaders::arg_reduce_i32_i64 : shaders::arg_reduce_i32_i32;
    case DType::kI8:
      return wide ? shaders::arg_reduce_i8_i64 : shaders::arg_reduce_i8_i32;
    case DType::kU8:
      return wide ? shaders::arg_reduce_u8_i64 : shaders::arg_reduce_u8_i32;
    default:
      return std::nullopt;
  }
}

/// The rows of an ArgReduce and the lanes that work on each.
struct ArgPlan {
  AxisPush push;
  uint32_t lanes;
  bool min, last;
  static std::optional<ArgPlan> make(const KernelSpec& spec) {
    const auto& attrs = spec.attrs<ArgReduceAttrs>();
    const Shape& in = spec.inputs[0].shape;
    int64_t axis = attrs.axis;
    if (spec.has(1)) {
      const auto given = constant_ints(spec, 1);
      if (!given || given->empty()) return std::nullopt;
      axis = given->front();
    }
    const auto push = attrs.flatten ? AxisPush({1, in.elements(), 1}) : axis_push(in, axis);
    if (!push || push->extent == 0) return std::nullopt;
    const uint32_t lanes = lanes_for(push->rows, push->extent, push->inner == 1, 1);
    if (lanes == 0) return std::nullopt;
    return ArgPlan{*push, lanes, attrs.min, attrs.select_last};
  }
};

}  // namespace

std::unique_ptr<Kernel> make_arg_reduce(const KernelSpec& spec) {
  const auto shader = arg_shader(spec.inputs[0].dtype, spec.outputs[0].dtype == DType::kI64);
  if (!shader || (spec.inputs[0].dtype == DType::kI64 && !spec.device.info().int64)) return nullptr;
  const auto plan = ArgPlan::make(spec);
  if (!plan) return nullptr;
  return row_kernel(*shader, {.min = plan->min, .last = plan->last}, plan->push.rows, plan->lanes,
                    {.axis = plan->push});
}

std::unique_ptr<Kernel> make_arg_reduce_texture(const KernelSpec& spec) {
  const auto plan = ArgPlan::make(spec);
  if (!plan) return nullptr;
  const auto x = existing_image(spec, 0);
  if (!x) return nullptr;
  using Variants = shaders::Variant<shaders::ArgReduceTexture>[2];
  static constexpr Variants narrow{shaders::arg_reduce_i32_3d, shaders::arg_reduce_i32_2d},
      wide{shaders::arg_reduce_i64_3d, shaders::arg_reduce_i64_2d};
  return texture_kernel({spec.form, {x}, {}}, spec.outputs[0].dtype == DType::kI64 ? wide : narrow,
                        {.width = row_width(plan->lanes), .lanes = plan->lanes, .min = plan->min, .last = plan->last},
                        {input(0), output(0)}, plan->push.rows, {.x_size = x->size, .axis = plan->push},
                        plan->lanes > 1);
}

std::unique_ptr<Kernel> make_cumulative(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<CumulativeAttrs>();
  const DType dtype = spec.outputs[0].dtype;
  const auto axis = constant_ints(spec, 1);
  if (spec.inputs[0].dtype != dtype || spec.inputs[0].quant || spec.outputs[0].quant || !axis || axis->size() != 1)
    return nullptr;
  const auto shader = shaders::find_variant<shaders::Cumulative>("cumulative_" + type_suffix(dtype));
  if (!shader || (dtype == DType::kI64 && !spec.device.info().int64)) return nullptr;
  using Fn = CumulativeAttrs::Fn;
  // The limits that exclusive extremes begin with are those of 64 bits.
  if (dtype == DType::kI32 && attrs.fn != Fn::kSum && attrs.fn != Fn::kProd &&
      (attrs.exclusive || attrs.fn == Fn::kLogSumExp))
    return nullptr;
  if (dtype == DType::kI64 && attrs.fn == Fn::kLogSumExp) return nullptr;
  const auto push = axis_push(spec.inputs[0].shape, axis->front());
  if (!push || push->extent > kMaxLoopIterations) return nullptr;
  return row_kernel(
      *shader, {.function = static_cast<uint32_t>(attrs.fn), .exclusive = attrs.exclusive, .reverse = attrs.reverse},
      push->rows, 1, {.axis = *push});
}

}  // namespace smelt::vulkan
