// Convolutions of volumes by a kernel for images: the slices that a window reaches into are one image, their channels
// beside each other.
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/conv/seen_taps.h"
#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/inner_context.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/vector_ops.h"
#include "ops/conv/conv_shape.h"

namespace smelt {
namespace {

/// Slices of a window, [first, last) of its depth.
struct Reach {
  int64_t first = 0, last = 0;
  int64_t count() const { return last - first; }
  auto operator<=>(const Reach&) const = default;
};

struct VolumeFilterKey {
  FilterKey filter;
  Reach reach;
  auto operator<=>(const VolumeFilterKey&) const = default;
};

/// Channel c of slice k becomes channel c * slices + k of `pixels` pixels. from: of each slice; nullptr: zeros.
void interleave(std::span<const float* const> from, int64_t pixels, int64_t channels, float* to) {
  const auto slices = static_cast<int64_t>(from.size());
  for (int64_t k = 0; k < slices; ++k) {
    const float* x = from[static_cast<size_t>(k)];
    float* y = to + k;
    for (int64_t i = 0; i < pixels * channels; ++i, y += slices) *y = x ? x[i] : 0;
  }
}

/// The slices of the window of output slice z that lie inside the volume.
Reach reach_of(const ConvShape& g, int64_t z) {
  const auto slices = taps_inside(g, 0, z);
  return {slices.first, slices.second};
}

/// A convolution of the image of one output slice.
struct ImageConv {
  Reach reach;
  Packed filter;  ///< that the kernel was made of, unless it is the node's own
  std::unique_ptr<Kernel> kernel;
};

/// Convolves an image of the slices of conv.reach to a slice of the output.
[[gnu::cold]] Status convolve(KernelContext& ctx, const ConvShape& g, const ImageConv& conv, const float* image,
                              float* to, void* scratch) {
  std::array<Datum, 3> inputs;
  inputs[0] = Tensor::view(DType::kF32, {1, g.in[1], g.in[2], g.all_in() * conv.reach.count()}, image, nullptr);
  Tensor out = Tensor::view(DType::kF32, {1, g.out[1], g.out[2], g.all_out()}, to, nullptr);
  InnerContext inner(ctx, inputs, out, scratch);
  return conv.kernel->run(inner);
}

class ConvVolumeF32 final : public Kernel {
 public:
  ConvVolumeF32(const ConvShape& g, const KernelSpec& spec, std::vector<ImageConv> convs, std::vector<size_t> of_slice)
      : g_(g), act_(spec.attrs<ConvAttrs>().act), convs_(std::move(convs)), of_slice_(std::move(of_slice)) {
    bool padding_alone = false;
    for (int64_t z = 0; z < g.out[0]; ++z) padding_alone = padding_alone || reach_of(g, z).count() == 0;
    for (const ImageConv& c : convs_) {
      inner_bytes_ = std::max(inner_bytes_, c.kernel->scratch_bytes());
      if (c.reach.count() > 1 || padding_alone)
        image_bytes_ = std::max(image_bytes_, static_cast<size_t>(padded_bytes(plane_in() * c.reach.count() * 4)));
    }
  }
  bool take_epilogue(const EpilogueF32& epilogue) override { return clamps(act_) && epilogue_.take(epilogue); }
  size_t scratch_bytes() const override { return image_bytes_ + inner_bytes_; }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<char*>(ctx.scratch(scratch_bytes()));
    if (!scratch && scratch_bytes() > 0) return Error(ErrorCode::kLimit, "no memory for the slices of a convolution");
    const EpilogueRun epilogue(epilogue_, ctx);
    const auto* x = ctx.input(0).data<float>();
    auto* y = ctx.output(0).data<float>();
    for (int64_t at = 0; at < g_.batch * g_.out[0]; ++at) {
      const ImageConv& conv = convs_[of_slice_[static_cast<size_t>(at % g_.out[0])]];
      const float* image = slice(x, at, conv.reach.first);
      if (conv.reach.count() > 1 || !image) {
        std::array<const float*, kMostDepth> from{};
        for (int64_t k = 0; k < conv.reach.count(); ++k)
          from[static_cast<size_t>(k)] = slice(x, at, conv.reach.first + k);
        auto* joined = reinterpret_cast<float*>(scratch);
        const auto n = static_cast<size_t>(conv.reach.count());
        const int64_t channels = g_.all_in();
        ctx.threads().parallel_for(g_.in[1] * g_.in[2], 1024, [&](int64_t begin, int64_t end) {
          std::array<const float*, kMostDepth> part = from;
          for (const float*& p : part)
            if (p) p += begin * channels;
          interleave({part.data(), n}, end - begin, channels, joined + begin * channels * static_cast<int64_t>(n));
        });
        image = joined;
      }
      float* to = y + at * g_.out[1] * g_.out[2] * g_.all_out();
      SMELT_TRY(convolve(ctx, g_, conv, image, to, scratch + image_bytes_));
      if (epilogue) epilogue(to, g_.out[1] * g_.out[2], g_.all_out(), g_.all_out());
    }
    return Ok();
  }

  static constexpr int64_t kMostDepth = 8;

 private:
  int64_t plane_in() const { return g_.in[1] * g_.in[2] * g_.all_in(); }
  /// Slice k of the window of output slice `at`, counted over all volumes; nullptr: it lies in the padding.
  const float* slice(const float* x, int64_t at, int64_t k) const {
    const int64_t z = at % g_.out[0] * g_.stride[0] - g_.pad[0] + k;
    return z >= 0 && z < g_.in[0] ? x + (at / g_.out[0] * g_.in[0] + z) * plane_in() : nullptr;
  }

  ConvShape g_;
  Activation act_;
  EpilogueF32 epilogue_;
  std::vector<ImageConv> convs_;
  std::vector<size_t> of_slice_;  ///< which of convs_ gives an output slice
  size_t image_bytes_ = 0, inner_bytes_ = 0;
};

/// Of groups: sums of convolutions of single slices.
class GroupedVolumeF32 final : public Kernel {
 public:
  /// convs: of each slice of a window as the first one that lies inside the volume, then of each as another one.
  GroupedVolumeF32(const ConvShape& g, const KernelSpec& spec, std::vector<ImageConv> convs)
      : g_(g), act_(spec.attrs<ConvAttrs>().act), ops_(vector_ops(spec.isa)), convs_(std::move(convs)) {
    for (const ImageConv& c : convs_) inner_bytes_ = std::max(inner_bytes_, c.kernel->scratch_bytes());
  }
  bool take_epilogue(const EpilogueF32& epilogue) override { return clamps(act_) && epilogue_.take(epilogue); }
  size_t scratch_bytes() const override { return static_cast<size_t>(padded_bytes(plane_out() * 4)) + inner_bytes_; }
  [[gnu::cold]] Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<char*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for the slices of a convolution");
    auto* product = reinterpret_cast<float*>(scratch + inner_bytes_);
    const EpilogueRun epilogue(epilogue_, ctx);
    const Bounds bounds = activation_bounds(act_);
    const auto* x = ctx.input(0).data<float>();
    auto* y = ctx.output(0).data<float>();
    for (int64_t at = 0; at < g_.batch * g_.out[0]; ++at, y += plane_out()) {
      const int64_t z = at % g_.out[0];
      const Reach reach = reach_of(g_, z);
      const int64_t start = at / g_.out[0] * g_.in[0] + z * g_.stride[0] - g_.pad[0];
      for (int64_t k = reach.first; k < reach.last; ++k) {
        const ImageConv& conv = convs_[static_cast<size_t>(k == reach.first ? k : g_.kernel[0] + k)];
        const float* image = x + (start + k) * g_.in[1] * g_.in[2] * g_.all_in();
        SMELT_TRY(convolve(ctx, g_, conv, image, k == reach.first ? y : product, scratch));
        if (k == reach.first) continue;
        ctx.threads().parallel_for(
            plane_out(), 16384, [&](int64_t begin, int64_t end) { ops_.add(product + begin, end - begin, y + begin); });
      }
      ops_.scale_clamp(y, plane_out(), 1, bounds.lo, bounds.hi);
      apply_activation(act_, y, 1, plane_out(), 0);
      if (epilogue) epilogue(y, g_.out[1] * g_.out[2], g_.all_out(), g_.all_out());
    }
    return Ok();
  }

 private:
  int64_t plane_out() const { return g_.out[1] * g_.out[2] * g_.all_out(); }
  ConvShape g_;
  Activation act_;
  EpilogueF32 epilogue_;
  const VectorOps& ops_;
  std::vector<ImageConv> convs_;
  size_t inner_bytes_ = 0;
};

/// Which slices each output slice's convolution reads: those inside the volume where most output slices have the same,
/// else all of the window. Each kind of slices has filters of its own in memory.
std::vector<Reach> reaches(const ConvShape& g) {
  std::vector<Reach> all;
  for (int64_t z = 0; z < g.out[0]; ++z) all.push_back(reach_of(g, z));
  const std::vector<Reach> inside = all;
  for (Reach& r : all) {
    const auto same = std::count(inside.begin(), inside.end(), r);
    if (r.count() == 0 || same * 2 <= g.out[0]) r = {0, g.kernel[0]};
  }
  return all;
}

/// Filters [o, c * slices + k, spatial] of the slices of `reach` of each window.
Packed sliced_filter(const KernelSpec& spec, const ConvShape& g, const Reach& reach) {
  const Tensor& filter = *spec.constant(1);
  return spec.packs.get(VolumeFilterKey{{g, filter, nullptr}, reach}, [&] {
    const int64_t area = g.kernel[1] * g.kernel[2], rows = g.all_out() * g.c_in;
    auto sliced = std::make_shared<AlignedBuffer>(static_cast<size_t>(rows * reach.count() * area) * sizeof(float));
    const float* from = filter.data<float>();
    float* to = sliced->data<float>();
    for (int64_t row = 0; row < rows; ++row)
      to = std::copy_n(from + (row * g.kernel[0] + reach.first) * area, reach.count() * area, to);
    return sliced;
  });
}

/// A convolution of the image of the slices of `reach`, by a kernel whose name begins with `name`.
[[gnu::cold]] std::optional<ImageConv> image_conv(const KernelSpec& spec, const ConvShape& g, const Reach& reach,
                                                  const Activation& act, bool biased, std::string_view name) {
  ConvAttrs attrs = spec.attrs<ConvAttrs>();
  attrs.act = act;
  attrs.strides = {g.stride[1], g.stride[2]};
  attrs.dilations = {g.dilation[1], g.dilation[2]};
  const auto end = [&](int i) {
    return (g.out[i] - 1) * g.stride[i] + (g.kernel[i] - 1) * g.dilation[i] + 1 - g.in[i] - g.pad[i];
  };
  attrs.pads = {g.pad[1], g.pad[2], std::max<int64_t>(end(1), 0), std::max<int64_t>(end(2), 0)};
  attrs.auto_pad = AutoPad::kExplicit;
  Node node = spec.node;
  node.attrs = make_attrs<ConvAttrs>(attrs);
  const int64_t channels = g.all_in() * reach.count();
  const Shape filter{g.all_out(), g.c_in * reach.count(), g.kernel[1], g.kernel[2]};
  ImageConv conv{.reach = reach};
  if (reach.count() < g.kernel[0]) conv.filter = sliced_filter(spec, g, reach);
  const Tensor weights = conv.filter ? Tensor::view(DType::kF32, filter, conv.filter->data<float>(), nullptr)
                                     : spec.constant(1)->reshaped(filter);
  const std::vector<ValueType> inputs{ValueType::tensor(DType::kF32, Shape{1, g.in[1], g.in[2], channels}),
                                      ValueType::tensor(DType::kF32, filter), biased ? spec.inputs[2] : ValueType{}};
  const std::vector<const Tensor*> constants{nullptr, &weights, biased ? spec.constant(2) : nullptr};
  const std::vector<ValueType> outputs{ValueType::tensor(DType::kF32, Shape{1, g.out[1], g.out[2], g.all_out()})};
  const KernelInfo* chosen = nullptr;
  conv.kernel =
      make_kernel({{node, inputs, constants, outputs}, spec.isa, spec.threads, spec.packs, spec.why}, &chosen);
  if (!conv.kernel || !std::string_view(chosen->name).starts_with(name)) return std::nullopt;
  return conv;
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_volume_f32(const KernelSpec& spec) {
  const auto g = ConvShape::in_lines(spec);
  if (!g || g->planar() || g->groups != 1 || g->dilation[0] != 1 || spec.inputs[0].shape.rank() != 5 ||
      g->kernel[0] > ConvVolumeF32::kMostDepth || spec.outputs[0].shape.elements() == 0 || spec.inputs.size() > 3 ||
      spec.attrs<ConvAttrs>().filter != FilterLayout::kOIS)
    return nullptr;
  std::vector<ImageConv> convs;
  std::vector<size_t> of_slice;
  for (const Reach& reach : reaches(*g)) {
    auto at = std::ranges::find_if(convs, [&](const ImageConv& c) { return c.reach == reach; });
    if (at == convs.end()) {
      auto conv = image_conv(spec, *g, reach, spec.attrs<ConvAttrs>().act, spec.has(2), "conv_winograd");
      if (!conv) return spec.refuse("its slices are convolved directly");
      at = convs.insert(convs.end(), std::move(*conv));
    }
    of_slice.push_back(static_cast<size_t>(at - convs.begin()));
  }
  return std::make_unique<ConvVolumeF32>(*g, spec, std::move(convs), std::move(of_slice));
}

[[gnu::cold]] std::unique_ptr<Kernel> make_grouped_volume_f32(const KernelSpec& spec) {
  const auto g = ConvShape::in_lines(spec);
  if (!g || g->planar() || g->groups == 1 || g->dilation[0] != 1 || spec.inputs[0].shape.rank() != 5 ||
      spec.outputs[0].shape.elements() == 0 || spec.inputs.size() > 3 ||
      spec.attrs<ConvAttrs>().filter != FilterLayout::kOIS)
    return nullptr;
  for (int64_t z = 0; z < g->out[0]; ++z)
    if (reach_of(*g, z).count() == 0) return spec.refuse("slices of padding alone");
  std::vector<ImageConv> convs;
  for (const bool first : {true, false})
    for (int64_t k = 0; k < g->kernel[0]; ++k) {
      auto conv = image_conv(spec, *g, {k, k + 1}, {}, first && spec.has(2), "conv_grouped_f32");
      if (!conv) return nullptr;
      convs.push_back(std::move(*conv));
    }
  return std::make_unique<GroupedVolumeF32>(*g, spec, std::move(convs));
}

}  // namespace smelt
