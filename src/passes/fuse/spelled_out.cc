// Operators that a format without them spells as several.
#include "passes/fuse/spelled_out.h"

#include <algorithm>
#include <vector>

#include "ops/core/op.h"
#include "ops/gather/gather.h"
#include "ops/matmul/einsum_equation.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// The Binary that makes a value, whatever its element type, without activation or factor.
const BinaryAttrs* without_activation(const Pattern& in, const Node* n) {
  const auto* a = n ? static_cast<const BinaryAttrs*>(n->attrs.get()) : nullptr;
  return a && a->act.kind == ActKind::kNone && a->alpha == 1 && in.is_f32(n->inputs[0]) ? a : nullptr;
}

/// True if a reduction is over the last of two or more dimensions, or the only one, of float32 values.
bool is_over_last(const Pattern& in, const Node& n) {
  const auto& a = static_cast<const ReduceAttrs&>(*n.attrs);
  if (n.inputs.size() < 2 || !in.is_f32(n.inputs[0]) || a.accumulate != DType::kInvalid) return false;
  const Tensor* axes = in.constant(n.inputs[1]);
  if (!axes || axes->elements() != 1) return false;
  const int64_t axis = get_int(*axes, 0);
  return axis == -1 || axis == in.type(n.inputs[0]).shape.rank() - 1;
}

Node reduced(const Node& n, const Node& reduce, ValueId x, Reduction fn, const char* origin) {
  ReduceAttrs a = static_cast<const ReduceAttrs&>(*reduce.attrs);
  a.fn = fn;
  std::vector<ValueId> inputs = reduce.inputs;
  inputs[0] = x;
  return remade(n, Op::kReduce, make_attrs<ReduceAttrs>(a), std::move(inputs), origin);
}

/// True if all elements of a constant are this number.
bool is_filled(const Pattern& in, ValueId id, int64_t value) {
  const Tensor* c = in.constant(id);
  if (!c || !is_integer(c->dtype())) return false;
  for (int64_t i = 0; i < c->elements(); ++i)
    if (get_int(*c, i) != value) return false;
  return true;
}

/// The first number, a vector of one, of those of a vector whose others are constants, all `rest`; kNoValue if they are
/// not, or not `count` in all.
ValueId first_before(const Pattern& in, ValueId id, int64_t rest, int count) {
  const Node* concat = in.producer(id, Op::kConcat);
  if (!concat || concat->inputs.size() != 2 || !is_filled(in, concat->inputs[1], rest)) return kNoValue;
  const bool fits =
      in.type(concat->inputs[0]).shape == Shape{1} && in.constant(concat->inputs[1])->elements() == count - 1;
  return fits ? concat->inputs[0] : kNoValue;
}

/// True if number b, a vector of one, is a + 1.
bool is_next(const Pattern& in, ValueId a, ValueId b) {
  const auto number = [&](ValueId id) {
    const Node* reshape = in.producer(id, Op::kReshape);
    return reshape ? reshape->inputs[0] : id;
  };
  a = number(a);
  const Node* sum = in.producer(number(b), Op::kBinary);
  const auto* f = sum ? static_cast<const BinaryAttrs*>(sum->attrs.get()) : nullptr;
  if (!f || f->fn != Binary::kAdd || f->alpha != 1 || f->act.kind != ActKind::kNone) return false;
  return sum->inputs[0] == a && in.scalar(sum->inputs[1], a) == 1;
}

}  // namespace

[[gnu::cold]] std::optional<Node> list_with_item(const Pattern& in, const Node& n) {
  const Shape& y = in.type(n.outputs[0]).shape;
  const int64_t axis = static_cast<const AxisAttrs&>(*n.attrs).axis;
  if (n.inputs.size() != 3 || (axis != 0 && axis != -y.rank())) return std::nullopt;
  const Node *before = in.producer(n.inputs[0], Op::kSliceSize), *behind = in.producer(n.inputs[2], Op::kSliceSize);
  const Node* item = in.producer(n.inputs[1], Op::kReshape);
  if (!before || !behind || !item || before->inputs[0] != behind->inputs[0]) return std::nullopt;
  const ValueId x = before->inputs[0], value = item->inputs[0];
  if (!in.is_f32(x) || !in.is_f32(value)) return std::nullopt;
  const Shape &list = in.type(x).shape, &one = in.type(value).shape;
  if (list.rank() != one.rank() + 1 || !one.is_static()) return std::nullopt;
  for (int d = 0; d < one.rank(); ++d)
    if (list[d + 1] != one[d]) return std::nullopt;
  const ValueId i = first_before(in, before->inputs[2], -1, list.rank());
  const ValueId next = first_before(in, behind->inputs[1], 0, list.rank());
  if (i == kNoValue || next == kNoValue || !is_filled(in, before->inputs[1], 0) ||
      !is_filled(in, behind->inputs[2], -1) || !is_next(in, i, next))
    return std::nullopt;
  return remade(n, Op::kScatterND, make_attrs<ScatterAttrs>(), {x, i, value}, "TensorListSetItem");
}

std::optional<Node> parametric_relu(const Pattern& in, const Node& n) {
  const Node* test = in.producer(n.inputs[0], Op::kBinary);
  const BinaryAttrs* a = without_activation(in, test);
  if (!a || !in.has_one_use(n.inputs[0]) || in.scalar(test->inputs[1], test->inputs[0]) != 0) return std::nullopt;
  const bool below = a->fn == Binary::kLess || a->fn == Binary::kLessEqual;
  if (!below && a->fn != Binary::kGreater && a->fn != Binary::kGreaterEqual) return std::nullopt;
  const ValueId x = test->inputs[0], negative = n.inputs[below ? 1 : 2], positive = n.inputs[below ? 2 : 1];
  const Node* product = in.binary(negative, Binary::kMul);
  if (positive != x || !product || !in.has_one_use(negative)) return std::nullopt;
  const size_t i = product->inputs[0] == x ? 1 : 0;
  const ValueId slope = product->inputs[i];
  const Tensor* c = in.constant(slope);
  const Shape &from = in.type(x).shape, &to = in.type(n.outputs[0]).shape;
  if (product->inputs[1 - i] != x || !c || c->quant() || c->dtype() != DType::kF32 || c->rank() > from.rank())
    return std::nullopt;
  if (c->elements() != 1 && !(from.is_static() && from == to)) return std::nullopt;
  return remade(n, Op::kBinary, make_attrs<BinaryAttrs>(Binary::kPRelu), {x, slope}, "Less+Mul+Where");
}

std::optional<Node> vector_norm(const Pattern& in, const Node& n) {
  if (n.op == Op::kUnary) {
    const Node* root = in.unary(n.outputs[0], Unary::kSqrt);
    const Node* sum = root && in.has_one_use(root->inputs[0]) ? in.producer(root->inputs[0], Op::kReduce) : nullptr;
    const bool squares = sum && static_cast<const ReduceAttrs&>(*sum->attrs).fn == Reduction::kSumSquare;
    if (!squares || !is_over_last(in, *sum)) return std::nullopt;
    return reduced(n, *sum, sum->inputs[0], Reduction::kL2, "ReduceSum+Sqrt");
  }
  if (static_cast<const ReduceAttrs&>(*n.attrs).fn != Reduction::kSum || !is_over_last(in, n)) return std::nullopt;
  const ValueId squares = n.inputs[0];
  const Node* square = in.unary(squares, Unary::kSquare);
  const Node* product = in.binary(squares, Binary::kMul);
  if (!in.has_one_use(squares) || (!square && !(product && product->inputs[0] == product->inputs[1])))
    return std::nullopt;
  return reduced(n, n, (square ? square : product)->inputs[0], Reduction::kSumSquare, "Mul+ReduceSum");
}

std::optional<Node> einsum_product(const Pattern& in, const Node& n) {
  if (n.inputs.size() != 2 || !in.is_f32(n.inputs[0]) || !in.is_f32(n.inputs[1])) return std::nullopt;
  const Shape shapes[2] = {in.type(n.inputs[0]).shape, in.type(n.inputs[1]).shape};
  const auto& equation = static_cast<const EinsumAttrs&>(*n.attrs).equation;
  const auto e = parse_einsum(equation, {shapes[0].rank(), shapes[1].rank()});
  if (!e.ok() || e->output.size() < 2) return std::nullopt;
  const size_t rank = e->output.size(), row = rank - 2, column = rank - 1;
  const auto label_at = [&](size_t operand, size_t i) { return e->operands[operand][i]; };
  if (e->operands[0].size() != rank || e->operands[1].size() != rank) return std::nullopt;
  for (size_t i = 0; i < row; ++i)
    for (const size_t operand : {0, 1})
      if (label_at(operand, i) != e->output[i]) return std::nullopt;
  const int rows = e->output[row], columns = e->output[column];
  for (const size_t left : {0, 1}) {
    const size_t right = 1 - left;
    const int inner = label_at(left, column);
    MatMulAttrs a;
    a.transpose_b = label_at(right, column) == inner;
    const size_t inner_at = a.transpose_b ? column : row;
    const int64_t k = shapes[left][static_cast<int>(column)];
    if (label_at(left, row) != rows || label_at(right, inner_at) != inner ||
        label_at(right, row + column - inner_at) != columns || inner == rows || inner == columns || rows == columns ||
        std::ranges::count(e->output, inner) > 0 || k < 0 || k != shapes[right][static_cast<int>(inner_at)])
      continue;
    return remade(n, Op::kMatMul, make_attrs<MatMulAttrs>(a), {n.inputs[left], n.inputs[right]}, "Einsum");
  }
  return std::nullopt;
}

}  // namespace smelt
