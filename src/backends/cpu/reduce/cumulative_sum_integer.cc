#include <algorithm>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/reduce/reduce_view.h"
#include "base/thread_pool.h"

namespace smelt {
namespace {

/// Sums of x [extent, inner] modulo 2^bits.
template <class U>
void cumulative_sums(const AxisView& v, bool exclusive, bool reverse, const void* from, void* to) {
  const int64_t step = reverse ? -v.inner : v.inner, first = reverse ? (v.extent - 1) * v.inner : 0;
  const U* x = static_cast<const U*>(from) + first;
  U* y = static_cast<U*>(to) + first;
  if (v.inner == 1) {
    U total = 0;
    for (int64_t k = 0; k < v.extent; ++k, x += step, y += step) {
      const U next = total + *x;
      *y = exclusive ? total : next;
      total = next;
    }
    return;
  }
  if (exclusive)
    std::fill_n(y, v.inner, U{0});
  else
    std::copy_n(x, v.inner, y);
  for (int64_t k = 1; k < v.extent; ++k, x += step, y += step) {
    const U* const add = exclusive ? x : x + step;
    U* const next = y + step;
    for (int64_t i = 0; i < v.inner; ++i) next[i] = y[i] + add[i];
  }
}

class CumulativeSumInteger final : public Kernel {
 public:
  CumulativeSumInteger(const AxisView& v, const CumulativeAttrs& a, bool wide)
      : v_(v), exclusive_(a.exclusive), reverse_(a.reverse), wide_(wide) {}
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<std::byte>();
    auto* y = ctx.output(0).data<std::byte>();
    const int64_t rows = v_.extent * v_.inner, bytes = rows * (wide_ ? 8 : 4);
    ctx.threads().parallel_for(v_.outer, std::max<int64_t>(1, 16384 / rows), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        (wide_ ? cumulative_sums<uint64_t> : cumulative_sums<uint32_t>)(v_, exclusive_, reverse_, x + i * bytes,
                                                                        y + i * bytes);
    });
    return Ok();
  }

 private:
  AxisView v_;
  bool exclusive_, reverse_, wide_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_cumulative_sum_integer(const KernelSpec& spec) {
  const auto v = cumulative_sum_view(spec);
  if (!v) return nullptr;
  const bool wide = spec.inputs[0].dtype == DType::kI64;
  return std::make_unique<CumulativeSumInteger>(*v, spec.attrs<CumulativeAttrs>(), wide);
}

}  // namespace smelt
