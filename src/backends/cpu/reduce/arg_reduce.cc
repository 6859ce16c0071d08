#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/reduce/arg_reduce.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/number_type.h"
#include "backends/cpu/core/vectors-inl.h"
#include "ops/common/index.h"
#include "ops/reduce/reduce.h"
#include "tensor/numeric.h"

#ifndef SMELT_CPU_ARG_REDUCE
#define SMELT_CPU_ARG_REDUCE
namespace smelt {
/// Lines of numbers of which the index of the extreme is asked for: element k of line i lies at [k * next + i * line].
struct ExtremeLines {
  static constexpr int64_t kMost = 256;        ///< at a time
  static constexpr int64_t kLeastExtent = 16;  ///< of lines that vectors take one by one: a vector or more
  int64_t extent, next, line;
  bool min;
  bool last;  ///< of equal extremes; else the first. The first NaN is the extreme
};
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Of n <= ExtremeLines::kMost lines that lie side by side: l.line == 1.
void extremes_side_by_side(const ExtremeLines& l, const float* x, int64_t n, int32_t* at) {
  HWY_ALIGN float best[ExtremeLines::kMost];
  for (int64_t k = 0; k < l.extent; ++k, x += l.next)
    each_vector(n, [&](auto part, int64_t i) HWY_ATTR {
      const auto d = part.d;
      const hn::RebindToSigned<decltype(d)> di;
      const auto v = hn::Xor(part.load(x + i), hn::Set(d, l.min ? -0.0f : 0.0f));
      if (k == 0) {
        part.store(v, best + i);
        part.store(hn::Zero(d), reinterpret_cast<float*>(at) + i);
        return;
      }
      const auto before = part.load(best + i);
      const auto more = hn::Or(l.last ? hn::Ge(v, before) : hn::Gt(v, before), hn::IsNaN(v));
      const auto over = hn::AndNot(hn::IsNaN(before), more);
      part.store(hn::IfThenElse(over, v, before), best + i);
      const auto index =
          hn::IfThenElse(hn::RebindMask(di, over), hn::Set(di, static_cast<int32_t>(k)), part.load_ints(at + i));
      part.store(hn::BitCast(d, index), reinterpret_cast<float*>(at) + i);
    });
}

/// Index of the extreme of a line, l.next == 1, of at least kLeastExtent numbers.
int64_t extreme_of_line(const ExtremeLines& l, const float* x) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)), n = l.extent;
  const V sign = hn::Set(d, l.min ? -0.0f : 0.0f);  // the least number becomes the largest
  const auto numbers = [&](int64_t i) HWY_ATTR { return hn::Xor(hn::LoadU(d, x + i), sign); };
  // The first number for which it is true; there is one. The last vector overlaps the one before.
  const auto find = [&](auto is) HWY_ATTR {
    for (int64_t i = 0;; i = std::min(i + lanes, n - lanes))
      if (const auto found = is(numbers(i)); !hn::AllFalse(d, found))
        return i + static_cast<int64_t>(hn::FindFirstTrue(d, found));
  };
  V best = numbers(n - lanes), second = best;
  auto unordered = hn::IsNaN(best);
  for (int64_t i = 0; i + lanes <= n; i += 2 * lanes) {
    const V a = numbers(i), b = numbers(std::min(i + lanes, n - lanes));
    unordered = hn::Or(unordered, hn::Or(hn::IsNaN(a), hn::IsNaN(b)));
    best = hn::Max(best, a);
    second = hn::Max(second, b);
  }
  if (!hn::AllFalse(d, unordered)) return find([](V v) HWY_ATTR { return hn::IsNaN(v); });
  const V largest = hn::MaxOfLanes(d, hn::Max(best, second));
  if (!l.last) return find([&](V v) HWY_ATTR { return hn::Eq(v, largest); });
  int64_t i = n - lanes;
  while (hn::AllFalse(d, hn::Eq(numbers(i), largest))) i = std::max<int64_t>(i - lanes, 0);
  const float extreme = l.min ? -hn::GetLane(largest) : hn::GetLane(largest);
  for (i += lanes - 1; x[i] != extreme;) --i;
  return i;
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

/// True if entry a behind the largest entry so far, b, becomes the largest.
template <bool kLast, class T>
bool takes_over(T a, T b) {
  bool more = a > b;
  if constexpr (kLast) more = more || a == b;
  if constexpr (std::is_floating_point_v<T>) more = (more || std::isnan(a)) && !std::isnan(b);
  return more;
}

/// Of up to ExtremeLines::kMost lines.
template <bool kLast, class T>
void extremes_of(const ExtremeLines& l, const void* from, int64_t n, int32_t* at) {
  const T* x = static_cast<const T*>(from);
  // The least number becomes the largest.
  const auto value = [&l](T v) {
    if constexpr (std::is_floating_point_v<T>)
      return l.min ? -v : v;
    else
      return static_cast<T>(l.min ? ~v : v);
  };
  T best[ExtremeLines::kMost];
  for (int64_t i = 0; i < n; ++i) {
    best[i] = value(x[i * l.line]);
    at[i] = 0;
  }
  for (int64_t k = 1; k < l.extent; ++k) {
    x += l.next;
    for (int64_t i = 0; i < n; ++i) {
      const T v = value(x[i * l.line]);
      const bool over = takes_over<kLast>(v, best[i]);
      best[i] = over ? v : best[i];
      at[i] = over ? static_cast<int32_t>(k) : at[i];
    }
  }
}

using Extremes = void (*)(const ExtremeLines&, const void*, int64_t, int32_t*);

class ArgReduce final : public Kernel {
 public:
  /// extremes: of any lines; of float32, vectors take those that lie side by side, and long ones one by one.
  ArgReduce(const AxisView& v, const ArgReduceAttrs& a, Extremes extremes, const KernelSpec& spec)
      : v_(v),
        lines_{v.extent, v.inner, v.inner == 1 ? v.extent : 1, a.min, a.select_last},
        extremes_(extremes),
        element_(static_cast<int64_t>(Tensor::byte_size(spec.inputs[0].dtype, 1))),
        wide_(spec.outputs[0].dtype == DType::kI64) {
    if (spec.inputs[0].dtype != DType::kF32) return;
    if (v.inner == 1 && v.extent >= ExtremeLines::kLeastExtent) of_line_ = SMELT_FOR_LEVEL(spec.isa, extreme_of_line);
    if (v.inner > 1) side_by_side_ = SMELT_FOR_LEVEL(spec.isa, extremes_side_by_side);
  }
  Status run(KernelContext& ctx) const override {
    // Lines that lie behind each other: as many as are read at a time.
    constexpr int64_t kFew = 8;
    const int64_t most = v_.inner == 1 ? kFew : ExtremeLines::kMost, lines = v_.inner == 1 ? v_.outer : v_.inner;
    const int64_t outer = v_.inner == 1 ? 1 : v_.outer, blocks = ceil_div(lines, most);
    const int64_t grain = std::max<int64_t>(1, 16384 / (v_.extent * std::min(most, lines)));
    ctx.threads().parallel_for(outer * blocks, grain, [&](int64_t begin, int64_t end) {
      int32_t at[ExtremeLines::kMost];
      for (int64_t b = begin; b < end; ++b) {
        const int64_t o = b / blocks, first = b % blocks * most, n = std::min(most, lines - first);
        extremes(ctx.input(0).data<char>() + (o * v_.extent * v_.inner + first * lines_.line) * element_, n, at);
        store(at, n, ctx.output(0), o * v_.inner + first);
      }
    });
    return Ok();
  }

 private:
  void extremes(const void* from, int64_t n, int32_t* at) const {
    const auto* x = static_cast<const float*>(from);
    if (side_by_side_) return side_by_side_(lines_, x, n, at);
    if (!of_line_) return extremes_(lines_, from, n, at);
    for (int64_t i = 0; i < n; ++i, x += v_.extent) at[i] = static_cast<int32_t>(of_line_(lines_, x));
  }
  void store(const int32_t* at, int64_t n, Tensor& y, int64_t first) const {
    if (wide_)
      std::copy_n(at, n, y.data<int64_t>() + first);
    else
      std::copy_n(at, n, y.data<int32_t>() + first);
  }

  AxisView v_;
  ExtremeLines lines_;
  Extremes extremes_;
  int64_t element_;  ///< bytes
  bool wide_;
  int64_t (*of_line_)(const ExtremeLines&, const float*) = nullptr;
  void (*side_by_side_)(const ExtremeLines&, const float*, int64_t, int32_t*) = nullptr;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_arg_reduce(const KernelSpec& spec) {
  const auto& a = spec.attrs<ArgReduceAttrs>();
  const ValueType& x = spec.inputs[0];
  if (x.shape.elements() == 0) return nullptr;
  AxisView v{1, x.shape.elements(), 1};
  if (!a.flatten && x.shape.rank() > 0) {
    if (spec.has(1) && spec.constant(1)->elements() < 1) return nullptr;
    const auto axis = normalize_axis(spec.has(1) ? get_int(*spec.constant(1), 0) : a.axis, x.shape.rank());
    if (!axis.ok()) return nullptr;
    v = axis_view(x.shape, *axis);
  }
  if (v.extent > std::numeric_limits<int32_t>::max()) return nullptr;
  Extremes extremes = nullptr;
  by_number(x.dtype, [&](auto number) {
    using T = decltype(number);
    extremes = a.select_last ? extremes_of<true, T> : extremes_of<false, T>;
  });
  if (!extremes) return nullptr;
  return std::make_unique<ArgReduce>(v, a, extremes, spec);
}

}  // namespace smelt
#endif
