// Operators that exporters decompose: GELU, SiLU, layer, RMS and group normalization, the bias of a matrix product,
// indices that count from the end, any and all of truth values, quantization at run time, norms of rows.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/selection.h"
#include "ops/core/op.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/normalization/normalization.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "passes/fuse/bounded_functions.h"
#include "passes/fuse/dynamic_quantization.h"
#include "passes/fuse/group_normalization.h"
#include "passes/fuse/pattern.h"
#include "passes/fuse/pixel_shuffle.h"
#include "passes/fuse/run_time_quantization.h"
#include "passes/fuse/spelled_out.h"
#include "passes/passes.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

bool is_scaled(const Product& p, ValueId x, double coefficient) {
  return p.factors.size() == 1 && p.factors[0] == x && is_near(p.coefficient, coefficient);
}

/// True for sqrt(2 / pi) * (x + 0.044715 x^3), x^3 expanded or as x * (1 + 0.044715 x^2).
bool is_tanh_argument(const Pattern& in, ValueId id, ValueId x) {
  constexpr double kCubic = 0.044715;
  const auto is_power = [&](const Product& p, size_t power) {
    return p.factors.size() == power && is_near(p.coefficient, kCubic) &&
           std::ranges::all_of(p.factors, [&](ValueId f) { return f == x; });
  };
  const Product scaled = in.product(id);
  if (!is_near(scaled.coefficient, std::sqrt(2 / std::numbers::pi))) return false;
  if (scaled.factors.size() == 1) {
    const Node* sum = in.binary(scaled.factors[0], Binary::kAdd);
    for (size_t i = 0; sum && i < 2; ++i)
      if (sum->inputs[i] == x && is_power(in.product(sum->inputs[1 - i]), 3)) return true;
    return false;
  }
  if (scaled.factors.size() != 2) return false;
  for (size_t i = 0; i < 2; ++i) {
    const ValueId square = in.addend_of(scaled.factors[1 - i], 1);
    if (scaled.factors[i] == x && square != kNoValue && is_power(in.product(square), 2)) return true;
  }
  return false;
}

/// x / 2 * (1 + erf(x / sqrt(2))) and its tanh form, x * sigmoid(c x).
std::optional<Node> gated_unit(const Pattern& in, const Node& n) {
  if (!in.binary(n.outputs[0], Binary::kMul)) return std::nullopt;
  const Product p = in.product(n.outputs[0]);
  if (p.factors.size() != 2) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const ValueId x = p.factors[i], gate = p.factors[1 - i];
    if (in.type(x).shape.rank() != in.type(n.outputs[0]).shape.rank()) continue;
    if (const Node* sigmoid = in.unary(gate, Unary::kSigmoid); sigmoid && p.coefficient == 1 && in.has_one_use(gate)) {
      // An x that is a product itself stays one factor.
      const Product u = sigmoid->inputs[0] == x ? Product{.factors = {x}} : in.product(sigmoid->inputs[0]);
      if (!is_scaled(u, x, u.coefficient) || u.coefficient == 0) continue;
      const Unary fn = u.coefficient == 1 ? Unary::kSilu : Unary::kQuickGelu;
      return remade(n, Op::kUnary, make_attrs<UnaryAttrs>(fn, u.coefficient), {x}, "Sigmoid+Mul");
    }
    const ValueId inner = is_near(p.coefficient, 0.5) ? in.addend_of(gate, 1) : kNoValue;
    if (inner == kNoValue || !in.has_one_use(inner)) continue;
    if (const Node* erf = in.unary(inner, Unary::kErf);
        erf && is_scaled(in.product(erf->inputs[0]), x, std::numbers::sqrt2 / 2))
      return remade(n, Op::kUnary, make_attrs<UnaryAttrs>(Unary::kGelu), {x}, "Erf+Mul");
    if (const Node* tanh = in.unary(inner, Unary::kTanh); tanh && is_tanh_argument(in, tanh->inputs[0], x))
      return remade(n, Op::kUnary, make_attrs<UnaryAttrs>(Unary::kGeluTanh), {x}, "Tanh+Mul");
  }
  return std::nullopt;
}

/// x and v of x / sqrt(v).
struct Quotient {
  ValueId x, v;
};
std::optional<Quotient> over_root(const Pattern& in, const Node& n) {
  const auto root_of = [&](ValueId id) -> ValueId {
    if (const Node* root = in.unary(id, Unary::kSqrt)) return root->inputs[0];
    const Node* power = in.binary(id, Binary::kPow);
    return power && in.scalar(power->inputs[1], power->inputs[0]) == 0.5 ? power->inputs[0] : kNoValue;
  };
  const auto reciprocal_root_of = [&](ValueId id) -> ValueId {
    if (const Node* root = in.unary(id, Unary::kRsqrt)) return root->inputs[0];
    if (const Node* one_over = in.unary(id, Unary::kReciprocal)) return root_of(one_over->inputs[0]);
    const Node* div = in.binary(id, Binary::kDiv);
    return div && in.scalar(div->inputs[0], div->inputs[1]) == 1 ? root_of(div->inputs[1]) : kNoValue;
  };
  if (in.binary(n.outputs[0], Binary::kDiv)) {
    const ValueId v = root_of(n.inputs[1]);
    return v == kNoValue ? std::nullopt : std::optional(Quotient{n.inputs[0], v});
  }
  if (!in.binary(n.outputs[0], Binary::kMul)) return std::nullopt;
  for (size_t i = 0; i < 2; ++i)
    if (const ValueId v = reciprocal_root_of(n.inputs[1 - i]); v != kNoValue) return Quotient{n.inputs[i], v};
  return std::nullopt;
}

/// The x of id = x - mean(x); kNoValue if it is no such difference.
ValueId centred(const Pattern& in, ValueId id) {
  const Node* sub = in.binary(id, Binary::kSub);
  return sub && in.mean_over_last(sub->inputs[1]) == sub->inputs[0] ? sub->inputs[0] : kNoValue;
}

/// (x - mean(x)) / sqrt(variance(x) + epsilon), or x / sqrt(mean(x^2) + epsilon), without scale and bias.
std::optional<Node> normalization(const Pattern& in, const Node& n) {
  const auto quotient = over_root(in, n);
  const Node* sum = quotient ? in.binary(quotient->v, Binary::kAdd) : nullptr;
  for (size_t i = 0; sum && i < 2; ++i) {
    const auto epsilon = in.scalar(sum->inputs[1 - i], sum->inputs[i]);
    const ValueId squares = in.mean_over_last(sum->inputs[i]);
    if (!epsilon || squares == kNoValue) continue;
    const Product p = in.product(squares);
    if (p.factors.size() != 2 || p.coefficient != 1 || p.factors[0] != p.factors[1]) return std::nullopt;
    LayerNormAttrs a;
    a.epsilon = *epsilon;
    const ValueId x = centred(in, quotient->x);
    if (x != kNoValue && (p.factors[0] == quotient->x || centred(in, p.factors[0]) == x))
      return remade(n, Op::kLayerNorm, make_attrs<LayerNormAttrs>(a), {x}, "ReduceMean+Div");
    a.rms = true;
    if (p.factors[0] != quotient->x) return std::nullopt;
    return remade(n, Op::kLayerNorm, make_attrs<LayerNormAttrs>(a), {quotient->x}, "ReduceMean+Div");
  }
  return std::nullopt;
}

/// True if a constant has one float32 entry for each value of a row of x, its last dimension, of two values or more.
bool is_row_constant(const Pattern& in, ValueId id, ValueId x) {
  const Tensor* c = in.constant(id);
  const Shape& rows = in.type(x).shape;
  return c && c->dtype() == DType::kF32 && !c->quant() && c->rank() > 0 && c->rank() <= rows.rank() &&
         rows.back() > 1 && c->elements() == rows.back() && c->shape().back() == rows.back();
}

/// True for (x - mean)^2, as one node or as a product.
bool is_squared_difference(const Pattern& in, ValueId id, ValueId x, ValueId mean) {
  const auto subtracts = [&](const Node* n) {
    return n && ((n->inputs[0] == x && n->inputs[1] == mean) || (n->inputs[1] == x && n->inputs[0] == mean));
  };
  if (subtracts(in.binary(id, Binary::kSquaredDifference))) return true;
  const Node* product = in.binary(id, Binary::kMul);
  return product && product->inputs[0] == product->inputs[1] && subtracts(in.binary(product->inputs[0], Binary::kSub));
}

/// v of 1 / sqrt(v), as one node or as two; kNoValue for another value.
ValueId under_reciprocal_root(const Pattern& in, ValueId id) {
  if (const Node* root = in.unary(id, Unary::kRsqrt)) return root->inputs[0];
  const Node* reciprocal = in.unary(id, Unary::kReciprocal);
  const Node* root = reciprocal ? in.unary(reciprocal->inputs[0], Unary::kSqrt) : nullptr;
  return root ? root->inputs[0] : kNoValue;
}

/// The epsilon of a sum of an epsilon and the variance of x over the last dimension, mean((x - mean)^2).
std::optional<double> variance_epsilon(const Pattern& in, ValueId id, ValueId x, ValueId mean) {
  const Node* sum = in.binary(id, Binary::kAdd);
  for (size_t i = 0; sum && i < 2; ++i) {
    const auto epsilon = in.scalar(sum->inputs[1 - i], sum->inputs[i]);
    if (epsilon && is_squared_difference(in, in.mean_over_last(sum->inputs[i]), x, mean)) return epsilon;
  }
  return std::nullopt;
}

/// TensorFlow's layer normalization: x * factor + (bias - mean(x) * factor), factor = scale / sqrt(variance + epsilon).
/// The scale may be absent, as the bias may: then -mean(x) * factor is added.
std::optional<Node> factored_normalization(const Pattern& in, const Node& n) {
  if (!in.binary(n.outputs[0], Binary::kAdd)) return std::nullopt;
  const auto shift = [&](ValueId id, ValueId factor, ValueId& bias) -> ValueId {  // mean(x)
    const Node* difference = in.binary(id, Binary::kSub);
    const Node* product = in.binary(difference ? difference->inputs[1] : id, Binary::kMul);
    if (difference) bias = difference->inputs[0];
    if (!product || (product->inputs[0] != factor && product->inputs[1] != factor)) return kNoValue;
    const ValueId mean = product->inputs[product->inputs[0] == factor ? 1 : 0];
    if (difference) return mean;
    const Node* negative = in.unary(mean, Unary::kNeg);
    return negative ? negative->inputs[0] : kNoValue;
  };
  for (size_t i = 0; i < 4; ++i) {
    const Node* scaled = in.binary(n.inputs[i / 2], Binary::kMul);
    if (!scaled) continue;
    const ValueId x = scaled->inputs[i % 2], factor = scaled->inputs[1 - i % 2];
    ValueId scale = kNoValue, bias = kNoValue, root = factor;
    const ValueId mean = shift(n.inputs[1 - i / 2], factor, bias);
    if (bias != kNoValue && in.scalar(bias, factor) == 0) bias = kNoValue;
    if (mean == kNoValue || in.mean_over_last(mean) != x) continue;
    if (const Node* product = in.binary(factor, Binary::kMul)) {
      const size_t k = in.constant(product->inputs[0]) ? 0 : 1;
      scale = product->inputs[k];
      root = product->inputs[1 - k];
    }
    const auto epsilon = variance_epsilon(in, under_reciprocal_root(in, root), x, mean);
    if (!epsilon || (scale != kNoValue && !is_row_constant(in, scale, x)) ||
        (bias != kNoValue && !is_row_constant(in, bias, x)))
      continue;
    LayerNormAttrs a;
    a.epsilon = *epsilon;
    std::vector<ValueId> inputs{x, scale, bias};
    while (inputs.back() == kNoValue) inputs.pop_back();
    return remade(n, Op::kLayerNorm, make_attrs<LayerNormAttrs>(a), std::move(inputs), "Mean+Rsqrt+Mul+Add");
  }
  return std::nullopt;
}

/// A layer normalization with the constant that `n` multiplies its result with, or adds to it.
std::optional<Node> scaled_normalization(const Pattern& in, const Node& n) {
  const bool scales = in.binary(n.outputs[0], Binary::kMul) != nullptr;
  if (!scales && !in.binary(n.outputs[0], Binary::kAdd)) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const int k = in.index_of_producer(n.inputs[i]);
    if (k < 0 || !in.has_one_use(n.inputs[i])) continue;
    const Node& norm = in.node(k);
    if (norm.op != Op::kLayerNorm || norm.outputs.size() != 1) continue;
    const Shape& x = in.type(norm.inputs[0]).shape;
    const auto& a = static_cast<const LayerNormAttrs&>(*norm.attrs);
    if (!is_row_constant(in, n.inputs[1 - i], norm.inputs[0]) || (a.axis != -1 && a.axis != x.rank() - 1)) continue;
    std::vector<ValueId> inputs = norm.inputs;
    const size_t at = scales ? 1 : 2;
    if (inputs.size() > at) continue;  // an addend before the factor, or one more of either
    if (!scales && a.rms) continue;
    inputs.resize(at, kNoValue);
    inputs.push_back(n.inputs[1 - i]);
    return remade(n, Op::kLayerNorm, norm.attrs, std::move(inputs), "LayerNormalization");
  }
  return std::nullopt;
}

/// A product of float32 rows with a constant matrix, with the constant row that `n` adds as its bias.
std::optional<Node> biased_product(const Pattern& in, const Node& n) {
  if (!in.binary(n.outputs[0], Binary::kAdd)) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const Tensor* c = in.constant(n.inputs[1 - i]);
    const Node* product = in.producer(n.inputs[i], Op::kMatMul);
    if (!c || !product || !in.has_one_use(n.inputs[i]) || product->inputs.size() != 2) continue;
    const auto& a = static_cast<const MatMulAttrs&>(*product->attrs);
    const Tensor* b = in.constant(product->inputs[1]);
    const bool real = b && b->dtype() == DType::kF32 && !b->quant();
    if (!b || b->rank() != 2 || !(real || a.dynamic_quant) || a.act.kind != ActKind::kNone || a.beta != 1 ||
        a.row_block != 0 || !in.is_f32(product->inputs[0]))
      continue;
    const int64_t columns = b->dim(a.transpose_b ? 0 : 1);
    if (c->dtype() != DType::kF32 || c->rank() < 1 || c->rank() > in.type(n.inputs[i]).shape.rank() ||
        c->elements() != columns || c->shape().back() != columns)
      continue;
    return remade(n, Op::kMatMul, product->attrs, {product->inputs[0], product->inputs[1], n.inputs[1 - i]},
                  "MatMul+Add");
  }
  return std::nullopt;
}

/// i of where(i < 0, i + n, i), n being the extent of dimension `axis` of x; kNoValue for another value.
ValueId unwrapped_index(const Pattern& in, ValueId id, ValueId x, int64_t axis) {
  const Node* where = in.producer(id, Op::kWhere);
  const ValueType& type = in.type(x);
  if (!where || !type.ranked) return kNoValue;
  if (axis < 0) axis += type.shape.rank();
  if (axis < 0 || axis >= type.shape.rank()) return kNoValue;
  const int64_t extent = type.shape[static_cast<int>(axis)];
  const ValueId i = where->inputs[2];
  const auto gives = [&](ValueId value, Binary fn, int64_t operand) {
    const Node* b = in.producer(value, Op::kBinary);
    const auto* f = b ? static_cast<const BinaryAttrs*>(b->attrs.get()) : nullptr;
    return f && f->fn == fn && f->alpha == 1 && f->act.kind == ActKind::kNone && b->inputs[0] == i &&
           in.scalar(b->inputs[1], i) == static_cast<double>(operand);
  };
  const bool wraps = i != kNoValue && extent >= 0 && is_integer(in.type(i).dtype) &&
                     gives(where->inputs[0], Binary::kLess, 0) && gives(where->inputs[1], Binary::kAdd, extent);
  return wraps ? i : kNoValue;
}

/// A gather or scatter by indices that are made positive before: by those, where negative ones count from the end.
std::optional<Node> wrapped_index(const Pattern& in, const Node& n) {
  const bool gathers = n.op == Op::kGather;
  const int64_t axis =
      gathers ? static_cast<const GatherAttrs&>(*n.attrs).axis : static_cast<const ScatterAttrs&>(*n.attrs).axis;
  const ValueId i = unwrapped_index(in, n.inputs[1], n.inputs[0], axis);
  if (i == kNoValue) return std::nullopt;
  Node made = n;
  if (gathers) {
    GatherAttrs a = static_cast<const GatherAttrs&>(*n.attrs);
    a.negative = true;
    made.attrs = make_attrs<GatherAttrs>(a);
  }
  made.inputs[1] = i;
  return made;
}

/// The greatest or least of truth values as integers, as truth values again: any or all of them, if there are some.
std::optional<Node> truth_reduction(const Pattern& in, const Node& n) {
  const Node* reduce = in.producer(n.inputs[0], Op::kReduce);
  const Node* cast = reduce ? in.producer(reduce->inputs[0], Op::kCast) : nullptr;
  if (!cast || in.type(n.outputs[0]).dtype != DType::kBool) return std::nullopt;
  const ValueType& x = in.type(cast->inputs[0]);
  if (x.dtype != DType::kBool || !x.is_static() || x.shape.elements() == 0) return std::nullopt;
  ReduceAttrs a = static_cast<const ReduceAttrs&>(*reduce->attrs);
  if ((a.fn != Reduction::kMax && a.fn != Reduction::kMin) || a.accumulate != DType::kInvalid) return std::nullopt;
  a.fn = a.fn == Reduction::kMax ? Reduction::kAny : Reduction::kAll;
  std::vector<ValueId> inputs = reduce->inputs;
  inputs[0] = cast->inputs[0];
  return remade(n, Op::kReduce, make_attrs<ReduceAttrs>(a), std::move(inputs), "Cast+Reduce");
}

/// Places along a dimension that are int64, made int32 and int64 again: what they were.
std::optional<Node> wide_index(const Pattern& in, const Node& n) {
  const int narrow = in.index_of_producer(n.inputs[0]);
  if (narrow < 0 || in.node(narrow).op != Op::kCast || in.type(n.outputs[0]).dtype != DType::kI64 ||
      in.type(n.inputs[0]).dtype != DType::kI32)
    return std::nullopt;
  const ValueId x = in.node(narrow).inputs[0];
  const int at = in.index_of_producer(x);
  if (at < 0 || in.type(x).dtype != DType::kI64) return std::nullopt;
  const Node& source = in.node(at);
  const bool place = (source.op == Op::kTopK && source.outputs.size() > 1 && source.outputs[1] == x) ||
                     source.op == Op::kArgReduce || source.op == Op::kNonZero;
  const ValueType& from = in.type(source.inputs[0]);
  if (!place || !from.is_static() || from.shape.elements() > INT32_MAX) return std::nullopt;
  return remade(n, Op::kUnary, make_attrs<UnaryAttrs>(Unary::kIdentity), {x}, "Cast");
}

/// log(1 + exp(-|x|)) + max(x, 0): softplus of x.
std::optional<Node> softplus(const Pattern& in, const Node& n) {
  const Node* sum = in.binary(n.outputs[0], Binary::kAdd);
  for (size_t i = 0; sum && i < 2; ++i) {
    ValueId inner = kNoValue;
    if (const Node* log = in.unary(sum->inputs[i], Unary::kLog1p)) inner = log->inputs[0];
    if (const Node* log = in.unary(sum->inputs[i], Unary::kLog)) inner = in.addend_of(log->inputs[0], 1);
    const Node* exp = inner == kNoValue ? nullptr : in.unary(inner, Unary::kExp);
    const Node* negative = exp ? in.unary(exp->inputs[0], Unary::kNeg) : nullptr;
    const Node* magnitude = negative ? in.unary(negative->inputs[0], Unary::kAbs) : nullptr;
    if (!magnitude) continue;
    const ValueId x = magnitude->inputs[0];
    const Node* relu = in.unary(sum->inputs[1 - i], Unary::kRelu);
    const Node* most = in.binary(sum->inputs[1 - i], Binary::kMax);
    const bool positive = (relu && relu->inputs[0] == x) ||
                          (most && most->inputs[0] == x && in.scalar(most->inputs[1], x) == 0) ||
                          (most && most->inputs[1] == x && in.scalar(most->inputs[0], x) == 0);
    if (positive) return remade(n, Op::kUnary, make_attrs<UnaryAttrs>(Unary::kSoftplus), {x}, "Softplus");
  }
  return std::nullopt;
}

/// Replaces the float32 nodes of an operator that form(in, node) makes another node of.
template <class Form>
void replace_each(Graph& graph, Op op, Form&& form) {
  Pattern in(graph);
  bool changed = false;
  for (size_t k = 0; k < graph.nodes.size(); ++k) {
    const Node& n = graph.nodes[k];
    if (n.op != op || n.outputs[0] == kNoValue || !in.is_f32(n.outputs[0])) continue;
    auto made = form(in, n);
    if (!made) continue;
    in.replace(k, std::move(*made));
    changed = true;
  }
  if (changed) remove_dead_nodes(graph);
}

}  // namespace

void recompose_normalizations(Graph& graph) {
  replace_each(graph, Op::kBinary, [](Pattern& in, const Node& n) {
    auto made = normalization(in, n);
    return made ? made : scaled_normalization(in, n);
  });
}

void recompose(Graph& graph) {
  Pattern in(graph);
  for (size_t k = 0; k < graph.nodes.size(); ++k) {
    const Node& n = graph.nodes[k];
    if (n.outputs.empty() || n.outputs[0] == kNoValue) continue;
    std::optional<Node> made;
    if (n.op == Op::kGather || n.op == Op::kScatterElements) {
      made = wrapped_index(in, n);
    } else if (n.op == Op::kCast) {
      if (fuse_dynamic_quantize(in, k) || fuse_integer_product(in, k)) continue;
      made = truth_reduction(in, n);
      if (!made) made = wide_index(in, n);
    } else if (!in.is_f32(n.outputs[0])) {
      continue;
    } else if (n.op == Op::kMatMul || n.op == Op::kConv) {
      made = run_time_quantized(in, n);
    } else if (n.op == Op::kReshape) {
      made = group_normalization(in, n);
    } else if (n.op == Op::kConcat) {
      if (builds_op("ScatterND")) made = list_with_item(in, n);
      if (builds_op("Rotary") && !made) made = rotary_embedding(in, n);
    } else if (n.op == Op::kTranspose && builds_op("Rotary")) {
      made = rotary_of_rows(in, n);
    } else if (n.op == Op::kReduce) {
      made = vector_norm(in, n);
    } else if (n.op == Op::kEinsum) {
      made = einsum_product(in, n);
    } else if (n.op == Op::kWhere) {
      made = parametric_relu(in, n);
    } else if (n.op == Op::kDepthSpace) {
      made = reordered_depth(in, n);
    } else if (n.op == Op::kBinary || n.op == Op::kUnary || n.op == Op::kClamp) {
      for (const auto& form : {hard_sigmoid, hard_swish, scalar_clamp})
        if (!made) made = form(in, n);
      for (const auto& form :
           {softplus, gated_unit, normalization, factored_normalization, scaled_normalization, biased_product})
        if (!made && n.op == Op::kBinary) made = form(in, n);
      if (!made && n.op == Op::kBinary) made = scaled_group_norm(in, n);
      if (!made && n.op == Op::kBinary) made = scaled_residual(in, n);
      if (!made && n.op == Op::kUnary) made = vector_norm(in, n);
    }
    if (made) in.replace(k, std::move(*made));
  }
  remove_dead_nodes(graph);
}

}  // namespace smelt
