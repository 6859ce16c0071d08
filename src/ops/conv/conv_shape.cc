#include "ops/conv/conv_shape.h"

#include <algorithm>
#include <utility>

#include "ops/common/index.h"
#include "ops/common/window.h"

namespace smelt {

std::optional<ConvShape> ConvShape::make(const NodeSpec& spec, bool bias) {
  const auto& attrs = spec.attrs<ConvAttrs>();
  const Shape &x = spec.inputs[0].shape, &w = spec.inputs[1].shape;
  const auto geometry = conv_geometry(attrs, x, w);
  if (!geometry.ok()) return std::nullopt;
  if (geometry->output_shape(attrs.layout) != spec.outputs[0].shape) return std::nullopt;
  if (bias && spec.has(2) && spec.inputs[2].shape.elements() != geometry->out_channels) return std::nullopt;
  return of(*geometry, attrs, w);
}

std::optional<ConvShape> ConvShape::in_lines(const NodeSpec& spec) {
  const auto g = make(spec);
  return g ? std::optional(g->turned()) : std::nullopt;
}

ConvShape ConvShape::turned() const {
  ConvShape g = *this;
  const auto one_by_one = [&](int d) { return kernel[d] == 1 && stride[d] == 1 && pad[d] == 0 && out[d] == in[d]; };
  if (!planar() && one_by_one(1) && one_by_one(2)) {
    // The slices of a volume are the lines of an image, which may be one pixel wide.
    for (int64_t(*extents)[3] : {&g.in, &g.out, &g.kernel, &g.stride, &g.dilation, &g.pad})
      std::swap((*extents)[0], (*extents)[1]);
    for (int64_t(*pixels)[3] : {&g.in, &g.out}) (*pixels)[2] *= std::exchange((*pixels)[0], 1);
    g.dilation[0] = g.dilation[2] = 1;  // of one pixel
  } else if (!planar() && channels_last && one_by_one(0)) {
    g.batch *= std::exchange(g.in[0], 1);
    g.out[0] = g.dilation[0] = 1;
  }
  if (g.in[2] != 1 || g.out[2] != 1 || g.kernel[2] != 1 || g.pad[2] != 0) return g;
  for (int64_t(*extents)[3] : {&g.in, &g.out, &g.kernel, &g.stride, &g.dilation, &g.pad})
    std::swap((*extents)[1], (*extents)[2]);
  g.stride[1] = g.dilation[1] = 1;  // of one pixel
  return g;
}

std::optional<ConvShape> ConvShape::of(const ConvGeometry& geometry, const ConvAttrs& attrs, const Shape& w) {
  const int r = geometry.window.rank;
  if (r > 3) return std::nullopt;
  ConvShape g;
  g.batch = geometry.batch;
  g.groups = geometry.groups;
  g.channels_last = attrs.layout == Layout::kChannelsLast;
  g.c_in = geometry.group_in();
  g.c_out = geometry.group_out();
  for (int i = 0; i < r; ++i)
    if (geometry.window.dims[static_cast<size_t>(i)].stride > kMaxStride) return std::nullopt;
  for (int i = 0; i < r; ++i) {
    const WindowDim& from = geometry.window.dims[static_cast<size_t>(i)];
    const int d = 3 - r + i;
    g.in[d] = from.in;
    g.out[d] = from.out;
    g.kernel[d] = from.kernel;
    g.stride[d] = from.stride;
    g.dilation[d] = from.dilation;
    g.pad[d] = from.pad_begin;
  }
  const FilterDims dims = filter_dims(attrs.filter, r + 2);
  const Shape strides = w.strides();
  g.filter_o = strides[dims.output];
  g.filter_i = strides[dims.input];
  g.filter_s = strides[dims.spatial + r - 1];
  return g;
}

int filter_output_axis(const ConvAttrs& attrs, int rank) { return filter_dims(attrs.filter, rank).output; }

double ConvAttrs::multiply_adds(std::span<const ValueType> inputs, const ValueType& output) const {
  const Shape& w = inputs[1].shape;
  const int64_t channels = dim_or_one(w, filter_output_axis(*this, w.rank()));
  return static_cast<double>(output.shape.elements()) * static_cast<double>(w.elements()) /
         static_cast<double>(std::max<int64_t>(1, channels));
}

double ConvTransposeAttrs::multiply_adds(std::span<const ValueType> inputs, const ValueType& /*output*/) const {
  const Shape &x = inputs[0].shape, &w = inputs[1].shape;
  const int64_t channels = dim_or_one(x, channel_dim(layout, x.rank()));
  return static_cast<double>(x.elements()) * static_cast<double>(w.elements()) /
         static_cast<double>(std::max<int64_t>(1, channels));
}

}  // namespace smelt
