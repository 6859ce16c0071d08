// Bilinear resampling of 8-bit images: TFLite's, in fixed point for int8 and in float32 for uint8, and XNNPACK's.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "backends/cpu/core/slots.h"
#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/resize/resize_integer.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/vectors-inl.h"
#include "ops/resize/integer.h"

#ifndef SMELT_CPU_RESIZE_INTEGER
#define SMELT_CPU_RESIZE_INTEGER
namespace smelt {
/// The two neighbours of an output index, and the factor of the upper one.
template <class Weight>
struct Neighbours {
  int64_t lower, upper;
  Weight weight;
};
/// Widths of an image, in pixels, and its channels.
struct RowSizes {
  int64_t in, out, channels;
};
/// Row i of the output from the rows `top` and `bottom`. `work`: 2 * in * channels numbers.
template <class T, class Weight>
using ResizeRow = void (*)(const T* top, const T* bottom, Weight weight, const RowSizes& s,
                           const Neighbours<Weight>* columns, Weight* work, T* y);
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Weights are in units of 2^-kBits; the sum is rounded to nearest, ties away from zero (TFLite) or up (XNNPACK).
template <class T, int kBits, bool kTiesUp>
void resize_integer_row(const T* top, const T* bottom, int32_t weight, const RowSizes& s,
                        const Neighbours<int32_t>* columns, int32_t* work, T* y) {
  constexpr int32_t kOne = 1 << kBits, kHalf = 1 << (2 * kBits - 1);
  for_lanes<int32_t>(s.in * s.channels, [&](auto d, int64_t i) HWY_ATTR {
    const hn::Rebind<T, decltype(d)> narrow;
    const auto a = hn::PromoteTo(d, hn::LoadU(narrow, top + i)), b = hn::PromoteTo(d, hn::LoadU(narrow, bottom + i));
    hn::StoreU(hn::Add(hn::Mul(a, hn::Set(d, kOne - weight)), hn::Mul(b, hn::Set(d, weight))), d, work + i);
  });
  for (int64_t j = 0; j < s.out; ++j, y += s.channels) {
    const int32_t *left = work + columns[j].lower * s.channels, *right = work + columns[j].upper * s.channels;
    const int32_t w = columns[j].weight;
    for_lanes<int32_t>(s.channels, [&](auto d, int64_t i) HWY_ATTR {
      const hn::Rebind<T, decltype(d)> narrow;
      const auto sum = hn::Add(hn::Mul(hn::LoadU(d, left + i), hn::Set(d, kOne - w)),
                               hn::Mul(hn::LoadU(d, right + i), hn::Set(d, w)));
      const auto size = hn::ShiftRight<2 * kBits>(hn::Add(kTiesUp ? sum : hn::Abs(sum), hn::Set(d, kHalf)));
      const auto value = kTiesUp ? size : hn::IfThenElse(hn::Lt(sum, hn::Zero(d)), hn::Neg(size), size);
      hn::StoreU(hn::DemoteTo(narrow, value), narrow, y + i);
    });
  }
}

/// TFLite's arithmetic of int8.
void resize_fixed_row(const int8_t* top, const int8_t* bottom, int32_t weight, const RowSizes& s,
                      const Neighbours<int32_t>* columns, int32_t* work, int8_t* y) {
  resize_integer_row<int8_t, 10, false>(top, bottom, weight, s, columns, work, y);
}
void resize_xnnpack_i8_row(const int8_t* top, const int8_t* bottom, int32_t weight, const RowSizes& s,
                           const Neighbours<int32_t>* columns, int32_t* work, int8_t* y) {
  resize_integer_row<int8_t, 11, true>(top, bottom, weight, s, columns, work, y);
}
void resize_xnnpack_u8_row(const uint8_t* top, const uint8_t* bottom, int32_t weight, const RowSizes& s,
                           const Neighbours<int32_t>* columns, int32_t* work, uint8_t* y) {
  resize_integer_row<uint8_t, 11, true>(top, bottom, weight, s, columns, work, y);
}

/// Products and sums in the order of the reference kernel.
void resize_real_row(const uint8_t* top, const uint8_t* bottom, float weight, const RowSizes& s,
                     const Neighbours<float>* columns, float* work, uint8_t* y) {
  const int64_t row = s.in * s.channels;
  for_lanes<float>(row, [&](auto d, int64_t i) HWY_ATTR {
    const hn::Rebind<uint8_t, decltype(d)> narrow;
    const hn::RebindToSigned<decltype(d)> ints;
    const auto a = hn::ConvertTo(d, hn::PromoteTo(ints, hn::LoadU(narrow, top + i)));
    const auto b = hn::ConvertTo(d, hn::PromoteTo(ints, hn::LoadU(narrow, bottom + i)));
    hn::StoreU(hn::Mul(a, hn::Set(d, 1 - weight)), d, work + i);
    hn::StoreU(hn::Mul(b, hn::Set(d, weight)), d, work + row + i);
  });
  for (int64_t j = 0; j < s.out; ++j, y += s.channels) {
    const float *left = work + columns[j].lower * s.channels, *right = work + columns[j].upper * s.channels;
    const float w = columns[j].weight;
    for_lanes<float>(s.channels, [&](auto d, int64_t i) HWY_ATTR {
      const hn::Rebind<uint8_t, decltype(d)> narrow;
      const hn::RebindToSigned<decltype(d)> ints;
      const auto near = hn::Set(d, 1 - w), far = hn::Set(d, w);
      auto sum = hn::Add(hn::Mul(hn::LoadU(d, left + i), near), hn::Mul(hn::LoadU(d, left + row + i), near));
      sum = hn::Add(sum, hn::Mul(hn::LoadU(d, right + i), far));
      sum = hn::Add(sum, hn::Mul(hn::LoadU(d, right + row + i), far));
      const auto value = hn::ConvertTo(ints, hn::Add(sum, hn::Set(d, 0.5f)));
      hn::StoreU(hn::DemoteTo(narrow, value), narrow, y + i);
    });
  }
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

/// T: int8_t or uint8_t; Weight: the type of the weights and of the work.
template <class T, class Weight>
class ResizeInteger final : public Kernel {
 public:
  /// `arithmetic` is that of `row`.
  ResizeInteger(const KernelSpec& spec, const std::vector<ResizeAxis>& axes, IntegerResize arithmetic,
                ResizeRow<T, Weight> row)
      : row_(row), threads_(std::max(spec.threads, 1)) {
    const Shape& x = spec.inputs[0].shape;
    const ResizeAxis &rows = axes[0], &columns = axes[1];
    int64_t channels = 1;
    for (int d = 0; d < rows.axis; ++d) images_ *= x[d];
    for (int d = columns.axis + 1; d < x.rank(); ++d) channels *= x[d];
    in_rows_ = rows.in;
    sizes_ = {columns.in, columns.out, channels};
    const auto& a = spec.attrs<ResizeAttrs>();
    for (int64_t i = 0; i < rows.out; ++i) rows_.push_back(neighbours(resize_neighbours(a, rows, i, arithmetic)));
    for (int64_t i = 0; i < columns.out; ++i)
      columns_.push_back(neighbours(resize_neighbours(a, columns, i, arithmetic)));
    work_ = padded_floats(2 * sizes_.in * channels);
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(threads_ * work_) * sizeof(Weight); }
  Status run(KernelContext& ctx) const override {
    auto* work = static_cast<Weight*>(ctx.scratch(scratch_bytes()));
    if (!work) return Error(ErrorCode::kLimit, "no memory to resize");
    const T* x = static_cast<const T*>(ctx.input(0).raw());
    T* y = static_cast<T*>(ctx.output(0).raw());
    const auto out_rows = static_cast<int64_t>(rows_.size());
    const int64_t in_row = sizes_.in * sizes_.channels, out_row = sizes_.out * sizes_.channels;
    in_slots(ctx.threads(), threads_, images_ * out_rows, [&](int64_t r, int64_t slot) {
      const auto& n = rows_[static_cast<size_t>(r % out_rows)];
      const T* image = x + r / out_rows * in_rows_ * in_row;
      row_(image + n.lower * in_row, image + n.upper * in_row, n.weight, sizes_, columns_.data(), work + slot * work_,
           y + r * out_row);
    });
    return Ok();
  }

 private:
  static Neighbours<Weight> neighbours(const ResizeNeighbours& n) {
    if constexpr (std::is_same_v<Weight, float>) return {n.lower, n.upper, n.real};
    return {n.lower, n.upper, static_cast<Weight>(n.fixed)};
  }

  int64_t images_ = 1, in_rows_ = 0;
  RowSizes sizes_{};
  ResizeRow<T, Weight> row_;
  int64_t threads_, work_ = 0;
  std::vector<Neighbours<Weight>> rows_, columns_;
};

template <class T, class Weight>
std::unique_ptr<Kernel> resize_rows(const KernelSpec& spec, const std::vector<ResizeAxis>& axes,
                                    IntegerResize arithmetic, ResizeRow<T, Weight> row) {
  return std::make_unique<ResizeInteger<T, Weight>>(spec, axes, arithmetic, row);
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_resize_integer(const KernelSpec& spec) {
  const auto& a = spec.attrs<ResizeAttrs>();
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (x.shape.elements() == 0 || y.shape.elements() == 0) return nullptr;
  const auto axes = plan_resize(a, x.shape, resize_request(spec.constant(1), spec.constant(2), spec.constant(3)));
  if (!axes.ok()) return nullptr;
  const IntegerResize arithmetic = integer_resize(a, x.dtype, y.dtype, *axes);
  switch (arithmetic) {
    case IntegerResize::kNone:
      return nullptr;
    case IntegerResize::kFixed:
      return resize_rows(spec, *axes, arithmetic, SMELT_FOR_LEVEL(spec.isa, resize_fixed_row));
    case IntegerResize::kReal:
      return resize_rows(spec, *axes, arithmetic, SMELT_FOR_LEVEL(spec.isa, resize_real_row));
    case IntegerResize::kXnnpack:
      if (x.dtype == DType::kI8)
        return resize_rows(spec, *axes, arithmetic, SMELT_FOR_LEVEL(spec.isa, resize_xnnpack_i8_row));
      return resize_rows(spec, *axes, arithmetic, SMELT_FOR_LEVEL(spec.isa, resize_xnnpack_u8_row));
  }
  return nullptr;
}

}  // namespace smelt
#endif
