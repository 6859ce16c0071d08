// Attention and rotary embeddings, in elementary operators.
#include <cmath>
#include <limits>

#include "formats/onnx/writer/op_writers.h"
#include "ops/attention/attention.h"

namespace smelt::onnx {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

/// Scaled dot-product attention on [B, H, S, D].
class AttentionForm {
 public:
  explicit AttentionForm(NodeWriter& n) : n_(n), a_(n.attrs<AttentionAttrs>()), dtype_(n.real_dtype(0)) {}

  void write() {
    if (n_.has(7) || a_.smooth_softmax) return n_.fail("sinks or a smooth softmax");
    const bool one_length = n_.has(6) && n_.type(6).is_static() && n_.type(6).shape.elements() == 1;
    if (n_.has(6) && (!one_length || n_.has(4) || n_.has(3)))
      return n_.fail("several lengths of keys, or one beside past keys or a mask");
    if (a_.window >= 0 || a_.window_right >= 0) return n_.fail("a window of keys");
    flat_ = n_.rank(0) == 3;
    if (flat_ && a_.num_heads <= 0) return n_.fail("the number of heads must be known");
    const int64_t kv = a_.kv_heads > 0 ? a_.kv_heads : a_.num_heads;
    const Name q = heads(0, a_.num_heads);
    Name k = heads(1, kv), v = heads(2, kv);
    if (n_.has(4)) k = n_.op("Concat", {n_.in(4), k}, {{"axis", int64_t{2}}});
    if (n_.has(5)) v = n_.op("Concat", {n_.in(5), v}, {{"axis", int64_t{2}}});
    if (one_length) {
      k = first_keys(k);
      v = first_keys(v);
    }
    n_.bind(1, k);
    n_.bind(2, v);
    repeat(k, v, kv);
    Name scores = n_.op("MatMul", {scaled(q), n_.transpose(k, {0, 1, 3, 2})});
    show(0, scores);
    if (a_.softcap > 0) scores = n_.op("Mul", {n_.op("Tanh", {n_.op("Div", {scores, s(a_.softcap)})}), s(a_.softcap)});
    show(1, scores);
    scores = masked(scores, q, k);
    show(2, scores);
    Name weights = n_.op("Softmax", {scores}, {{"axis", int64_t{-1}}});
    if (hides_) weights = n_.op("Where", {n_.op("IsNaN", {weights}), s(0), weights});
    show(3, weights);
    Name y = n_.op("MatMul", {weights, v});
    if (flat_) {
      y = n_.transpose(y, {0, 2, 1, 3});
      y = n_.reshape(y, {0, 0, -1});
    }
    n_.bind(0, y);
  }

 private:
  Name s(double v) { return n_.scalar(dtype_, v); }

  Name heads(int i, int64_t count) {
    if (n_.rank(i) != 3) return n_.in(i);
    return n_.transpose(n_.reshape(n_.in(i), {0, 0, count, -1}), {0, 2, 1, 3});
  }

  /// Those of the keys or values [B, H, T, D] that count.
  Name first_keys(Name x) { return n_.op("Slice", {x, n_.i64({0}), n_.reshape(n_.in_i64(6), {1}), n_.i64({2})}); }

  /// Each head of k and v serves Hq / Hkv heads of q.
  void repeat(Name& k, Name& v, int64_t kv) {
    int64_t q_heads = a_.num_heads;
    if (!flat_) {
      q_heads = n_.type(0).shape[1];
      kv = n_.rank(1) == 3 ? kv : n_.type(1).shape[1];
    }
    if (q_heads <= 0 || kv <= 0) return;
    if (q_heads == kv) return;
    const int64_t times = q_heads / kv;
    for (Name* x : {&k, &v}) {
      const Name wide = n_.op("Tile", {n_.unsqueeze(*x, {2}), n_.i64({1, 1, times, 1, 1})});
      const Name shape = n_.op("Shape", {*x});
      const Name size = n_.op("Concat", {n_.slice(shape, 0, 1, 0), n_.i64({q_heads}), n_.slice(shape, 2, 4, 0)},
                              {{"axis", int64_t{0}}});
      *x = n_.op("Reshape", {wide, size});
    }
  }

  Name scaled(Name q) {
    if (a_.scale != 0) return n_.op("Mul", {q, s(a_.scale)});
    const int64_t depth =
        flat_ ? (n_.type(0).shape[2] > 0 ? n_.type(0).shape[2] / a_.num_heads : -1) : n_.type(0).shape.back();
    if (depth <= 0) n_.fail("the depth of a head must be known");
    return n_.op("Mul", {q, s(1 / std::sqrt(static_cast<double>(std::max<int64_t>(depth, 1))))});
  }

  Name masked(Name scores, Name q, Name k) {
    if (n_.has(3)) {
      hides_ = n_.dtype(3) == DType::kBool;
      scores = hides_ ? n_.op("Where", {n_.in(3), scores, s(kHidden)}) : n_.op("Add", {scores, n_.in(3)});
    }
    if (!a_.causal) return scores;
    const auto extent = [&](Name x) { return n_.squeeze(n_.slice(n_.op("Shape", {x}), 2, 3, 0), {0}); };
    const Name zero = n_.scalar(DType::kI64, 0), one = n_.scalar(DType::kI64, 1);
    const Name rows = extent(q), keys = extent(k);
    Name at = n_.op("Range", {zero, rows, one});
    if (a_.causal_from_end) {
      const Name past = n_.has(4) ? extent(n_.in(4)) : n_.op("Max", {n_.op("Sub", {keys, rows}), zero});
      at = n_.op("Add", {at, past});
    }
    const Name visible = n_.op("GreaterOrEqual", {n_.unsqueeze(at, {1}), n_.op("Range", {zero, keys, one})});
    return n_.op("Where", {visible, scores, s(kHidden)});
  }

  void show(int64_t stage, Name x) {
    if (a_.qk_output == stage && n_.wants(3)) n_.bind(3, n_.op("Identity", {x}));
  }

  NodeWriter& n_;
  const AttentionAttrs& a_;
  DType dtype_;
  bool flat_ = false, hides_ = false;
};

void write_attention(NodeWriter& n) { AttentionForm(n).write(); }

/// x with pairs of its last dimension rotated; x is [B, H, S, D], [B, S, H, D] or [B, S, H * D].
void write_rotary(NodeWriter& n) {
  const auto& a = n.attrs<RotaryAttrs>();
  const int rank = n.rank(0);
  const bool flat = rank == 3;
  if (flat && a.num_heads <= 0) return n.fail("the number of heads must be known");
  Name x = flat ? n.reshape(n.in(0), {0, 0, a.num_heads, -1}) : n.in(0);
  const bool heads_behind = flat || a.batch_seq_heads;
  const auto angles = [&](int i) {
    Name v = n.in(i);
    if (n.has(3)) v = n.op("Gather", {v, n.in_i64(3)});
    const int own = n.has(3) ? n.rank(3) + 1 : n.rank(i);
    if (own == 2) v = n.unsqueeze(v, {0});
    return n.unsqueeze(v, {heads_behind ? 2 : 1});
  };
  const Name cosine = angles(1), sine = angles(2);
  Name rest = kNoName;
  if (a.rotary_dim > 0) {
    rest = n.slice(x, a.rotary_dim, INT64_MAX, -1);
    x = n.slice(x, 0, a.rotary_dim, -1);
  }
  Name even = kNoName, odd = kNoName;
  if (a.interleaved) {
    const Name pairs = n.reshape(x, {0, 0, 0, -1, 2});
    even = n.squeeze(n.slice(pairs, 0, 1, -1), {-1});
    odd = n.squeeze(n.slice(pairs, 1, 2, -1), {-1});
  } else {
    const auto parts =
        n.ops("Split", {x}, 2,
              n.model().need_opset(18) ? std::vector<Attribute>{{"axis", int64_t{-1}}, {"num_outputs", int64_t{2}}}
                                       : std::vector<Attribute>{{"axis", int64_t{-1}}});
    even = parts[0];
    odd = parts[1];
  }
  const Name first = n.op("Sub", {n.op("Mul", {even, cosine}), n.op("Mul", {odd, sine})});
  const Name second = n.op("Add", {n.op("Mul", {even, sine}), n.op("Mul", {odd, cosine})});
  Name y = kNoName;
  if (a.interleaved)
    y = n.reshape(n.op("Concat", {n.unsqueeze(first, {-1}), n.unsqueeze(second, {-1})}, {{"axis", int64_t{-1}}}),
                  {0, 0, 0, -1});
  else
    y = n.op("Concat", {first, second}, {{"axis", int64_t{-1}}});
  if (rest != kNoName) y = n.op("Concat", {y, rest}, {{"axis", int64_t{-1}}});
  if (flat) y = n.reshape(y, {0, 0, -1});
  if (a.scale != 1) y = n.op("Mul", {y, n.scalar(n.real_dtype(0), a.scale)});
  n.bind(0, y);
}

constexpr OpWriter kAttention[] = {
    {Op::kAttention, write_attention, "MatMul, Softmax, Where, ..."},
    {Op::kRotary, write_rotary, "Split, Mul, Sub, Add, Concat"},
};

}  // namespace

std::span<const OpWriter> attention_writers() { return kAttention; }

}  // namespace smelt::onnx
