// Convolutions and products with constant weights.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "formats/executorch/xnnpack/writer/nodes.h"
#include "ops/conv/geometry.h"
#include "ops/matmul/matmul.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::executorch {
namespace {

using Id = XnnNodeWriter::Id;
using Type = XnnNodeWriter::Type;
using Builder = XnnNodeWriter::Builder;

/// How a product computes: in float32; in int8 or uint8; or float32 rows quantized at run time with int8 or 4-bit
/// weights.
enum class Arithmetic : uint8_t { kReal, kInteger, kDynamic };

/// True if weights are int8 and every zero point is 0, as XNNPACK takes them.
bool symmetric_int8(const XnnNodeWriter& w, const Tensor& t) {
  const QuantPtr q = w.quant(1);
  return t.dtype() == DType::kI8 && q &&
         (q->kind == Quantization::Kind::kPerTensor || q->kind == Quantization::Kind::kPerAxis) &&
         std::ranges::all_of(q->zero_points, [](int32_t z) { return z == 0; });
}

std::optional<Arithmetic> arithmetic_of(const XnnNodeWriter& w, const Tensor& filter, bool dynamic) {
  const QuantPtr q = w.quant(1);
  if (!is_float(filter.dtype()) && !q) return std::nullopt;
  if (w.real_dtype() == DType::kF16 && (q || dynamic)) return std::nullopt;
  if (dynamic && is_four_bit_matrix(filter, q)) return Arithmetic::kDynamic;
  const bool is_uint8 = filter.dtype() == DType::kU8 && is_per_tensor(q);
  if (!symmetric_int8(w, filter) && !is_uint8) return Arithmetic::kReal;
  if (dynamic && !w.is_8bit(0)) return is_uint8 ? Arithmetic::kReal : Arithmetic::kDynamic;
  const Tensor* bias = w.constant(2);
  const bool integer_bias = !w.has(2) || (bias && bias->dtype() == DType::kI32);
  return w.all_8bit(1) && w.out_type().dtype == filter.dtype() && integer_bias ? Arithmetic::kInteger
                                                                               : Arithmetic::kReal;
}

/// A scale for each of `channels` along `axis`.
QuantPtr by_channel(const QuantPtr& q, int64_t channels, int axis, double factor = 1) {
  auto out = std::make_shared<Quantization>();
  out->kind = Quantization::Kind::kPerAxis;
  out->axis = axis;
  for (int64_t c = 0; c < channels; ++c) out->scales.push_back(static_cast<float>(q->scale(c) * factor));
  return out;
}

QuantPtr one_scale(float scale) {
  auto out = std::make_shared<Quantization>();
  out->scales = {scale};
  return out;
}

/// 4-bit integers with the zero point 8.
Tensor unsigned_nibbles(const Tensor& t) {
  if (t.dtype() == DType::kU4) return t;
  Tensor out(DType::kU4, t.shape());
  for (int64_t i = 0; i < t.elements(); ++i) set_int(out, i, get_int(t, i) + 8);
  return out;
}

/// The weights with their dimensions in the order `perm`; `axis` counts output channels there.
Id weights(XnnNodeWriter& w, Arithmetic arithmetic, const std::vector<int64_t>& perm, int axis) {
  const Tensor t = *w.constant(1);
  Shape shape;
  for (const int64_t p : perm) shape.push_back(t.shape()[static_cast<int>(p)]);
  if (arithmetic == Arithmetic::kReal) return w.real_constant(1, perm, shape);
  if (bit_width(t.dtype()) == 4) {
    const QuantPtr q = w.quant(1);
    const bool blocks = q->kind == Quantization::Kind::kPerBlock;
    return w.g().add_constant(DType::kU4, shape, blocks ? q : by_channel(q, shape[0], 0),
                              [t] { return unsigned_nibbles(t); });
  }
  const QuantPtr quant = t.dtype() == DType::kU8 ? w.quant(1) : by_channel(w.quant(1), shape[axis], axis);
  return w.g().add_constant(t.dtype(), shape, quant, [t, perm] { return permuted_constant(t, perm); });
}

/// The bias as XNNPACK wants it; kXnnInvalidId: none. `ok` is false where it has no form.
Id bias_of(XnnNodeWriter& w, Arithmetic arithmetic, int64_t channels, bool& ok) {
  if (!w.has(2)) return kXnnInvalidId;
  const Tensor* t = w.constant(2);
  ok = t && t->elements() == channels && (t->rank() == 0 || t->dim(t->rank() - 1) == channels);
  if (!ok) return kXnnInvalidId;
  const Shape shape{channels};
  if (arithmetic != Arithmetic::kInteger) return w.real_constant(2, {}, shape);
  const double input = w.in_type(0).quant->scale();
  const QuantPtr quant = w.constant(1)->dtype() == DType::kU8
                             ? one_scale(static_cast<float>(input * w.quant(1)->scale()))
                             : by_channel(w.quant(1), channels, 0, input);
  const Tensor contents = *t;
  return w.g().add_constant(DType::kI32, shape, quant, [contents] { return contents; });
}

std::vector<int64_t> or_ones(const std::vector<int64_t>& list) {
  return list.empty() ? std::vector<int64_t>{1, 1} : list;
}

Shape last_shape(const Shape& s, Layout layout) {
  return layout == Layout::kChannelsLast ? s : Shape{s[0], s[2], s[3], s[1]};
}

/// Behind the node: its clamp is the node's own, other activations follow it.
bool finish(XnnNodeWriter& w, Type type, XnnGraphWriter::Table table, Id y, const Activation& act, Layout layout) {
  if (clamps(act) && act.kind != ActKind::kNone)
    w.g().node(type, std::move(table), activation_bounds(act));
  else
    w.g().node(type, std::move(table));
  const auto after = clamps(act) ? std::optional(y) : w.activated(y, act);
  return after && w.out_image(*after, layout);
}

/// Padding in front of and behind the rows and columns: top, left, bottom, right.
std::optional<std::vector<int64_t>> pads_of(const ConvAttrs& a, const Shape& x, const Shape& y, int64_t kh, int64_t kw,
                                            const std::vector<int64_t>& strides,
                                            const std::vector<int64_t>& dilations) {
  if (a.auto_pad == AutoPad::kExplicit && a.pads.size() == 4) return a.pads;
  std::vector<int64_t> pads(4, 0);
  if (a.auto_pad == AutoPad::kExplicit || a.auto_pad == AutoPad::kValid) return pads;
  const int64_t kernel[] = {kh, kw};
  for (size_t d = 0; d < 2; ++d) {
    const int at = static_cast<int>(d) + 1;
    const int64_t total = std::max<int64_t>(0, (y[at] - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1 - x[at]);
    pads[d] = a.auto_pad == AutoPad::kSameUpper ? total / 2 : total - total / 2;
    pads[d + 2] = total - pads[d];
  }
  return pads;
}

/// A convolution node of checked geometry.
struct Geometry {
  std::vector<int64_t> pads, strides, dilations, adjustment{0, 0};
  int64_t kh, kw, in, out, groups;
};

XnnGraphWriter::Table conv_table(const Geometry& g, Id x, Id filter, Id bias, Id y) {
  return [=](Builder& b) {
    const auto n = [](int64_t v) { return static_cast<uint32_t>(v); };
    return fb_xnnpack::Create_XNNNodeConv(b, n(g.pads[0]), n(g.pads[3]), n(g.pads[2]), n(g.pads[1]), n(g.kh), n(g.kw),
                                          n(g.strides[0]), n(g.strides[1]), n(g.dilations[0]), n(g.dilations[1]),
                                          n(g.in), n(g.out), n(g.groups), n(g.adjustment[0]), n(g.adjustment[1]), x,
                                          filter, bias, y, 0)
        .Union();
  };
}

bool negative(const std::vector<int64_t>& list) {
  return std::ranges::any_of(list, [](int64_t v) { return v < 0; });
}

}  // namespace

bool is_four_bit_matrix(const Tensor& t, const QuantPtr& q) {
  const bool is_unsigned = t.dtype() == DType::kU4;
  if (!q || t.rank() != 2 || (!is_unsigned && t.dtype() != DType::kI4) || t.dim(1) % 2 != 0) return false;
  const int32_t zero = is_unsigned ? 8 : 0;
  if (std::ranges::any_of(q->zero_points, [&](int32_t z) { return z != zero; }) ||
      (is_unsigned && q->zero_points.empty()))
    return false;
  if (q->kind == Quantization::Kind::kPerTensor) return true;
  if (q->kind == Quantization::Kind::kPerAxis) return q->axis == 0;
  // XNNPACK keeps the scales of blocks as bfloat16.
  constexpr int64_t kBlocks = 32;
  return q->kind == Quantization::Kind::kPerBlock && q->axis == 1 && q->block > 0 && q->block % kBlocks == 0 &&
         t.dim(1) % q->block == 0 &&
         std::ranges::all_of(q->scales, [](float s) { return (std::bit_cast<uint32_t>(s) & 0xffff) == 0; });
}

bool xnn_conv(XnnNodeWriter& w) {
  const auto& a = w.attrs<ConvAttrs>();
  const Tensor* filter = w.constant(1);
  if (!filter || filter->rank() != 4 || w.in_type(0).shape.rank() != 4 || w.inputs() > 3) return false;
  const Shape x = last_shape(w.in_type(0).shape, a.layout), y = last_shape(w.out_type().shape, a.layout);
  const bool depthwise = a.groups > 1 && a.groups == x[3];
  const bool dynamic = a.dynamic_quant && a.asymmetric_inputs;
  if (dynamic && depthwise) return false;
  const auto arithmetic = arithmetic_of(w, *filter, dynamic);
  if (!arithmetic) return false;
  const auto perm = filter_perm(a.filter, depthwise ? FilterLayout::kISO : FilterLayout::kOSI, 4);
  Geometry g{.strides = or_ones(a.strides), .dilations = or_ones(a.dilations), .groups = a.groups};
  g.kh = filter->dim(static_cast<int>(perm[1]));
  g.kw = filter->dim(static_cast<int>(perm[2]));
  g.in = x[3] / a.groups;
  g.out = y[3] / a.groups;
  const auto pads = pads_of(a, x, y, g.kh, g.kw, g.strides, g.dilations);
  if (!pads || negative(*pads)) return false;
  g.pads = *pads;
  const bool real = *arithmetic != Arithmetic::kInteger;
  bool ok = true;
  const Id bias = bias_of(w, *arithmetic, y[3], ok);
  if (!ok) return false;
  Id in = w.image(0, a.layout, real);
  if (*arithmetic == Arithmetic::kDynamic) in = w.g().convert(in, DType::kI8, per_slice_quant(3));
  const Id f = weights(w, *arithmetic, perm, depthwise ? 3 : 0);
  const Id out = w.result(y, real);
  return finish(w, depthwise ? Type::XNNDepthwiseConv2d : Type::XNNConv2d, conv_table(g, in, f, bias, out), out, a.act,
                a.layout);
}

bool xnn_conv_transpose(XnnNodeWriter& w) {
  const auto& a = w.attrs<ConvTransposeAttrs>();
  const Tensor* filter = w.constant(1);
  if (!filter || filter->rank() != 4 || w.in_type(0).shape.rank() != 4 || a.groups != 1) return false;
  const auto arithmetic = arithmetic_of(w, *filter, false);
  if (!arithmetic) return false;
  const Shape x = last_shape(w.in_type(0).shape, a.layout), y = last_shape(w.out_type().shape, a.layout);
  const auto perm = filter_perm(a.filter, FilterLayout::kOSI, 4);
  Geometry g{.strides = or_ones(a.strides), .dilations = or_ones(a.dilations), .groups = 1};
  g.kh = filter->dim(static_cast<int>(perm[1]));
  g.kw = filter->dim(static_cast<int>(perm[2]));
  g.in = x[3];
  g.out = y[3];
  g.pads.assign(4, 0);
  const int64_t kernel[] = {g.kh, g.kw};
  const bool given = a.auto_pad == AutoPad::kExplicit && a.output_shape.empty() && !w.has(3);
  for (size_t d = 0; d < 2; ++d) {
    const int at = static_cast<int>(d) + 1;
    const int64_t full = (x[at] - 1) * g.strides[d] + (kernel[d] - 1) * g.dilations[d] + 1;
    int64_t cut = full - y[at];
    if (given && a.pads.size() == 4) {
      g.pads[d] = a.pads[d];
    } else if (a.auto_pad != AutoPad::kValid) {
      const int64_t total = std::max<int64_t>(0, cut + (a.output_padding.empty() ? 0 : a.output_padding[d]));
      g.pads[d] = a.auto_pad == AutoPad::kSameUpper ? total / 2 : total - total / 2;
    }
    g.pads[d + 2] = std::max<int64_t>(0, cut - g.pads[d]);
    g.adjustment[d] = y[at] - (full - g.pads[d] - g.pads[d + 2]);
    if (g.adjustment[d] < 0 || g.adjustment[d] >= g.strides[d]) return false;
  }
  if (negative(g.pads)) return false;
  const bool real = *arithmetic == Arithmetic::kReal;
  bool ok = true;
  const Id bias = bias_of(w, *arithmetic, y[3], ok);
  if (!ok) return false;
  const Id in = w.image(0, a.layout, real), f = weights(w, *arithmetic, perm, 0), out = w.result(y, real);
  return finish(w, Type::XNNConvTranspose2d, conv_table(g, in, f, bias, out), out, a.act, a.layout);
}

namespace {

/// Products of two computed matrices, with equal batches.
bool batch_product(XnnNodeWriter& w, const MatMulAttrs& a) {
  const Shape &x = w.in_type(0).shape, &y = w.in_type(1).shape;
  const int rank = x.rank();
  if (w.has(2) || rank != y.rank() || rank < 3 || w.constant(0)) return false;
  for (int d = 0; d < rank - 2; ++d)
    if (x[d] != y[d]) return false;
  const Id l = w.in(0, true), r = w.in(1, true), out = w.result(w.out_type().shape, true);
  const uint32_t flags = a.transpose_b ? 1 : 0;
  return finish(
      w, Type::XNNBatchMatrixMultiply,
      [=](Builder& b) { return fb_xnnpack::Create_XNNNode2x1(b, l, r, out, flags).Union(); }, out, a.act,
      Layout::kChannelsLast);
}

}  // namespace

bool xnn_matmul(XnnNodeWriter& w) {
  const auto& a = w.attrs<MatMulAttrs>();
  if (a.transpose_a || a.conjugate_a || a.conjugate_b || a.trans_batch_a || a.trans_batch_b || a.row_block ||
      a.alpha != 1 || (w.has(2) && a.beta != 1) || w.inputs() > 3)
    return false;
  const Tensor* t = w.constant(1);
  if (!t) return batch_product(w, a);
  if (t->rank() != 2 || w.in_type(0).shape.rank() < 2) return false;
  const auto arithmetic = arithmetic_of(w, *t, a.dynamic_quant);
  if (!arithmetic) return false;
  const int64_t k = t->dim(a.transpose_b ? 1 : 0), n = t->dim(a.transpose_b ? 0 : 1);
  const bool real = *arithmetic != Arithmetic::kInteger;
  if (*arithmetic == Arithmetic::kDynamic && bit_width(t->dtype()) == 4 && !a.transpose_b) return false;
  bool ok = k > 0;
  const Id bias = bias_of(w, *arithmetic, n, ok);
  if (!ok) return false;
  Id x = w.in(0, real);
  Shape s = w.g().shape(x);
  if (a.flatten_a || s.back() != k) x = w.g().reshape(x, s = Shape{s.elements() / k, k});
  if (*arithmetic == Arithmetic::kDynamic) x = w.g().convert(x, DType::kI8, per_slice_quant(1));
  const Id filter = weights(w, *arithmetic, a.transpose_b ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{1, 0}, 0);
  s[s.rank() - 1] = n;
  const Id y = w.result(s, real);
  const auto table = [=](Builder& b) { return fb_xnnpack::CreateXNNFullyConnected(b, x, filter, bias, y, 0).Union(); };
  const bool whole = s == w.out_type().shape;
  if (whole) return finish(w, Type::XNNFullyConnected, table, y, a.act, Layout::kChannelsLast);
  if (!clamps(a.act)) return false;
  if (a.act.kind == ActKind::kNone)
    w.g().node(Type::XNNFullyConnected, table);
  else
    w.g().node(Type::XNNFullyConnected, table, activation_bounds(a.act));
  return w.out(w.g().reshape(y, w.out_type().shape));
}

}  // namespace smelt::executorch
