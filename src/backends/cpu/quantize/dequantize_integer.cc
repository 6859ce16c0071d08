// Integers of constant scales, per tensor or per axis, to float32.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/number_type.h"
#include "base/checked.h"
#include "base/thread_pool.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// y = (x - zero) * scale for n neighbours.
using DequantizeRun = void (*)(const void* x, int64_t n, float scale, int32_t zero, float* y);

template <class T>
void dequantize_run(const void* from, int64_t n, float scale, int32_t zero, float* y) {
  const T* x = static_cast<const T*>(from);
  for (int64_t i = 0; i < n; ++i)
    y[i] = static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(x[i]) - static_cast<uint32_t>(zero))) * scale;
}

/// One pair of parameters for all or one an entry of a dimension.
class DequantizeInteger final : public Kernel {
 public:
  DequantizeInteger(DequantizeRun run, int64_t bytes, std::vector<float> scales, std::vector<int32_t> zeros,
                    int64_t outer, int64_t inner)
      : run_(run), bytes_(bytes), scales_(std::move(scales)), zeros_(std::move(zeros)), outer_(outer), inner_(inner) {}
  Status run(KernelContext& ctx) const override {
    // Threads share blocks of runs.
    const int64_t blocks = ceil_div(inner_, kBlock), count = outer_ * static_cast<int64_t>(scales_.size());
    const auto* x = ctx.input(0).data<std::byte>();
    float* y = ctx.output(0).data<float>();
    ctx.threads().parallel_for(count * blocks, std::max<int64_t>(1, kBlock / inner_), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const int64_t row = b / blocks, first = b % blocks * kBlock, at = row * inner_ + first;
        const size_t pair = static_cast<size_t>(row) % scales_.size();
        run_(x + at * bytes_, std::min(kBlock, inner_ - first), scales_[pair], zeros_[pair], y + at);
      }
    });
    return Ok();
  }

 private:
  static constexpr int64_t kBlock = 16384;
  DequantizeRun run_;
  int64_t bytes_;
  std::vector<float> scales_;
  std::vector<int32_t> zeros_;
  int64_t outer_, inner_;
};

/// x as rows of `scales.size()` runs of equal parameters.
std::unique_ptr<Kernel> dequantizer(const KernelSpec& spec, int axis, std::vector<float> scales,
                                    std::vector<int32_t> zeros) {
  const Shape& x = spec.inputs[0].shape;
  const auto n = static_cast<int64_t>(scales.size());
  if (x.elements() == 0 || (n != 1 && (axis < 0 || axis >= x.rank() || x[axis] != n))) return nullptr;
  int64_t outer = 1;
  for (int i = 0; n != 1 && i < axis; ++i) outer *= x[i];
  const int64_t inner = x.elements() / (outer * n);
  std::unique_ptr<Kernel> made;
  by_number(spec.inputs[0].dtype, [&](auto t) {
    using T = decltype(t);
    if constexpr (std::is_integral_v<T> && sizeof(T) <= 4)
      made = std::make_unique<DequantizeInteger>(dequantize_run<T>, sizeof(T), std::move(scales), std::move(zeros),
                                                 outer, inner);
  });
  return made;
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_dequantize_linear_integer(const KernelSpec& spec) {
  const auto& a = spec.attrs<QuantizeLinearAttrs>();
  const ValueType &x = spec.inputs[0], &s = spec.inputs[1];
  if (x.quant || !is_integer(x.dtype) || s.dtype != DType::kF32 || spec.outputs[0].dtype != DType::kF32 || a.block != 0)
    return nullptr;
  const Tensor* scale = spec.constant(1);
  const Tensor* zero = spec.has(2) ? spec.constant(2) : nullptr;
  if (!scale || (spec.has(2) && (!zero || zero->elements() != scale->elements()))) return nullptr;
  std::vector<float> scales;
  std::vector<int32_t> zeros;
  for (int64_t i = 0; i < scale->elements(); ++i) {
    scales.push_back(scale->data<float>()[i]);
    zeros.push_back(zero ? static_cast<int32_t>(get_int(*zero, i)) : 0);
  }
  return dequantizer(spec, static_cast<int>(a.axis < 0 ? a.axis + x.shape.rank() : a.axis), std::move(scales),
                     std::move(zeros));
}

[[gnu::cold]] std::unique_ptr<Kernel> make_dequantize_integer(const KernelSpec& spec) {
  const ValueType& x = spec.inputs[0];
  if (!x.quant || !is_integer(x.dtype) || spec.outputs[0].dtype != DType::kF32 || spec.outputs[0].quant) return nullptr;
  const Quantization& q = *x.quant;
  if (q.kind != Quantization::Kind::kPerTensor && q.kind != Quantization::Kind::kPerAxis) return nullptr;
  std::vector<float> scales = q.scales;
  std::vector<int32_t> zeros;
  for (size_t i = 0; i < scales.size(); ++i) zeros.push_back(q.zero_point(static_cast<int64_t>(i)));
  return dequantizer(spec, q.axis, std::move(scales), std::move(zeros));
}

}  // namespace smelt
