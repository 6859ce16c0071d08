// Rotary embeddings that exporters write as products with cosines and sines, and sums of these.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ops/attention/attention.h"
#include "ops/core/op.h"
#include "ops/shape/shape.h"
#include "passes/fuse/pattern.h"
#include "passes/fuse/spelled_out.h"
#include "passes/passes.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// The value of which a value is the first half of the last of four dimensions, or the second one; kNoValue if it is
/// none.
ValueId half_of(const Pattern& in, ValueId id, bool second) {
  const int by = in.index_of_producer(id);
  if (by < 0) return kNoValue;
  const Node& n = in.node(by);
  const ValueId x = n.inputs.empty() ? kNoValue : n.inputs[0];
  if (x == kNoValue || !in.is_f32(x) || !in.is_f32(id)) return kNoValue;
  const Shape &from = in.type(x).shape, &half = in.type(id).shape;
  if (from.rank() != 4 || half.rank() != 4 || half[3] < 1 || from[3] != 2 * half[3]) return kNoValue;
  if (n.op == Op::kSplit) return n.outputs.size() == 2 && n.outputs[second] == id ? x : kNoValue;
  if (n.op != Op::kSliceSize && n.op != Op::kSlice) return kNoValue;
  // The other dimensions are whole, so that the last start tells the half.
  if (n.op == Op::kSliceSize && (!from.is_static() || half != Shape{from[0], from[1], from[2], half[3]}))
    return kNoValue;
  const Tensor* starts = in.constant(n.inputs[1]);
  const bool steps =
      n.op == Op::kSlice && n.inputs.size() > 4 && n.inputs[4] != kNoValue && in.scalar(n.inputs[4], x) != 1;
  if (!starts || !is_integer(starts->dtype()) || starts->elements() == 0 || steps) return kNoValue;
  if (starts->elements() > 1 && n.op == Op::kSlice) return kNoValue;
  const int64_t start = get_int(*starts, starts->elements() - 1);
  return start == (second ? half[3] : 0) ? x : kNoValue;
}

/// The factor of `half` in a product; kNoValue if the value is none that one node reads.
ValueId table_of(const Pattern& in, ValueId product, ValueId half) {
  const Node* n = in.has_one_use(product) ? in.binary(product, Binary::kMul) : nullptr;
  for (size_t i = 0; n && i < 2; ++i)
    if (n->inputs[i] == half) return n->inputs[1 - i];
  return kNoValue;
}

/// True if a table has one row of half of D entries for each position of x, [B, H, S, D] or, with `heads_last`,
/// [B, S, H, D], that all heads share.
bool has_rows(const Pattern& in, ValueId table, const Shape& x, bool heads_last) {
  const ValueType& t = in.type(table);
  if (!in.is_f32(table) || !t.is_static() || t.shape.rank() > 4) return false;
  int64_t dims[4] = {1, 1, 1, 1};
  for (int i = 1; i <= t.shape.rank(); ++i) dims[4 - i] = t.shape[t.shape.rank() - i];
  const int heads = heads_last ? 2 : 1, length = heads_last ? 1 : 2;
  return dims[heads] == 1 && dims[length] == x[length] && dims[3] == x[3] / 2 && (dims[0] == 1 || dims[0] == x[0]);
}

bool is_last(const Pattern& in, int64_t axis, ValueId id) { return axis == -1 || axis == in.type(id).shape.rank() - 1; }

/// Tables whose rows hold the same entries twice, as tables that hold them once.
class HalfTables {
 public:
  explicit HalfTables(Pattern& in) : in_(in), narrow_(in.graph().values.size(), kNoValue) {}
  /// kNoValue: the halves of the rows are not known to be equal.
  ValueId half(ValueId table, int depth = 0) {
    ValueId& made = narrow_[static_cast<size_t>(table)];
    if (made == kNoValue) made = make(table, depth);
    return made;
  }
  /// Nodes for the tables that were asked for since the last call, in their order.
  std::vector<Node> take_nodes() { return std::exchange(nodes_, {}); }

 private:
  ValueId make(ValueId table, int depth) {
    constexpr int kMost = 8;
    const int at = in_.index_of_producer(table);
    if (at < 0 || depth == kMost || !in_.is_f32(table)) return kNoValue;
    Node n = in_.node(at);
    size_t i = 0;
    if (n.op == Op::kConcat) {
      const bool twice = n.inputs.size() == 2 && n.inputs[0] == n.inputs[1];
      return twice && is_last(in_, static_cast<const AxisAttrs&>(*n.attrs).axis, table) ? n.inputs[0] : kNoValue;
    }
    if (n.op == Op::kBinary) {
      i = in_.constant(n.inputs[0]) ? 1 : 0;
      if (!in_.scalar(n.inputs[1 - i], n.inputs[i])) return kNoValue;
    } else if (n.op == Op::kUnsqueeze) {
      const Tensor* axes = in_.constant(n.inputs[1]);
      if (!axes || axes->elements() != 1 || get_int(*axes, 0) < 0 || is_last(in_, get_int(*axes, 0), table))
        return kNoValue;
    } else if (n.op != Op::kUnary) {
      return kNoValue;
    }
    n.inputs[i] = half(n.inputs[i], depth + 1);
    if (n.inputs[i] == kNoValue) return kNoValue;
    ValueType type = in_.type(table);
    const int last = type.shape.rank() - 1;
    if (type.shape[last] > 0) type.shape[last] /= 2;
    n.outputs = {in_.add_value(std::move(type))};
    nodes_.push_back(std::move(n));
    return nodes_.back().outputs[0];
  }

  Pattern& in_;
  std::vector<ValueId> narrow_;  ///< by ValueId
  std::vector<Node> nodes_;
};

/// x * cos + turned * sin, turned being -x2 and x1 of the halves x1 and x2 of each row of x.
struct Turned {
  ValueId x, cos, sin;
};

/// The sum `n` as such a sum.
std::optional<Turned> turned_rows(const Pattern& in, const Node& n) {
  for (size_t i = 0; i < 8; ++i) {
    const Node *direct = in.binary(n.inputs[i & 1], Binary::kMul), *turned = in.binary(n.inputs[~i & 1], Binary::kMul);
    if (!direct || !turned) return std::nullopt;
    const ValueId x = direct->inputs[i >> 1 & 1], rows = turned->inputs[i >> 2];
    const Node *concat = in.producer(rows, Op::kConcat), *negative = nullptr;
    if (concat && concat->inputs.size() == 2 && is_last(in, static_cast<const AxisAttrs&>(*concat->attrs).axis, rows))
      negative = in.unary(concat->inputs[0], Unary::kNeg);
    if (negative && half_of(in, negative->inputs[0], true) == x && half_of(in, concat->inputs[1], false) == x)
      return Turned{x, direct->inputs[~i >> 1 & 1], turned->inputs[1 - (i >> 2)]};
  }
  return std::nullopt;
}

/// True if a table has four dimensions, one row for all heads of x, [B, H, S, D], and rows as long as those of x.
bool has_whole_rows(const Pattern& in, ValueId table, ValueId x) {
  const Shape& shape = in.type(table).shape;
  return in.is_f32(table) && shape.rank() == 4 && shape[1] == 1 && (shape[3] < 0 || shape[3] == in.type(x).shape[3]);
}

}  // namespace

void fuse_turned_rows(Graph& graph) {
  Pattern in(graph);
  HalfTables tables(in);
  std::map<size_t, std::vector<Node>> made;
  for (size_t k = 0; k < graph.nodes.size(); ++k) {
    const Node& n = graph.nodes[k];
    if (n.op != Op::kBinary || !in.binary(n.outputs[0], Binary::kAdd) || !in.has_one_use(n.inputs[0]) ||
        !in.has_one_use(n.inputs[1]))
      continue;
    const auto rows = turned_rows(in, n);
    if (!rows || !(in.type(n.outputs[0]).shape == in.type(rows->x).shape)) continue;
    if (!has_whole_rows(in, rows->cos, rows->x) || !has_whole_rows(in, rows->sin, rows->x)) continue;
    const ValueId cos = tables.half(rows->cos), sin = tables.half(rows->sin);
    if (cos == kNoValue || sin == kNoValue) continue;
    auto& nodes = made[k] = tables.take_nodes();
    nodes.push_back(remade(n, Op::kRotary, make_attrs<RotaryAttrs>(), {rows->x, cos, sin}, "Neg+Concat+Mul+Add"));
  }
  put_in_places(graph, std::move(made));
}

std::optional<Node> rotary_embedding(const Pattern& in, const Node& n) {
  const int64_t axis = static_cast<const AxisAttrs&>(*n.attrs).axis;
  if (n.inputs.size() != 2 || (axis != -1 && axis != 3)) return std::nullopt;
  const Node *sub = in.binary(n.inputs[0], Binary::kSub), *add = in.binary(n.inputs[1], Binary::kAdd);
  if (!sub || !add || !in.has_one_use(n.inputs[0]) || !in.has_one_use(n.inputs[1])) return std::nullopt;
  const Node* minuend = in.binary(sub->inputs[0], Binary::kMul);
  for (size_t i = 0; minuend && i < 2; ++i) {
    const ValueId first = minuend->inputs[i], x = half_of(in, first, false);
    if (x == kNoValue) continue;
    const Node* subtrahend = in.binary(sub->inputs[1], Binary::kMul);
    for (size_t j = 0; subtrahend && j < 2; ++j) {
      const ValueId second = subtrahend->inputs[j];
      if (half_of(in, second, true) != x) continue;
      const ValueId cos = table_of(in, sub->inputs[0], first), sin = table_of(in, sub->inputs[1], second);
      for (size_t k = 0; k < 2; ++k) {
        if (cos == kNoValue || sin == kNoValue || table_of(in, add->inputs[k], second) != cos ||
            table_of(in, add->inputs[1 - k], first) != sin)
          continue;
        const Shape& shape = in.type(x).shape;
        RotaryAttrs a;
        a.batch_seq_heads = !has_rows(in, cos, shape, false) || !has_rows(in, sin, shape, false);
        if (a.batch_seq_heads && (!has_rows(in, cos, shape, true) || !has_rows(in, sin, shape, true)))
          return std::nullopt;
        if (in.type(cos).shape.elements() != in.type(sin).shape.elements()) return std::nullopt;
        return remade(n, Op::kRotary, make_attrs<RotaryAttrs>(a), {x, cos, sin}, "Mul+Sub+Add+Concat");
      }
    }
  }
  return std::nullopt;
}

std::optional<Node> rotary_of_rows(const Pattern& in, const Node& n) {
  const std::vector<int64_t> swap{0, 2, 1, 3};
  const Node* rotary = in.has_one_use(n.inputs[0]) ? in.producer(n.inputs[0], Op::kRotary) : nullptr;
  if (!rotary || rotary->inputs.size() != 3 || in.permutation(n) != swap) return std::nullopt;
  RotaryAttrs a = static_cast<const RotaryAttrs&>(*rotary->attrs);
  const Node* before = in.producer(rotary->inputs[0], Op::kTranspose);
  if (a.batch_seq_heads || !before || in.permutation(*before) != swap) return std::nullopt;
  a.batch_seq_heads = true;
  return remade(n, Op::kRotary, make_attrs<RotaryAttrs>(a), {before->inputs[0], rotary->inputs[1], rotary->inputs[2]},
                rotary->origin.c_str());
}

}  // namespace smelt
