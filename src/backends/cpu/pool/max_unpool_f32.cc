// Maxima of pooling back to where they were, zeros elsewhere.
#include <algorithm>
#include <atomic>
#include <vector>

#include "backends/cpu/core/kernel.h"
#include "base/thread_pool.h"
#include "ops/pool/pool.h"

namespace smelt {
namespace {

/// What does not fit is for the reference to do, or to say.
Status by_reference(KernelContext& ctx) {
  Tensor& y = ctx.output(0);
  std::fill_n(y.data<float>(), y.elements(), 0.0f);
  return op_info(Op::kMaxUnpool).reference(ctx);
}

/// Indices within windows that neither overlap nor leave gaps: a line of x fills whole lines of y.
class UnpoolWindows final : public Kernel {
 public:
  UnpoolWindows(const MaxUnpoolAttrs& a, const Shape& x)
      : lines_(x[0] * x[1]), width_(x[2]), channels_(x[3]), line_(a.kernel[0] * a.kernel[1] * width_ * channels_) {
    for (int64_t i = 0; i < a.kernel[0]; ++i)
      for (int64_t j = 0; j < a.kernel[1]; ++j) offsets_.push_back((i * width_ * a.kernel[1] + j) * channels_);
    step_ = a.kernel[1] * channels_;
  }
  Status run(KernelContext& ctx) const override {
    const float *x = ctx.input(0).data<float>(), *index = ctx.input(1).data<float>();
    float* y = ctx.output(0).data<float>();
    std::atomic<bool> all_fit = true;
    ctx.threads().parallel_for(lines_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        if (!line(x + i * width_ * channels_, index + i * width_ * channels_, y + i * line_)) all_fit = false;
    });
    return all_fit ? Ok() : by_reference(ctx);
  }

 private:
  /// False if an index is none of the window's.
  bool line(const float* x, const float* index, float* y) const {
    const auto taps = static_cast<float>(offsets_.size());
    bool fits = true;
    std::fill_n(y, line_, 0.0f);
    for (int64_t i = 0; i < width_; ++i, y += step_)
      for (int64_t c = 0; c < channels_; ++c, ++x, ++index) {
        const bool good = *index >= 0 && *index < taps;
        fits = fits && good;
        y[offsets_[good ? static_cast<size_t>(*index) : 0] + c] = *x;
      }
    return fits;
  }

  int64_t lines_, width_, channels_, line_, step_ = 0;
  std::vector<int64_t> offsets_;  ///< of a window's taps
};

/// Indices of y's elements; of equal ones the last counts.
class UnpoolTensor final : public Kernel {
 public:
  Status run(KernelContext& ctx) const override {
    const Tensor& x = ctx.input(0);
    Tensor& y = ctx.output(0);
    const auto* index = ctx.input(1).data<int64_t>();
    const auto* from = x.data<float>();
    auto* to = y.data<float>();
    const int64_t n = x.elements(), limit = y.elements();
    std::fill_n(to, limit, 0.0f);
    for (int64_t i = 0; i < n; ++i) {
      if (index[i] < 0 || index[i] >= limit) return by_reference(ctx);
      to[index[i]] = from[i];
    }
    return Ok();
  }
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_max_unpool_f32(const KernelSpec& spec) {
  const auto& a = spec.attrs<MaxUnpoolAttrs>();
  const ValueType &x = spec.inputs[0], &indices = spec.inputs[1];
  if (!(indices.shape == x.shape)) return spec.refuse("indices of another shape");
  if (a.in_window) {
    constexpr int64_t kMostTaps = 1 << 10;
    if (indices.dtype != DType::kF32 || a.kernel.size() != 2) return spec.refuse("indices that are not float32");
    if (a.strides != a.kernel || a.kernel[0] > kMostTaps || a.kernel[1] > kMostTaps)
      return spec.refuse("windows that overlap or leave gaps");
    return std::make_unique<UnpoolWindows>(a, x.shape);
  }
  const auto inner = unpooled_shape(a, x.shape);
  if (indices.dtype != DType::kI64 || !inner.ok() || !(*inner == spec.outputs[0].shape))
    return spec.refuse("indices that are not int64, or an output of another shape than was pooled");
  return std::make_unique<UnpoolTensor>();
}

}  // namespace smelt
