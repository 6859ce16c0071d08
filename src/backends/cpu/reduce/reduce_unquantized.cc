// Sums of numbers that the compiler makes vectors of.
#include <algorithm>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/reduce/reduce_view.h"
#include "base/thread_pool.h"

namespace smelt {
namespace {

/// Reduces x [count, inner] to y [inner]; both are not 0.
using ReduceNumbers = void (*)(const void* x, int64_t count, int64_t inner, void* y);

/// Sums; of unsigned integers, as which signed ones are read, modulo 2^bits.
template <class T>
void sum_numbers(const void* from, int64_t count, int64_t inner, void* to) {
  const T* x = static_cast<const T*>(from);
  T* y = static_cast<T*>(to);
  if (inner > 1) {
    std::copy_n(x, inner, y);
    for (int64_t k = 1; k < count; ++k) {
      x += inner;
      for (int64_t i = 0; i < inner; ++i) y[i] += x[i];
    }
    return;
  }
  constexpr int64_t kLanes = 8;
  T lanes[kLanes] = {}, sum = 0;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t k = 0; k < kLanes; ++k) lanes[k] += x[i + k];
  for (const T lane : lanes) sum += lane;
  for (; i < count; ++i) sum += x[i];
  *y = sum;
}

class ReduceUnquantized final : public Kernel {
 public:
  /// divisor: of a float64 mean, else 0.
  ReduceUnquantized(const ReduceView& view, ReduceNumbers reduce, int64_t unit, double divisor)
      : v_(view), reduce_(reduce), unit_(unit), divisor_(divisor) {}
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<std::byte>();
    auto* y = ctx.output(0).data<std::byte>();
    const int64_t image = v_.count * v_.inner;
    ctx.threads().parallel_for(v_.outer, std::max<int64_t>(1, 32768 / image), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::byte* const to = y + i * v_.inner * unit_;
        reduce_(x + i * image * unit_, v_.count, v_.inner, to);
        if (divisor_ == 0) continue;
        auto* means = reinterpret_cast<double*>(to);
        for (int64_t k = 0; k < v_.inner; ++k) means[k] /= divisor_;
      }
    });
    return Ok();
  }

 private:
  ReduceView v_;
  ReduceNumbers reduce_;
  int64_t unit_;
  double divisor_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_reduce_unquantized(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ReduceAttrs>();
  const DType t = spec.inputs[0].dtype;
  if (attrs.fn != Reduction::kSum && (attrs.fn != Reduction::kMean || t != DType::kF64))
    return spec.refuse("neither a sum nor a mean of float64");
  if (spec.outputs[0].dtype != t) return spec.refuse("input and output differ in type");
  if (attrs.accumulate != DType::kInvalid && attrs.accumulate != t) return spec.refuse("sums of another type");
  const auto v = reduce_view(spec);
  if (!v) return spec.refuse("dynamic axes, or reduced dimensions that are no neighbours");
  const ReduceNumbers sum = t == DType::kF64   ? sum_numbers<double>
                            : t == DType::kI32 ? sum_numbers<uint32_t>
                                               : sum_numbers<uint64_t>;
  const double divisor = attrs.fn == Reduction::kMean ? static_cast<double>(v->count) : 0;
  return std::make_unique<ReduceUnquantized>(*v, sum, bit_width(t) / 8, divisor);
}

}  // namespace smelt
