// Rotary embeddings that exporters write as products with cosines and sines, and sums of these.
#include <optional>
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
  if (from.rank() != 4 || !from.is_static() || half != Shape{from[0], from[1], from[2], from[3] / 2} ||
      from[3] != 2 * half[3] || half.elements() == 0)
    return kNoValue;
  if (n.op == Op::kSplit) return n.outputs.size() == 2 && n.outputs[second] == id ? x : kNoValue;
  if (n.op != Op::kSliceSize && n.op != Op::kSlice) return kNoValue;
  // The other dimensions are whole, so that the last start tells the half.
  const Tensor* starts = in.constant(n.inputs[1]);
  const bool steps = n.op == Op::kSlice && n.inputs.size() > 4 && n.inputs[4] != kNoValue;
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

/// True if a table has one row for each position of x, [B, H, S, D] or, with `heads_last`, [B, S, H, D], that all heads
/// share.
bool has_rows(const Pattern& in, ValueId table, const Shape& x, bool heads_last) {
  const ValueType& t = in.type(table);
  if (!in.is_f32(table) || !t.is_static() || t.shape.rank() > 4) return false;
  int64_t dims[4] = {1, 1, 1, 1};
  for (int i = 1; i <= t.shape.rank(); ++i) dims[4 - i] = t.shape[t.shape.rank() - i];
  const int heads = heads_last ? 2 : 1, length = heads_last ? 1 : 2;
  return dims[heads] == 1 && dims[length] == x[length] && dims[3] == x[3] / 2 && (dims[0] == 1 || dims[0] == x[0]);
}

}  // namespace

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
