// Slices of updates written to, or added at, the positions that tuples of dynamic indices name; elements of updates
// likewise, along one dimension.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backends/cpu/copy/prepared_copy.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/number_type.h"
#include "backends/cpu/core/vector_ops.h"
#include "backends/cpu/gather/indexed_runs.h"
#include "ops/common/index.h"
#include "ops/gather/combine.h"
#include "ops/gather/gather.h"
#include "ops/shape/rules.h"

namespace smelt {
namespace {

template <class T>
void add_run(void* to, const void* from, int64_t n) {
  auto* y = static_cast<T*>(to);
  const auto* u = static_cast<const T*>(from);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_floating_point_v<T>)
      y[i] += u[i];
    else  // wraps
      y[i] = static_cast<T>(static_cast<uint64_t>(y[i]) + static_cast<uint64_t>(u[i]));
  }
}

CombineRun adding_run(DType t) {
  CombineRun found = nullptr;
  if (t != DType::kBool) by_number(t, [&](auto v) { found = add_run<decltype(v)>; });
  return found;
}

using Reduce = ScatterAttrs::Reduce;

template <Reduce kHow>
void combine_f32(void* to, const void* from, int64_t n) {
  auto* y = static_cast<float*>(to);
  const auto* u = static_cast<const float*>(from);
  for (int64_t i = 0; i < n; ++i) y[i] = combined(kHow, y[i], u[i]);
}

/// nullptr: elements that can't be combined so.
CombineRun combining_run(Reduce how, DType t) {
  if (how == Reduce::kNone) return replacing_run(whole_bytes(t));
  if (how == Reduce::kAdd) return adding_run(t);
  if (t != DType::kF32) return nullptr;
  return how == Reduce::kMul   ? combine_f32<Reduce::kMul>
         : how == Reduce::kMin ? combine_f32<Reduce::kMin>
         : how == Reduce::kMax ? combine_f32<Reduce::kMax>
                               : nullptr;
}

/// Combines n elements of float32 with those of y, of which element i lies in row indices[i] of `extent` rows of
/// `inner` elements. Gives the number of those before the first index that is none of -extent to extent - 1.
using CombineElements = int64_t (*)(const Indices& indices, int64_t at, int64_t n, int64_t extent, int64_t inner,
                                    const float* updates, float* y);

template <Reduce kHow>
int64_t combine_elements_f32(const Indices& indices, int64_t at, int64_t n, int64_t extent, int64_t inner,
                             const float* updates, float* y) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t row = indices[at + i];
    row += row < 0 ? extent : 0;
    if (static_cast<uint64_t>(row) >= static_cast<uint64_t>(extent)) return i;
    float& to = y[row * inner + i];
    to = combined(kHow, to, updates[i]);
  }
  return n;
}

/// nullptr: elements that are combined as runs of one.
CombineElements combining_elements(Reduce how, DType t) {
  if (t != DType::kF32) return nullptr;
  return how == Reduce::kNone  ? combine_elements_f32<Reduce::kNone>
         : how == Reduce::kAdd ? combine_elements_f32<Reduce::kAdd>
         : how == Reduce::kMul ? combine_elements_f32<Reduce::kMul>
         : how == Reduce::kMin ? combine_elements_f32<Reduce::kMin>
         : how == Reduce::kMax ? combine_elements_f32<Reduce::kMax>
                               : nullptr;
}

/// Combines runs of updates with those of y.
struct Combine {
  [[gnu::cold]] Combine(DType t, Reduce how, Isa isa)
      : unit(whole_bytes(t)),
        run(combining_run(how, t)),
        elements(combining_elements(how, t)),
        add_f32(how == Reduce::kAdd && t == DType::kF32 ? vector_ops(isa).add : nullptr) {}
  void operator()(std::byte* y, const std::byte* updates, int64_t n) const {
    if (add_f32 && n == 1)
      *reinterpret_cast<float*>(y) += *reinterpret_cast<const float*>(updates);
    else if (add_f32)
      add_f32(reinterpret_cast<const float*>(updates), n, reinterpret_cast<float*>(y));
    else
      run(y, updates, n);
  }

  int64_t unit;    ///< bytes of an element
  CombineRun run;  ///< null: elements that can't be combined so
  CombineElements elements;
  void (*add_f32)(const float*, int64_t, float*);
};

/// What scatters begin with: x in y's place.
void begin_as(const Tensor& x, Tensor& y) {
  if (x.raw() != y.raw()) std::memcpy(y.raw(), x.raw(), y.bytes());
}

/// Inputs of operators that scatter; x: what y begins as, -1: zeros.
struct ScatterInputs {
  int x, indices, updates;
};

class ScatterTuples final : public Kernel {
 public:
  ScatterTuples(const Combine& combine, const Shape& y, const Shape& indices, const ScatterInputs& inputs)
      : combine_(combine),
        inputs_(inputs),
        tuples_(product(indices, 0, indices.rank() - 1)),
        offsets_(y, 0, indices.back()) {}
  int64_t updates() const { return tuples_ * offsets_.run(); }
  Status run(KernelContext& ctx) const override {
    Tensor& target = ctx.output(0);
    if (inputs_.x < 0)
      std::memset(target.raw(), 0, target.bytes());
    else
      begin_as(ctx.input(inputs_.x), target);
    auto* y = target.data<std::byte>();
    const Indices indices(ctx.input(inputs_.indices));
    int64_t at = 0;
    const auto* updates = ctx.input(inputs_.updates).data<std::byte>();
    for (int64_t t = 0; t < tuples_; ++t, updates += offsets_.run() * combine_.unit) {
      SMELT_ASSIGN(const int64_t to, offsets_.next(indices, at, inputs_.x >= 0));
      combine_(y + to * combine_.unit, updates, offsets_.run());
    }
    return Ok();
  }

 private:
  Combine combine_;
  ScatterInputs inputs_;
  int64_t tuples_;
  TupleOffsets offsets_;
};

/// Indices along one dimension, [outer, indexed, inner]; those that follow each other and are equal, as indices of
/// whole rows are, name a run.
class ScatterElements final : public Kernel {
 public:
  ScatterElements(const Combine& combine, const Shape& x, const Shape& indices, int axis)
      : combine_(combine), x_(axis_view(x, axis)), indexed_(indices[axis]) {}
  Status run(KernelContext& ctx) const override {
    begin_as(ctx.input(0), ctx.output(0));
    auto* y = ctx.output(0).data<std::byte>();
    const Indices indices(ctx.input(1));
    int64_t at = 0;
    const auto* updates = ctx.input(2).data<std::byte>();
    for (int64_t o = 0; o < x_.outer; ++o, y += x_.extent * x_.inner * combine_.unit)
      for (int64_t i = 0; i < indexed_; ++i, at += x_.inner, updates += x_.inner * combine_.unit)
        SMELT_TRY(scatter_row(indices, at, updates, y));
    return Ok();
  }

 private:
  /// A row of indices from indices[at] on.
  Status scatter_row(const Indices& indices, int64_t at, const std::byte* updates, std::byte* y) const {
    int64_t first = 0, end = 0;
    // Where the first indices are equal, the row probably is a run.
    constexpr int64_t kFirst = 8;
    for (end = 1; end < std::min(x_.inner, kFirst) && indices[at + end] == indices[at];) ++end;
    if (combine_.elements && end < kFirst)
      first = combine_.elements(indices, at, x_.inner, x_.extent, x_.inner, reinterpret_cast<const float*>(updates),
                                reinterpret_cast<float*>(y));
    for (; first < x_.inner; first = end) {
      int64_t i = indices[at + first];
      for (end = first + 1; end < x_.inner && indices[at + end] == i;) ++end;
      if (i < 0 || i >= x_.extent) {
        SMELT_ASSIGN(i, index_of(i, x_.extent));
      }
      combine_(y + (i * x_.inner + first) * combine_.unit, updates + first * combine_.unit, end - first);
    }
    return Ok();
  }

  Combine combine_;
  AxisView x_;
  int64_t indexed_;
};

[[gnu::cold]] std::unique_ptr<Kernel> make_scatter(const KernelSpec& spec, const ScatterInputs& inputs, Reduce how) {
  const ValueType &y = spec.outputs[0], &updates = spec.inputs[static_cast<size_t>(inputs.updates)],
                  &indices = spec.inputs[static_cast<size_t>(inputs.indices)];
  const Combine combine(y.dtype, how, spec.isa);
  if (!combine.run || updates.dtype != y.dtype) return spec.refuse("elements that this kernel does not combine");
  if (indices.shape.rank() < 1 || indices.shape.back() > y.shape.rank() || y.shape.elements() == 0)
    return spec.refuse("nothing to scatter into, or indices that do not fit it");
  auto kernel = std::make_unique<ScatterTuples>(combine, y.shape, indices.shape, inputs);
  if (kernel->updates() != updates.shape.elements()) return spec.refuse("not as many updates as the indices ask for");
  return kernel;
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_scatter_nd(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ScatterAttrs>();
  if (!attrs.include_self) return spec.refuse("updates in place of what was there");
  return make_scatter(spec, {0, 1, 2}, attrs.reduction);
}

[[gnu::cold]] std::unique_ptr<Kernel> make_scatter_elements(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ScatterAttrs>();
  const Shape &x = spec.inputs[0].shape, &indices = spec.inputs[1].shape;
  const DType type = spec.outputs[0].dtype;
  if (!attrs.include_self) return spec.refuse("updates in place of what was there");
  const Combine combine(type, attrs.reduction, spec.isa);
  if (!combine.run || spec.inputs[2].dtype != type) return spec.refuse("elements that this kernel does not combine");
  const auto axis = axis_of(attrs.axis, x.rank());
  Shape whole = x;
  if (axis.ok() && indices.rank() == x.rank()) whole[*axis] = indices[*axis];
  if (!axis.ok() || x.elements() == 0 || indices != whole || spec.inputs[2].shape != indices)
    return spec.refuse("indices for a part of the value, or other updates");
  return std::make_unique<ScatterElements>(combine, x, indices, *axis);
}

std::unique_ptr<Kernel> make_scatter_new(const KernelSpec& spec) {
  return make_scatter(spec, {-1, 0, 1}, Reduce::kAdd);
}

}  // namespace smelt
