#include <algorithm>

#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/conv/im2col.h"
#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/gemm/gemm_f32.h"
#include "base/checked.h"

namespace smelt {
namespace {

struct ConvNchwKey {
  FilterKey filter;
  auto operator<=>(const ConvNchwKey&) const = default;
};

/// Channels-first: filters times panels of patches.
class ConvNchwF32 final : public Kernel {
 public:
  ConvNchwF32(const ConvShape& g, const GemmF32& gemm, const KernelSpec& spec)
      : g_(g),
        gemm_(gemm),
        act_(spec.attrs<ConvAttrs>().act),
        threads_(std::max(spec.threads, 1)),
        has_bias_(spec.has(2)) {
    const Tensor* filter = spec.constant(1);
    if (!in_order(g))
      packed_ =
          spec.packs.get(ConvNchwKey{{g, *filter, nullptr}}, [&] { return order(filter->read_once().data<float>()); });
    const int64_t panel = (g.k() + 1) * gemm.nr();
    panels_ = std::clamp<int64_t>(48 * 1024 / panel, 1, 8);
    const int64_t all = gemm.panels(g.out_pixels()) * g.batch * g.groups;
    if (threads_ > 1) panels_ = std::clamp<int64_t>(all / (threads_ * 2), 1, panels_);
  }
  /// True if filters are rows in the order (channel, tap) as they are.
  static bool in_order(const ConvShape& g) {
    return (g.filter_s == 1 || g.taps() == 1) && (g.filter_i == g.taps() || g.c_in == 1) && g.filter_o == g.k();
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(threads_ * slot_floats()) * sizeof(float); }
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    const float* filter = packed_ ? packed_->data<float>() : ctx.input(1).data<float>();
    const float* bias = has_bias_ ? ctx.input(2).data<float>() : nullptr;
    float* y = ctx.output(0).data<float>();
    float* scratch = static_cast<float*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for the patches of a convolution");
    const int64_t step = panels_ * gemm_.nr();
    const int64_t per_plane = (g_.out_pixels() + step - 1) / step, blocks = g_.batch * g_.groups * per_plane;
    in_slots(ctx.threads(), threads_, blocks, [&](int64_t b, int64_t slot) {
      block(x, filter, bias, y, b / per_plane, b % per_plane * step, scratch + slot * slot_floats());
    });
    return Ok();
  }

 private:
  int64_t slot_floats() const { return round_up(panels_ * (g_.k() + 1) * gemm_.nr() + kPatchSlack, 16); }
  Packed order(const float* filter) const {
    auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(g_.all_out() * g_.k()) * sizeof(float));
    float* to = packed->data<float>();
    for (int64_t o = 0; o < g_.all_out(); ++o)
      for (int64_t i = 0; i < g_.c_in; ++i)
        for (int64_t t = 0; t < g_.taps(); ++t) *to++ = filter[o * g_.filter_o + i * g_.filter_i + t * g_.filter_s];
    return packed;
  }
  /// `plane` counts images and groups, `first` is an output pixel.
  void block(const float* x, const float* filter, const float* bias, float* y, int64_t plane, int64_t first,
             float* scratch) const {
    const int64_t image = plane / g_.groups, group = plane % g_.groups;
    const int64_t pixels = std::min(panels_ * gemm_.nr(), g_.out_pixels() - first);
    const float* from = x + (image * g_.all_in() + group * g_.c_in) * g_.in_pixels();
    for (int64_t p = 0; p < gemm_.panels(pixels); ++p) {
      const int64_t begin = first + p * gemm_.nr(), width = gemm_.width(pixels, p);
      float* panel = scratch + gemm_.panel_offset(g_.k(), p);
      std::fill_n(panel, width, 0.0f);
      im2col_panel(g_, from, begin, std::min(begin + width, first + pixels), width, panel + width);
    }
    const Bounds bounds = activation_bounds(act_);
    const int64_t row = group * g_.c_out;
    float* to = y + (image * g_.all_out() + row) * g_.out_pixels() + first;
    gemm_.run(g_.c_out, pixels, g_.k(), filter + row * g_.k(), g_.k(), scratch, 0, gemm_.panels(pixels), to,
              g_.out_pixels(), bias ? bias + row : nullptr, bounds.lo, bounds.hi);
    apply_activation(act_, to, g_.c_out, pixels, g_.out_pixels());
  }

  ConvShape g_;
  const GemmF32& gemm_;
  Activation act_;
  int64_t threads_, panels_ = 1;
  bool has_bias_;
  Packed packed_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_nchw_f32(const KernelSpec& spec) {
  const auto g = ConvShape::in_lines(spec);
  if (!g || spec.outputs[0].shape.elements() == 0) return nullptr;
  if (!spec.constant(1) && !ConvNchwF32::in_order(*g))
    return spec.refuse("a dynamic filter whose taps are not neighbours");
  return std::make_unique<ConvNchwF32>(*g, gemm_f32(spec.isa), spec);
}

}  // namespace smelt
