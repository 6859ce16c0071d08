// Matrix products, convolutions, pooling, resampling.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"

namespace smelt::aten {
namespace {

/// Operands of a product in one type.
std::vector<ValueId> product_operands(L& l, std::initializer_list<size_t> at) {
  DType to = DType::kInvalid;
  for (size_t i : at)
    if (!l.none(i)) to = to == DType::kInvalid ? l.dtype(l.t(i)) : promote(to, l.dtype(l.t(i)));
  std::vector<ValueId> out;
  for (size_t i : at) out.push_back(l.none(i) ? kNoValue : l.cast(l.t(i), to));
  return out;
}

ValueId matmul(L& l, std::vector<ValueId> in, double alpha = 1, double beta = 1, bool transpose_b = false) {
  MatMulAttrs a;
  a.alpha = alpha;
  a.beta = beta;
  a.transpose_b = transpose_b;
  while (!in.empty() && in.back() == kNoValue) in.pop_back();
  return l.op(Op::kMatMul, make_attrs<MatMulAttrs>(a), in);
}

void mm(L& l) { l.result(matmul(l, product_operands(l, {0, 1}))); }

/// addmm(self, mat1, mat2, beta, alpha).
void addmm(L& l) {
  auto v = product_operands(l, {0, 1, 2});
  const double beta = l.d(3, 1), alpha = l.d(4, 1);
  if (beta == 0) return l.result(matmul(l, {v[1], v[2]}, alpha));
  l.result(matmul(l, {v[1], v[2], v[0]}, alpha, beta));
}

void linear(L& l) {
  const auto v = product_operands(l, {0, 1, 2});
  l.result(matmul(l, {v[0], v[1], v[2]}, 1, 1, true));
}

void dot(L& l) { l.result(matmul(l, product_operands(l, {0, 1}))); }

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
ConvParameters conv_parameters(L& l, size_t at, ValueId weight) {
  ConvParameters p;
  p.spatial = l.rank(weight) - 2;
  if (p.spatial < 1 || p.spatial > 3) {
    l.fail(InvalidModel("convolution filter has rank ", p.spatial + 2, ", 3 to 5 expected"));
    return p;
  }
  p.strides = spread(l.ints(at), p.spatial, 1);
  p.pads = spread(l.ints(at + 1), p.spatial, 0);
  p.dilations = spread(l.ints(at + 2), p.spatial, 1);
  p.transposed = l.flag(at + 3);
  p.output_padding = spread(l.ints(at + 4), p.spatial, 0);
  p.groups = l.i(at + 5, 1);
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

ValueId conv_transpose(L& l, const ConvParameters& p, ValueId x, ValueId w, ValueId bias) {
  auto a = conv_attrs<ConvTransposeAttrs>(p);
  a.filter = FilterLayout::kIOS;
  a.output_padding = p.output_padding;
  std::vector<ValueId> in{x, w};
  if (bias != kNoValue) in.push_back(bias);
  return l.op(Op::kConvTranspose, make_attrs<ConvTransposeAttrs>(a), in);
}

ValueId conv_forward(L& l, const ConvParameters& p, ValueId x, ValueId w, ValueId bias) {
  std::vector<ValueId> in{x, w};
  if (bias != kNoValue) in.push_back(bias);
  return l.op(Op::kConv, make_attrs<ConvAttrs>(conv_attrs<ConvAttrs>(p)), in);
}

void convolution(L& l) {
  const auto v = product_operands(l, {0, 1, 2});
  const ConvParameters p = conv_parameters(l, 3, v[1]);
  if (!l.ok()) return;
  const bool single = l.rank(v[0]) == p.spatial + 1;
  const ValueId x = single ? l.unsqueeze(v[0], {0}) : v[0];
  const ValueId y = p.transposed ? conv_transpose(l, p, x, v[1], v[2]) : conv_forward(l, p, x, v[1], v[2]);
  l.result(single ? l.squeeze(y, {0}) : y);
}

/// Leading `n` dimensions 0 and 1 exchanged.
ValueId swapped(L& l, ValueId x) {
  std::vector<int64_t> perm;
  for (int i = 0; i < l.rank(x); ++i) perm.push_back(i);
  if (perm.size() >= 2) std::swap(perm[0], perm[1]);
  return l.transpose(x, perm);
}

/// Gradient of conv(x, w) with respect to w for one group: the correlation of x with g, over the batch.
ValueId weight_gradient(L& l, const ConvParameters& p, ValueId x, ValueId g, ValueId w) {
  ConvParameters q = p;
  q.strides = p.dilations;
  q.dilations = p.strides;
  q.groups = 1;
  ValueId y = conv_forward(l, q, swapped(l, x), swapped(l, g), kNoValue);  // [I, O, k...]
  for (int i = 0; i < p.spatial; ++i) y = l.slice(y, 2 + i, 0, l.dim(w, 2 + i));
  return swapped(l, y);
}

/// convolution_backward(grad_output, input, weight, bias_sizes, ..., output_mask) -> grads of input, weight, bias.
void convolution_backward(L& l) {
  const auto v = product_operands(l, {0, 1, 2});
  const ValueId g = v[0], x = v[1], w = v[2];
  const ConvParameters p = conv_parameters(l, 4, w);
  const auto mask = l.ints(10);
  if (!l.ok()) return;
  const auto wanted = [&](size_t k) { return k >= mask.size() || mask[k] != 0; };
  const auto nothing = [&](size_t k) { return l.fill(l.b.i64({0}), l.out_dtype(k), 0); };
  if (wanted(0) && p.transposed) {
    l.result(conv_forward(l, p, g, w, kNoValue));
  } else if (wanted(0)) {
    ConvParameters q = p;
    for (int i = 0; i < p.spatial; ++i) {
      const size_t at = static_cast<size_t>(i);
      const int64_t in = l.dim(x, 2 + i), k = l.dim(w, 2 + i), out = l.dim(g, 2 + i);
      q.output_padding[at] = in - ((out - 1) * p.strides[at] - 2 * p.pads[at] + p.dilations[at] * (k - 1) + 1);
    }
    l.result(conv_transpose(l, q, g, w, kNoValue));
  } else {
    l.result(nothing(0));
  }
  if (wanted(1)) {
    // A transposed convolution is the gradient of one that goes from its output to its input.
    const ValueId from = p.transposed ? g : x, to = p.transposed ? x : g;
    std::vector<ValueId> parts;
    const int64_t groups = std::max<int64_t>(p.groups, 1), in = l.dim(from, 1) / groups, out = l.dim(to, 1) / groups;
    for (int64_t k = 0; k < groups && l.ok() && k < 65536; ++k)
      parts.push_back(
          weight_gradient(l, p, l.slice(from, 1, k * in, (k + 1) * in), l.slice(to, 1, k * out, (k + 1) * out), w));
    l.result(parts.size() == 1 ? parts[0] : l.op(Op::kConcat, make_attrs<AxisAttrs>(0), parts));
  } else {
    l.result(nothing(1));
  }
  std::vector<int64_t> axes{0};
  for (int i = 0; i < p.spatial; ++i) axes.push_back(2 + i);
  l.result(wanted(2) ? l.reduce(Reduction::kSum, g, axes, false) : nothing(2));
}

/// kernel, stride (empty: the kernel), padding, [dilation], ceil_mode of a pool.
PoolAttrs pool_attrs(L& l, ValueId x, PoolKind kind, int spatial, bool dilated) {
  PoolAttrs a;
  a.kind = kind;
  a.kernel = spread(l.ints(1), spatial, 1);
  a.strides = l.ints(2).empty() ? a.kernel : spread(l.ints(2), spatial, 1);
  a.pads = both_sides(spread(l.ints(3), spatial, 0));
  a.dilations = dilated ? spread(l.ints(4), spatial, 1) : std::vector<int64_t>(static_cast<size_t>(spatial), 1);
  a.ceil_mode = l.flag(dilated ? 5 : 4);
  a.torch_ceil = true;
  a.index = PoolAttrs::Index::kPlane;
  if (const int r = l.rank(x); r != spatial + 1 && r != spatial + 2)
    l.fail(InvalidModel("pooling of rank ", r, ", ", spatial + 1, " or ", spatial + 2, " expected"));
  return a;
}

template <int spatial, bool indices>
void max_pool(L& l) {
  const ValueId x = l.t(0);
  const PoolAttrs a = pool_attrs(l, x, PoolKind::kMax, spatial, true);
  const bool single = l.rank(x) == spatial + 1;
  const auto y = l.ops(Op::kPool, make_attrs<PoolAttrs>(a), {single ? l.unsqueeze(x, {0}) : x}, indices ? 2 : 1);
  for (ValueId v : y) l.result(single ? l.squeeze(v, {0}) : v);
}

template <int spatial>
void avg_pool(L& l) {
  const ValueId x = l.t(0);
  PoolAttrs a = pool_attrs(l, x, PoolKind::kAverage, spatial, false);
  a.count_include_pad = l.flag(5, true);
  a.divisor_override = l.i(6, 0);
  const bool single = l.rank(x) == spatial + 1;
  const ValueId y = l.op(Op::kPool, make_attrs<PoolAttrs>(a), {single ? l.unsqueeze(x, {0}) : x});
  l.result(single ? l.squeeze(y, {0}) : y);
}

template <int spatial, PoolKind kind>
void adaptive_pool(L& l) {
  const ValueId x = l.t(0);
  AdaptivePoolAttrs a;
  a.kind = kind;
  a.output = spread(l.ints(1), spatial, 1);
  const bool single = l.rank(x) == spatial + 1;
  const auto y = l.ops(Op::kAdaptivePool, make_attrs<AdaptivePoolAttrs>(a), {single ? l.unsqueeze(x, {0}) : x},
                       kind == PoolKind::kMax ? 2 : 1);
  for (ValueId v : y) l.result(single ? l.squeeze(v, {0}) : v);
}

/// max_pool2d_with_indices_backward(grad_output, self, ..., indices): gradients added up at the indices of each plane.
void max_pool_backward(L& l) {
  const ValueId g = l.t(0), x = l.t(1), at = l.t(7);
  const int r = l.rank(x);
  std::vector<int64_t> flat;
  for (int i = 0; i < r - 2; ++i) flat.push_back(l.dim(x, i));
  if (r < 3 || !l.type(x).is_static()) return l.fail(Unsupported("max_pool2d backward of ", l.type(x).str()));
  auto planes = flat;
  planes.push_back(l.dim(x, r - 2) * l.dim(x, r - 1));
  flat.push_back(-1);
  ScatterAttrs a;
  a.axis = r - 2;
  a.reduction = ScatterAttrs::Reduce::kAdd;
  const ValueId zeros = l.fill(l.ints_const(planes), l.dtype(g), 0);
  const ValueId y =
      l.op(Op::kScatterElements, make_attrs<ScatterAttrs>(a), {zeros, l.reshape(at, flat), l.reshape(g, flat)});
  l.result(l.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {y, l.shape_of(x)}));
}

/// floor(extent * factor) of the dimensions from the third on.
ValueId scaled_sizes(L& l, ValueId x, const std::vector<double>& scales) {
  Tensor factors(DType::kF64, Shape{static_cast<int64_t>(scales.size())});
  for (size_t i = 0; i < scales.size(); ++i) factors.data<double>()[i] = scales[i];
  ShapeOfAttrs a;
  a.start = 2;
  a.end = l.rank(x);
  const ValueId extents = l.cast(l.op(Op::kShapeOf, make_attrs<ShapeOfAttrs>(a), {x}), DType::kF64);
  const ValueId sizes = l.binary(Binary::kMul, extents, l.b.constant("", std::move(factors)));
  return l.cast(l.unary(Unary::kFloor, sizes), DType::kI64);
}

/// The factors of scales_h and scales_w of a call that names sizes too, when both are given: coordinates follow them.
std::vector<double> given_scales(L& l, size_t at) {
  const bool both = !l.none(at) && !l.none(at + 1);
  return both ? std::vector<double>{l.d(at), l.d(at + 1)} : std::vector<double>{};
}

/// x resampled to output_size (argument `size_at`) or by scale factors.
void resize(L& l, ResizeAttrs a, size_t size_at, const std::vector<double>& scales) {
  const ValueId x = l.float_input(0);
  const int spatial = l.rank(x) - 2;
  a.axes.clear();
  for (int i = 0; i < spatial; ++i) a.axes.push_back(2 + i);
  a.tflite = true;
  std::vector<ValueId> in{x, kNoValue, kNoValue, kNoValue};
  const bool corners = a.coord == ResizeAttrs::Coord::kAlignCorners || a.coord == ResizeAttrs::Coord::kCornersHalfPixel;
  if (!l.none(size_at) && (scales.empty() || corners)) {
    in[3] = l.int_vector(size_at);
  } else {
    if (static_cast<int>(scales.size()) != spatial)
      return l.fail(InvalidModel(scales.size(), " scale factors for ", spatial, " dimensions"));
    if (corners) {
      in[3] = scaled_sizes(l, x, scales);  // corners are aligned between whole sizes, whatever the factors
    } else {
      Tensor factors(DType::kF32, Shape{spatial});
      for (size_t i = 0; i < scales.size(); ++i) factors.data<float>()[i] = static_cast<float>(scales[i]);
      in[2] = l.b.constant("", std::move(factors));
      a.tflite = false;
    }
  }
  while (in.back() == kNoValue) in.pop_back();
  const DType t = l.dtype(x);
  l.result(l.cast(l.op(Op::kResize, make_attrs<ResizeAttrs>(a), in), t));
}

ResizeAttrs linear_attrs(bool align_corners) {
  ResizeAttrs a;
  a.mode = ResizeAttrs::Mode::kLinear;
  a.coord = align_corners ? ResizeAttrs::Coord::kAlignCorners : ResizeAttrs::Coord::kHalfPixel;
  return a;
}

/// .vec(input, output_size?, align_corners, scale_factors?), else (input, output_size, align_corners, scales...).
void upsample_linear(L& l) {
  const bool vec = l.c.overload.starts_with("vec");
  resize(l, linear_attrs(l.flag(2)), 1, vec ? l.doubles(3) : std::vector<double>{});
}

void upsample_bilinear_aa(L& l) {
  ResizeAttrs a = linear_attrs(l.flag(2));
  a.antialias = a.exclude_outside = true;
  if (l.flag(2)) a.coord = ResizeAttrs::Coord::kCornersHalfPixel;
  const bool vec = l.c.overload.starts_with("vec");
  resize(l, a, 1, vec ? l.doubles(3) : given_scales(l, 3));
}

void upsample_bicubic(L& l) {
  ResizeAttrs a = linear_attrs(l.flag(2));
  a.mode = ResizeAttrs::Mode::kCubic;
  const bool vec = l.c.overload.starts_with("vec");
  resize(l, a, 1, vec ? l.doubles(3) : std::vector<double>{});
}

/// .vec(input, output_size?, scale_factors?).
void upsample_nearest(L& l) {
  ResizeAttrs a;
  a.coord = ResizeAttrs::Coord::kAsymmetric;
  a.nearest = ResizeAttrs::Nearest::kFloor;
  const bool vec = l.c.overload.starts_with("vec");
  resize(l, a, 1, vec ? l.doubles(2) : std::vector<double>{});
}

/// grid_sampler_2d(input, grid, interpolation, padding, align_corners).
void grid_sampler(L& l) {
  const int64_t mode = l.i(2, 0), padding = l.i(3, 0);
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2)
    return l.fail(InvalidModel("grid_sampler mode ", mode, " and padding ", padding, ", 0 to 2 expected"));
  GridSampleAttrs a;
  a.mode = static_cast<GridSampleAttrs::Mode>(mode);
  a.padding = static_cast<GridSampleAttrs::Padding>(padding);
  a.align_corners = l.flag(4);
  l.result(l.op(Op::kGridSample, make_attrs<GridSampleAttrs>(a), product_operands(l, {0, 1})));
}

/// A spectrum of `n` points by normalization 0 (none), 1 (1 / sqrt n) or 2 (1 / n).
ValueId normalised(L& l, ValueId x, int64_t normalization, double n) {
  if (normalization == 0) return x;
  const double factor = normalization == 1 ? 1 / std::sqrt(n) : 1 / n;
  return l.binary(Binary::kMul, x, l.number(l.dtype(x), factor));
}

/// _fft_r2c(self, dim, normalization, onesided): the last dim is real to complex, the others follow.
void fft_r2c(L& l) {
  ValueId x = l.float_input(0);
  const int r = l.rank(x);
  const auto axes = l.axes(l.ints(1), r);
  const bool onesided = l.flag(3);
  if (!l.ok()) return;
  if (axes.empty()) return l.fail(InvalidModel("_fft_r2c over no dimension"));
  double n = 1;
  for (int64_t a : axes) {
    if (l.dim(x, a) <= 0) return l.fail(Unsupported("_fft_r2c of an unknown or empty dimension"));
    n *= static_cast<double>(l.dim(x, a));
  }
  for (size_t k = axes.size(); k-- > 0;) {
    DftAttrs a;
    a.complex_dtype = true;
    a.axis = axes[k];
    a.onesided = onesided && k + 1 == axes.size();
    x = l.op(Op::kDft, make_attrs<DftAttrs>(a), {x});
  }
  l.result(normalised(l, x, l.i(2, 0), n));
}

/// _fft_c2r(self, dim, normalization, last_dim_size): inverse; the last dim comes last and is half of a real signal's.
void fft_c2r(L& l) {
  ValueId x = l.t(0);
  const auto axes = l.axes(l.ints(1), l.rank(x));
  const int64_t length = l.i(3);
  if (!l.ok()) return;
  if (axes.empty()) return l.fail(InvalidModel("_fft_c2r over no dimension"));
  double n = static_cast<double>(length);
  for (size_t k = 0; k < axes.size(); ++k) {
    DftAttrs a;
    a.complex_dtype = a.inverse = true;
    a.axis = axes[k];
    a.onesided = k + 1 == axes.size();
    std::vector<ValueId> in{x};
    if (a.onesided)
      in.push_back(l.integer(DType::kI64, length));
    else if (l.dim(x, axes[k]) <= 0)
      return l.fail(Unsupported("_fft_c2r of an unknown or empty dimension"));
    else
      n *= static_cast<double>(l.dim(x, axes[k]));
    x = l.op(Op::kDft, make_attrs<DftAttrs>(a), in);
  }
  l.result(normalised(l, x, l.i(2, 0), n));
}

constexpr Entry kEntries[] = {
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

std::span<const Entry> nn_entries() { return kEntries; }

}  // namespace smelt::aten
