// Matrix products, convolutions, pooling, resampling.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"

namespace smelt::aten {
namespace {

/// Operands of a product in one type.
std::vector<ValueId> product_operands(CallContext& c, std::initializer_list<size_t> at) {
  DType to = DType::kInvalid;
  for (size_t i : at)
    if (!c.none(i)) to = to == DType::kInvalid ? c.dtype(c.t(i)) : promote(to, c.dtype(c.t(i)));
  std::vector<ValueId> out;
  for (size_t i : at) out.push_back(c.none(i) ? kNoValue : c.cast(c.t(i), to));
  return out;
}

ValueId matmul(CallContext& c, std::vector<ValueId> in, double alpha = 1, double beta = 1, bool transpose_b = false) {
  MatMulAttrs a;
  a.alpha = alpha;
  a.beta = beta;
  a.transpose_b = transpose_b;
  while (!in.empty() && in.back() == kNoValue) in.pop_back();
  return c.add(Op::kMatMul, a, in);
}

void mm(CallContext& c) { c.result(matmul(c, product_operands(c, {0, 1}))); }

/// addmm(self, mat1, mat2, beta, alpha).
void addmm(CallContext& c) {
  auto v = product_operands(c, {0, 1, 2});
  const double beta = c.d(3, 1), alpha = c.d(4, 1);
  if (beta == 0) return c.result(matmul(c, {v[1], v[2]}, alpha));
  c.result(matmul(c, {v[1], v[2], v[0]}, alpha, beta));
}

void linear(CallContext& c) {
  const auto v = product_operands(c, {0, 1, 2});
  c.result(matmul(c, {v[0], v[1], v[2]}, 1, 1, true));
}

void dot(CallContext& c) { c.result(matmul(c, product_operands(c, {0, 1}))); }

std::vector<int64_t> spread(const std::vector<int64_t>& v, int n, int64_t otherwise) {
  if (static_cast<int>(v.size()) == n) return v;
  return std::vector<int64_t>(static_cast<size_t>(n), v.size() == 1 ? v[0] : otherwise);
}

std::vector<int64_t> both_sides(const std::vector<int64_t>& pads) {
  std::vector<int64_t> out = pads;
  out.insert(out.end(), pads.begin(), pads.end());
  return out;
}

struct ConvParameters {
  int spatial = 0;
  std::vector<int64_t> strides, pads, dilations, output_padding;
  bool transposed = false;
  int64_t groups = 1;
};

/// Arguments from `at` on: stride, padding, dilation, transposed, output_padding, groups.
ConvParameters conv_parameters(CallContext& c, size_t at, ValueId weight) {
  ConvParameters p;
  p.spatial = c.rank(weight) - 2;
  if (p.spatial < 1 || p.spatial > 3) {
    c.fail("convolution filter has rank ", p.spatial + 2, ", 3 to 5 expected");
    return p;
  }
  p.strides = spread(c.ints(at), p.spatial, 1);
  p.pads = spread(c.ints(at + 1), p.spatial, 0);
  p.dilations = spread(c.ints(at + 2), p.spatial, 1);
  p.transposed = c.flag(at + 3);
  p.output_padding = spread(c.ints(at + 4), p.spatial, 0);
  p.groups = c.i(at + 5, 1);
  return p;
}

template <class A>
A conv_attrs(const ConvParameters& p) {
  A a;
  a.strides = p.strides;
  a.pads = both_sides(p.pads);
  a.dilations = p.dilations;
  a.groups = p.groups;
  return a;
}

ValueId conv_transpose(CallContext& c, const ConvParameters& p, ValueId x, ValueId w, ValueId bias) {
  auto a = conv_attrs<ConvTransposeAttrs>(p);
  a.filter = FilterLayout::kIOS;
  a.output_padding = p.output_padding;
  std::vector<ValueId> in{x, w};
  if (bias != kNoValue) in.push_back(bias);
  return c.add(Op::kConvTranspose, ConvTransposeAttrs(a), in);
}

ValueId conv_forward(CallContext& c, const ConvParameters& p, ValueId x, ValueId w, ValueId bias) {
  std::vector<ValueId> in{x, w};
  if (bias != kNoValue) in.push_back(bias);
  return c.add(Op::kConv, ConvAttrs(conv_attrs<ConvAttrs>(p)), in);
}

void convolution(CallContext& c) {
  const auto v = product_operands(c, {0, 1, 2});
  const ConvParameters p = conv_parameters(c, 3, v[1]);
  if (!c.ok()) return;
  const bool single = c.rank(v[0]) == p.spatial + 1;
  const ValueId x = single ? c.unsqueeze(v[0], {0}) : v[0];
  const ValueId y = p.transposed ? conv_transpose(c, p, x, v[1], v[2]) : conv_forward(c, p, x, v[1], v[2]);
  c.result(single ? c.squeeze(y, {0}) : y);
}

/// Leading `n` dimensions 0 and 1 exchanged.
ValueId swapped(CallContext& c, ValueId x) {
  std::vector<int64_t> perm;
  for (int i = 0; i < c.rank(x); ++i) perm.push_back(i);
  if (perm.size() >= 2) std::swap(perm[0], perm[1]);
  return c.transpose(x, perm);
}

/// Gradient of conv(x, w) with respect to w for one group: the correlation of x with g, over the batch.
ValueId weight_gradient(CallContext& c, const ConvParameters& p, ValueId x, ValueId g, ValueId w) {
  ConvParameters q = p;
  q.strides = p.dilations;
  q.dilations = p.strides;
  q.groups = 1;
  ValueId y = conv_forward(c, q, swapped(c, x), swapped(c, g), kNoValue);  // [I, O, k...]
  for (int i = 0; i < p.spatial; ++i) y = c.slice(y, 2 + i, 0, c.dim(w, 2 + i));
  return swapped(c, y);
}

/// convolution_backward(grad_output, input, weight, bias_sizes, ..., output_mask) -> grads of input, weight, bias.
void convolution_backward(CallContext& c) {
  const auto v = product_operands(c, {0, 1, 2});
  const ValueId g = v[0], x = v[1], w = v[2];
  const ConvParameters p = conv_parameters(c, 4, w);
  const auto mask = c.ints(10);
  if (!c.ok()) return;
  const auto wanted = [&](size_t k) { return k >= mask.size() || mask[k] != 0; };
  const auto nothing = [&](size_t k) { return c.filled(c.i64({0}), c.out_dtype(k), 0); };
  if (wanted(0) && p.transposed) {
    c.result(conv_forward(c, p, g, w, kNoValue));
  } else if (wanted(0)) {
    ConvParameters q = p;
    for (int i = 0; i < p.spatial; ++i) {
      const size_t at = static_cast<size_t>(i);
      const int64_t in = c.dim(x, 2 + i), k = c.dim(w, 2 + i), out = c.dim(g, 2 + i);
      q.output_padding[at] = in - ((out - 1) * p.strides[at] - 2 * p.pads[at] + p.dilations[at] * (k - 1) + 1);
    }
    c.result(conv_transpose(c, q, g, w, kNoValue));
  } else {
    c.result(nothing(0));
  }
  if (wanted(1)) {
    // A transposed convolution is the gradient of one that goes from its output to its input.
    const ValueId from = p.transposed ? g : x, to = p.transposed ? x : g;
    std::vector<ValueId> parts;
    const int64_t groups = std::max<int64_t>(p.groups, 1), in = c.dim(from, 1) / groups, out = c.dim(to, 1) / groups;
    for (int64_t k = 0; k < groups && c.ok() && k < 65536; ++k)
      parts.push_back(
          weight_gradient(c, p, c.slice(from, 1, k * in, (k + 1) * in), c.slice(to, 1, k * out, (k + 1) * out), w));
    c.result(parts.size() == 1 ? parts[0] : c.concat(parts, 0));
  } else {
    c.result(nothing(1));
  }
  std::vector<int64_t> axes{0};
  for (int i = 0; i < p.spatial; ++i) axes.push_back(2 + i);
  c.result(wanted(2) ? c.reduce(Reduction::kSum, g, axes, false) : nothing(2));
}

/// kernel, stride (empty: the kernel), padding, [dilation], ceil_mode of a pool.
PoolAttrs pool_attrs(CallContext& c, ValueId x, PoolKind kind, int spatial, bool dilated) {
  PoolAttrs a;
  a.kind = kind;
  a.kernel = spread(c.ints(1), spatial, 1);
  a.strides = c.ints(2).empty() ? a.kernel : spread(c.ints(2), spatial, 1);
  a.pads = both_sides(spread(c.ints(3), spatial, 0));
  a.dilations = dilated ? spread(c.ints(4), spatial, 1) : std::vector<int64_t>(static_cast<size_t>(spatial), 1);
  a.ceil_mode = c.flag(dilated ? 5 : 4);
  a.torch_ceil = true;
  a.index = PoolAttrs::Index::kPlane;
  if (const int r = c.rank(x); r != spatial + 1 && r != spatial + 2)
    c.fail("pooling of rank ", r, ", ", spatial + 1, " or ", spatial + 2, " expected");
  return a;
}

template <int spatial, bool indices>
void max_pool(CallContext& c) {
  const ValueId x = c.t(0);
  const PoolAttrs a = pool_attrs(c, x, PoolKind::kMax, spatial, true);
  const bool single = c.rank(x) == spatial + 1;
  const auto y = c.add_n(Op::kPool, a, {single ? c.unsqueeze(x, {0}) : x}, indices ? 2 : 1);
  for (ValueId v : y) c.result(single ? c.squeeze(v, {0}) : v);
}

template <int spatial>
void avg_pool(CallContext& c) {
  const ValueId x = c.t(0);
  PoolAttrs a = pool_attrs(c, x, PoolKind::kAverage, spatial, false);
  a.count_include_pad = c.flag(5, true);
  a.divisor_override = c.i(6, 0);
  const bool single = c.rank(x) == spatial + 1;
  const ValueId y = c.add(Op::kPool, a, {single ? c.unsqueeze(x, {0}) : x});
  c.result(single ? c.squeeze(y, {0}) : y);
}

template <int spatial, PoolKind kind>
void adaptive_pool(CallContext& c) {
  const ValueId x = c.t(0);
  AdaptivePoolAttrs a;
  a.kind = kind;
  a.output = spread(c.ints(1), spatial, 1);
  const bool single = c.rank(x) == spatial + 1;
  const auto y = c.add_n(Op::kAdaptivePool, a, {single ? c.unsqueeze(x, {0}) : x}, kind == PoolKind::kMax ? 2 : 1);
  for (ValueId v : y) c.result(single ? c.squeeze(v, {0}) : v);
}

/// max_pool2d_with_indices_backward(grad_output, self, ..., indices): gradients added up at the indices of each plane.
void max_pool_backward(CallContext& c) {
  const ValueId g = c.t(0), x = c.t(1), at = c.t(7);
  const int r = c.rank(x);
  std::vector<int64_t> flat;
  for (int i = 0; i < r - 2; ++i) flat.push_back(c.dim(x, i));
  if (r < 3 || !c.type(x).is_static()) return c.unsupported("max_pool2d backward of ", c.type(x).str());
  auto planes = flat;
  planes.push_back(c.dim(x, r - 2) * c.dim(x, r - 1));
  flat.push_back(-1);
  ScatterAttrs a;
  a.axis = r - 2;
  a.reduction = ScatterAttrs::Reduce::kAdd;
  const ValueId zeros = c.filled(c.i64(planes), c.dtype(g), 0);
  const ValueId y = c.add(Op::kScatterElements, a, {zeros, c.reshape(at, flat), c.reshape(g, flat)});
  c.result(c.reshape_to(y, c.shape_of(x)));
}

/// floor(extent * factor) of the dimensions from the third on.
ValueId scaled_sizes(CallContext& c, ValueId x, const std::vector<double>& scales) {
  Tensor factors(DType::kF64, Shape{static_cast<int64_t>(scales.size())});
  for (size_t i = 0; i < scales.size(); ++i) factors.data<double>()[i] = scales[i];
  const ValueId extents = c.cast(c.dims_of(x, 2, c.rank(x)), DType::kF64);
  const ValueId sizes = c.binary(Binary::kMul, extents, c.constant(std::move(factors)));
  return c.cast(c.unary(Unary::kFloor, sizes), DType::kI64);
}

/// The factors of scales_h and scales_w of a call that names sizes too, when both are given: coordinates follow them.
std::vector<double> given_scales(CallContext& c, size_t at) {
  const bool both = !c.none(at) && !c.none(at + 1);
  return both ? std::vector<double>{c.d(at), c.d(at + 1)} : std::vector<double>{};
}

/// x resampled to output_size (argument `size_at`) or by scale factors.
void resize(CallContext& c, ResizeAttrs a, size_t size_at, const std::vector<double>& scales) {
  const ValueId x = c.float_input(0);
  const int spatial = c.rank(x) - 2;
  a.axes.clear();
  for (int i = 0; i < spatial; ++i) a.axes.push_back(2 + i);
  a.tflite = true;
  std::vector<ValueId> in{x, kNoValue, kNoValue, kNoValue};
  const bool corners = a.coord == ResizeAttrs::Coord::kAlignCorners || a.coord == ResizeAttrs::Coord::kCornersHalfPixel;
  if (!c.none(size_at) && (scales.empty() || corners)) {
    in[3] = c.int_vector(size_at);
  } else {
    if (static_cast<int>(scales.size()) != spatial)
      return c.fail(scales.size(), " scale factors for ", spatial, " dimensions");
    if (corners) {
      in[3] = scaled_sizes(c, x, scales);  // corners are aligned between whole sizes, whatever the factors
    } else {
      Tensor factors(DType::kF32, Shape{spatial});
      for (size_t i = 0; i < scales.size(); ++i) factors.data<float>()[i] = static_cast<float>(scales[i]);
      in[2] = c.constant(std::move(factors));
      a.tflite = false;
    }
  }
  while (in.back() == kNoValue) in.pop_back();
  const DType t = c.dtype(x);
  c.result(c.cast(c.add(Op::kResize, a, in), t));
}

ResizeAttrs linear_attrs(bool align_corners) {
  ResizeAttrs a;
  a.mode = ResizeAttrs::Mode::kLinear;
  a.coord = align_corners ? ResizeAttrs::Coord::kAlignCorners : ResizeAttrs::Coord::kHalfPixel;
  return a;
}

/// .vec(input, output_size?, align_corners, scale_factors?), else (input, output_size, align_corners, scales...).
void upsample_linear(CallContext& c) {
  const bool vec = c.call.overload.starts_with("vec");
  resize(c, linear_attrs(c.flag(2)), 1, vec ? c.doubles(3) : std::vector<double>{});
}

void upsample_bilinear_aa(CallContext& c) {
  ResizeAttrs a = linear_attrs(c.flag(2));
  a.antialias = a.exclude_outside = true;
  if (c.flag(2)) a.coord = ResizeAttrs::Coord::kCornersHalfPixel;
  const bool vec = c.call.overload.starts_with("vec");
  resize(c, a, 1, vec ? c.doubles(3) : given_scales(c, 3));
}

void upsample_bicubic(CallContext& c) {
  ResizeAttrs a = linear_attrs(c.flag(2));
  a.mode = ResizeAttrs::Mode::kCubic;
  const bool vec = c.call.overload.starts_with("vec");
  resize(c, a, 1, vec ? c.doubles(3) : std::vector<double>{});
}

/// .vec(input, output_size?, scale_factors?).
void upsample_nearest(CallContext& c) {
  ResizeAttrs a;
  a.coord = ResizeAttrs::Coord::kAsymmetric;
  a.nearest = ResizeAttrs::Nearest::kFloor;
  const bool vec = c.call.overload.starts_with("vec");
  resize(c, a, 1, vec ? c.doubles(2) : std::vector<double>{});
}

/// grid_sampler_2d(input, grid, interpolation, padding, align_corners).
void grid_sampler(CallContext& c) {
  const int64_t mode = c.i(2, 0), padding = c.i(3, 0);
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2)
    return c.fail("grid_sampler mode ", mode, " and padding ", padding, ", 0 to 2 expected");
  GridSampleAttrs a;
  a.mode = static_cast<GridSampleAttrs::Mode>(mode);
  a.padding = static_cast<GridSampleAttrs::Padding>(padding);
  a.align_corners = c.flag(4);
  c.emit(Op::kGridSample, a, product_operands(c, {0, 1}));
}

/// A spectrum of `n` points by normalization 0 (none), 1 (1 / sqrt n) or 2 (1 / n).
ValueId normalised(CallContext& c, ValueId x, int64_t normalization, double n) {
  if (normalization == 0) return x;
  const double factor = normalization == 1 ? 1 / std::sqrt(n) : 1 / n;
  return c.binary(Binary::kMul, x, c.number(c.dtype(x), factor));
}

/// _fft_r2c(self, dim, normalization, onesided): the last dim is real to complex, the others follow.
void fft_r2c(CallContext& c) {
  ValueId x = c.float_input(0);
  const int r = c.rank(x);
  const auto axes = c.axes(c.ints(1), r);
  const bool onesided = c.flag(3);
  if (!c.ok()) return;
  if (axes.empty()) return c.fail("_fft_r2c over no dimension");
  double n = 1;
  for (int64_t a : axes) {
    if (c.dim(x, a) <= 0) return c.unsupported("_fft_r2c of an unknown or empty dimension");
    n *= static_cast<double>(c.dim(x, a));
  }
  for (size_t k = axes.size(); k-- > 0;) {
    DftAttrs a;
    a.complex_dtype = true;
    a.axis = axes[k];
    a.onesided = onesided && k + 1 == axes.size();
    x = c.add(Op::kDft, a, {x});
  }
  c.result(normalised(c, x, c.i(2, 0), n));
}

/// _fft_c2r(self, dim, normalization, last_dim_size): inverse; the last dim comes last and is half of a real signal's.
void fft_c2r(CallContext& c) {
  ValueId x = c.t(0);
  const auto axes = c.axes(c.ints(1), c.rank(x));
  const int64_t length = c.i(3);
  if (!c.ok()) return;
  if (axes.empty()) return c.fail("_fft_c2r over no dimension");
  double n = static_cast<double>(length);
  for (size_t k = 0; k < axes.size(); ++k) {
    DftAttrs a;
    a.complex_dtype = a.inverse = true;
    a.axis = axes[k];
    a.onesided = k + 1 == axes.size();
    std::vector<ValueId> in{x};
    if (a.onesided)
      in.push_back(c.integer(DType::kI64, length));
    else if (c.dim(x, axes[k]) <= 0)
      return c.unsupported("_fft_c2r of an unknown or empty dimension");
    else
      n *= static_cast<double>(c.dim(x, axes[k]));
    x = c.add(Op::kDft, a, in);
  }
  c.result(normalised(c, x, c.i(2, 0), n));
}

constexpr OpEntry kEntries[] = {
    {"aten::mm", mm},
    {"aten::bmm", mm},
    {"aten::matmul", mm},
    {"aten::mv", mm},
    {"aten::dot", dot},
    {"aten::addmm", addmm},
    {"aten::baddbmm", addmm},
    {"aten::linear", linear},
    {"aten::convolution", convolution},
    {"aten::_convolution", convolution},
    {"aten::convolution_backward", convolution_backward},
    {"aten::max_pool2d_with_indices", max_pool<2, true>},
    {"aten::max_pool3d_with_indices", max_pool<3, true>},
    {"aten::max_pool2d", max_pool<2, false>},
    {"aten::max_pool1d", max_pool<1, false>},
    {"aten::max_pool2d_with_indices_backward", max_pool_backward},
    {"aten::avg_pool1d", avg_pool<1>},
    {"aten::avg_pool2d", avg_pool<2>},
    {"aten::avg_pool3d", avg_pool<3>},
    {"aten::_adaptive_avg_pool2d", adaptive_pool<2, PoolKind::kAverage>},
    {"aten::adaptive_avg_pool2d", adaptive_pool<2, PoolKind::kAverage>},
    {"aten::adaptive_avg_pool1d", adaptive_pool<1, PoolKind::kAverage>},
    {"aten::_adaptive_avg_pool3d", adaptive_pool<3, PoolKind::kAverage>},
    {"aten::adaptive_max_pool2d", adaptive_pool<2, PoolKind::kMax>},
    {"aten::upsample_bilinear2d", upsample_linear},
    {"aten::upsample_linear1d", upsample_linear},
    {"aten::upsample_trilinear3d", upsample_linear},
    {"aten::_upsample_bilinear2d_aa", upsample_bilinear_aa},
    {"aten::upsample_bicubic2d", upsample_bicubic},
    {"aten::upsample_nearest1d", upsample_nearest},
    {"aten::upsample_nearest2d", upsample_nearest},
    {"aten::upsample_nearest3d", upsample_nearest},
    {"aten::grid_sampler_2d", grid_sampler},
    {"aten::_fft_r2c", fft_r2c},
    {"aten::_fft_c2r", fft_c2r},
};

}  // namespace

std::span<const OpEntry> nn_entries() { return kEntries; }

}  // namespace smelt::aten
