// Functions of 8-bit values that TFLite has and that are computed as real ones between conversions: softmax, logistic
// functions, reciprocal square roots, squared differences, products of two computed matrices.
#include <optional>
#include <utility>

#include "convert/convert.h"
#include "ops/common/quantized_pair.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/softmax/softmax.h"
#include "passes/fuse/pattern.h"
#include "passes/passes.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::convert {
namespace {

bool is_probability(const Node& n) {
  if (n.op == Op::kUnary) return static_cast<const UnaryAttrs&>(*n.attrs).fn == Unary::kSigmoid;
  return n.op == Op::kSoftmax && static_cast<const SoftmaxAttrs&>(*n.attrs).kind == SoftmaxAttrs::Kind::kSoftmax;
}

bool is_unary(const Node* n, Unary fn) {
  return n && n->op == Op::kUnary && static_cast<const UnaryAttrs&>(*n->attrs).fn == fn;
}

/// A binary function without activation or factor.
bool is_binary(const Node* n, Binary fn) {
  if (!n || n->op != Op::kBinary) return false;
  const auto& a = static_cast<const BinaryAttrs&>(*n->attrs);
  return a.fn == fn && a.act.kind == ActKind::kNone && a.alpha == 1;
}

/// The node that makes a value; nullptr: there is none.
const Node* maker(const Pattern& in, ValueId id) {
  const int k = in.index_of_producer(id);
  return k < 0 ? nullptr : &in.node(k);
}

bool is_8bit_tensor(const ValueType& t) { return is_8bit(t.dtype) && is_per_tensor(t.quant); }

/// The 8-bit value that a Dequantize makes this real value of; kNoValue: it is none.
ValueId quantized(const Pattern& in, ValueId real) {
  const Node* n = maker(in, real);
  return n && n->op == Op::kDequantize && is_8bit_tensor(in.type(n->inputs[0])) ? n->inputs[0] : kNoValue;
}

/// What a Quantize becomes whose only operand is such a function of integers; nullopt: it stays.
std::optional<Node> function_of_integers(const Pattern& in, const Node& quantize) {
  const ValueId y = quantize.outputs[0];
  const Node* const last = maker(in, quantize.inputs[0]);
  if (!last || !in.has_one_use(quantize.inputs[0]) || !is_8bit_tensor(in.type(y))) return std::nullopt;
  const bool is_root = is_unary(last, Unary::kRsqrt);
  if (!is_root && !is_probability(*last)) return std::nullopt;
  const ValueId x = quantized(in, last->inputs[0]);
  if (x == kNoValue || in.type(x).dtype != in.type(y).dtype) return std::nullopt;
  const QuantPtr& q = in.type(is_root ? x : y).quant;  // of the root's operand: TFLite's kernel refuses negative values
  if (q->zero_point() != int_min(in.type(y).dtype) || (!is_root && q->scale() != 1.f / 256)) return std::nullopt;
  Node made = *last;
  made.inputs = {x};
  made.outputs = {y};
  return made;
}

/// What a Quantize becomes whose only operand is a product of integers that are both computed: their sums are exact,
/// and the result is rounded once.
std::optional<Node> product_of_integers(const Pattern& in, const Node& quantize) {
  const ValueId y = quantize.outputs[0];
  const Node* const last = maker(in, quantize.inputs[0]);
  if (!last || last->op != Op::kMatMul || last->inputs.size() != 2 || !in.has_one_use(quantize.inputs[0]) ||
      !is_8bit_tensor(in.type(y)))
    return std::nullopt;
  const auto& a = static_cast<const MatMulAttrs&>(*last->attrs);
  if (a.alpha != 1 || a.act.kind != ActKind::kNone || a.dynamic_quant || a.row_block != 0) return std::nullopt;
  Node made = *last;
  for (ValueId& id : made.inputs) {
    id = quantized(in, id);
    if (id == kNoValue || in.type(id).dtype != in.type(y).dtype) return std::nullopt;
  }
  made.outputs = {y};
  return made;
}

/// True if the value is the real one of integers of the type that the QuantizeLinear gives.
bool is_dequantized(const Pattern& in, ValueId id, const Node& quantize) {
  const Node* n = maker(in, id);
  return n && n->op == Op::kDequantizeLinear && in.type(n->inputs[0]).dtype == in.type(quantize.outputs[0]).dtype;
}

/// 1 / sqrt(x) of 8-bit values that are never negative: TFLite's kernel refuses others.
std::optional<Node> reciprocal_root(const Pattern& in, const Node& last, const Node& quantize) {
  const Node* root = is_unary(&last, Unary::kReciprocal) ? maker(in, last.inputs[0]) : nullptr;
  if (!is_unary(root, Unary::kSqrt) || !in.has_one_use(last.inputs[0]) ||
      !is_dequantized(in, root->inputs[0], quantize))
    return std::nullopt;
  const Node& source = *maker(in, root->inputs[0]);
  const DType dtype = in.type(source.inputs[0]).dtype;
  const Tensor* zero = source.inputs.size() > 2 ? in.constant(source.inputs[2]) : nullptr;
  const int64_t least = is_8bit(dtype) ? int_min(dtype) : 1;
  if (zero ? zero->elements() != 1 || get_int(*zero, 0) != least : least != 0) return std::nullopt;
  Node made = last;
  made.attrs = make_attrs<UnaryAttrs>(Unary::kRsqrt);
  made.inputs = {root->inputs[0]};
  return made;
}

std::optional<Node> squared_difference(const Pattern& in, const Node& last, const Node& quantize) {
  if (!is_binary(&last, Binary::kMul) || last.inputs[0] != last.inputs[1]) return std::nullopt;
  const Node* difference = maker(in, last.inputs[0]);
  if (!is_binary(difference, Binary::kSub) || in.uses(last.inputs[0]) != 2 ||
      !is_dequantized(in, difference->inputs[0], quantize) || !is_dequantized(in, difference->inputs[1], quantize))
    return std::nullopt;
  Node made = last;
  made.attrs = make_attrs<BinaryAttrs>(Binary::kSquaredDifference);
  made.inputs = {difference->inputs[0], difference->inputs[1]};
  return made;
}

void name_functions(Graph& g) {
  Pattern in(g);
  bool changed = false;
  for (size_t k = 0; k < g.nodes.size(); ++k) {
    const Node& n = g.nodes[k];
    if (n.op != Op::kQuantizeLinear || !in.has_one_use(n.inputs[0])) continue;
    const int at = in.index_of_producer(n.inputs[0]);
    if (at < 0) continue;
    std::optional<Node> made = reciprocal_root(in, in.node(at), n);
    if (!made) made = squared_difference(in, in.node(at), n);
    if (!made) continue;
    in.replace(static_cast<size_t>(at), std::move(*made));
    changed = true;
  }
  if (changed) remove_dead_nodes(g);
}

void join_functions(Graph& g) {
  Pattern in(g);
  bool changed = false;
  for (size_t k = 0; k < g.nodes.size(); ++k)
    if (g.nodes[k].op == Op::kQuantize) {
      auto made = function_of_integers(in, g.nodes[k]);
      if (!made) made = product_of_integers(in, g.nodes[k]);
      if (!made) continue;
      in.replace(k, std::move(*made));
      changed = true;
    }
  if (changed) remove_dead_nodes(g);
}

}  // namespace

void name_integer_functions(Module& module) {
  for (Graph& graph : module.graphs) name_functions(graph);
}

void join_integer_functions(Module& module) {
  for (Graph& graph : module.graphs) join_functions(graph);
}

}  // namespace smelt::convert
