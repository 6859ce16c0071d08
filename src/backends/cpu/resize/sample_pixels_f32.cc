#include <algorithm>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/resize/weighted_sum.h"
#include "base/thread_pool.h"
#include "ops/resize/resize.h"

namespace smelt {
namespace {

class SamplePixelsF32 final : public Kernel {
 public:
  explicit SamplePixelsF32(const KernelSpec& spec)
      : x_(spec.inputs[0].shape),
        points_(spec.outputs[0].shape[1] * spec.outputs[0].shape[2]),
        rows_(weighted_sum_of(spec.isa)) {}
  Status run(KernelContext& ctx) const override {
    const auto *x = ctx.input(0).data<float>(), *points = ctx.input(1).data<float>();
    auto* y = ctx.output(0).data<float>();
    const int64_t channels = x_[3], image = x_[1] * x_[2] * channels;
    const int64_t grain = std::max<int64_t>(1, 8192 / channels);
    ctx.threads().parallel_for(x_[0] * points_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        sample(x + i / points_ * image, points[2 * i], points[2 * i + 1], y + i * channels);
    });
    return Ok();
  }

 private:
  void sample(const float* image, float x, float y, float* to) const {
    int64_t pixels[4];
    float weights[4];
    int64_t count = 0;
    // Not so of NaN, nor of what is no int32.
    if (x > -1 && y > -1 && x < static_cast<float>(x_[2]) && y < static_cast<float>(x_[1])) {
      // Positions are above -1: the whole part of what is one larger is not negative.
      const auto left = static_cast<int32_t>(x + 1) - 1, top = static_cast<int32_t>(y + 1) - 1;
      const float dx = x - static_cast<float>(left), dy = y - static_cast<float>(top);
      for (int32_t i = 0; i < 4; ++i) {
        const int64_t row = top + i / 2, column = left + i % 2;
        if (row < 0 || row >= x_[1] || column < 0 || column >= x_[2]) continue;
        pixels[count] = row * x_[2] + column;
        weights[count++] = (i / 2 ? dy : 1 - dy) * (i % 2 ? dx : 1 - dx);
      }
    }
    if (count > 0)
      rows_(image, pixels, weights, count, x_[3], to);
    else
      std::fill_n(to, x_[3], 0.0f);
  }

  Shape x_;
  int64_t points_;
  WeightedSum rows_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_sample_pixels_f32(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  constexpr int64_t kMost = 1 << 24;  // whole numbers that float32 tells apart
  if (spec.attrs<SamplePixelsAttrs>().affine) return spec.refuse("an affine map");
  if (x.elements() == 0 || spec.outputs[0].shape.elements() == 0 || x[1] >= kMost || x[2] >= kMost) return nullptr;
  return std::make_unique<SamplePixelsF32>(spec);
}

}  // namespace smelt
