// Convolutions, products, pooling, normalization and resizing as ATen calls on contiguous tensors with channels first.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "formats/executorch/writer/call_writer.h"
#include "ops/attention/attention.h"
#include "ops/common/fixed_point.h"
#include "ops/common/requantizer.h"
#include "ops/conv/geometry.h"
#include "ops/matmul/matmul.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::executorch {
namespace {

std::vector<int64_t> filled(const std::vector<int64_t>& list, int n, int64_t value) {
  return list.empty() ? std::vector<int64_t>(static_cast<size_t>(n), value) : list;
}

/// Padding in front of and behind each spatial dimension.
struct Border {
  std::vector<int64_t> before, after;
  bool symmetric() const { return before == after; }
};

Border border_of(AutoPad mode, const std::vector<int64_t>& pads, const Shape& image, const std::vector<int64_t>& kernel,
                 const std::vector<int64_t>& strides, const std::vector<int64_t>& dilations) {
  const size_t n = kernel.size();
  Border b{std::vector<int64_t>(n, 0), std::vector<int64_t>(n, 0)};
  for (size_t d = 0; d < n; ++d) {
    if (mode == AutoPad::kExplicit && pads.size() == 2 * n) {
      b.before[d] = pads[d];
      b.after[d] = pads[d + n];
    } else if (mode == AutoPad::kSameUpper || mode == AutoPad::kSameLower) {
      const int64_t in = image[static_cast<int>(d) + 2], out = (in + strides[d] - 1) / strides[d];
      const int64_t total = std::max<int64_t>(0, (out - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1 - in);
      b.before[d] = mode == AutoPad::kSameUpper ? total / 2 : total - total / 2;
      b.after[d] = total - b.before[d];
    }
  }
  return b;
}

/// The image with a border of `value`; the border becomes zero.
int padded(CallWriter& w, int x, Border& b, double value) {
  std::vector<int64_t> list;
  Shape s = w.shape(x);
  for (size_t d = b.before.size(); d-- > 0;) {
    list.push_back(b.before[d]);
    list.push_back(b.after[d]);
    s[static_cast<int>(d) + 2] += b.before[d] + b.after[d];
  }
  const int widths = w.plan().integers(list), fill = w.plan().real(value);
  std::ranges::fill(b.before, 0);
  std::ranges::fill(b.after, 0);
  return w.plan().call("aten::constant_pad_nd", "out", {x, widths, fill}, w.dtype(x), s);
}

/// Binds output 0 behind the activation.
bool finish(CallWriter& w, int y, const Activation& act, Layout layout) {
  const auto after = w.activated(y, act);
  return after && w.out_image(0, *after, layout);
}

Tensor as_float64(const Tensor& integers) {
  Tensor t(DType::kF64, integers.shape());
  for (int64_t i = 0; i < t.elements(); ++i) set_double(t, i, static_cast<double>(get_int(integers, i)));
  return t;
}

/// The filter in another layout; constants are transposed here. `whole`: the integers of a constant, as float64.
int filter_of(CallWriter& w, const ConvAttrs& a, FilterLayout to, bool whole = false) {
  const auto perm = filter_perm(a.filter, to, w.rank(1));
  // A permuted constant would be dequantized and moved in each run: constants are turned now.
  const Tensor* t = w.constant(1);
  if (whole) return w.plan().constant(permuted_constant(as_float64(*t), perm));
  if (!t || std::ranges::is_sorted(perm)) return w.plan().permute(w.real(1), perm);
  Tensor real(t->quant() || w.in_type(1).quant ? DType::kF32 : t->dtype(), t->shape());
  if (real.dtype() != t->dtype()) {
    Tensor typed = *t;
    typed.set_quant(w.in_type(1).quant ? w.in_type(1).quant : t->quant());
    dequantize(typed, real.data<float>());
  } else {
    real = *t;
  }
  return w.plan().constant(permuted_constant(real, perm));
}

/// How TFLite's kernel rescales the sums of a convolution of int16 images, whose products with int8 weights and 64-bit
/// sums float64 holds exactly. nullopt: the node is no such convolution.
std::optional<Requantizer> int16_requantizer(const CallWriter& w, const ConvAttrs& a) {
  const ValueType &x = w.in_type(0), &y = w.out_type(0);
  const auto symmetric = [](const QuantPtr& q) {
    return q && std::ranges::all_of(q->zero_points, [](int32_t z) { return z == 0; });
  };
  const Tensor *filter = w.constant(1), *bias = w.constant(2);
  if (w.rank(0) > 4 || x.dtype != DType::kI16 || y.dtype != DType::kI16 || !filter || filter->dtype() != DType::kI8 ||
      (w.has(2) && !bias))
    return std::nullopt;
  Tensor in(x.dtype, Shape{0}), weights = *filter, out(y.dtype, Shape{0});
  in.set_quant(x.quant);
  if (w.in_type(1).quant) weights.set_quant(w.in_type(1).quant);
  out.set_quant(y.quant);
  if (!is_per_tensor(x.quant) || !symmetric(x.quant) || !symmetric(weights.quant()) || !symmetric(y.quant))
    return std::nullopt;
  const int64_t channels = y.shape[a.layout == Layout::kChannelsFirst ? 1 : w.rank(0) - 1];
  auto made = Requantizer::make(in, weights, bias, out, channels, a.rescale_rule());
  if (!made.ok() || !made->wide() || !made->fixed_point() || a.rounding != Rounding::kFixedDouble) return std::nullopt;
  return std::move(*made);
}

/// The factor that rescale_wide() multiplies by: 16 bits and at most 46 of shift to the right.
double wide_factor(FixedFactor f) { return std::ldexp(static_cast<double>(wide_product(int64_t{1} << 46, f)), -46); }

/// rescale_wide() of sums in float64, clamped, as int16. Exact for products of sums and 16-bit factors below 2^53.
int rescaled_int16(CallWriter& w, int sums, const Requantizer& r) {
  Shape shape = Shape::of_rank(w.shape(sums).rank(), 1);
  shape[1] = static_cast<int64_t>(r.fixed().size());
  Tensor factors(DType::kF64, shape);
  for (int64_t c = 0; c < shape[1]; ++c) set_double(factors, c, wide_factor(r.fixed()[static_cast<size_t>(c)]));
  const int steps = w.mul(sums, w.plan().constant(factors));
  const int whole = w.unary("floor", w.add(steps, w.number_like(steps, 0.5)));
  return w.cast(w.clamp(whole, static_cast<double>(r.low()), static_cast<double>(r.high())), DType::kI16);
}

/// A convolution of volumes as the sum of convolutions of frames, one for each depth of the filter.
int conv_by_frames(CallWriter& w, const ConvAttrs& a, int x, int filter, const std::vector<int64_t>& strides,
                   const std::vector<int64_t>& dilations) {
  PlanWriter& p = w.plan();
  const Shape result = image_shape(w, a.layout), weights = w.shape(filter);
  x = p.permute(x, {0, 2, 1, 3, 4});
  const Shape volume = w.shape(x);
  const int64_t depth = result[2], frames = volume[0] * depth;
  const int bias = w.bias(), stride = p.integers({strides[1], strides[2]}), pad = p.integers({0, 0});
  const int dilation = p.integers({dilations[1], dilations[2]}), transposed = p.boolean(false);
  const int groups = p.integer(a.groups);
  int sum = -1;
  for (int64_t k = 0; k < weights[2]; ++k) {
    const int64_t begin = k * dilations[0];
    int image = sliced(w, x, 1, begin, begin + (depth - 1) * strides[0] + 1, strides[0]);
    image = p.reshape(image, Shape{frames, volume[2], volume[3], volume[4]});
    const int part =
        p.reshape(sliced(w, filter, 2, k, k + 1, 1), Shape{weights[0], weights[1], weights[3], weights[4]});
    const int y = p.call("aten::convolution", "out",
                         {image, part, sum < 0 ? bias : p.null(), stride, pad, dilation, transposed, pad, groups},
                         w.dtype(x), Shape{frames, result[1], result[3], result[4]});
    sum = sum < 0 ? y : w.add(sum, y);
  }
  return p.permute(p.reshape(sum, Shape{result[0], depth, result[1], result[3], result[4]}), {0, 2, 1, 3, 4});
}

}  // namespace

bool call_conv(CallWriter& w) {
  const auto& a = w.attrs<ConvAttrs>();
  const int spatial = w.rank(0) - 2;
  if (spatial < 1 || spatial > 3 || !w.in_type(1).is_static()) return false;
  const auto int16 = int16_requantizer(w, a);
  int x = int16 ? w.cast(w.quantized_image(0, a.layout), DType::kF64) : w.image(0, a.layout);
  if (x < 0) return false;
  const int filter = filter_of(w, a, FilterLayout::kOIS, int16.has_value());
  const auto strides = filled(a.strides, spatial, 1), dilations = filled(a.dilations, spatial, 1);
  std::vector<int64_t> kernel;
  for (int d = 0; d < spatial; ++d) kernel.push_back(w.shape(filter)[d + 2]);
  Border b = border_of(a.auto_pad, a.pads, w.shape(x), kernel, strides, dilations);
  if (spatial == 3 || !b.symmetric() || std::ranges::any_of(b.before, [](int64_t p) { return p < 0; }))
    x = padded(w, x, b, 0);
  if (spatial == 3) return finish(w, conv_by_frames(w, a, x, filter, strides, dilations), a.act, a.layout);
  PlanWriter& p = w.plan();
  const int bias = int16 && w.has(2) ? p.constant(as_float64(*w.constant(2))) : w.bias();
  const int stride = p.integers(strides), pad = p.integers(b.before), dilation = p.integers(dilations);
  const int transposed = p.boolean(false), extra = p.integers(std::vector<int64_t>(static_cast<size_t>(spatial), 0));
  const int y = p.call("aten::convolution", "out",
                       {x, filter, bias, stride, pad, dilation, transposed, extra, p.integer(a.groups)}, w.dtype(x),
                       image_shape(w, a.layout));
  return int16 ? w.out_image(0, rescaled_int16(w, y, *int16), a.layout) : finish(w, y, a.act, a.layout);
}

std::optional<int> convolved(CallWriter& w, int x, int filter) {
  const auto& a = w.attrs<ConvAttrs>();
  if (a.layout != Layout::kChannelsFirst || a.filter != FilterLayout::kOIS || w.rank(0) != 4) return std::nullopt;
  const auto strides = filled(a.strides, 2, 1), dilations = filled(a.dilations, 2, 1);
  const std::vector<int64_t> kernel{w.shape(filter)[2], w.shape(filter)[3]};
  Border b = border_of(a.auto_pad, a.pads, w.shape(x), kernel, strides, dilations);
  if (!b.symmetric()) x = padded(w, x, b, 0);
  PlanWriter& p = w.plan();
  const int stride = p.integers(strides), pad = p.integers(b.before), dilation = p.integers(dilations);
  const int transposed = p.boolean(false), extra = p.integers({0, 0}), groups = p.integer(a.groups);
  return p.call("aten::convolution", "out", {x, filter, p.null(), stride, pad, dilation, transposed, extra, groups},
                w.dtype(x), w.out_type(0).shape);
}

namespace {

/// A transposed convolution of volumes without bias and padding, as transposed convolutions of frames, one for each
/// depth of the filter, whose results lie `stride` frames apart.
int transposed_by_frames(CallWriter& w, int x, int filter, const ConvTransposeAttrs& a,
                         const std::vector<int64_t>& strides, const std::vector<int64_t>& dilations) {
  PlanWriter& p = w.plan();
  x = p.permute(x, {0, 2, 1, 3, 4});
  const Shape volume = w.shape(x), weights = w.shape(filter);
  const int64_t depth = volume[1], taps = weights[2], channels = weights[1] * a.groups;
  const Shape frames{volume[0] * depth, volume[2], volume[3], volume[4]};
  Shape y{frames[0], channels};
  for (int d = 0; d < 2; ++d)
    y.push_back((frames[d + 2] - 1) * strides[static_cast<size_t>(d) + 1] +
                (weights[d + 3] - 1) * dilations[static_cast<size_t>(d) + 1] + 1);
  const int image = p.reshape(x, frames), stride = p.integers({strides[1], strides[2]}), pad = p.integers({0, 0});
  const int dilation = p.integers({dilations[1], dilations[2]}), transposed = p.boolean(true);
  const int groups = p.integer(a.groups);
  const int64_t plane = y.elements() / std::max<int64_t>(y[0], 1);
  int sum = -1;
  for (int64_t k = 0; k < taps; ++k) {
    const int tap = p.reshape(sliced(w, filter, 2, k, k + 1), Shape{weights[0], weights[1], weights[3], weights[4]});
    int part = p.call("aten::convolution", "out",
                      {image, tap, p.null(), stride, pad, dilation, transposed, pad, groups}, w.dtype(x), y);
    part = bordered(w, p.reshape(part, Shape{volume[0], depth, 1, plane}), 2, 0, strides[0] - 1, 0);
    part = sliced(w, p.reshape(part, Shape{volume[0], depth * strides[0], plane}), 1, 0, (depth - 1) * strides[0] + 1);
    part = bordered(w, part, 1, k * dilations[0], (taps - 1 - k) * dilations[0], 0);
    sum = sum < 0 ? part : w.add(sum, part);
  }
  return p.permute(p.reshape(sum, Shape{volume[0], w.shape(sum)[1], channels, y[2], y[3]}), {0, 2, 1, 3, 4});
}

}  // namespace

bool call_conv_transpose(CallWriter& w) {
  const auto& a = w.attrs<ConvTransposeAttrs>();
  const int spatial = w.rank(0) - 2;
  if (spatial < 1 || spatial > 3 || !w.in_type(1).is_static()) return false;
  if (spatial == 3 && w.in_type(1).shape[2] > kMostSteps) return false;
  const int x = w.image(0, a.layout);
  if (x < 0) return false;
  if (a.filter != FilterLayout::kIOS && a.groups != 1) return false;
  const int filter = filter_of(w, a, FilterLayout::kIOS);
  const auto strides = filled(a.strides, spatial, 1), dilations = filled(a.dilations, spatial, 1);
  const Shape result = image_shape(w, a.layout), image = w.shape(x);
  std::vector<int64_t> pads, extra;
  bool explicit_pads = a.auto_pad == AutoPad::kExplicit && a.output_shape.empty() && !w.has(3);
  Shape whole{result[0], result[1]};
  std::vector<int64_t> begin;
  for (int d = 0; d < spatial; ++d) {
    const auto i = static_cast<size_t>(d);
    const int64_t full = (image[d + 2] - 1) * strides[i] + (w.shape(filter)[d + 2] - 1) * dilations[i] + 1;
    int64_t front = a.pads.size() == 2 * static_cast<size_t>(spatial) ? a.pads[i] : 0;
    if (!explicit_pads && a.auto_pad != AutoPad::kValid) {
      const int64_t total = full + (a.output_padding.empty() ? 0 : a.output_padding[i]) - result[d + 2];
      front = std::max<int64_t>(0, a.auto_pad == AutoPad::kSameUpper ? total / 2 : total - total / 2);
    }
    begin.push_back(front);
    const int64_t over = std::max<int64_t>(0, front + result[d + 2] - full);
    if (over >= std::max(strides[i], dilations[i])) return false;
    extra.push_back(over);
    whole.push_back(full + over);
  }
  PlanWriter& p = w.plan();
  pads.assign(static_cast<size_t>(spatial), 0);
  const int bias = w.bias(), stride = p.integers(strides), pad = p.integers(pads), dilation = p.integers(dilations);
  const int transposed = p.boolean(true), more = p.integers(extra);
  int y = -1;
  if (spatial == 3) {
    y = transposed_by_frames(w, x, filter, a, strides, dilations);
    for (int d = 0; d < spatial; ++d) y = bordered(w, y, d + 2, 0, extra[static_cast<size_t>(d)], 0);
    if (w.has(2)) y = w.add(y, p.reshape(bias, Shape{1, result[1], 1, 1, 1}));
  } else {
    y = p.call("aten::convolution", "out",
               {x, filter, bias, stride, pad, dilation, transposed, more, p.integer(a.groups)}, w.dtype(x), whole);
  }
  for (int d = 0; d < spatial; ++d) {
    const int64_t b = begin[static_cast<size_t>(d)];
    y = sliced(w, y, d + 2, b, b + result[d + 2]);
  }
  return finish(w, y, a.act, a.layout);
}

std::optional<int> product(CallWriter& w, int a, int b) {
  PlanWriter& p = w.plan();
  const Shape x = w.shape(a), y = w.shape(b);
  const int rx = x.rank(), ry = y.rank();
  const int64_t m = x[rx - 2], k = x[rx - 1], n = y[ry - 1];
  if (ry == 2) {
    const int64_t rows = x.elements() / std::max<int64_t>(k, 1);
    if (k == 0) return std::nullopt;
    const int flat = p.reshape(a, Shape{rows, k});
    Shape s = x;
    s[rx - 1] = n;
    return p.reshape(p.call("aten::mm", "out", {flat, b}, w.dtype(a), Shape{rows, n}), s);
  }
  Shape batch_x, batch_y;
  for (int d = 0; d < rx - 2; ++d) batch_x.push_back(x[d]);
  for (int d = 0; d < ry - 2; ++d) batch_y.push_back(y[d]);
  const Shape batch = broadcast_shape(batch_x, batch_y);
  const auto spread = [&](int v, int64_t r, int64_t c) {
    Shape s = batch;
    s.push_back(r);
    s.push_back(c);
    if (!(w.shape(v) == s)) {
      const int size = p.integers({s.begin(), s.end()}), implicit = p.boolean(false);
      v = p.call("aten::expand_copy", "out", {v, size, implicit}, w.dtype(v), s);
    }
    return p.reshape(v, Shape{batch.elements(), r, c});
  };
  const int left = spread(a, m, k), right = spread(b, k, n);
  Shape s = batch;
  s.push_back(m);
  s.push_back(n);
  return p.reshape(p.call("aten::bmm", "out", {left, right}, w.dtype(a), Shape{batch.elements(), m, n}), s);
}

namespace {

int turned(CallWriter& w, int x) {
  std::vector<int64_t> perm(static_cast<size_t>(w.shape(x).rank()));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return w.plan().permute(x, perm);
}

}  // namespace

bool call_matmul(CallWriter& w) {
  const auto& a = w.attrs<MatMulAttrs>();
  if (w.has(3) || a.conjugate_a || a.conjugate_b || a.trans_batch_a || a.trans_batch_b || a.row_block) return false;
  const auto per_token = [&](int i) {
    return w.in_type(i).quant && w.in_type(i).quant->kind == Quantization::Kind::kPerToken;
  };
  if (per_token(0) || per_token(1)) return false;
  PlanWriter& p = w.plan();
  int x = w.real(0), y = w.real(1);
  if (!is_float(w.dtype(x)) && (a.transpose_b || a.act.kind != ActKind::kNone)) return false;
  y = w.cast(y, w.dtype(x));
  const Shape result = w.out_type(0).shape;
  if (w.shape(x).rank() == 1) x = p.reshape(x, Shape{1, w.shape(x)[0]});
  if (w.shape(y).rank() == 1) y = p.reshape(y, Shape{w.shape(y)[0], 1});
  if (a.flatten_a) {
    const int64_t k = w.shape(y)[a.transpose_b ? 1 : 0];
    x = p.reshape(x, Shape{w.shape(x).elements() / std::max<int64_t>(k, 1), k});
  }
  if (a.transpose_a && w.rank(0) > 1) x = turned(w, x);
  std::optional<int> z;
  const bool linear = a.transpose_b && w.rank(1) == 2 && a.alpha == 1;
  const bool bias = linear && w.has(2) && a.beta == 1 && w.rank(2) == 1 && w.in_type(2).shape[0] == w.shape(y)[0];
  if (linear) {
    Shape s = w.shape(x);
    s[s.rank() - 1] = w.shape(y)[0];
    const int b = bias ? w.cast(w.bias(), w.dtype(x)) : p.null();
    z = p.call("aten::linear", "out", {x, y, b}, w.dtype(x), s);
  } else {
    if (a.transpose_b && w.rank(1) > 1) y = turned(w, y);
    z = product(w, x, y);
  }
  if (!z) return false;
  z = p.reshape(*z, result);
  if (a.alpha != 1) z = w.mul(*z, w.number_like(*z, a.alpha));
  if (w.has(2) && !bias) {
    int c = w.cast(w.bias(), w.dtype(*z));
    if (a.beta != 1) c = w.mul(c, w.number_like(c, a.beta));
    z = w.add(*z, c);
  }
  const auto after = w.activated(*z, a.act);
  return after && w.out(0, *after);
}

/// softmax(scale * q @ k^T + mask) @ v without a cache.
bool call_attention(CallWriter& w) {
  const auto& a = w.attrs<AttentionAttrs>();
  for (int i = 4; i < w.inputs(); ++i)
    if (w.has(i)) return false;
  for (int i = 1; i < w.outputs(); ++i)
    if (w.wants(i)) return false;
  const Shape &q = w.in_type(0).shape, &k = w.in_type(1).shape;
  if (a.window >= 0 || a.window_right >= 0 || a.smooth_softmax) return false;
  const int64_t heads = a.num_heads ? a.num_heads : q.rank() == 4 ? q[1] : 0;
  const int64_t kv_heads = a.kv_heads ? a.kv_heads : k.rank() == 4 ? k[1] : heads;
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0) return false;
  PlanWriter& p = w.plan();
  const auto split = [&](int i, int64_t n) {
    const int x = w.real(i);
    const Shape s = w.shape(x);
    if (s.rank() == 4) return x;
    return p.permute(p.reshape(x, Shape{s[0], s[1], n, s[2] / n}), {0, 2, 1, 3});
  };
  // Groups of queries share a head of keys and values.
  const auto shared = [&](int i) {
    const int x = split(i, kv_heads);
    if (heads == kv_heads) return x;
    const Shape s = w.shape(x);
    const int group = p.reshape(x, Shape{s[0], kv_heads, 1, s[2], s[3]});
    return p.reshape(expanded(w, group, Shape{s[0], kv_heads, heads / kv_heads, s[2], s[3]}),
                     Shape{s[0], heads, s[2], s[3]});
  };
  const int query = split(0, heads), key = shared(1), value = shared(2);
  const Shape qs = w.shape(query);
  const int64_t rows = qs[2], keys = w.shape(key)[2];
  const double scale = a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(qs[3]));
  const int scaled = w.mul(query, w.number_like(query, scale));
  auto scores = product(w, scaled, turned(w, key));
  if (!scores) return false;
  int s = *scores;
  if (a.softcap != 0)
    s = w.mul({w.unary("tanh", w.mul(s, w.number_like(s, 1 / a.softcap))), w.number_like(s, a.softcap)});
  if (w.has(3)) {
    int mask = w.in(3);
    if (w.dtype(mask) == DType::kBool) mask = w.select({mask, w.number_like(s, 0), w.number_like(s, -1e30)});
    s = w.add(s, mask);
  }
  if (a.causal) {
    const int64_t from = a.causal_from_end ? std::max<int64_t>(keys - rows, 0) : 0;
    Tensor mask(w.dtype(s), Shape{rows, keys});
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < keys; ++j) set_double(mask, i * keys + j, j <= i + from ? 0 : -1e30);
    s = w.add(s, p.constant(mask));
  }
  const int dim = p.integer(3), half = p.boolean(false);
  const auto y = product(w, w.call("aten::_softmax", {s, dim, half}), value);
  if (!y) return false;
  if (w.out_type(0).shape.rank() == 4) return w.out(0, *y);
  return w.out(0, p.reshape(p.permute(*y, {0, 2, 1, 3}), w.out_type(0).shape));
}

}  // namespace smelt::executorch
