// Products of float32 with quantized weights, where the float32 is quantized at run time.
#include "formats/executorch/writer/dynamic_quant.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "base/error.h"
#include "formats/executorch/xnnpack/writer/graph_writer.h"
#include "formats/executorch/xnnpack/writer/nodes.h"
#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"

namespace smelt::executorch {
namespace {

/// The formula as nodes of a graph; the first error stays.
class GraphOps {
 public:
  using Value = ValueId;
  GraphOps(Builder& b, std::vector<int64_t> axes) : b_(b), axes_(std::move(axes)) {}
  const Status& status() const { return status_; }

  Value number(double v) { return b_.f32_scalar(static_cast<float>(v)); }
  Value abs(Value x) { return unary(UnaryAttrs(Unary::kAbs), x); }
  Value rounded(Value x) { return unary(UnaryAttrs(Unary::kRoundHalfAway), x); }
  Value clamp(Value x, double lo, double hi) { return unary(UnaryAttrs(Unary::kClamp, lo, hi), x); }
  Value add(Value a, Value b) { return binary(Binary::kAdd, a, b); }
  Value sub(Value a, Value b) { return binary(Binary::kSub, a, b); }
  Value mul(Value a, Value b) { return binary(Binary::kMul, a, b); }
  Value div(Value a, Value b) { return binary(Binary::kDiv, a, b); }
  Value min(Value a, Value b) { return binary(Binary::kMin, a, b); }
  Value max(Value a, Value b) { return binary(Binary::kMax, a, b); }
  Value less(Value a, Value b) { return binary(Binary::kLess, a, b); }
  Value select(Value condition, Value a, Value b) { return node(Op::kWhere, make_attrs<NoAttrs>(), {condition, a, b}); }
  Value lowest(Value x) { return reduce(Reduction::kMin, x); }
  Value highest(Value x) { return reduce(Reduction::kMax, x); }
  Value node(Op op, AttrsPtr attrs, std::vector<ValueId> inputs) {
    if (!status_.ok()) return kNoValue;
    auto made = b_.op(op, std::move(attrs), inputs);
    if (made.ok()) return *made;
    status_ = made.error();
    return kNoValue;
  }

 private:
  Value unary(UnaryAttrs a, Value x) { return node(Op::kUnary, make_attrs<UnaryAttrs>(std::move(a)), {x}); }
  Value binary(Binary fn, Value a, Value b) { return node(Op::kBinary, make_attrs<BinaryAttrs>(fn), {a, b}); }
  Value reduce(Reduction fn, Value x) {
    ReduceAttrs a;
    a.fn = fn;
    a.keep_dims = true;
    return node(Op::kReduce, make_attrs<ReduceAttrs>(a), {x, b_.i64(std::span<const int64_t>(axes_))});
  }

  Builder& b_;
  std::vector<int64_t> axes_;
  Status status_ = Ok();
};

template <class A>
A with_static_arithmetic(const Node& node, bool& asymmetric) {
  A a = static_cast<const A&>(*node.attrs);
  asymmetric = a.asymmetric_inputs;
  a.dynamic_quant = a.asymmetric_inputs = false;
  return a;
}

/// Adds what goes in front of the node and makes it a product of real numbers.
Status split(Builder& b, Node& node) {
  const Shape x = b.type(node.inputs[0]).shape, weights = b.type(node.inputs[1]).shape;
  const int rank = x.rank();
  bool asymmetric = false;
  std::vector<int64_t> axes(static_cast<size_t>(std::max(rank - 1, 0)));
  std::iota(axes.begin(), axes.end(), 1);  // an image has one scale
  Shape rows = x;
  if (node.op == Op::kMatMul) {
    const auto a = with_static_arithmetic<MatMulAttrs>(node, asymmetric);
    axes = {rank - 1 - (a.transpose_a && rank > 1 ? 1 : 0)};
    const int64_t k = weights[weights.rank() - (a.transpose_b || weights.rank() == 1 ? 1 : 2)];
    if (a.flatten_a && k > 0 && x.elements() % k == 0) {
      rows = Shape{x.elements() / k, k};
      axes = {1};
    }
    node.attrs = make_attrs<MatMulAttrs>(a);
  } else if (node.op == Op::kConv) {
    node.attrs = make_attrs<ConvAttrs>(with_static_arithmetic<ConvAttrs>(node, asymmetric));
  } else {
    node.attrs = make_attrs<ConvTransposeAttrs>(with_static_arithmetic<ConvTransposeAttrs>(node, asymmetric));
  }
  GraphOps ops(b, std::move(axes));
  ValueId from = node.inputs[0];
  if (!(rows == x)) from = ops.node(Op::kReshape, make_attrs<ReshapeAttrs>(), {from, b.i64(rows.dims())});
  node.inputs[0] = fake_quantized_rows(ops, from, asymmetric);
  return ops.status();
}

/// True if XNNPACK has a form for the node with asymmetric rows and symmetric weights of 8 or 4 bits.
bool xnnpack_quantizes(const Graph& graph, const Node& node) {
  if (node.op != Op::kMatMul || !static_cast<const MatMulAttrs&>(*node.attrs).asymmetric_inputs) return false;
  const Value& weights = graph.value(node.inputs[1]);
  const QuantPtr quant = weights.type.quant ? weights.type.quant : weights.constant->quant();
  const bool four = weights.constant && is_four_bit_matrix(*weights.constant, quant) &&
                    static_cast<const MatMulAttrs&>(*node.attrs).transpose_b;
  const bool eight =
      weights.type.dtype == DType::kI8 && std::ranges::all_of(quant->zero_points, [](int32_t z) { return z == 0; });
  return (four || eight) && XnnGraphWriter(graph).add(node);
}

/// A product of rows, or a convolution of images, that a Quantize rounds by XNNPACK's rule as one that does so itself;
/// the node as it is if XNNPACK has no form for that.
Node with_its_rows(const Graph& graph, const std::map<ValueId, const Node*>& quantizers, const Node& node) {
  const auto at = node.op == Op::kMatMul || node.op == Op::kConv ? quantizers.find(node.inputs[0]) : quantizers.end();
  if (at == quantizers.end()) return node;
  const ValueType& rounded = graph.value(node.inputs[0]).type;
  Node made = node;
  made.inputs[0] = at->second->inputs[0];
  if (node.op == Op::kConv) {
    ConvAttrs a = static_cast<const ConvAttrs&>(*node.attrs);
    a.dynamic_quant = a.asymmetric_inputs = true;
    made.attrs = make_attrs<ConvAttrs>(a);
    const bool image = rounded.quant->axis == rounded.shape.rank() - 1;
    return image && quantizes_rows(graph, made) && XnnGraphWriter(graph).add(made) ? made : node;
  }
  MatMulAttrs a = static_cast<const MatMulAttrs&>(*node.attrs);
  a.dynamic_quant = a.asymmetric_inputs = true;
  made.attrs = make_attrs<MatMulAttrs>(a);
  return rounded.quant->axis == 1 && quantizes_rows(graph, made) && xnnpack_quantizes(graph, made) ? made : node;
}

/// The nodes that quantize float32 rows or images to int8 by XNNPACK's rule, by their results.
std::map<ValueId, const Node*> row_quantizers(const Graph& graph, const std::vector<Node>& nodes) {
  std::map<ValueId, const Node*> out;
  for (const Node& n : nodes) {
    if (n.op != Op::kQuantize) continue;
    const ValueType &x = graph.value(n.inputs[0]).type, &y = graph.value(n.outputs[0]).type;
    const bool by_slice = y.quant && y.quant->kind == Quantization::Kind::kPerToken;
    if (by_slice && !y.quant->symmetric && y.dtype == DType::kI8 && is_unquantized_f32(x)) out[n.outputs[0]] = &n;
  }
  return out;
}

/// Removes the row quantizers whose results nobody reads.
void drop_unread(Graph& graph, const std::map<ValueId, const Node*>& quantizers) {
  std::set<ValueId> read(graph.outputs.begin(), graph.outputs.end());
  for (const Node& n : graph.nodes) read.insert(n.inputs.begin(), n.inputs.end());
  std::erase_if(graph.nodes, [&](const Node& n) {
    return n.op == Op::kQuantize && quantizers.contains(n.outputs[0]) && !read.contains(n.outputs[0]);
  });
}

}  // namespace

bool quantizes_rows(const Graph& graph, const Node& node) {
  bool asked = false;
  if (node.op == Op::kConv || node.op == Op::kConvTranspose) {
    asked = static_cast<const ConvAttrs&>(*node.attrs).dynamic_quant;
  } else if (node.op == Op::kMatMul) {
    const auto& a = static_cast<const MatMulAttrs&>(*node.attrs);
    asked = a.dynamic_quant && a.row_block == 0 && !a.trans_batch_a && !a.trans_batch_b;
  }
  if (!asked || node.inputs.size() < 2) return false;
  const Value &x = graph.value(node.inputs[0]), &weights = graph.value(node.inputs[1]);
  return is_unquantized_f32(x.type) && x.type.is_static() && weights.type.is_static() &&
         weights.type.shape.rank() > 0 && x.type.shape.elements() > 0 &&
         (weights.type.quant || (weights.constant && weights.constant->quant()));
}

Status split_dynamic_quant(Module& module, bool delegate) {
  for (size_t g = 0; g < module.graphs.size(); ++g) {
    Graph& graph = module.graphs[g];
    const std::vector<Node> nodes = std::move(graph.nodes);
    graph.nodes.clear();
    const auto quantizers = delegate ? row_quantizers(graph, nodes) : std::map<ValueId, const Node*>{};
    Builder b(module, static_cast<int>(g));
    for (const Node& given : nodes) {
      Node node = with_its_rows(graph, quantizers, given);
      b.at(node.origin, node.name, node.where);
      const bool image = node.op == Op::kConv && node.inputs[0] != given.inputs[0];
      if (quantizes_rows(graph, node) && !image && !(delegate && xnnpack_quantizes(graph, node)))
        SMELT_TRY(split(b, node));
      graph.nodes.push_back(std::move(node));
    }
    drop_unread(graph, quantizers);
  }
  return Ok();
}

}  // namespace smelt::executorch
