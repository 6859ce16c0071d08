#include <cstring>
#include <string>

#include "base/cat.h"
#include "ops/resize/plan.h"
#include "vulkan/device.h"
#include "vulkan/kernel_recorder.h"
#include "vulkan/kernels/common.h"

namespace smelt::vulkan {
namespace {

struct Push {
  uint32_t n;
  uint32_t in_length, out_length, inner;
};

struct Tap {
  int32_t place;
  float weight;
};

/// One dimension resampled.
struct Pass {
  Push push;
  std::vector<uint32_t> begins;
  std::vector<Tap> taps;
};

Pass make_pass(const AxisTaps& t, const ResizeAxis& d, const Shape& in, float extrapolation) {
  Pass p;
  const auto inner = Shape(in.dims().subspan(static_cast<size_t>(d.axis) + 1)).elements();
  p.push = {static_cast<uint32_t>(in.elements() / d.in * d.out), static_cast<uint32_t>(d.in),
            static_cast<uint32_t>(d.out), static_cast<uint32_t>(inner)};
  for (int64_t i = 0; i < d.out; ++i) {
    p.begins.push_back(static_cast<uint32_t>(p.taps.size()));
    const auto at = static_cast<size_t>(i);
    if (t.outside[at]) {
      p.taps.push_back({-1, extrapolation});
      continue;
    }
    for (auto k = static_cast<size_t>(t.begin[at]); k < static_cast<size_t>(t.begin[at + 1]); ++k)
      p.taps.push_back({static_cast<int32_t>(t.index[k]), static_cast<float>(t.weight[k])});
  }
  p.begins.push_back(static_cast<uint32_t>(p.taps.size()));
  return p;
}

/// Passes from the last axis to the first; what lies between two of them is float32.
class ResizeKernel final : public Kernel {
 public:
  ResizeKernel(DType dtype, std::vector<Pass> passes) : dtype_(dtype), passes_(std::move(passes)) {
    for (size_t i = 0; i + 1 < passes_.size(); ++i) {
      offsets_.push_back(scratch_);
      scratch_ += (size_t{passes_[i].push.n} * sizeof(float) + 255) & ~size_t{255};
    }
  }
  bool reads(size_t i) const override { return i == 0; }
  size_t scratch_bytes() const override { return scratch_; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(Binding x, r.input(0));
    std::string from = short_name(dtype_);
    for (size_t i = 0; i < passes_.size(); ++i) {
      const Pass& p = passes_[i];
      const bool last = i + 1 == passes_.size();
      const std::string to = last ? short_name(dtype_) : "f32";
      SMELT_ASSIGN(const Binding begins, upload(r, i, "begins", p.begins.data(), p.begins.size() * sizeof(uint32_t)));
      SMELT_ASSIGN(const Binding taps, upload(r, i, "taps", p.taps.data(), p.taps.size() * sizeof(Tap)));
      const size_t bytes = size_t{p.push.n} * sizeof(float);
      Dispatch d{find_shader(Cat("resample_", from, '_', to).c_str())->name,
                 {kWidth},
                 {x, begins, taps, last ? r.output(0) : r.scratch(offsets_[i], bytes, true)}};
      set_grid(d, p.push.n, kWidth);
      SMELT_TRY(r.dispatch(d, p.push));
      if (!last) x = r.scratch(offsets_[i], bytes, false);
      from = to;
    }
    return Ok();
  }

 private:
  Result<Binding> upload(KernelRecorder& r, size_t pass, const char* what, const void* data, size_t bytes) const {
    return r.table(Cat(what, ' ', reinterpret_cast<uintptr_t>(this), ' ', pass), bytes,
                   [&](void* to) { std::memcpy(to, data, bytes); });
  }

  DType dtype_;
  std::vector<Pass> passes_;
  std::vector<size_t> offsets_;
  size_t scratch_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_resize_real(const KernelSpec& spec) {
  const auto& a = spec.attrs<ResizeAttrs>();
  if (!plain_reals(spec, {0}, {0})) return nullptr;
  for (size_t i = 1; i < spec.inputs.size(); ++i)
    if (spec.has(i) && !spec.constant(i)) return nullptr;
  const auto content = [&](size_t i) { return spec.has(i) ? spec.constant(i) : nullptr; };
  Shape shape = spec.inputs[0].shape;
  const auto axes = plan_resize(a, shape, resize_request(content(1), content(2), content(3)));
  if (!axes.ok()) return nullptr;
  std::vector<Pass> passes;
  for (size_t i = axes->size(); i-- > 0;) {
    const ResizeAxis& d = (*axes)[i];
    const auto taps = axis_taps(a, d);
    if (!taps.ok()) return nullptr;
    if (taps->identity && d.in == d.out && (i > 0 || !passes.empty())) continue;
    passes.push_back(make_pass(*taps, d, shape, static_cast<float>(a.extrapolation)));
    shape[d.axis] = d.out;
  }
  if (passes.empty() || !(shape == spec.outputs[0].shape)) return nullptr;
  return std::make_unique<ResizeKernel>(spec.outputs[0].dtype, std::move(passes));
}

}  // namespace smelt::vulkan
