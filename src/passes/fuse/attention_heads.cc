#include "passes/fuse/attention_heads.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "ops/core/op.h"
#include "ops/shape/shape.h"
#include "passes/fuse/weighted.h"

namespace smelt {
namespace {

/// The node at an index becomes n, which gives a new value.
ValueId give_new(Pattern& in, size_t index, Node n, const Shape& shape) {
  const ValueId made = in.add_value(ValueType::tensor(DType::kF32, shape));
  n.outputs = {made};
  in.replace(index, std::move(n));
  return made;
}

/// Dimensions of a value: those that its type states are numbers, for heads and their copies follow from weights.
Extents extents_of(const Pattern& in, const ExtentFlow& flow, ValueId id) {
  Extents dims = flow.dims(id);
  const Shape& s = in.type(id).shape;
  for (int d = 0; d < s.rank(); ++d)
    if (s[d] >= 0) dims[static_cast<size_t>(d)] = {kNoValue, s[d]};
  return dims;
}

/// True if nothing but `read` follows from a value.
bool leads_only_to(const Pattern& in, ValueId id, ValueId read) {
  for (int steps = 0; steps < 8; ++steps) {
    double scale = 1;
    const ValueId of = in.without_scale(read, scale);
    if (!in.only_read_by(read, of)) return false;
    if (of == id) return true;
    const int maker = in.index_of_producer(of);
    if (maker < 0) return false;
    const Op op = in.node(maker).op;
    if (op != Op::kReshape && op != Op::kUnsqueeze && op != Op::kExpand && op != Op::kTranspose) return false;
    read = in.node(maker).inputs[0];
  }
  return false;
}

}  // namespace

int split_of(const Pattern& in, ValueId id, bool turned, double& scale) {
  const int rank = in.type(id).shape.rank();
  std::vector<int64_t> perm;
  for (int i = 0; i < rank; ++i) perm.push_back(i);
  for (int steps = 0; steps < 3; ++steps) {
    const ValueId of = in.without_scale(id, scale);
    if (!in.only_read_by(id, of)) return -1;
    id = of;
    const Node* turn = in.producer(id, Op::kTranspose);
    const auto by = turn ? in.permutation(*turn) : std::nullopt;
    if (!by || static_cast<int>(by->size()) != rank) break;
    for (int64_t& axis : perm) axis = (*by)[static_cast<size_t>(axis)];
    id = turn->inputs[0];
  }
  std::vector<int64_t> wanted = rank == 5 ? std::vector<int64_t>{0, 1, 3, 2, 4} : std::vector<int64_t>{1, 0, 2};
  if (turned) std::swap(wanted[wanted.size() - 2], wanted.back());
  const Node* split = perm == wanted && in.has_one_use(id) ? in.producer(id, Op::kReshape) : nullptr;
  return split && in.is_f32(split->inputs[0]) && in.type(id).shape.is_static() ? in.index_of_producer(id) : -1;
}

const Shape& split_shape(const Pattern& in, int split) { return in.type(in.node(split).outputs[0]).shape; }

ValueId flatten_split(Pattern& in, int split) {
  const Shape s = split_shape(in, split);
  const int rank = s.rank();
  const int64_t batch = rank == 5 ? s[0] * s[1] : 1;
  return reshape_by(in, static_cast<size_t>(split), in.node(split).inputs[0],
                    {batch, s[rank - 3], s[rank - 2] * s[rank - 1]});
}

ValueId unrepeated_heads(const Pattern& in, const ExtentFlow& flow, ValueId id) {
  const Node* join = in.producer(id, Op::kReshape);
  const Node* copies = join ? in.producer(join->inputs[0], Op::kExpand) : nullptr;
  if (!copies || !in.is_f32(copies->inputs[0])) return id;
  const Node* split = in.producer(copies->inputs[0], Op::kUnsqueeze);
  if (!split) split = in.producer(copies->inputs[0], Op::kReshape);
  if (!split || !in.is_f32(split->inputs[0])) return id;
  const Extents x = extents_of(in, flow, split->inputs[0]), wide = extents_of(in, flow, copies->outputs[0]);
  if (x.size() != 4 || wide.size() != 5 || !x[1].is_literal() || !wide[2].is_literal()) return id;
  const int64_t heads = x[1].number, times = wide[2].number;
  if (heads < 1 || heads > INT32_MAX || times < 1 || times > INT32_MAX) return id;
  const Extent one{kNoValue, 1}, all{kNoValue, heads * times};
  const Extents joined = extents_of(in, flow, id);
  // Its length follows from the number of elements.
  const bool repeats = extents_of(in, flow, copies->inputs[0]) == Extents{x[0], x[1], one, x[2], x[3]} &&
                       wide == Extents{x[0], x[1], wide[2], x[2], x[3]} && joined.size() == 4 && joined[0] == x[0] &&
                       joined[1] == all && joined[3] == x[3];
  return repeats ? split->inputs[0] : id;
}

bool is_channels(const Pattern& in, ValueId id) {
  const Node* split = in.producer(id, Op::kReshape);
  if (!split || !in.is_f32(split->inputs[0])) return false;
  const Shape &x = in.type(split->inputs[0]).shape, &y = in.type(id).shape;
  return x.is_static() && y.rank() == 4 && y.is_static() && x == Shape{y[0], y[1] * y[2], y[3]};
}

ValueId rows_of_channels(Pattern& in, size_t index, ValueId split) {
  const ValueId x = in.producer(split, Op::kReshape)->inputs[0];
  const Shape s = in.type(x).shape;
  Node n = remade(in.node(static_cast<int>(index)), Op::kTranspose,
                  make_attrs<TransposeAttrs>(std::vector<int64_t>{0, 2, 1}), {x}, "Transpose");
  return give_new(in, index, std::move(n), Shape{s[0], s[2], s[1]});
}

ValueId flat_of_one(Pattern& in, ValueId id) {
  const Node* split = in.producer(id, Op::kReshape);
  const Node* swap = split ? in.producer(split->inputs[0], Op::kTranspose) : nullptr;
  if (!swap || in.permutation(*swap) != std::vector<int64_t>{1, 0, 2} || !in.is_f32(swap->inputs[0])) return kNoValue;
  const Shape x = in.type(swap->inputs[0]).shape;
  if (!x.is_static() || in.type(id).shape != Shape{1, x[1], x[0], x[2]}) return kNoValue;
  return reshape_by(in, static_cast<size_t>(in.index_of_producer(id)), swap->inputs[0], {1, x[0], x[1] * x[2]});
}

ValueId flat_of_heads(Pattern& in, ValueId id, ValueId read) {
  const int index = in.index_of_producer(id);
  const Node& swap = in.node(index);
  const ValueId x = swap.inputs[0];
  const Shape s = in.type(x).shape;
  if (!in.is_f32(x) || !s.is_static() || s.elements() == 0 || !leads_only_to(in, id, read)) return kNoValue;
  const Shape rows{s[0], s[1], s[2] * s[3]};
  return give_new(in, static_cast<size_t>(index),
                  remade(swap, Op::kReshape, make_attrs<ReshapeAttrs>(), {x, dims_of(in, rows)}, "Reshape"), rows);
}

ValueId reshape_by(Pattern& in, size_t index, ValueId x, const Shape& shape) {
  Node n = in.node(static_cast<int>(index));
  n.inputs = {x, dims_of(in, shape)};
  return give_new(in, index, std::move(n), shape);
}

ValueId dims_of(Pattern& in, const Shape& shape) {
  Tensor dims(DType::kI64, {shape.rank()});
  std::copy(shape.begin(), shape.end(), dims.data<int64_t>());
  return add_constant(in, std::move(dims));
}

}  // namespace smelt
