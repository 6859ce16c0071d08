// Deformable convolutions: pixels are sampled where the taps of each window lie, then multiplied with the filters.
#include "ops/conv/conv.h"
#include "ops/conv/geometry.h"
#include "ops/matmul/matmul.h"
#include "ops/resize/resize.h"
#include "ops/shape/shape.h"
#include "passes/decompose/rules.h"

namespace smelt::decomposition {
namespace {

/// x and y of the taps of every window where nothing is deformed, [windows, taps, 2].
[[gnu::cold]] Tensor tap_places(const Window& w) {
  const WindowDim &v = w.dims[0], &h = w.dims[1];
  Tensor t(DType::kF32, {w.out_positions(), w.taps(), 2});
  auto* to = t.data<float>();
  for (int64_t o = 0; o < w.out_positions(); ++o)
    for (int64_t k = 0; k < w.taps(); ++k) {
      *to++ = static_cast<float>(o % h.out * h.stride - h.pad_begin + k % h.kernel * h.dilation);
      *to++ = static_cast<float>(o / h.out * v.stride - v.pad_begin + k / h.kernel * v.dilation);
    }
  return t;
}

/// A filter [outputs, channels, taps...] as [taps * channels, outputs].
[[gnu::cold]] Tensor taps_first(const Tensor& filter, int64_t taps) {
  const int64_t outputs = filter.dim(0), channels = filter.dim(1);
  Tensor t(DType::kF32, {taps * channels, outputs});
  const auto* from = filter.data<float>();
  auto* to = t.data<float>();
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t k = 0; k < taps; ++k) to[(k * channels + c) * outputs + o] = *from++;
  return t;
}

}  // namespace

[[gnu::cold]] std::optional<DecomposedNode> deform_conv(const NodeSpec& spec) {
  const auto& a = spec.attrs<DeformConvAttrs>();
  const auto g = conv_geometry(a, spec.inputs[0].shape, spec.inputs[1].shape);
  if (!g.ok() || g->groups != 1 || !unquantized(spec, {0, 2}, {DType::kF32}) || !spec.constant(1) ||
      spec.outputs[0].shape.elements() == 0 || a.offset_groups < 1 || g->in_channels % a.offset_groups != 0)
    return std::nullopt;
  Decomposition c(spec);
  const WindowDim &v = g->window.dims[0], &h = g->window.dims[1];
  const int64_t images = g->batch * a.offset_groups, channels = g->in_channels / a.offset_groups;
  const int64_t taps = g->window.taps(), windows = g->window.out_positions();
  const ValueId image = c.transpose(c.reshape(c.input(0), {images, channels, v.in, h.in}), {0, 2, 3, 1});
  // Offsets come as y, x.
  const ValueId offsets = c.reshape(c.input(2), {images, taps, 2, windows});
  const ValueId turned =
      c.add(Op::kSlice, make_attrs<NoAttrs>(), {offsets, c.i64({1}), c.i64({INT64_MIN}), c.i64({2}), c.i64({-1})});
  const ValueId points = c.binary(Binary::kAdd, c.transpose(turned, {0, 3, 1, 2}), c.constant(tap_places(g->window)));
  ValueId columns = c.add(Op::kSamplePixels, make_attrs<SamplePixelsAttrs>(),
                          {image, c.reshape(points, {images, v.out, h.out * taps, 2})});
  if (spec.has(4)) {
    const ValueId mask = c.transpose(c.reshape(c.input(4), {images, taps, windows}), {0, 2, 1});
    columns = c.binary(Binary::kMul, columns, c.reshape(mask, {images, v.out, h.out * taps, 1}));
  }
  if (a.offset_groups > 1)
    columns = c.transpose(c.reshape(columns, {g->batch, a.offset_groups, windows, taps, channels}), {0, 2, 3, 1, 4});
  columns = c.reshape(columns, {g->batch * windows, taps * g->in_channels});
  const ValueId filter = c.derived(1, taps_first(*spec.constant(1), taps), "taps first");
  std::vector<ValueId> operands{columns, filter};
  if (spec.has(3)) operands.push_back(c.input(3));
  const ValueId product = c.add(Op::kMatMul, make_attrs<MatMulAttrs>(), operands);
  const ValueId planes = c.transpose(c.reshape(product, {g->batch, windows, g->out_channels}), {0, 2, 1});
  return c.finish({c.reshape(planes, {g->batch, g->out_channels, v.out, h.out})});
}

}  // namespace smelt::decomposition
