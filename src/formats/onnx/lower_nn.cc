// Convolutions, products, pooling and resampling of ai.onnx.
#include "formats/onnx/attr_readers.h"
#include "formats/onnx/ops.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/pool/pool.h"
#include "ops/resize/resize.h"

namespace smelt::onnx {

AutoPad auto_pad(NodeContext& n) {
  const std::string p = n.s("auto_pad", "NOTSET");
  if (p == "SAME_UPPER") return AutoPad::kSameUpper;
  if (p == "SAME_LOWER") return AutoPad::kSameLower;
  if (p == "VALID") return AutoPad::kValid;
  if (p != "NOTSET" && !p.empty()) n.fail("auto_pad is '", p, "'");
  return AutoPad::kExplicit;
}

std::vector<int64_t> spatial_list(NodeContext& n, const char* name, size_t count, int64_t fill) {
  auto v = n.ints(name);
  if (v.empty()) v.assign(count, fill);
  if (v.size() != count) n.fail("attribute '", name, "' has ", v.size(), " entries, ", count, " expected");
  return v;
}

size_t spatial_rank(NodeContext& n, ValueId x, ValueId filter) {
  int rank = n.rank(x);
  if (rank < 0) rank = n.rank(filter);
  if (rank >= 0) {
    if (rank < 3) n.fail("rank ", rank, " has no spatial dimension");
    return static_cast<size_t>(std::max(0, rank - 2));
  }
  for (const char* name : {"kernel_shape", "strides", "dilations"})
    if (const auto v = n.ints(name); !v.empty()) return v.size();
  if (const auto v = n.ints("pads"); !v.empty()) return v.size() / 2;
  n.unsupported("the rank of the input must be known at load");
  return 0;
}

void read_conv(NodeContext& n, ValueId x, ValueId filter, ConvAttrs& a) {
  const size_t s = spatial_rank(n, x, filter);
  a.strides = spatial_list(n, "strides", s, 1);
  a.dilations = spatial_list(n, "dilations", s, 1);
  a.auto_pad = auto_pad(n);
  a.pads = spatial_list(n, "pads", 2 * s, 0);
  if (a.auto_pad != AutoPad::kExplicit) a.pads.assign(2 * s, 0);
  a.groups = n.i("group", 1);
  if (a.groups < 1) n.fail("group is ", a.groups);
  for (const int64_t v : a.strides)
    if (v < 1) n.fail("stride ", v);
  for (const int64_t v : a.dilations)
    if (v < 1) n.fail("dilation ", v);
  const auto kernel = n.ints("kernel_shape");
  const ValueType ft = n.type(filter);
  if (kernel.empty() || !ft.ranked || static_cast<size_t>(ft.shape.rank()) != s + 2) return;
  if (kernel.size() != s) return n.fail("kernel_shape has ", kernel.size(), " entries, ", s, " expected");
  for (size_t k = 0; k < s; ++k)
    if (const int64_t have = ft.shape[static_cast<int>(k) + 2]; have >= 0 && have != kernel[k])
      return n.fail("kernel_shape does not match the filter's shape ", ft.shape.str());
}

namespace {

std::vector<ValueId> with_optional(NodeContext& n, std::vector<ValueId> in, int index) {
  if (n.has(index)) in.push_back(n.in(index));
  return in;
}

void lower_conv_transpose(NodeContext& n) {
  const ValueId x = n.in(0), w = n.in(1);
  ConvTransposeAttrs a;
  read_conv(n, x, w, a);
  a.filter = FilterLayout::kIOS;
  a.output_padding = n.ints("output_padding");
  if (a.output_padding.empty()) a.output_padding.assign(a.strides.size(), 0);
  a.output_shape = n.ints("output_shape");
  const size_t s = a.strides.size();
  if (a.output_shape.size() == s + 2) a.output_shape.erase(a.output_shape.begin(), a.output_shape.begin() + 2);
  if (a.output_padding.size() != s || (!a.output_shape.empty() && a.output_shape.size() != s))
    return n.fail("output_padding or output_shape do not have ", s, " entries");
  n.emit(Op::kConvTranspose, a, with_optional(n, {x, w}, 2));
}

void lower_deform_conv(NodeContext& n) {
  const ValueId x = n.in(0), w = n.in(1);
  DeformConvAttrs a;
  read_conv(n, x, w, a);
  a.offset_groups = n.i("offset_group", 1);
  n.emit(Op::kDeformConv, a, n.operands(3, 5));
}

void lower_conv_integer(NodeContext& n) {
  const ValueId x = n.in(0), w = n.in(1);
  ConvAttrs a;
  read_conv(n, x, w, a);
  n.emit(Op::kConvInteger, a, n.operands(2, 4));
}

void lower_col2im(NodeContext& n) {
  Im2ColAttrs a;
  a.strides = n.ints("strides");
  a.dilations = n.ints("dilations");
  a.pads = n.ints("pads");
  n.emit(Op::kCol2Im, a, {n.in(0), n.in(1), n.in(2)});
}

void lower_matmul(NodeContext& n) { n.emit(Op::kMatMul, MatMulAttrs(), {n.in(0), n.in(1)}); }

void lower_matmul_integer(NodeContext& n) { n.emit(Op::kMatMulInteger, MatMulAttrs(), n.operands(2, 4)); }

void lower_einsum(NodeContext& n) {
  EinsumAttrs a;
  a.equation = n.s("equation");
  n.emit(Op::kEinsum, a, n.all_inputs());
}
void lower_det(NodeContext& n) { n.emit(Op::kDet, {n.in(0)}); }

/// The attributes that all windowed pools share.
PoolAttrs read_pool(NodeContext& n, PoolKind kind) {
  PoolAttrs a;
  a.kind = kind;
  a.kernel = n.ints("kernel_shape");
  const size_t s = a.kernel.size();
  if (s == 0) n.fail("kernel_shape is missing");
  a.strides = spatial_list(n, "strides", s, 1);
  a.dilations = spatial_list(n, "dilations", s, 1);
  a.auto_pad = auto_pad(n);
  a.pads = spatial_list(n, "pads", 2 * s, 0);
  if (a.auto_pad != AutoPad::kExplicit) a.pads.assign(2 * s, 0);
  a.ceil_mode = n.flag("ceil_mode");
  for (size_t k = 0; k < s && n.ok(); ++k) {
    if (a.kernel[k] < 1 || a.strides[k] < 1 || a.dilations[k] < 1) {
      n.fail("kernel ", a.kernel[k], ", stride ", a.strides[k], ", dilation ", a.dilations[k]);
      break;
    }
    const int64_t reach = a.dilations[k] > INT64_MAX / a.kernel[k] ? INT64_MAX : (a.kernel[k] - 1) * a.dilations[k] + 1;
    if (a.pads[k] < 0 || a.pads[k + s] < 0 || a.pads[k] >= reach || a.pads[k + s] >= reach)
      n.fail("pads ", a.pads[k], " and ", a.pads[k + s], " for a window of ", reach);
  }
  return a;
}

void lower_average_pool(NodeContext& n) {
  PoolAttrs a = read_pool(n, PoolKind::kAverage);
  a.count_include_pad = n.flag("count_include_pad");
  n.emit(Op::kPool, a, {n.in(0)});
}

double lp_order(NodeContext& n) { return n.version() < 2 ? n.f("p", 2) : static_cast<double>(n.i("p", 2)); }

void lower_lp_pool(NodeContext& n) {
  PoolAttrs a = read_pool(n, PoolKind::kLp);
  a.p = lp_order(n);
  n.emit(Op::kPool, a, {n.in(0)});
}

void lower_global_pool(NodeContext& n) {
  PoolAttrs a;
  a.global = true;
  a.kind = n.op() == "GlobalMaxPool" ? PoolKind::kMax : n.op() == "GlobalLpPool" ? PoolKind::kLp : PoolKind::kAverage;
  if (a.kind == PoolKind::kLp) a.p = lp_order(n);
  n.emit(Op::kPool, a, {n.in(0)});
}

void lower_max_unpool(NodeContext& n) {
  MaxUnpoolAttrs a;
  a.kernel = n.ints("kernel_shape");
  a.strides = spatial_list(n, "strides", a.kernel.size(), 1);
  a.pads = spatial_list(n, "pads", 2 * a.kernel.size(), 0);
  n.emit(Op::kMaxUnpool, a, with_optional(n, {n.in(0), n.in(1)}, 2));
}

void lower_max_roi_pool(NodeContext& n) {
  RoiAttrs a;
  a.max = a.legacy = true;
  const auto shape = n.ints("pooled_shape");
  if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1) return n.fail("pooled_shape does not have 2 positive entries");
  a.height = shape[0];
  a.width = shape[1];
  a.scale = n.f("spatial_scale", 1);
  n.emit(Op::kRoiPool, a, {n.in(0), n.in(1)});
}

void lower_roi_align(NodeContext& n) {
  RoiAttrs a;
  const std::string mode = n.s("mode", "avg");
  const std::string coord =
      n.s("coordinate_transformation_mode", n.version() < 16 ? "output_half_pixel" : "half_pixel");
  if (mode != "avg" && mode != "max") return n.fail("mode is '", mode, "'");
  if (coord != "half_pixel" && coord != "output_half_pixel")
    return n.fail("coordinate_transformation_mode is '", coord, "'");
  a.max = mode == "max";
  a.half_pixel = coord == "half_pixel";
  a.height = n.i("output_height", 1);
  a.width = n.i("output_width", 1);
  a.sampling_ratio = n.i("sampling_ratio", 0);
  a.scale = n.f("spatial_scale", 1);
  if (a.height < 1 || a.width < 1 || a.sampling_ratio < 0) return n.fail("output size or sampling_ratio is negative");
  n.emit(Op::kRoiPool, a, {n.in(0), n.in(1), n.in(2)});
}

template <class E, size_t N>
E choice(NodeContext& n, const char* name, const char* def, const std::pair<const char*, E> (&table)[N]) {
  const std::string v = n.s(name, def);
  for (const auto& [text, e] : table)
    if (v == text) return e;
  n.fail(name, " is '", v, "'");
  return table[0].second;
}

void lower_resize(NodeContext& n) {
  using R = ResizeAttrs;
  ResizeAttrs a;
  a.mode = choice<R::Mode>(n, "mode", "nearest",
                           {{"nearest", R::Mode::kNearest},
                            {"linear", R::Mode::kLinear},
                            {"bilinear", R::Mode::kLinear},
                            {"cubic", R::Mode::kCubic}});
  const ValueId x = n.in(0);
  if (n.op() == "Upsample" || n.version() < 11) {
    a.coord = R::Coord::kAsymmetric;
    a.nearest = R::Nearest::kFloorOrCeil;
    ValueId scales;
    if (n.version() >= 9) {
      scales = n.in(1);
    } else {
      auto v = n.version() < 7 ? std::vector<float>{1, 1, static_cast<float>(n.f("height_scale", 1)),
                                                    static_cast<float>(n.f("width_scale", 1))}
                               : n.floats("scales");
      const Shape shape{static_cast<int64_t>(v.size())};
      scales = n.constant(Tensor::from<float>(DType::kF32, shape, v));
    }
    return n.emit(Op::kResize, a, {x, kNoValue, scales});
  }
  a.coord = choice<R::Coord>(n, "coordinate_transformation_mode", "half_pixel",
                             {{"half_pixel", R::Coord::kHalfPixel},
                              {"half_pixel_symmetric", R::Coord::kHalfPixelSymmetric},
                              {"pytorch_half_pixel", R::Coord::kPytorchHalfPixel},
                              {"align_corners", R::Coord::kAlignCorners},
                              {"asymmetric", R::Coord::kAsymmetric},
                              {"tf_crop_and_resize", R::Coord::kTfCropAndResize},
                              {"tf_half_pixel_for_nn", R::Coord::kTfHalfPixelNn}});
  a.nearest = choice<R::Nearest>(n, "nearest_mode", "round_prefer_floor",
                                 {{"round_prefer_floor", R::Nearest::kRoundPreferFloor},
                                  {"round_prefer_ceil", R::Nearest::kRoundPreferCeil},
                                  {"floor", R::Nearest::kFloor},
                                  {"ceil", R::Nearest::kCeil}});
  a.keep = choice<R::Keep>(
      n, "keep_aspect_ratio_policy", "stretch",
      {{"stretch", R::Keep::kStretch}, {"not_larger", R::Keep::kNotLarger}, {"not_smaller", R::Keep::kNotSmaller}});
  a.cubic_a = n.f("cubic_coeff_a", -0.75);
  a.extrapolation = n.f("extrapolation_value", 0);
  a.antialias = n.flag("antialias");
  a.exclude_outside = n.flag("exclude_outside");
  a.axes = n.ints("axes");
  const bool sized = n.has(3);
  std::vector<ValueId> in{x, kNoValue, kNoValue};
  if (a.coord == R::Coord::kTfCropAndResize) in[1] = n.opt(1);
  n.ignore(1);
  if (!sized) in[2] = n.in(2);
  n.ignore(2);
  if (sized) in.push_back(n.in(3));
  n.emit(Op::kResize, a, in);
}

void lower_affine_grid(NodeContext& n) {
  AffineGridAttrs a;
  a.align_corners = n.flag("align_corners");
  n.emit(Op::kAffineGrid, a, {n.in(0), n.in(1)});
}

constexpr OpEntry kOps[] = {
    {"Conv", 1, lower_conv},
    {"ConvTranspose", 1, lower_conv_transpose},
    {"ConvInteger", 10, lower_conv_integer},
    {"DeformConv", 19, lower_deform_conv},
    {"CausalConvWithState", 27, lower_causal_conv},
    {"Col2Im", 18, lower_col2im},
    {"MatMul", 1, lower_matmul},
    {"MatMulInteger", 10, lower_matmul_integer},
    {"Gemm", 1, lower_gemm},
    {"Einsum", 12, lower_einsum},
    {"Det", 11, lower_det},
    {"MaxPool", 1, lower_max_pool},
    {"AveragePool", 1, lower_average_pool},
    {"LpPool", 1, lower_lp_pool},
    {"GlobalMaxPool", 1, lower_global_pool},
    {"GlobalAveragePool", 1, lower_global_pool},
    {"GlobalLpPool", 1, lower_global_pool},
    {"MaxUnpool", 9, lower_max_unpool},
    {"MaxRoiPool", 1, lower_max_roi_pool},
    {"RoiAlign", 10, lower_roi_align},
    {"Resize", 10, lower_resize},
    {"Upsample", 1, lower_resize},
    {"AffineGrid", 20, lower_affine_grid},
    {"GridSample", 16, lower_grid_sample},
};

}  // namespace

void lower_causal_conv(NodeContext& n) {
  for (const char* name : {"channels_last", "input_channel_offset", "input_channels", "state_length",
                           "state_update_capacity", "state_window"})
    n.only(name, 0);
  n.only("dilation", 1);
  n.only("ndim", 1);
  n.only("state_channels_last", -1);
  // x and the carried state joined along time, then a depthwise convolution without padding.
  const ValueId x = n.in(0), w = n.in(1);
  const ValueType wt = n.type(w);
  if (!wt.ranked || wt.shape.rank() != 3 || wt.shape[0] < 0 || wt.shape[2] < 1)
    return n.unsupported("the filter's shape must be known at load: [channels, 1, k]");
  const int64_t channels = wt.shape[0], k = wt.shape[2];
  ValueId joined;
  if (n.has(3)) {
    joined = n.concat({n.in(3), x}, 2);
  } else {
    joined = n.add(Op::kPad, PadAttrs(), {x, n.i64({0, 0, k - 1, 0, 0, 0})});
  }
  ConvAttrs a;
  a.strides = a.dilations = {1};
  a.pads = {0, 0};
  a.groups = channels;
  ValueId y = n.add(Op::kConv, a, with_optional(n, {joined, w}, 2));
  const std::string act = n.s("activation", "none");
  if (act == "silu" || act == "swish")
    y = n.unary(Unary::kSilu, y, 1);
  else if (act != "none")
    return n.fail("activation is '", act, "'");
  n.bind(0, y);
  if (!n.wants(1)) return;
  if (k == 1) {
    n.bind(1, n.add(Op::kSlice, {joined, n.i64({0}), n.i64({0}), n.i64({2})}));
  } else {
    n.bind(1, n.add(Op::kSlice, {joined, n.i64({1 - k}), n.i64({INT64_MAX}), n.i64({2})}));
  }
}

void lower_conv(NodeContext& n) {
  const ValueId x = n.in(0), w = n.in(1);
  ConvAttrs a;
  read_conv(n, x, w, a);
  n.emit(Op::kConv, a, with_optional(n, {x, w}, 2));
}

void lower_max_pool(NodeContext& n) {
  PoolAttrs a = read_pool(n, PoolKind::kMax);
  a.index = n.flag("storage_order") ? PoolAttrs::Index::kTensorColumn : PoolAttrs::Index::kTensorRow;
  n.emit(Op::kPool, a, {n.in(0)});
}

void lower_gemm(NodeContext& n) {
  MatMulAttrs a;
  a.alpha = n.f("alpha", 1);
  a.beta = n.f("beta", 1);
  a.transpose_a = n.flag("transA");
  a.transpose_b = n.flag("transB");
  const ValueId x = n.in(0), w = n.in(1);
  for (const ValueId id : {x, w})
    if (const int r = n.rank(id); r >= 0 && r != 2) return n.fail("an operand has rank ", r, ", 2 expected");
  n.emit(Op::kMatMul, a, with_optional(n, {x, w}, 2));
}

void lower_grid_sample(NodeContext& n) {
  using G = GridSampleAttrs;
  GridSampleAttrs a;
  a.mode = choice<G::Mode>(n, "mode", n.version() >= 20 ? "linear" : "bilinear",
                           {{"linear", G::Mode::kLinear},
                            {"bilinear", G::Mode::kLinear},
                            {"nearest", G::Mode::kNearest},
                            {"cubic", G::Mode::kCubic},
                            {"bicubic", G::Mode::kCubic}});
  a.padding = choice<G::Padding>(
      n, "padding_mode", "zeros",
      {{"zeros", G::Padding::kZeros}, {"border", G::Padding::kBorder}, {"reflection", G::Padding::kReflection}});
  a.align_corners = n.flag("align_corners");
  n.emit(Op::kGridSample, a, {n.in(0), n.in(1)});
}

std::span<const OpEntry> nn_ops() { return kOps; }

}  // namespace smelt::onnx
