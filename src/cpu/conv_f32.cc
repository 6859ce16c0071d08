#include <algorithm>
#include <vector>

#include "base/cat.h"
#include "cpu/activation.h"
#include "cpu/conv_shape.h"
#include "cpu/gemm_f32.h"
#include "cpu/kernel.h"

namespace smelt {
namespace {

bool plain_f32(const KernelSpec& spec) {
  for (size_t i = 0; i < spec.inputs.size(); ++i)
    if (spec.has(i) && (spec.inputs[i].dtype != DType::kF32 || spec.inputs[i].quant)) return false;
  return spec.outputs[0].dtype == DType::kF32 && !spec.outputs[0].quant;
}

/// Key of packed filters: everything that their arrangement depends on.
std::string geometry_key(const char* kind, const ConvShape& g, int64_t nr, const void* bias) {
  return Cat(kind, ' ', g.groups, ' ', g.c_in, ' ', g.c_out, ' ', g.taps(), ' ', g.filter_o, ' ', g.filter_i, ' ',
             g.filter_s, ' ', nr, ' ', reinterpret_cast<uintptr_t>(bias));
}

/// Channels-last: rows of patches times packed filters.
class ConvRowsF32 final : public Kernel {
 public:
  ConvRowsF32(const ConvShape& g, const GemmF32& gemm, const KernelSpec& spec)
      : g_(g), gemm_(gemm), act_(spec.attrs<ConvAttrs>().act), threads_(std::max(spec.threads, 1)) {
    const Tensor* bias = spec.has(2) ? spec.constant(2) : nullptr;
    const float* b = bias ? bias->data<float>() : nullptr;
    packed_ = spec.packs.get(spec.constant(1)->raw(), geometry_key("conv_rows_f32", g, gemm.nr(), b),
                             [&] { return pack(spec.constant(1)->data<float>(), b); });
    const int64_t pixels = g.batch * g.out_pixels();
    // Blocks of whole tiles: patches that fit the level-2 cache, and work for every thread.
    block_ = std::max<int64_t>(1, 48 * 1024 / std::max<int64_t>(1, g.depth() * gemm.mr)) * gemm.mr;
    if (g.pointwise()) block_ = std::max<int64_t>(block_, 16 * gemm.mr);
    const int64_t share = (pixels + threads_ * 2 - 1) / (threads_ * 2);
    if (threads_ > 1) block_ = std::min(block_, std::max(gemm.mr, share / gemm.mr * gemm.mr));
    // Few pixels and many filters: threads share the filters instead.
    by_panels_ = threads_ > 1 && g.groups == 1 && pixels < block_ * threads_ && gemm.panels(g.c_out) >= 2 * threads_ &&
                 g.pointwise();
  }
  size_t scratch_bytes() const override {
    return g_.pointwise() ? 0 : static_cast<size_t>(threads_ * patches()) * sizeof(float);
  }
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    float* y = ctx.output(0).data<float>();
    if (by_panels_) {
      const int64_t pixels = g_.batch * g_.out_pixels(), panels = gemm_.panels(g_.c_out);
      ctx.threads().parallel_for(panels, (panels + threads_ - 1) / threads_, [&](int64_t begin, int64_t end) {
        multiply(x, g_.all_in(), pixels, 0, begin, end, y);
        const int64_t column = begin * gemm_.nr(), n = std::min(g_.c_out, end * gemm_.nr()) - column;
        activate_rows(act_, y + column, pixels, n, g_.all_out());
      });
      return Ok();
    }
    float* scratch = nullptr;
    if (const size_t bytes = scratch_bytes()) {
      scratch = static_cast<float*>(ctx.scratch(bytes));
      if (!scratch) return Error(ErrorCode::kLimit, "no memory for the patches of a convolution");
    }
    const int64_t per_image = (g_.out_pixels() + block_ - 1) / block_, blocks = g_.batch * per_image;
    const int64_t slots = std::min<int64_t>(threads_, blocks);
    ctx.threads().parallel_for(slots, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot)
        for (int64_t b = blocks * slot / slots; b < blocks * (slot + 1) / slots; ++b)
          block(x, y, b / per_image, b % per_image, scratch ? scratch + slot * patches() : nullptr);
    });
    return Ok();
  }

 private:
  int64_t patches() const { return (block_ * g_.depth() + kPatchSlack + 15) / 16 * 16; }
  Packed pack(const float* filter, const float* bias) const {
    const int64_t group = gemm_.packed_size(g_.depth(), g_.c_out);
    auto packed = std::make_shared<AlignedBytes>(static_cast<size_t>(group * g_.groups) * sizeof(float));
    const bool in_order =
        g_.filter_o == g_.depth() && (g_.taps() == 1 || g_.filter_s == g_.c_in) && (g_.c_in == 1 || g_.filter_i == 1);
    // Rows of the panels are (tap, channel): gather the filter in that order, one group at a time.
    std::vector<float> ordered(static_cast<size_t>(in_order ? 0 : g_.c_out * g_.depth()));
    for (int64_t group_index = 0; group_index < g_.groups; ++group_index) {
      const float* from = filter + group_index * g_.c_out * g_.filter_o;
      float* to = ordered.data();
      for (int64_t o = 0; o < g_.c_out && !in_order; ++o)
        for (int64_t t = 0; t < g_.taps(); ++t)
          for (int64_t i = 0; i < g_.c_in; ++i) *to++ = from[o * g_.filter_o + i * g_.filter_i + t * g_.filter_s];
      gemm_.pack(in_order ? from : ordered.data(), 1, g_.depth(), g_.depth(), g_.c_out,
                 bias ? bias + group_index * g_.c_out : nullptr, packed->data<float>() + group_index * group);
    }
    return packed;
  }
  void multiply(const float* a, int64_t lda, int64_t rows, int64_t group, int64_t first, int64_t last, float* c) const {
    const Bounds bounds = activation_bounds(act_);
    gemm_.run(rows, g_.c_out, g_.depth(), a, lda,
              packed_->data<float>() + group * gemm_.packed_size(g_.depth(), g_.c_out), first, last, c, g_.all_out(),
              nullptr, bounds.lo, bounds.hi);
  }
  void block(const float* x, float* y, int64_t image, int64_t index, float* scratch) const {
    const int64_t first = index * block_, last = std::min(first + block_, g_.out_pixels());
    const int64_t panels = gemm_.panels(g_.c_out);
    const float* from = x + image * g_.in_pixels() * g_.all_in();
    float* to = y + (image * g_.out_pixels() + first) * g_.all_out();
    for (int64_t group = 0; group < g_.groups; ++group) {
      if (g_.pointwise()) {
        multiply(from + first * g_.all_in() + group * g_.c_in, g_.all_in(), last - first, group, 0, panels,
                 to + group * g_.c_out);
      } else {
        im2col_rows<float>(g_, from + group * g_.c_in, first, last, 0.0f, scratch, g_.depth());
        multiply(scratch, g_.depth(), last - first, group, 0, panels, to + group * g_.c_out);
      }
    }
    activate_rows(act_, to, last - first, g_.all_out(), g_.all_out());
  }

  ConvShape g_;
  const GemmF32& gemm_;
  Activation act_;
  int64_t threads_, block_ = 1;
  bool by_panels_ = false;
  Packed packed_;
};

/// Channels-first: filters times panels of patches.
class ConvColumnsF32 final : public Kernel {
 public:
  ConvColumnsF32(const ConvShape& g, const GemmF32& gemm, const KernelSpec& spec)
      : g_(g),
        gemm_(gemm),
        act_(spec.attrs<ConvAttrs>().act),
        threads_(std::max(spec.threads, 1)),
        has_bias_(spec.has(2)) {
    const Tensor* filter = spec.constant(1);
    if (!in_order(g))
      packed_ = spec.packs.get(filter->raw(), geometry_key("conv_columns_f32", g, 0, nullptr),
                               [&] { return order(filter->data<float>()); });
    const int64_t panel = (g.depth() + 1) * gemm.nr();
    panels_ = std::clamp<int64_t>(48 * 1024 / panel, 1, 8);
    const int64_t all = gemm.panels(g.out_pixels()) * g.batch * g.groups;
    if (threads_ > 1) panels_ = std::clamp<int64_t>(all / (threads_ * 2), 1, panels_);
  }
  /// Whether filters are rows in the order (channel, tap) as they are.
  static bool in_order(const ConvShape& g) {
    return (g.filter_s == 1 || g.taps() == 1) && (g.filter_i == g.taps() || g.c_in == 1) && g.filter_o == g.depth();
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(threads_ * panels_ * (g_.depth() + 1) * gemm_.nr()) * sizeof(float) + 64;
  }
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    const float* filter = packed_ ? packed_->data<float>() : ctx.input(1).data<float>();
    const float* bias = has_bias_ ? ctx.input(2).data<float>() : nullptr;
    float* y = ctx.output(0).data<float>();
    float* scratch = static_cast<float*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for the patches of a convolution");
    const int64_t step = panels_ * gemm_.nr();
    const int64_t per_plane = (g_.out_pixels() + step - 1) / step, blocks = g_.batch * g_.groups * per_plane;
    const int64_t slots = std::min<int64_t>(threads_, blocks);
    ctx.threads().parallel_for(slots, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot)
        for (int64_t b = blocks * slot / slots; b < blocks * (slot + 1) / slots; ++b)
          block(x, filter, bias, y, b / per_plane, b % per_plane * step,
                scratch + slot * panels_ * (g_.depth() + 1) * gemm_.nr());
    });
    return Ok();
  }

 private:
  Packed order(const float* filter) const {
    auto packed = std::make_shared<AlignedBytes>(static_cast<size_t>(g_.all_out() * g_.depth()) * sizeof(float));
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
      float* panel = scratch + gemm_.panel_offset(g_.depth(), p);
      std::fill_n(panel, width, 0.0f);
      im2col_panel(g_, from, begin, std::min(begin + width, first + pixels), width, panel + width);
    }
    const Bounds bounds = activation_bounds(act_);
    const int64_t row = group * g_.c_out;
    float* to = y + (image * g_.all_out() + row) * g_.out_pixels() + first;
    gemm_.run(g_.c_out, pixels, g_.depth(), filter + row * g_.depth(), g_.depth(), scratch, 0, gemm_.panels(pixels), to,
              g_.out_pixels(), bias ? bias + row : nullptr, bounds.lo, bounds.hi);
    activate_rows(act_, to, g_.c_out, pixels, g_.out_pixels());
  }

  ConvShape g_;
  const GemmF32& gemm_;
  Activation act_;
  int64_t threads_, panels_ = 1;
  bool has_bias_;
  Packed packed_;
};

}  // namespace

std::unique_ptr<Kernel> make_conv_rows_f32(const KernelSpec& spec) {
  if (!plain_f32(spec) || spec.attrs<ConvAttrs>().layout != Layout::kChannelsLast) return nullptr;
  if (!spec.constant(1) || (spec.has(2) && !spec.constant(2))) return nullptr;
  const auto g = ConvShape::make(spec);
  if (!g || spec.outputs[0].shape.elements() == 0) return nullptr;
  return std::make_unique<ConvRowsF32>(*g, gemm_f32(spec.isa), spec);
}

std::unique_ptr<Kernel> make_conv_columns_f32(const KernelSpec& spec) {
  if (!plain_f32(spec) || spec.attrs<ConvAttrs>().layout != Layout::kChannelsFirst) return nullptr;
  const auto g = ConvShape::make(spec);
  if (!g || (!spec.constant(1) && !ConvColumnsF32::in_order(*g)) || spec.outputs[0].shape.elements() == 0)
    return nullptr;
  return std::make_unique<ConvColumnsF32>(*g, gemm_f32(spec.isa), spec);
}

}  // namespace smelt
