// Scaled dot-product attention, rotary position embeddings and caches.
#include <cmath>
#include <numeric>

#include "formats/tflite/writer/scores.h"
#include "ops/attention/attention.h"
#include "ops/gather/gather.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

/// softmax(scale * q @ k^T + mask) @ v on [batch, heads, rows, depth], float32.
class AttentionWriter {
 public:
  explicit AttentionWriter(OpWriter& w) : w_(w), s_(w.subgraph()), a_(w.attrs<AttentionAttrs>()) {}

  bool write() {
    if (!sizes()) return false;
    int q = heads(0, q_heads_), k = heads(1, kv_heads_), v = heads(2, kv_heads_);
    if (w_.has(4)) k = s_.add(Code::CONCATENATION, {w_.real(4), k}, DType::kF32, concat_options(2));
    if (w_.has(5)) v = s_.add(Code::CONCATENATION, {w_.real(5), v}, DType::kF32, concat_options(2));
    if (w_.wants(1)) w_.out(1, k);
    if (w_.wants(2)) w_.out(2, v);
    const double scale = a_.scale != 0 ? a_.scale : 1 / std::sqrt(static_cast<double>(depth_));
    int scores = ungrouped(product(grouped(w_.mul(q, s_.f32(scale))), k, true));
    show(0, scores);
    if (a_.softcap != 0)
      scores = w_.mul({w_.call(Code::TANH, {w_.mul(scores, s_.f32(1 / a_.softcap))}), s_.f32(a_.softcap)});
    show(1, scores);
    scores = masked(scores, q, k);
    show(2, scores);
    int weights = softmax(scores);
    // Rows that see no key give zeros.
    if (hides_) weights = w_.select({w_.compare(Code::EQUAL, weights, weights), weights, s_.f32(0)});
    show(3, weights);
    int y = ungrouped(product(grouped(weights), v, false));
    if (flat_) y = with_sizes(s_.transpose(y, {0, 2, 1, 3}), w_.in_type(0).shape[0], rows_, {q_heads_ * value_depth_});
    w_.out(0, y);
    return true;
  }

 private:
  bool sizes() {
    const ValueType &q = w_.in_type(0), &k = w_.in_type(1), &v = w_.in_type(2);
    if (!q.ranked || !k.ranked || !v.ranked || !w_.unquantized()) return false;
    flat_ = q.shape.rank() == 3;
    if (v.shape.rank() != k.shape.rank() || (!flat_ && q.shape.rank() != 4) || k.shape.rank() < 3) return false;
    q_heads_ = flat_ ? a_.num_heads : q.shape[1];
    const bool flat_keys = k.shape.rank() == 3;
    kv_heads_ = !flat_keys ? k.shape[1] : a_.kv_heads > 0 ? a_.kv_heads : a_.num_heads;
    if (q_heads_ < 1 || kv_heads_ < 1 || q_heads_ % kv_heads_ != 0 || q.shape.back() < 1 || v.shape.back() < 1)
      return false;
    depth_ = flat_ ? q.shape[2] / q_heads_ : q.shape[3];
    value_depth_ = flat_keys ? v.shape[2] / kv_heads_ : v.shape[3];
    rows_ = q.shape[flat_ ? 1 : 2];
    keys_ = k.shape[flat_keys ? 1 : 2];
    if (w_.has(4)) {
      const int64_t past = w_.in_type(4).ranked && w_.rank(4) == 4 ? w_.in_type(4).shape[2] : -1;
      keys_ = past < 0 || keys_ < 0 ? -1 : keys_ + past;
    }
    // Groups of heads and the logit of a sink have shapes of their own.
    return q_heads_ == kv_heads_ || (q.is_static() && keys_ >= 0);
  }

  /// x [batch, rows, ...] with other sizes behind its rows.
  int with_sizes(int x, int64_t batch, int64_t rows, const std::vector<int64_t>& sizes) {
    if (batch >= 0 || rows >= 0) {
      std::vector<int64_t> dims{batch, rows};
      dims.insert(dims.end(), sizes.begin(), sizes.end());
      return s_.reshape(x, dims);
    }
    const int front = s_.add(Code::SLICE, {dims_of(s_, x), s_.i32({0}), s_.i32({2})}, DType::kI32);
    const int dims = s_.add(Code::CONCATENATION, {front, s_.i32(sizes)}, DType::kI32, concat_options(0));
    return s_.add(Code::RESHAPE, {x, dims}, DType::kF32);
  }

  /// Operand i as [batch, count, rows, depth].
  int heads(int i, int64_t count) {
    const int x = w_.real(i);
    if (w_.rank(i) == 4) return x;
    const Shape& t = w_.in_type(i).shape;
    return s_.transpose(with_sizes(x, t[0], t[1], {count, t[2] / count}), {0, 2, 1, 3});
  }

  /// Heads of q that share one of k and v as rows of one head, and back.
  int grouped(int x) {
    const int64_t times = q_heads_ / kv_heads_;
    return times == 1 ? x : s_.reshape(x, {w_.in_type(0).shape[0], kv_heads_, times * rows_, -1});
  }
  int ungrouped(int x) {
    return q_heads_ == kv_heads_ ? x : s_.reshape(x, {w_.in_type(0).shape[0], q_heads_, rows_, -1});
  }
  int product(int a, int b, bool adjoint) {
    return s_.add(Code::BATCH_MATMUL, {a, b}, DType::kF32, options_of<tfl::BatchMatMulOptions>([=](auto& fbb) {
                    return tfl::CreateBatchMatMulOptions(fbb, false, adjoint);
                  }));
  }

  void show(int64_t stage, int x) {
    if (a_.qk_output == stage && w_.wants(3)) w_.out(3, x);
  }

  int softmax(int scores) {
    const auto apply = [&](int x) {
      return w_.call(Code::SOFTMAX, {x},
                     options_of<tfl::SoftmaxOptions>([](auto& b) { return tfl::CreateSoftmaxOptions(b, 1); }));
    };
    if (!w_.has(7) && !a_.smooth_softmax) return apply(scores);
    // One more logit takes part and goes away.
    const int first = s_.add(Code::SLICE, {scores, s_.i32({0, 0, 0, 0}), s_.i32({-1, -1, -1, 1})}, DType::kF32);
    const int none = w_.select({w_.compare(Code::EQUAL, first, first), s_.f32(0), s_.f32(0)});
    const int sink = w_.has(7) ? w_.add(none, s_.reshape(w_.real(7), {1, q_heads_, 1, 1})) : none;
    const int joined = s_.add(Code::CONCATENATION, {sink, scores}, DType::kF32, concat_options(3));
    return s_.add(Code::SLICE, {apply(joined), s_.i32({0, 0, 0, 1}), s_.i32({-1, -1, -1, -1})}, DType::kF32);
  }

  /// 0, 1, ... along dimension 2 of x, whose size may be known.
  int positions(int x, int64_t count) {
    if (count >= 0) {
      std::vector<int64_t> all(static_cast<size_t>(count));
      std::iota(all.begin(), all.end(), 0);
      return s_.i32(all);
    }
    return s_.add(Code::RANGE, {s_.i32_scalar(0), extent(x, -1), s_.i32_scalar(1)}, DType::kI32);
  }
  int extent(int x, int64_t known) {
    if (known >= 0) return s_.i32_scalar(known);
    return s_.reshape(s_.add(Code::SLICE, {dims_of(s_, x), s_.i32({2}), s_.i32({1})}, DType::kI32), {});
  }

  int masked(int scores, int q, int k) {
    int visible = -1;
    if (w_.has(3)) {
      const int mask = w_.in(3);
      if (s_.at(mask).dtype == DType::kBool)
        visible = mask;
      else
        scores = w_.add(scores, mask);
    }
    const auto also = [&](int more) {
      visible = visible < 0 ? more : s_.add(Code::LOGICAL_AND, {visible, more}, DType::kBool);
    };
    const int keys = positions(k, keys_);
    const int used = w_.has(6) ? s_.reshape(s_.cast(w_.in(6), DType::kI32), {-1, 1, 1, 1}) : -1;
    if (used >= 0) also(w_.compare(Code::LESS, keys, used));
    if (a_.causal || a_.window >= 0 || a_.window_right >= 0) {
      int at = s_.reshape(positions(q, rows_), {-1, 1});
      if (a_.causal_from_end) {
        const int rows = extent(q, rows_);
        const int past = w_.has(4)   ? extent(w_.in(4), w_.in_type(4).ranked ? w_.in_type(4).shape[2] : -1)
                         : used >= 0 ? w_.sub(used, rows)
                                     : w_.binary(Code::MAXIMUM, {w_.sub(extent(k, keys_), rows), s_.i32_scalar(0)});
        at = w_.add(at, past);
      }
      if (a_.causal) also(w_.compare(Code::LESS_EQUAL, keys, at));
      if (a_.window >= 0) also(w_.compare(Code::GREATER_EQUAL, keys, w_.sub(at, s_.i32_scalar(a_.window))));
      if (a_.window_right >= 0) also(w_.compare(Code::LESS_EQUAL, keys, w_.add(at, s_.i32_scalar(a_.window_right))));
    }
    if (visible < 0) return scores;
    hides_ = true;
    return w_.select(visible, scores, s_.f32(-INFINITY));
  }

  OpWriter& w_;
  SubgraphWriter& s_;
  const AttentionAttrs& a_;
  bool flat_ = false, hides_ = false;
  int64_t q_heads_ = 0, kv_heads_ = 0, depth_ = 0, value_depth_ = 0, rows_ = -1, keys_ = -1;
};

}  // namespace

bool write_attention(OpWriter& w) { return AttentionWriter(w).write(); }

/// Rows written into each sequence's part of a cache.
bool write_tensor_scatter(OpWriter& w) {
  const auto& a = w.attrs<ScatterAttrs>();
  SubgraphWriter& s = w.subgraph();
  const ValueType &cache = w.in_type(0), &update = w.in_type(1);
  const int rank = w.rank(0);
  if (!cache.is_static() || !update.is_static() || !w.unquantized() || rank < 2 ||
      a.reduction != ScatterAttrs::Reduce::kNone)
    return false;
  const int64_t axis = wrapped_axis(a.axis, rank), batch = cache.shape[0];
  if (axis == 0 || batch < 1 || (w.has(2) && !w.in_type(2).is_static())) return false;
  const int firsts = w.has(2) ? w.in_i32(2) : s.i32(std::vector<int64_t>(static_cast<size_t>(batch), 0));
  const DType dtype = w.file_dtype(w.in(0));
  std::vector<int> parts;
  for (int64_t b = 0; b < batch; ++b) {
    const auto part = [&](int x, int dims) {
      std::vector<int64_t> begin(static_cast<size_t>(dims), 0), size(static_cast<size_t>(dims), -1);
      begin[0] = b;
      size[0] = 1;
      return s.add(Code::SLICE, {x, s.i32(begin), s.i32(size)}, s.at(x).dtype);
    };
    std::vector<int64_t> axes{axis};
    const int first = part(firsts, 1), at = spread(w, first, s.i32(axes), rank, 0);
    parts.push_back(s.add(Code::DYNAMIC_UPDATE_SLICE, {part(w.in(0), rank), part(w.in(1), rank), at}, dtype));
  }
  w.out(0, s.add(Code::CONCATENATION, parts, dtype, concat_options(0)));
  return true;
}

namespace {

/// Rows of a table [rows, half] or [batch, length, half] for each position: [batch or 1, length, half]. Nothing if the
/// positions have a form that the operator does not know.
std::optional<int> angles(OpWriter& w, int input, int64_t batch, int64_t length, int64_t half) {
  SubgraphWriter& s = w.subgraph();
  const int64_t rows = w.in_type(input).shape.elements() / half;
  const int table = s.reshape(w.real(input), {rows, half});
  if (!w.has(3)) {
    if (rows == batch * length) return s.reshape(table, {batch, length, half});
    if (rows < length || (rows != length && batch != 1)) return std::nullopt;
    return s.reshape(s.add(Code::SLICE, {table, s.i32({0, 0}), s.i32({length, half})}, DType::kF32), {1, length, half});
  }
  const ValueType& places = w.in_type(3);
  const int64_t n = places.is_static() ? places.shape.elements() : -1;
  int at = s.cast(w.in(3), DType::kI32);
  if (n == batch * length || (n < 0 && places.shape.rank() == 2)) {
    at = s.reshape(at, {-1, length});
  } else if (n == length) {
    at = s.reshape(at, {1, length});
  } else if (n == 1 || n == batch) {
    std::vector<int64_t> steps(static_cast<size_t>(length));
    std::iota(steps.begin(), steps.end(), 0);
    at = w.add({s.reshape(at, {n, 1}), s.i32(steps)});
  } else {
    return std::nullopt;
  }
  return s.add(Code::GATHER, {table, at}, DType::kF32, gather_options(0));
}

}  // namespace

bool write_rotary(OpWriter& w) {
  const auto& a = w.attrs<RotaryAttrs>();
  SubgraphWriter& s = w.subgraph();
  for (int i = 0; i < 3; ++i)
    if (!w.in_type(i).is_static()) return false;
  const Shape& shape = w.in_type(0).shape;
  const bool flat = shape.rank() == 3, heads_behind = flat || a.batch_seq_heads;
  const int64_t heads = flat ? std::max<int64_t>(a.num_heads, 1) : 0;
  if (!w.unquantized() || shape.elements() == 0 || (!flat && shape.rank() != 4) || (flat && shape[2] % heads != 0))
    return false;
  std::vector<int64_t> dims(shape.begin(), shape.end());
  if (flat) dims = {shape[0], shape[1], heads, shape[2] / heads};
  const int64_t depth = dims[3], rotary = a.rotary_dim > 0 ? a.rotary_dim : depth, half = rotary / 2;
  if (rotary > depth || rotary % 2 != 0) return false;
  const int64_t length = dims[heads_behind ? 1 : 2];
  const auto table = [&](int input) -> std::optional<int> {
    const auto rows = angles(w, input, dims[0], length, half);
    if (!rows) return std::nullopt;
    return s.reshape(
        *rows, heads_behind ? std::vector<int64_t>{-1, length, 1, half} : std::vector<int64_t>{-1, 1, length, half});
  };
  const auto cosine = table(1), sine = table(2);
  if (!cosine || !sine) return false;
  const int x = s.reshape(w.real(0), dims);
  const auto columns = [&](int v, int64_t begin, int64_t size) {
    return s.add(Code::SLICE, {v, s.i32({0, 0, 0, begin}), s.i32({-1, -1, -1, size})}, DType::kF32);
  };
  int first = -1, second = -1;
  if (a.interleaved) {
    const int64_t pairs = dims[0] * dims[1] * dims[2] * half;
    const int rows = s.reshape(rotary < depth ? columns(x, 0, rotary) : x, {pairs, 2});
    const auto half_of = [&](int64_t k) {
      return s.reshape(s.add(Code::SLICE, {rows, s.i32({0, k}), s.i32({-1, 1})}, DType::kF32),
                       {dims[0], dims[1], dims[2], half});
    };
    first = half_of(0);
    second = half_of(1);
  } else {
    first = columns(x, 0, half);
    second = columns(x, half, half);
  }
  int f = w.sub({w.mul(first, *cosine), w.mul(second, *sine)}),
      t = w.add({w.mul(first, *sine), w.mul(second, *cosine)});
  if (a.scale != 1) {
    f = w.mul(f, s.f32(a.scale));
    t = w.mul(t, s.f32(a.scale));
  }
  int y = -1;
  if (a.interleaved) {
    const int64_t pairs = dims[0] * dims[1] * dims[2] * half;
    const int joined = s.add(Code::CONCATENATION, {s.reshape(f, {pairs, 1}), s.reshape(t, {pairs, 1})}, DType::kF32,
                             concat_options(1));
    y = s.reshape(joined, {dims[0], dims[1], dims[2], rotary});
  } else {
    y = s.add(Code::CONCATENATION, {f, t}, DType::kF32, concat_options(3));
  }
  if (rotary < depth)
    y = s.add(Code::CONCATENATION, {y, columns(x, rotary, depth - rotary)}, DType::kF32, concat_options(3));
  w.out(0, s.reshape(y, {shape.begin(), shape.end()}));
  return true;
}

}  // namespace smelt::tflite
