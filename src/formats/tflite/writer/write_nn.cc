// Matrix products, normalization, softmax and attention.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "formats/tflite/writer/op_writer.h"
#include "ops/matmul/matmul.h"
#include "ops/normalization/normalization.h"
#include "ops/shape/channels_perm.h"
#include "ops/softmax/softmax.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

OperatorOptions batch_matmul_options(bool adj_x, bool adj_y, bool asymmetric) {
  return options_of<tfl::BatchMatMulOptions>(
      [=](auto& b) { return tfl::CreateBatchMatMulOptions(b, adj_x, adj_y, asymmetric); });
}

/// True if FULLY_CONNECTED multiplies these quantized values.
bool integer_product(OpWriter& w, const FileTensor& a, const FileTensor& b) {
  if (!a.quant || !b.quant || !is_per_tensor(a.quant) || !w.out_type(0).quant) return false;
  if (a.dtype == DType::kU8) return b.dtype == DType::kU8 && is_per_tensor(b.quant);
  if ((a.dtype != DType::kI8 && a.dtype != DType::kI16) || (b.dtype != DType::kI8 && b.dtype != DType::kI4))
    return false;
  return std::ranges::all_of(b.quant->zero_points, [](int32_t z) { return z == 0; });
}

/// Operands of a product whose kernel rounds the rows of x to steps of their own, as the graph does before it.
struct DynamicOperands {
  int x = -1, weights = -1;
};

/// Nothing unless int8 or int4 weights [out, in] without zero points multiply rows that a Quantize rounds by
/// themselves.
std::optional<DynamicOperands> dynamic_operands(OpWriter& w, const MatMulAttrs& a) {
  SubgraphWriter& s = w.subgraph();
  const ValueType& rows = w.in_type(0);
  const Node* quantize = s.producer(w.id(0));
  if (!is_per_token(rows) || rows.quant->axis != 1 || rows.quant->symmetric || rows.dtype != DType::kI8 || !quantize ||
      quantize->op != Op::kQuantize || s.type(quantize->inputs[0]).quant)
    return std::nullopt;
  const Tensor* t = w.constant(1);
  const QuantPtr& quant = w.in_type(1).quant;
  if (!t || !quant || !a.transpose_b || a.alpha != 1 || w.out_type(0).quant) return std::nullopt;
  if (w.has(2) && !is_float(w.in_type(2).dtype)) return std::nullopt;
  const int axis = quant->kind == Quantization::Kind::kPerBlock ? 1 : 0;
  if (quant->kind != Quantization::Kind::kPerTensor && quant->axis != axis) return std::nullopt;
  const int32_t zero = t->dtype() == DType::kU4 ? 8 : 0;
  const bool narrow = t->dtype() == DType::kU4 || t->dtype() == DType::kI4;
  const bool shifted = !std::ranges::all_of(quant->zero_points, [&](int32_t z) { return z == zero; });
  if (shifted || (zero != 0 && quant->zero_points.empty()) || (!narrow && t->dtype() != DType::kI8))
    return std::nullopt;
  auto symmetric = std::make_shared<Quantization>(*quant);
  symmetric->zero_points.clear();
  Tensor weights(narrow ? DType::kI4 : DType::kI8, t->shape());
  for (int64_t i = 0; i < t->elements(); ++i) set_int(weights, i, get_int(*t, i) - zero);
  weights.set_quant(std::move(symmetric));
  return DynamicOperands{s.tensor(quantize->inputs[0]), s.constant(std::move(weights))};
}

/// Weights [in, out] or [out, in] that are constant, times a's last dimension.
bool fully_connected(OpWriter& w, const MatMulAttrs& a) {
  SubgraphWriter& s = w.subgraph();
  const ValueType& b = w.in_type(1);
  const int64_t outs = b.shape[a.transpose_b ? 0 : 1];
  const auto dynamic = dynamic_operands(w, a);
  int x = dynamic ? dynamic->x : w.in(0), weights = dynamic ? dynamic->weights : w.in(1);
  if (!a.transpose_b) weights = s.transpose(weights, {1, 0});
  int bias = -1;
  bool bias_fits = !w.has(2);
  if (w.has(2) && a.beta == 1 && w.in_type(2).is_static() && w.in_type(2).shape.elements() == outs &&
      w.in_type(2).shape.back() == outs) {
    bias = w.in(2);
    if (w.rank(2) != 1) bias = s.reshape(bias, {outs});
    bias_fits = true;
  }
  const bool integers = integer_product(w, s.at(x), s.at(weights)) && a.alpha == 1 && bias_fits &&
                        (bias < 0 || is_integer(s.at(bias).dtype));
  auto [dtype, quant] = s.file_type(w.out_type(0));
  if (integers && bias >= 0) bias = scaled_bias(s, bias, x, weights);
  if (!integers) {
    x = s.dequantize(x);
    if (!a.dynamic_quant && !dynamic) weights = s.dequantize(weights);
    if (bias >= 0) bias = s.dequantize(bias);
    dtype = DType::kF32;
    quant = nullptr;
    if (a.alpha != 1) x = w.mul(x, s.f32(a.alpha));
  }
  const bool last_step = bias_fits;
  const auto fused = last_step ? fused_activation(a.act) : std::nullopt;
  const auto act = fused.value_or(tfl::ActivationFunctionType::NONE);
  const bool keep = !a.flatten_a, asymmetric = a.asymmetric_inputs || dynamic;
  std::vector<int> in{x, weights};
  if (bias >= 0) in.push_back(bias);
  int y = s.add(Code::FULLY_CONNECTED, in, dtype, options_of<tfl::FullyConnectedOptions>([=](auto& fbb) {
                  return tfl::CreateFullyConnectedOptions(fbb, act, tfl::FullyConnectedOptionsWeightsFormat::DEFAULT,
                                                          keep, asymmetric);
                }),
                quant);
  if (!bias_fits) {
    int c = w.real(2);
    if (a.beta != 1) c = w.mul(c, s.f32(a.beta));
    y = w.add(y, c);
  }
  if (!fused) {
    const auto after = w.activated(y, a.act);
    if (!after) return false;
    y = *after;
  }
  w.out(0, y);
  return true;
}

}  // namespace

bool write_matmul(OpWriter& w) {
  const auto& a = w.attrs<MatMulAttrs>();
  SubgraphWriter& s = w.subgraph();
  const int rank_a = w.rank(0), rank_b = w.rank(1);
  if (w.has(3) || a.conjugate_a || a.conjugate_b || a.trans_batch_a || a.trans_batch_b || a.row_block || rank_a < 1 ||
      rank_b < 1 || is_complex(w.in_type(0).dtype))
    return false;
  if (!is_float(w.in_type(0).dtype) && !w.in_type(0).quant) return false;
  const bool matrix = rank_b == 2 && (a.flatten_a || (!a.transpose_a && rank_a >= 2));
  if (matrix && (w.constant(1) || a.flatten_a)) return fully_connected(w, a);
  int x = w.in(0), y = w.in(1);
  // LiteRT's int8 product takes one scale for each operand.
  const bool integers = s.at(x).quant && s.at(y).quant && s.at(x).dtype == s.at(y).dtype && w.out_type(0).quant &&
                        is_per_tensor(s.at(x).quant) && is_per_tensor(s.at(y).quant) && a.alpha == 1 && !w.has(2) &&
                        fused_activation(a.act) == tfl::ActivationFunctionType::NONE && s.at(x).dtype != DType::kU8;
  auto [dtype, quant] = s.file_type(w.out_type(0));
  if (!integers) {
    x = s.dequantize(x);
    if (!a.dynamic_quant) y = s.dequantize(y);
    dtype = DType::kF32;
    quant = nullptr;
  }
  const auto dims = [&](int i) { return std::vector<int64_t>(w.in_type(i).shape.begin(), w.in_type(i).shape.end()); };
  if (rank_a == 1) x = s.reshape(x, {1, dims(0)[0]});
  if (rank_b == 1) y = s.reshape(y, {dims(1)[0], 1});
  int z =
      s.add(Code::BATCH_MATMUL, {x, y}, dtype,
            batch_matmul_options(a.transpose_a && rank_a > 1, a.transpose_b && rank_b > 1, a.asymmetric_inputs), quant);
  if (rank_a == 1 || rank_b == 1) {
    const ValueType& t = w.out_type(0);
    if (!t.ranked || std::ranges::count(t.shape.dims(), -1) > 1) return false;
    z = s.reshape(z, {t.shape.begin(), t.shape.end()});
  }
  if (a.alpha != 1) z = w.mul(z, s.f32(a.alpha));
  if (w.has(2)) {
    int c = w.real(2);
    if (a.beta != 1) c = w.mul(c, s.f32(a.beta));
    z = w.add(z, c);
  }
  if (!integers) {
    const auto after = w.activated(z, a.act);
    if (!after) return false;
    z = *after;
  }
  w.out(0, z);
  return true;
}

namespace {

/// 1 at the first maximum along an axis of x, `extent` long, 0 elsewhere.
int hardmax(OpWriter& w, int x, int64_t axis, int64_t extent) {
  SubgraphWriter& s = w.subgraph();
  const auto at = static_cast<int32_t>(axis);
  const int first = s.add(
      Code::ARG_MAX, {x, s.i32_scalar(axis)}, DType::kI32,
      options_of<tfl::ArgMaxOptions>([](auto& b) { return tfl::CreateArgMaxOptions(b, tfl::TensorType::INT32); }));
  return s.add(Code::ONE_HOT, {first, s.i32_scalar(extent), s.f32(1), s.f32(0)}, DType::kF32,
               options_of<tfl::OneHotOptions>([=](auto& b) { return tfl::CreateOneHotOptions(b, at); }));
}

}  // namespace

bool write_softmax(OpWriter& w) {
  const auto& a = w.attrs<SoftmaxAttrs>();
  SubgraphWriter& s = w.subgraph();
  const int rank = w.rank(0);
  if (rank < 1) return false;
  const int64_t axis = a.axis < 0 ? a.axis + rank : a.axis;
  const auto beta = static_cast<float>(a.beta);
  const bool log = a.kind == SoftmaxAttrs::Kind::kLogSoftmax;
  const auto file_type = s.file_type(w.out_type(0));
  const auto apply = [&](int x) {
    const auto& [dtype, quant] = file_type;
    // The integer kernels have one output scale: 1/256 for SOFTMAX, 16/256 for LOG_SOFTMAX.
    const bool integers =
        s.at(x).quant && quant && is_per_tensor(quant) &&
        (s.file().module.format == "tflite" ||
         (dtype == DType::kI8 && (log ? quant->scale() == 16.f / 256 && quant->zero_point() == 127
                                      : quant->scale() == 1.f / 256 && quant->zero_point() == -128)) ||
         (dtype == DType::kU8 && !log && quant->scale() == 1.f / 256 && quant->zero_point() == 0));
    if (!integers) x = s.dequantize(x);
    const DType type = integers ? dtype : DType::kF32;
    const QuantPtr q = integers ? quant : nullptr;
    if (log) return s.add(Code::LOG_SOFTMAX, {x}, type, {}, q);
    return s.add(Code::SOFTMAX, {x}, type,
                 options_of<tfl::SoftmaxOptions>([=](auto& b) { return tfl::CreateSoftmaxOptions(b, beta); }), q);
  };
  const ValueType& t = w.in_type(0);
  const bool hard = a.kind == SoftmaxAttrs::Kind::kHardmax, flatten = a.flatten && axis != rank - 1;
  if (hard && !flatten) {
    const int64_t extent = t.shape[static_cast<int>(axis)];
    if (extent < 0) return false;
    w.out(0, hardmax(w, w.real(0), axis, extent));
    return true;
  }
  if (flatten) {
    if (!t.is_static()) return false;
    int64_t outer = 1;
    for (int d = 0; d < axis; ++d) outer *= t.shape[d];
    const int flat = s.reshape(hard ? w.real(0) : w.in(0), {outer, -1});
    const int y = hard ? hardmax(w, flat, 1, t.shape.elements() / std::max<int64_t>(outer, 1)) : apply(flat);
    w.out(0, s.reshape(y, {t.shape.begin(), t.shape.end()}));
    return true;
  }
  if (axis == 1 && rank >= 3 && s.is_channels_last(w.id(0))) {
    w.out_last(0, apply(w.in_last(0)));
    return true;
  }
  if (axis == rank - 1) {
    w.out(0, apply(w.in(0)));
    return true;
  }
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[static_cast<size_t>(axis)], perm.back());
  w.out(0, s.transpose(apply(s.transpose(w.in(0), perm)), perm));
  return true;
}

namespace {

/// Constant statistics and affine parameters as one factor and one term for each channel.
bool folded_batch_norm(OpWriter& w, const BatchNormAttrs& a, std::vector<float>& factor, std::vector<float>& term) {
  const Tensor *mean = w.constant(3), *var = w.constant(4);
  if (!mean || !var || (w.has(1) && !w.constant(1)) || (w.has(2) && !w.constant(2))) return false;
  for (int64_t c = 0; c < mean->elements(); ++c) {
    const double scale = w.has(1) ? get_double(*w.constant(1), c) : 1,
                 bias = w.has(2) ? get_double(*w.constant(2), c) : 0;
    const double f = scale / std::sqrt(get_double(*var, c) + a.epsilon);
    factor.push_back(static_cast<float>(f));
    term.push_back(static_cast<float>(bias - get_double(*mean, c) * f));
  }
  return true;
}

/// A vector that lies along dimension `axis` of tensors of `rank`.
int along(SubgraphWriter& s, int x, int axis, int rank) {
  std::vector<int64_t> shape(static_cast<size_t>(rank), 1);
  shape[static_cast<size_t>(axis)] = -1;
  if (s.at(x).contents) shape[static_cast<size_t>(axis)] = s.at(x).contents->elements();
  return s.reshape(x, shape);
}

/// (x - mean) / sqrt(variance + epsilon) over axes with kept dimensions; the mean square without `centered`.
struct Normalized {
  int y = -1, mean = -1, factor = -1;  ///< y = (x - mean) * factor; mean: -1 if it is not taken off
};
Normalized normalized(OpWriter& w, int x, const std::vector<int64_t>& axes, double epsilon, bool centered) {
  SubgraphWriter& s = w.subgraph();
  const int mean = centered ? w.reduce(Code::MEAN, x, axes, true) : -1;
  const int d = centered ? w.sub(x, mean) : x;
  const int variance = w.reduce(Code::MEAN, w.call(Code::SQUARE, {d}), axes, true);
  const int factor = w.call(Code::RSQRT, {w.add(variance, s.f32(epsilon))});
  return {w.mul(d, factor), mean, factor};
}

}  // namespace

bool write_batch_norm(OpWriter& w) {
  const auto& a = w.attrs<BatchNormAttrs>();
  SubgraphWriter& s = w.subgraph();
  const int rank = w.rank(0);
  if (a.training || rank < 2) return false;
  for (int i = 1; i < w.outputs(); ++i)
    if (w.wants(i) && s.uses(w.out_id(i)) > 0) return false;
  const bool last = a.layout == Layout::kChannelsFirst && s.is_channels_last(w.id(0));
  const int axis = a.layout == Layout::kChannelsLast || last ? rank - 1 : 1;
  const int x = s.dequantize(last ? w.in_last(0) : w.in(0));
  std::vector<float> factor, term;
  int y = -1;
  if (folded_batch_norm(w, a, factor, term)) {
    const auto vector = [&](const std::vector<float>& v) {
      Shape shape = axis == rank - 1 ? Shape{} : Shape::of_rank(rank - axis, 1);
      const auto n = static_cast<int64_t>(v.size());
      if (shape.rank() == 0)
        shape.push_back(n);
      else
        shape[0] = n;
      return s.constant(Tensor::from<float>(DType::kF32, shape, std::span<const float>(v)));
    };
    y = w.add({w.mul(x, vector(factor)), vector(term)});
  } else {
    const auto in = [&](int i) { return along(s, w.real(i), axis, rank); };
    const int centered = w.sub(x, in(3));
    int f = w.call(Code::RSQRT, {w.add({in(4), s.f32(a.epsilon)})});
    if (w.has(1)) f = w.mul(f, in(1));
    y = w.mul(centered, f);
    if (w.has(2)) y = w.add(y, in(2));
  }
  last ? w.out_last(0, y) : w.out(0, y);
  return true;
}

bool write_layer_norm(OpWriter& w) {
  const auto& a = w.attrs<LayerNormAttrs>();
  const int rank = w.rank(0);
  if (rank < 1) return false;
  std::vector<int64_t> axes;
  for (int64_t d = a.axis < 0 ? a.axis + rank : a.axis; d < rank; ++d) axes.push_back(d);
  const Normalized n = normalized(w, w.real(0), axes, a.epsilon, !a.rms);
  int y = n.y;
  for (int i = 1; i < w.outputs(); ++i) {
    const int statistic = i == 1 && !a.rms ? n.mean : n.factor;
    if (w.wants(i)) w.out(i, w.subgraph().cast(statistic, w.subgraph().file_type(w.out_type(i)).first));
  }
  if (w.has(1)) y = w.mul(y, w.real(1));
  if (w.has(2)) y = w.add(y, w.real(2));
  w.out(0, y);
  return true;
}

bool write_group_norm(OpWriter& w) {
  const auto& a = w.attrs<GroupNormAttrs>();
  SubgraphWriter& s = w.subgraph();
  const ValueType& t = w.in_type(0);
  const int rank = w.rank(0);
  for (int i = 1; i < w.outputs(); ++i)
    if (w.wants(i) && s.uses(w.out_id(i)) > 0) return false;
  if (rank < 3) return false;
  const bool first = a.layout == Layout::kChannelsFirst;
  const int64_t channels = t.shape[first ? 1 : rank - 1];
  const int64_t groups = a.groups == 0 ? channels : a.groups;
  if (!t.is_static() || groups < 1 || channels % groups != 0) return false;
  // [N, groups, everything else]
  const int x = first ? w.real(0) : s.transpose(w.real(0), [&] {
    std::vector<int64_t> back{0, rank - 1};
    for (int d = 1; d + 1 < rank; ++d) back.push_back(d);
    return back;
  }());
  int y = normalized(w, s.reshape(x, {t.shape[0], groups, t.shape.elements() / (t.shape[0] * groups)}), {2}, a.epsilon,
                     true)
              .y;
  std::vector<int64_t> dims{t.shape[0], channels};
  for (int d = 0; d < rank - 2; ++d) dims.push_back(t.shape[(first ? 2 : 1) + d]);
  std::vector<int64_t> affine(static_cast<size_t>(rank), 1);
  if (a.per_group_affine) {
    if (w.has(1)) y = w.mul(y, s.reshape(w.real(1), {groups, 1}));
    if (w.has(2)) y = w.add(y, s.reshape(w.real(2), {groups, 1}));
    y = s.reshape(y, dims);
  } else {
    y = s.reshape(y, dims);
    affine[1] = channels;
    if (w.has(1)) y = w.mul(y, s.reshape(w.real(1), affine));
    if (w.has(2)) y = w.add(y, s.reshape(w.real(2), affine));
  }
  const auto after = w.activated(y, a.act);
  if (!after) return false;
  w.out(0, first ? *after : s.transpose(*after, channels_last_perm(rank)));
  return true;
}

bool write_mean_variance_norm(OpWriter& w) {
  const int x = w.real(0);
  const auto& axes = w.attrs<MeanVarianceNormAttrs>().axes;
  SubgraphWriter& s = w.subgraph();
  const int d = w.sub(x, w.reduce(Code::MEAN, x, axes, true));
  const int variance = w.reduce(Code::MEAN, w.call(Code::SQUARE, {d}), axes, true);
  w.out(0, w.div(d, w.add({w.call(Code::SQRT, {variance}), s.f32(1e-9)})));
  return true;
}

bool write_lrn(OpWriter& w) {
  const auto& a = w.attrs<LrnAttrs>();
  if (a.size % 2 == 0 || w.rank(0) != 4 || !w.unquantized()) return false;
  const auto radius = static_cast<int32_t>(a.size / 2);
  const auto bias = static_cast<float>(a.bias), alpha = static_cast<float>(a.alpha), beta = static_cast<float>(a.beta);
  const auto options = options_of<tfl::LocalResponseNormalizationOptions>(
      [=](auto& b) { return tfl::CreateLocalResponseNormalizationOptions(b, radius, bias, alpha, beta); });
  if (a.layout == Layout::kChannelsLast) return w.emit(Code::LOCAL_RESPONSE_NORMALIZATION, {w.in(0)}, options);
  return w.emit_last(Code::LOCAL_RESPONSE_NORMALIZATION, {w.in_last(0)}, options);
}

bool write_lp_norm(OpWriter& w) {
  const auto& a = w.attrs<LpNormAttrs>();
  SubgraphWriter& s = w.subgraph();
  const int rank = w.rank(0);
  if (rank < 1 || (a.p != 1 && a.p != 2)) return false;
  const int64_t axis = a.axis < 0 ? a.axis + rank : a.axis;
  const bool l2 = a.p == 2 && axis == rank - 1 && a.epsilon_max && std::abs(a.epsilon - 1e-6) < 1e-9;
  if (l2 && fused_activation(a.act) == tfl::ActivationFunctionType::NONE)
    return w.emit(Code::L2_NORMALIZATION, {w.in(0)},
                  options_of<tfl::L2NormOptions>([](auto& b) { return tfl::CreateL2NormOptions(b); }));
  const int x = w.real(0);
  const int sum = w.reduce(Code::SUM, w.call(a.p == 1 ? Code::ABS : Code::SQUARE, {x}), {axis}, true);
  int norm = sum;
  if (!a.epsilon_max && a.epsilon != 0) norm = w.add(norm, s.f32(a.epsilon));
  if (a.p == 2) norm = w.call(Code::SQRT, {norm});
  if (a.epsilon_max && a.epsilon != 0) norm = w.binary(Code::MAXIMUM, norm, s.f32(a.epsilon));
  // A norm of 0 gives 0.
  const int zero = w.compare(Code::EQUAL, norm, s.f32(0));
  const int y = w.div(x, w.select(zero, w.add(norm, s.f32(1)), norm));
  const auto after = w.activated(y, a.act);
  if (!after) return false;
  w.out(0, *after);
  return true;
}

}  // namespace smelt::tflite
