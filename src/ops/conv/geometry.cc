#include "ops/conv/geometry.h"

#include <algorithm>

#include "base/error.h"

namespace smelt {

Shape ConvGeometry::output_shape(Layout layout) const {
  Shape s;
  s.push_back(batch);
  if (layout == Layout::kChannelsFirst) s.push_back(out_channels);
  for (int i = 0; i < window.rank; ++i) s.push_back(window.dims[static_cast<size_t>(i)].out);
  if (layout == Layout::kChannelsLast) s.push_back(out_channels);
  return s;
}

FilterDims filter_dims(FilterLayout layout, int rank) {
  switch (layout) {
    case FilterLayout::kOSI:
      return {0, rank - 1, 1};
    case FilterLayout::kISO:
      return {rank - 1, 0, 1};
    case FilterLayout::kSIO:
      return {rank - 1, rank - 2, 0};
    case FilterLayout::kSOI:
      return {rank - 2, rank - 1, 0};
    case FilterLayout::kIOS:
      return {1, 0, 2};
    default:
      return {0, 1, 2};
  }
}

std::vector<int64_t> filter_perm(FilterLayout from, FilterLayout to, int rank) {
  const FilterDims f = filter_dims(from, rank), t = filter_dims(to, rank);
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  perm[static_cast<size_t>(t.output)] = f.output;
  perm[static_cast<size_t>(t.input)] = f.input;
  for (int k = 0; k < rank - 2; ++k) perm[static_cast<size_t>(t.spatial + k)] = f.spatial + k;
  return perm;
}

namespace {

Status set_images(ConvGeometry& g, const ConvAttrs& a, const Shape& x, const Shape& filter) {
  const int rank = x.rank();
  if (rank < 3) return InvalidModel("the input of a convolution has rank ", rank, ", at least 3 expected");
  if (filter.rank() != rank) return InvalidModel("filter has rank ", filter.rank(), ", ", rank, " expected");
  g.batch = x[0];
  g.in_channels = x[channel_dim(a.layout, rank)];
  g.window.rank = rank - 2;
  const FilterDims f = filter_dims(a.filter, rank);
  for (int i = 0; i < rank - 2; ++i) {
    WindowDim& d = g.window.dims[static_cast<size_t>(i)];
    d.in = x[spatial_dim(a.layout) + i];
    d.kernel = filter[f.spatial + i];
  }
  g.groups = a.groups;
  if (g.groups < 1) return InvalidModel("a convolution of ", g.groups, " groups");
  return set_window(g.window, a.strides, a.dilations, a.pads);
}

}  // namespace

Result<ConvGeometry> conv_geometry(const ConvAttrs& a, const Shape& x, const Shape& filter) {
  ConvGeometry g;
  SMELT_TRY(set_images(g, a, x, filter));
  const FilterDims f = filter_dims(a.filter, x.rank());
  const int64_t out = filter[f.output], in = filter[f.input];
  if (a.filter == FilterLayout::kISO && in == 1 && g.in_channels > 0) g.groups = g.in_channels;
  if (in > 0 && g.in_channels >= 0 && (g.in_channels % in != 0 || g.groups != g.in_channels / in))
    return InvalidModel("the filter takes ", in, " input channels in each of ", g.groups, " groups, the input has ",
                        g.in_channels);
  if (in == 0) return InvalidModel("the filter has no input channels");
  if (out >= 0 && out % g.groups != 0)
    return InvalidModel(out, " output channels do not divide into ", g.groups, " groups");
  g.out_channels = out;
  SMELT_TRY(slide_window(g.window, a.auto_pad, false));
  return g;
}

Result<ConvGeometry> conv_transpose_geometry(const ConvTransposeAttrs& a, const Shape& x, const Shape& filter,
                                             const std::vector<int64_t>& output_shape) {
  ConvGeometry g;
  SMELT_TRY(set_images(g, a, x, filter));
  const int rank = g.window.rank;
  const FilterDims f = filter_dims(a.filter, x.rank());
  int64_t in = filter[f.input], out = filter[f.output];
  if (a.filter == FilterLayout::kIOS) {
    if (out > (int64_t{1} << 40) / g.groups) return LimitReached("too many output channels");
    out = out < 0 ? -1 : out * g.groups;
  } else {
    if (in > (int64_t{1} << 40) / g.groups) return LimitReached("too many input channels");
    in = in < 0 ? -1 : in * g.groups;
  }
  if (in >= 0 && g.in_channels >= 0 && in != g.in_channels)
    return InvalidModel("the filter takes ", in, " input channels, the input has ", g.in_channels);
  if ((g.in_channels > 0 && g.in_channels % g.groups != 0) || (out > 0 && out % g.groups != 0))
    return InvalidModel("channels do not divide into ", g.groups, " groups");
  g.out_channels = out;
  if (!output_shape.empty() && static_cast<int>(output_shape.size()) != rank)
    return InvalidModel("output_shape has ", output_shape.size(), " spatial sizes, ", rank, " expected");
  if (!a.output_padding.empty() && static_cast<int>(a.output_padding.size()) != rank)
    return InvalidModel("output_padding has ", a.output_padding.size(), " numbers, ", rank, " expected");
  const bool same = a.auto_pad == AutoPad::kSameUpper || a.auto_pad == AutoPad::kSameLower;
  for (int i = 0; i < rank; ++i) {
    const auto at = static_cast<size_t>(i);
    WindowDim& d = g.window.dims[at];
    const int64_t extra = a.output_padding.empty() ? 0 : a.output_padding[at];
    if (extra < 0 || extra > (int64_t{1} << 31)) return InvalidModel("output_padding ", extra, " is out of range");
    if (d.kernel == 0) return InvalidModel("the filter has size 0 in spatial dimension ", i);
    if (a.auto_pad == AutoPad::kValid) d.pad_begin = d.pad_end = 0;
    const int64_t wanted = output_shape.empty() ? -1 : output_shape[at];
    if (!output_shape.empty() && (wanted < 0 || wanted > (int64_t{1} << 31)))
      return InvalidInput("output size ", wanted, " is out of range");
    if (wanted >= 0) d.out = wanted;
    if (d.in < 0 || d.kernel < 0) continue;
    const int64_t full = d.stride * (d.in - 1) + extra + d.extent();
    if (wanted < 0 && !same) {
      d.out = full - d.pad_begin - d.pad_end;
      if (d.out < 0) return InvalidInput("padding leaves no output in spatial dimension ", i);
      continue;
    }
    if (wanted < 0) d.out = std::min(d.in * d.stride, full);  // padding is never negative
    if (a.auto_pad == AutoPad::kValid) continue;
    const int64_t total = std::max<int64_t>(full - d.out, 0);
    d.pad_begin = a.auto_pad == AutoPad::kSameUpper ? total / 2 : total - total / 2;
    d.pad_end = total - d.pad_begin;
  }
  return g;
}

Result<std::vector<int64_t>> spatial_part(const std::vector<int64_t>& full, Layout layout, int rank) {
  if (static_cast<int>(full.size()) != rank)
    return InvalidInput("output_shape has ", full.size(), " numbers, ", rank, " expected");
  const auto begin = full.begin() + spatial_dim(layout);
  return std::vector<int64_t>(begin, begin + (rank - 2));
}

}  // namespace smelt
