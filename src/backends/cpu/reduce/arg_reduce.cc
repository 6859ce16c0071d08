#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/number_type.h"
#include "ops/common/index.h"
#include "ops/reduce/reduce.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// True if entry a behind the extreme entry so far, b, becomes the extreme. The first NaN is the extreme.
template <bool kMin, bool kLast, class T>
bool takes_over(T a, T b) {
  bool more = kMin ? a < b : a > b;
  if constexpr (kLast) more = more || a == b;
  if constexpr (std::is_floating_point_v<T>) more = (more || std::isnan(a)) && !std::isnan(b);
  return more;
}

/// y[o] = index of the extreme of x[o, :, i] for each o in [begin, end) and i < inner.
template <bool kMin, bool kLast, class T, class Index>
void arg_rows(const void* from, const AxisView& v, int64_t begin, int64_t end, void* to) {
  constexpr int64_t kBlock = 256;
  const T* x = static_cast<const T*>(from);
  Index* y = static_cast<Index*>(to);
  std::array<T, kBlock> best;
  if (v.inner == 1) {
    for (int64_t o = begin; o < end; ++o) {
      const T* row = x + o * v.extent;
      T extreme = row[0];
      Index at = 0;
      for (int64_t k = 1; k < v.extent; ++k)
        if (takes_over<kMin, kLast>(row[k], extreme)) {
          extreme = row[k];
          at = static_cast<Index>(k);
        }
      y[o] = at;
    }
    return;
  }
  for (int64_t o = begin; o < end; ++o) {
    const T* rows = x + o * v.extent * v.inner;
    for (int64_t first = 0; first < v.inner; first += kBlock) {
      const int64_t n = std::min(kBlock, v.inner - first);
      Index* at = y + o * v.inner + first;
      std::copy_n(rows + first, n, best.begin());
      std::fill_n(at, n, Index{0});
      for (int64_t k = 1; k < v.extent; ++k) {
        const T* row = rows + k * v.inner + first;
        for (int64_t i = 0; i < n; ++i) {
          const bool over = takes_over<kMin, kLast>(row[i], best[static_cast<size_t>(i)]);
          best[static_cast<size_t>(i)] = over ? row[i] : best[static_cast<size_t>(i)];
          at[i] = over ? static_cast<Index>(k) : at[i];
        }
      }
    }
  }
}

using ArgRows = void (*)(const void*, const AxisView&, int64_t, int64_t, void*);

template <class T, class Index>
ArgRows rows_of(const ArgReduceAttrs& a) {
  if (a.min) return a.select_last ? arg_rows<true, true, T, Index> : arg_rows<true, false, T, Index>;
  return a.select_last ? arg_rows<false, true, T, Index> : arg_rows<false, false, T, Index>;
}

class ArgReduce final : public Kernel {
 public:
  ArgReduce(const AxisView& v, ArgRows rows) : v_(v), rows_(rows) {}
  Status run(KernelContext& ctx) const override {
    const int64_t grain = std::max<int64_t>(1, 16384 / (v_.extent * v_.inner));
    ctx.threads().parallel_for(v_.outer, grain, [&](int64_t begin, int64_t end) {
      rows_(ctx.input(0).raw(), v_, begin, end, ctx.output(0).raw());
    });
    return Ok();
  }

 private:
  AxisView v_;
  ArgRows rows_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_arg_reduce(const KernelSpec& spec) {
  const auto& a = spec.attrs<ArgReduceAttrs>();
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (x.shape.elements() == 0) return nullptr;
  AxisView v{1, x.shape.elements(), 1};
  if (!a.flatten && x.shape.rank() > 0) {
    if (spec.has(1) && spec.constant(1)->elements() < 1) return nullptr;
    const auto axis = normalize_axis(spec.has(1) ? get_int(*spec.constant(1), 0) : a.axis, x.shape.rank());
    if (!axis.ok()) return nullptr;
    v = axis_view(x.shape, *axis);
  }
  ArgRows rows = nullptr;
  by_number(x.dtype, [&](auto number) {
    using T = decltype(number);
    rows = y.dtype == DType::kI32 ? rows_of<T, int32_t>(a) : rows_of<T, int64_t>(a);
  });
  if (!rows) return nullptr;
  return std::make_unique<ArgReduce>(v, rows);
}

}  // namespace smelt
