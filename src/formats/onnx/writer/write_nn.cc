// Convolutions and pooling.
#include <algorithm>

#include "formats/onnx/writer/op_writers.h"
#include "ops/conv/conv.h"
#include "ops/conv/geometry.h"
#include "ops/pool/geometry.h"
#include "ops/pool/pool.h"
#include "tensor/quant_params.h"

namespace smelt::onnx {

Name in_permuted(NodeWriter& n, int i, const std::vector<int64_t>& perm) {
  if (std::ranges::is_sorted(perm)) return n.in(i);
  const Tensor* t = n.constant(i);
  const QuantPtr& quant = n.type(i).quant;
  if (!t || (quant && quant->kind == Quantization::Kind::kPerBlock) || n.model().dry())
    return n.transpose(n.in(i), perm);
  Graph holder;  // a constant of its own, written as all constants are
  Value v = n.scope().graph.value(n.id(i));
  Tensor moved = permuted(*t, perm);
  if (quant && quant->kind != Quantization::Kind::kPerTensor) {
    auto q = std::make_shared<Quantization>(*quant);
    q->axis = static_cast<int>(std::ranges::find(perm, q->axis) - perm.begin());
    v.type.quant = std::move(q);
  }
  v.type.shape = moved.shape();
  v.constant = std::make_shared<const Tensor>(std::move(moved));
  holder.values.push_back(std::move(v));
  GraphScope scope(n.model(), holder, n.scope().nodes);
  NodeWriter m(scope, n.node());
  const Name name = m.form(0, true, Order::kAsIs);
  if (!m.ok()) n.fail(m.failure());
  return name;
}

Name bias_in(NodeWriter& n, int i) {
  if (!n.has(i)) return kNoName;
  const QuantPtr &x = n.type(0).quant, &w = n.type(1).quant;
  const bool integer = is_integer(n.dtype(i));
  if (!integer) return n.in(i);
  if (!x || !w || !is_per_tensor(x)) {
    if (!n.quantized(i)) n.fail("an integer bias of real values");
    return n.in(i);
  }
  Graph holder;
  Value v = n.scope().graph.value(n.id(i));
  Quantization q;
  q.kind = w->scales.size() == 1 ? Quantization::Kind::kPerTensor : Quantization::Kind::kPerAxis;
  for (const float s : w->scales) q.scales.push_back(x->scale() * s);
  v.type.quant = std::make_shared<const Quantization>(std::move(q));
  holder.values.push_back(v);
  GraphScope scope(n.model(), holder, n.scope().nodes);
  if (!v.constant) scope.forms[0].raw.as_is = n.raw(i);
  NodeWriter m(scope, n.node());
  const Name name = m.form(0, true, Order::kAsIs);
  if (!m.ok()) n.fail(m.failure());
  return name;
}

namespace {

Order order_of(Layout layout) { return layout == Layout::kChannelsLast ? Order::kChannelsFirst : Order::kAsIs; }

std::vector<int64_t> pads_of(const Window& w) {
  std::vector<int64_t> pads;
  for (int k = 0; k < w.rank; ++k) pads.push_back(w.dims[static_cast<size_t>(k)].pad_begin);
  for (int k = 0; k < w.rank; ++k) pads.push_back(w.dims[static_cast<size_t>(k)].pad_end);
  return pads;
}

bool has_sizes(const Window& w) {
  for (int k = 0; k < w.rank; ++k)
    if (w.dims[static_cast<size_t>(k)].in < 0) return false;
  return true;
}

/// Strides, dilations and pads; `window` has resolved pads if the sizes of the image are known.
void window_attributes(const Window& window, AutoPad auto_pad, std::vector<Attribute>& out, bool dilated = true) {
  std::vector<int64_t> strides, dilations;
  for (int k = 0; k < window.rank; ++k) {
    strides.push_back(window.dims[static_cast<size_t>(k)].stride);
    dilations.push_back(window.dims[static_cast<size_t>(k)].dilation);
  }
  out.emplace_back("strides", strides);
  if (dilated && std::ranges::any_of(dilations, [](int64_t d) { return d != 1; }))
    out.emplace_back("dilations", dilations);
  const bool same = auto_pad == AutoPad::kSameUpper || auto_pad == AutoPad::kSameLower;
  if (same && !has_sizes(window))
    out.emplace_back("auto_pad", auto_pad == AutoPad::kSameUpper ? "SAME_UPPER" : "SAME_LOWER");
  else
    out.emplace_back("pads", pads_of(window));
}

/// Dimensions of input 0, -1 where unknown. Fails if the rank is not known.
Shape image_shape(NodeWriter& n) {
  n.rank(0);
  return n.type(0).shape;
}

std::vector<int64_t> batch_axes(NodeWriter& n) {
  std::vector<int64_t> axes;
  for (int k = 1; k < n.rank(0); ++k) axes.push_back(k);
  return axes;
}

void write_conv(NodeWriter& n) {
  const auto& a = n.attrs<ConvAttrs>();
  const Shape x_shape = image_shape(n);
  const int rank = n.rank(1);
  if (!n.ok()) return;
  const auto g = conv_geometry(a, x_shape, n.type(1).shape);
  if (!g.ok()) return n.fail(g.error().message());
  const Order order = order_of(a.layout);
  Name x = n.in(0, order);
  if (a.dynamic_quant) x = dynamically_rounded(n, x, batch_axes(n), a.asymmetric_inputs);
  const DType real = n.real_dtype(0);
  const auto fit = [&](Name v, int i) {
    return n.has(i) && n.real_dtype(i) != real && !is_integer(n.dtype(i)) ? n.cast(v, real) : v;
  };
  const Name w = fit(in_permuted(n, 1, filter_perm(a.filter, FilterLayout::kOIS, rank)), 1);
  std::vector<Attribute> attributes;
  window_attributes(g->window, a.auto_pad, attributes);
  if (g->groups != 1) attributes.emplace_back("group", g->groups);
  n.bind(0, n.op("Conv", {x, w, fit(bias_in(n, 2), 2)}, attributes), a.act, order);
}

/// The filter [I, O / groups, spatial...] of a transposed convolution.
Name transposed_filter(NodeWriter& n, const ConvTransposeAttrs& a, int64_t groups) {
  const int rank = n.rank(1);
  if (groups == 1 || a.filter == FilterLayout::kIOS)
    return in_permuted(n, 1, filter_perm(a.filter, FilterLayout::kIOS, rank));
  // The output channels of all groups come first: O, I / groups, spatial.
  const Shape w = n.type(1).shape;
  const auto perm = filter_perm(a.filter, FilterLayout::kOIS, rank);
  std::vector<int64_t> split{groups, w[static_cast<int>(perm[0])] / groups}, joined{-1, split[1]}, swapped{0, 2, 1};
  for (size_t k = 1; k < perm.size(); ++k) {
    split.push_back(w[static_cast<int>(perm[k])]);
    if (k == 1) continue;
    joined.push_back(split.back());
    swapped.push_back(static_cast<int64_t>(k) + 1);
  }
  if (std::ranges::any_of(split, [](int64_t d) { return d < 0; })) n.fail("the filter's shape must be known");
  return n.reshape(n.transpose(n.reshape(in_permuted(n, 1, perm), split), swapped), joined);
}

/// The shape [-1, ...] of `rank` that input i holds as a batch, computed, joined with constants; empty if it is
/// another.
std::vector<int64_t> behind_a_batch(NodeWriter& n, int i, int rank) {
  const Graph& graph = n.scope().graph;
  const auto joined = std::ranges::find_if(
      graph.nodes, [&](const Node& node) { return node.op == Op::kConcat && node.outputs[0] == n.id(i); });
  if (joined == graph.nodes.end()) return {};
  const NodeWriter parts(n.scope(), *joined);
  std::vector<int64_t> shape{-1};
  for (int k = 1; k < parts.inputs(); ++k) {
    const auto values = parts.ints(k);
    if (!values) return {};
    shape.insert(shape.end(), values->begin(), values->end());
  }
  return static_cast<int>(shape.size()) == rank ? shape : std::vector<int64_t>{};
}

void write_conv_transpose(NodeWriter& n) {
  const auto& a = n.attrs<ConvTransposeAttrs>();
  const Shape x_shape = image_shape(n);
  n.rank(1);
  if (!n.ok()) return;
  std::vector<int64_t> wanted = a.output_shape;
  if (n.has(3)) {
    // A shape that is computed for its batch alone: the value's own type knows the others.
    const ValueType& y = n.out_type(0);
    const bool known = y.ranked && y.shape.rank() == x_shape.rank() &&
                       std::ranges::count_if(y.shape.dims(), [](int64_t d) { return d < 0; }) == (y.shape[0] < 0);
    std::vector<int64_t> full(y.shape.begin(), y.shape.end());
    if (!known) full = behind_a_batch(n, 3, x_shape.rank());
    if (full.empty()) full = n.need_ints(3, "the output's shape");
    if (!n.ok()) return;
    auto part = spatial_part(full, a.layout, x_shape.rank());
    if (!part.ok()) return n.fail(part.error().message());
    wanted = *part;
  }
  const auto g = conv_transpose_geometry(a, x_shape, n.type(1).shape, wanted);
  if (!g.ok()) return n.fail(g.error().message());
  std::vector<Attribute> attributes;
  std::vector<int64_t> extra;
  if (has_sizes(g->window)) {
    Window w = g->window;
    for (int k = 0; k < w.rank; ++k) {
      WindowDim& d = w.dims[static_cast<size_t>(k)];
      int64_t rest = d.out - ((d.in - 1) * d.stride + d.extent() - d.pad_begin - d.pad_end);
      // ONNX takes less than a stride of extra output; more, or less than none, is another padding at the end.
      if (rest < 0 || rest >= std::max(d.stride, d.dilation)) {
        d.pad_end -= rest;
        rest = 0;
      }
      extra.push_back(rest);
    }
    window_attributes(w, AutoPad::kExplicit, attributes);
    if (std::ranges::any_of(w.dims, [](const WindowDim& d) { return d.pad_end < 0; }))
      return n.fail("the output is larger than the windows reach");
  } else {
    if (!wanted.empty()) attributes.emplace_back("output_shape", wanted);
    extra = a.output_padding;
    window_attributes(g->window, a.auto_pad, attributes);
  }
  if (std::ranges::any_of(extra, [](int64_t e) { return e != 0; })) attributes.emplace_back("output_padding", extra);
  if (g->groups != 1) attributes.emplace_back("group", g->groups);
  const Order order = order_of(a.layout);
  Name x = n.in(0, order);
  if (a.dynamic_quant) x = dynamically_rounded(n, x, batch_axes(n), a.asymmetric_inputs);
  const Name y = n.op("ConvTranspose", {x, transposed_filter(n, a, g->groups), bias_in(n, 2)}, attributes);
  n.bind(0, y, a.act, order);
}

void write_conv_integer(NodeWriter& n) {
  const auto& a = n.attrs<ConvAttrs>();
  const Shape x_shape = image_shape(n);
  n.rank(1);
  if (!n.ok()) return;
  const auto g = conv_geometry(a, x_shape, n.type(1).shape);
  if (!g.ok()) return n.fail(g.error().message());
  if (a.layout != Layout::kChannelsFirst || a.filter != FilterLayout::kOIS) return n.fail("channels-last integers");
  std::vector<Attribute> attributes;
  window_attributes(g->window, a.auto_pad, attributes);
  if (g->groups != 1) attributes.emplace_back("group", g->groups);
  n.bind_raw(0, n.op("ConvInteger", {n.raw(0), n.raw(1), n.raw(2), n.raw(3)}, attributes));
}

void write_deform_conv(NodeWriter& n) {
  const auto& a = n.attrs<DeformConvAttrs>();
  std::vector<Attribute> attributes{{"strides", a.strides},
                                    {"dilations", a.dilations},
                                    {"pads", a.pads},
                                    {"group", a.groups},
                                    {"offset_group", a.offset_groups}};
  n.bind(0, n.op("DeformConv", n.all_in(), attributes));
}

void write_col2im(NodeWriter& n) {
  const auto& a = n.attrs<Im2ColAttrs>();
  std::vector<Attribute> attributes;
  if (!a.strides.empty()) attributes.emplace_back("strides", a.strides);
  if (!a.dilations.empty()) attributes.emplace_back("dilations", a.dilations);
  if (!a.pads.empty()) attributes.emplace_back("pads", a.pads);
  n.bind(0, n.op("Col2Im", {n.in(0), n.in_i64(1), n.in_i64(2)}, attributes));
}

const char* pool_op(PoolKind kind, bool global) {
  switch (kind) {
    case PoolKind::kMax:
      return global ? "GlobalMaxPool" : "MaxPool";
    case PoolKind::kAverage:
      return global ? "GlobalAveragePool" : "AveragePool";
    default:
      return global ? "GlobalLpPool" : "LpPool";
  }
}

/// The plane's index of ONNX's index into the flattened tensor.
Name plane_index(NodeWriter& n, Name index, const PoolAttrs& a) {
  int64_t plane = 1;
  const Shape& x = n.type(0).shape;
  for (int k = x.rank() - static_cast<int>(a.kernel.size()); k < x.rank(); ++k) plane *= x[k];
  if (plane <= 0) n.fail("the size of the image must be known");
  return n.op("Mod", {index, n.scalar(DType::kI64, static_cast<double>(plane))});
}

void write_pool(NodeWriter& n) {
  const auto& a = n.attrs<PoolAttrs>();
  const Shape x_shape = image_shape(n);
  if (!n.ok()) return;
  const auto g = pool_geometry(a, x_shape);
  if (!g.ok()) return n.fail(g.error().message());
  const bool single = !g->batched;  // an image without a batch dimension
  const Order order = order_of(a.layout);
  Name x = n.in(0, order);
  if (single) x = n.unsqueeze(x, {0});
  const bool squares = a.kind == PoolKind::kLp && a.mean_square;
  if (squares) x = n.op("Mul", {x, x});
  const PoolKind kind = squares ? PoolKind::kAverage : a.kind;
  std::vector<Attribute> attributes;
  if (!a.global) {
    attributes.emplace_back("kernel_shape", a.kernel);
    window_attributes(g->window, a.auto_pad, attributes);
    if (a.ceil_mode) attributes.emplace_back("ceil_mode", true);
    if (kind == PoolKind::kAverage && (a.count_include_pad || a.divisor_override > 0))
      attributes.emplace_back("count_include_pad", true);
  }
  if (kind == PoolKind::kLp) attributes.emplace_back("p", static_cast<int64_t>(a.p));
  const bool dilated = std::ranges::any_of(g->window.dims, [](const auto& d) { return d.dilation != 1; });
  const int since = kind == PoolKind::kAverage && dilated               ? 19
                    : kind == PoolKind::kLp && (dilated || a.ceil_mode) ? 18
                                                                        : 0;
  if (!n.model().need_opset(since)) return n.fail("this window needs opset ", since);
  if (n.wants(1)) {
    using Index = PoolAttrs::Index;
    if (a.layout != Layout::kChannelsFirst || a.index == Index::kWindowColumn) return n.fail("indices of this kind");
    if (a.index == Index::kTensorColumn) attributes.emplace_back("storage_order", true);
    const auto out = n.ops("MaxPool", {x}, 2, attributes);
    Name index = a.index == Index::kPlane ? plane_index(n, out[1], a) : out[1];
    if (single) index = n.squeeze(index, {0});
    n.bind(0, single ? n.squeeze(out[0], {0}) : out[0], a.act, order);
    return n.bind_raw(1, a.index_dtype == DType::kI64 ? index : n.cast(index, a.index_dtype));
  }
  Name y = n.op(pool_op(kind, a.global), {x}, attributes);
  if (squares) y = n.op("Sqrt", {y});
  if (a.divisor_override > 0) {
    const auto taps = static_cast<double>(g->window.taps());
    y = n.op("Mul", {y, n.scalar(n.real_dtype(0), taps / static_cast<double>(a.divisor_override))});
  }
  n.bind(0, single ? n.squeeze(y, {0}) : y, a.act, order);
}

/// Pooling to a size that divides the image's: a window of the quotient. Other sizes: one window a position.
void write_adaptive_pool(NodeWriter& n) {
  const auto& a = n.attrs<AdaptivePoolAttrs>();
  const Shape x = image_shape(n);
  if (!n.ok()) return;
  if (n.wants(1)) return n.fail("indices of adaptive pooling");
  const auto spatial = static_cast<int>(a.output.size());
  const bool last = a.layout == Layout::kChannelsLast;
  const int first = last ? x.rank() - spatial - 1 : x.rank() - spatial;
  const bool max = a.kind == PoolKind::kMax;
  std::vector<int64_t> window;
  bool divides = true;
  for (int k = 0; k < spatial; ++k) {
    const int64_t in = x[first + k], out = a.output[static_cast<size_t>(k)];
    if (in < 0 && out != 1) return n.fail("the size of the image must be known");
    divides = divides && (out == 1 || (out > 0 && in % out == 0));
    window.push_back(out > 0 ? in / out : 1);
  }
  if (std::ranges::all_of(a.output, [](int64_t o) { return o == 1; })) {
    std::vector<int64_t> axes;
    for (int k = 0; k < spatial; ++k) axes.push_back(first + k);
    return n.bind(0, n.reduce(max ? "ReduceMax" : "ReduceMean", n.in(0), axes, true));
  }
  const Order order = order_of(a.layout);
  const bool single = x.rank() == spatial + 1;
  if (divides) {
    Name v = n.in(0, order);
    if (single) v = n.unsqueeze(v, {0});
    v = n.op(max ? "MaxPool" : "AveragePool", {v}, {{"kernel_shape", window}, {"strides", window}});
    return n.bind(0, single ? n.squeeze(v, {0}) : v, order);
  }
  // Dimension by dimension: the mean of means of equally many elements is the mean.
  Name v = n.in(0);
  for (int k = 0; k < spatial; ++k) {
    const int64_t in = x[first + k], out = a.output[static_cast<size_t>(k)], axis = first + k;
    std::vector<Name> parts;
    for (int64_t o = 0; o < out; ++o) {
      const Name part = n.slice(v, o * in / out, ((o + 1) * in + out - 1) / out, axis);
      parts.push_back(n.reduce(max ? "ReduceMax" : "ReduceMean", part, {axis}, true));
    }
    v = n.op("Concat", parts, {{"axis", axis}});
  }
  n.bind(0, v);
}

void write_max_unpool(NodeWriter& n) {
  const auto& a = n.attrs<MaxUnpoolAttrs>();
  if (a.in_window) return n.fail("indices within windows");
  std::vector<Attribute> attributes{{"kernel_shape", a.kernel}, {"strides", a.strides}, {"pads", a.pads}};
  n.bind(0, n.op("MaxUnpool", n.all_in(), attributes));
}

void write_roi_pool(NodeWriter& n) {
  const auto& a = n.attrs<RoiAttrs>();
  if (a.crop_and_resize) return n.fail("crops of boxes");
  if (a.legacy) {
    if (!a.max || n.has(2)) return n.fail("this form of regions");
    return n.bind(0, n.op("MaxRoiPool", {n.in(0), n.in(1)},
                          {{"pooled_shape", std::vector<int64_t>{a.height, a.width}}, {"spatial_scale", a.scale}}));
  }
  if (n.has(3) || !n.model().need_opset(16)) return n.fail("this form of regions");
  std::vector<Attribute> attributes{
      {"mode", a.max ? "max" : "avg"},
      {"output_height", a.height},
      {"output_width", a.width},
      {"sampling_ratio", a.sampling_ratio},
      {"spatial_scale", a.scale},
      {"coordinate_transformation_mode", a.half_pixel ? "half_pixel" : "output_half_pixel"}};
  n.bind(0, n.op("RoiAlign", {n.in(0), n.in(1), n.in_i64(2)}, attributes));
}

constexpr OpWriter kNn[] = {
    {Op::kConv, write_conv, "Conv"},
    {Op::kConvTranspose, write_conv_transpose, "ConvTranspose"},
    {Op::kConvInteger, write_conv_integer, "ConvInteger"},
    {Op::kDeformConv, write_deform_conv, "DeformConv"},
    {Op::kCol2Im, write_col2im, "Col2Im"},
    {Op::kPool, write_pool, "MaxPool, AveragePool, LpPool, Global..."},
    {Op::kAdaptivePool, write_adaptive_pool, "ReduceMean, ReduceMax, AveragePool, MaxPool"},
    {Op::kMaxUnpool, write_max_unpool, "MaxUnpool"},
    {Op::kRoiPool, write_roi_pool, "RoiAlign, MaxRoiPool"},
};

}  // namespace

std::span<const OpWriter> nn_writers() { return kNn; }

}  // namespace smelt::onnx
