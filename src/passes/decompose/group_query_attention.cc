// GroupQueryAttention, decomposed into rotary embeddings, cache updates and attention.
#include <algorithm>

#include "ops/attention/attention.h"
#include "ops/core/decomposition.h"
#include "ops/gather/gather.h"
#include "ops/shape/shape.h"
#include "passes/decompose/rules.h"
#include "tensor/numeric.h"

namespace smelt::decomposition {
namespace {

enum Input : size_t { kQ, kK, kV, kPastK, kPastV, kSeqLengths, kTotal, kCos, kSin, kPositions, kBias, kHeadSinks };

class GroupQuery {
 public:
  explicit GroupQuery(const NodeSpec& spec)
      : spec_(spec),
        a_(spec.attrs<GroupQueryAttrs>()),
        c_(spec),
        packed_(!spec.has(kK)),
        given_(spec.has(kPastK)),
        past_(given_) {}

  std::optional<DecomposedNode> run() {
    if (a_.window_cache) return std::nullopt;
    const Shape& q = spec_.inputs[kQ].shape;
    const int64_t heads = packed_ ? a_.num_heads + 2 * a_.kv_heads : a_.num_heads;
    if (q.rank() != 3 || heads < 1 || a_.kv_heads < 1 || q[2] % heads != 0) return std::nullopt;
    batch_ = q[0];
    rows_ = q[1];
    depth_ = q[2] / heads;
    const Shape& present = spec_.outputs.size() > 1 ? spec_.outputs[1].shape : Shape{};
    if (present.rank() != 4 || spec_.inputs[kSeqLengths].shape.elements() != batch_) return std::nullopt;
    capacity_ = present[2];
    if (capacity_ < rows_) return std::nullopt;  // for the reference to say
    if (given_ && (spec_.inputs[kPastK].shape.rank() != 4 || spec_.inputs[kPastK].shape[2] > capacity_))
      return std::nullopt;
    if (!set_first()) return std::nullopt;
    const int64_t width = a_.num_heads * depth_, kv_width = a_.kv_heads * depth_;
    const ValueId query = rotated(fresh(kQ, 0, width), a_.num_heads);
    const ValueId keys = joined(rotated(fresh(kK, width, width + kv_width), a_.kv_heads), kPastK);
    const ValueId values = joined(fresh(kV, width + kv_width, width + 2 * kv_width), kPastV);
    if (query == kNoValue || keys == kNoValue || values == kNoValue) return std::nullopt;
    const ValueId y = attention(query, keys, values);
    return c_.finish({y, keys, values});
  }

 private:
  ValueId number(int64_t v) { return c_.scalar(DType::kI32, static_cast<double>(v)); }

  /// The first row's place in the cache, [batch]; none: 0. A prompt, as long as the total, begins at 0.
  bool set_first() {
    const Tensor* total = given_ ? spec_.constant(kTotal) : nullptr;
    if (given_ && (!spec_.has(kTotal) || spec_.inputs[kTotal].shape.elements() != 1)) return false;
    from_start_ = !given_ || (total && get_int(*total, 0) == rows_);
    if (from_start_) {
      past_ = given_ && spec_.inputs[kPastK].shape[2] > rows_;  // what the prompt leaves of it is kept
      if (past_) first_ = c_.constant(Tensor(DType::kI32, Shape{batch_}));
      return true;
    }
    const ValueId length = c_.cast(c_.reshape(c_.input(kSeqLengths), {batch_}), DType::kI32);
    first_ = c_.binary(Binary::kSub, length, number(rows_ - 1));
    if (first_ == kNoValue || total) return first_ != kNoValue;
    const ValueId prompt =
        c_.binary(Binary::kEqual, c_.cast(c_.reshape(c_.input(kTotal), {1}), DType::kI32), number(rows_));
    first_ = c_.where(prompt, number(0), first_);
    return first_ != kNoValue;
  }

  /// An operand [batch, rows, width], columns [begin, end) of the first one when all are packed there.
  ValueId fresh(Input input, int64_t begin, int64_t end) {
    if (!packed_) return c_.input(input);
    return c_.add(Op::kSlice, make_attrs<NoAttrs>(), {c_.input(kQ), c_.i64({begin}), c_.i64({end}), c_.i64({2})});
  }

  ValueId positions() {
    if (spec_.has(kPositions) && spec_.inputs[kPositions].shape.elements() == batch_ * rows_)
      return c_.reshape(c_.input(kPositions), {batch_, rows_});
    Tensor t(DType::kI32, Shape{from_start_ ? batch_ : 1, rows_});
    for (int64_t i = 0; i < t.elements(); ++i) t.data<int32_t>()[i] = static_cast<int32_t>(i % rows_);
    const ValueId counted = c_.constant(std::move(t));
    return from_start_ ? counted : c_.binary(Binary::kAdd, c_.reshape(first_, {batch_, 1}), counted);
  }

  ValueId rotated(ValueId x, int64_t heads) {
    if (!a_.rotary || x == kNoValue) return x;
    if (!spec_.has(kCos) || !spec_.has(kSin) || spec_.inputs[kCos].shape.rank() != 2) return kNoValue;
    RotaryAttrs r;
    r.interleaved = a_.interleaved;
    r.rotary_dim = 2 * spec_.inputs[kCos].shape[1];
    r.num_heads = heads;
    return c_.add(Op::kRotary, make_attrs<RotaryAttrs>(r), {x, c_.input(kCos), c_.input(kSin), positions()});
  }

  /// The cache [batch, heads, capacity, depth] with fresh rows [batch, rows, heads * depth] in it.
  ValueId joined(ValueId x, Input past) {
    if (x == kNoValue) return kNoValue;
    x = c_.transpose(c_.reshape(x, {batch_, rows_, a_.kv_heads, depth_}), {0, 2, 1, 3});
    if (x == kNoValue || !past_) return filled(x);
    ScatterAttrs s;
    s.axis = 2;
    const Shape cache{batch_, a_.kv_heads, capacity_, depth_};
    const ValueId old =
        spec_.inputs[past].shape[2] > 0 ? filled(c_.input(past)) : c_.constant(Tensor(c_.dtype(x), cache));
    return c_.add(Op::kTensorScatter, make_attrs<ScatterAttrs>(s), {old, x, first_});
  }

  /// With zeros behind, up to the capacity.
  ValueId filled(ValueId x) {
    if (x == kNoValue) return kNoValue;
    Shape rest = c_.shape(x);
    rest[2] = capacity_ - rest[2];
    if (rest[2] == 0) return x;
    return c_.add(Op::kConcat, make_attrs<AxisAttrs>(2), {x, c_.constant(Tensor(c_.dtype(x), rest))});
  }

  ValueId attention(ValueId query, ValueId keys, ValueId values) {
    AttentionAttrs t;
    t.num_heads = a_.num_heads;
    t.kv_heads = a_.kv_heads;
    t.scale = a_.scale;
    t.causal = t.causal_from_end = true;
    t.softcap = std::max(a_.softcap, 0.0);
    t.window = a_.window > 0 ? a_.window - 1 : -1;
    t.smooth_softmax = a_.smooth_softmax && !spec_.has(kHeadSinks);
    ValueId used = first_ == kNoValue ? kNoValue : c_.binary(Binary::kAdd, first_, number(rows_));
    if (first_ == kNoValue && capacity_ > rows_) {
      Tensor all(DType::kI32, Shape{batch_});
      std::fill_n(all.data<int32_t>(), batch_, static_cast<int32_t>(rows_));
      used = c_.constant(std::move(all));
    }
    const auto given = [&](Input i) { return spec_.has(i) ? c_.input(i) : kNoValue; };
    return c_.add(Op::kAttention, make_attrs<AttentionAttrs>(t),
                  {query, keys, values, given(kBias), kNoValue, kNoValue, used, given(kHeadSinks)}, true);
  }

  const NodeSpec& spec_;
  const GroupQueryAttrs& a_;
  Decomposition c_;
  bool packed_;
  bool given_;               ///< caches come in, perhaps empty
  bool past_;                ///< rows go into a cache that is there
  bool from_start_ = false;  ///< known to be a prompt
  int64_t batch_ = 0, rows_ = 0, depth_ = 0, capacity_ = 0;
  ValueId first_ = kNoValue;
};

}  // namespace

std::optional<DecomposedNode> group_query_attention(const NodeSpec& spec) {
  if (spec.has(kPastK) != spec.has(kPastV) || spec.has(kK) != spec.has(kV)) return std::nullopt;
  if (!spec.attrs<GroupQueryAttrs>().causal || spec.outputs.size() > 3) return std::nullopt;
  const DType dtype = spec.outputs[0].dtype;
  for (size_t i : {kQ, kK, kV, kPastK, kPastV, kHeadSinks})
    if (spec.has(i) && (spec.inputs[i].dtype != dtype || !unquantized(spec, {i}, {DType::kF32, DType::kF16})))
      return std::nullopt;
  // The reference leaves scores alone beyond the bias, where attention hides keys.
  if (spec.has(kBias)) {
    const Shape& bias = spec.inputs[kBias].shape;
    const Shape& present = spec.outputs.size() > 1 ? spec.outputs[1].shape : bias;
    if (bias.rank() != 4 || present.rank() != 4 || bias[2] != spec.inputs[kQ].shape[1] || bias[3] != present[2])
      return std::nullopt;
  }
  return GroupQuery(spec).run();
}

}  // namespace smelt::decomposition
