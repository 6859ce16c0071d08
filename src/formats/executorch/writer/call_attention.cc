// Rotary embedding and linear attention as ATen calls.
#include <cmath>
#include <numeric>

#include "formats/executorch/writer/call_writer.h"
#include "ops/attention/attention.h"

namespace smelt::executorch {
namespace {

/// Rows of tables of `rows` rows that the positions read, int64 [1 or batch, length]. nullopt if the tables are too
/// short or the position ids (input 3) of another number.
std::optional<int> positions(CallWriter& w, int64_t batch, int64_t length, int64_t rows) {
  PlanWriter& p = w.plan();
  const auto counted = [&](int64_t sequences) {
    std::vector<int64_t> steps(static_cast<size_t>(sequences * length));
    std::iota(steps.begin(), steps.end(), 0);
    return int64_constant(w, steps, Shape{sequences, length});
  };
  if (!w.has(3)) {
    const int64_t sequences = rows == length ? 1 : batch;
    return rows < sequences * length ? std::nullopt : std::optional(counted(sequences));
  }
  const int ids = w.cast(w.in(3), DType::kI64);
  const int64_t n = w.shape(ids).elements();
  if (n == batch * length) return p.reshape(ids, Shape{batch, length});
  if (n == length) return p.reshape(ids, Shape{1, length});
  if (n != 1 && n != batch) return std::nullopt;
  return w.add({p.reshape(ids, Shape{n, 1}), counted(1)});
}

/// x [..., depth]: pairs of its first 2 * half columns are turned by the angles whose cosines and sines are given.
int turned_pairs(CallWriter& w, int x, int cosines, int sines, const RotaryAttrs& a, int64_t half) {
  const Shape s = w.shape(x);
  const int last = s.rank() - 1;
  const auto part = [&](int64_t which) {
    if (a.interleaved) return sliced(w, x, last, which, 2 * half, 2);
    return sliced(w, x, last, which * half, (which + 1) * half);
  };
  const int first = part(0), second = part(1);
  const auto scaled = [&](int v) { return a.scale == 1 ? v : w.mul(v, w.number_like(v, a.scale)); };
  const int left = scaled(w.sub({w.mul(first, cosines), w.mul(second, sines)}));
  const int right = scaled(w.add({w.mul(first, sines), w.mul(second, cosines)}));
  Shape whole = s;
  whole[last] = 2 * half;
  std::vector<int> parts{left, right};
  if (a.interleaved) parts = {w.plan().reshape(stacked(w, parts, last + 1), whole)};
  if (2 * half < s[last]) parts.push_back(sliced(w, x, last, 2 * half, s[last]));
  return concatenated(w, parts, last);
}

}  // namespace

bool call_rotary(CallWriter& w) {
  const auto& a = w.attrs<RotaryAttrs>();
  const ValueType& x = w.in_type(0);
  if (x.quant || !is_float(x.dtype) || x.shape.rank() < 3 || x.shape.rank() > 4) return false;
  const bool heads_first = x.shape.rank() == 4 && !a.batch_seq_heads;
  Shape s = x.shape;
  if (s.rank() == 3) {
    const int64_t heads = std::max<int64_t>(a.num_heads, 1);
    if (s[2] % heads != 0) return false;
    s = Shape{s[0], s[1], heads, s[2] / heads};
  }
  const int64_t half = (a.rotary_dim > 0 ? a.rotary_dim : s[3]) / 2;
  if (half == 0) return w.out(0, w.in(0));
  const int64_t rows = w.in_type(1).shape.elements() / half;
  if (2 * half > s[3] || w.in_type(1).shape.elements() != rows * half || w.in_type(2).shape.elements() != rows * half)
    return false;
  const int64_t length = s[heads_first ? 2 : 1];
  const auto at = positions(w, s[0], length, rows);
  if (!at) return false;
  PlanWriter& p = w.plan();
  const int64_t sequences = w.shape(*at)[0];
  const auto angles = [&](int i) {
    const int table = p.reshape(w.cast(w.real(i), DType::kF32), Shape{rows, half});
    return p.reshape(look_up(w, table, *at),
                     heads_first ? Shape{sequences, 1, length, half} : Shape{sequences, length, 1, half});
  };
  const int cosines = angles(1), sines = angles(2);
  const int y = turned_pairs(w, p.reshape(w.cast(w.in(0), DType::kF32), s), cosines, sines, a, half);
  return w.out(0, w.cast(p.reshape(y, x.shape), x.dtype));
}

namespace {

/// The state [batch, heads, key, value] of a linear attention, one token after the other.
class LinearState {
 public:
  LinearState(CallWriter& w, const LinearAttentionAttrs& a) : w_(w), a_(a), p_(w.plan()) {
    const Shape &q = w.in_type(0).shape, &v = w.in_type(2).shape;
    batch_ = q[0];
    steps_ = q[1];
    key_ = q[2] / a.q_heads;
    value_ = v[2] / a.kv_heads;
    const Shape cells{batch_, a.kv_heads, key_, value_};
    state_ = w.has(3) ? p_.reshape(real(3), cells) : p_.constant(Tensor(DType::kF32, cells));
  }
  int state() const { return state_; }

  /// Outputs of all tokens [batch, steps, q_heads * value]; nullopt where an operand does not fit.
  std::optional<int> run() {
    if (a_.gated && !widths(4, {a_.kv_heads, a_.kv_heads * key_}, decay_)) return std::nullopt;
    if (a_.delta && !widths(5, {a_.kv_heads, 1}, rate_)) return std::nullopt;
    if (a_.gated) decay_ = w_.unary("exp", decay_);
    const double scale = a_.scale != 0 ? a_.scale : 1 / std::sqrt(static_cast<double>(key_));
    const int query = real(0);
    const int q = w_.mul(query, w_.number_like(query, scale)), k = real(1), v = real(2);
    std::vector<int> tokens;
    for (int64_t t = 0; t < steps_; ++t) {
      const int asked = token(q, t, a_.q_heads / a_.kv_heads, key_), key = token(k, t, 1, key_);
      const auto y = step(asked, key, token(v, t, 1, value_), t);
      if (!y) return std::nullopt;
      tokens.push_back(p_.reshape(*y, Shape{batch_, a_.q_heads * value_}));
    }
    return stacked(w_, tokens, 1);
  }

 private:
  int real(int i) { return w_.cast(w_.in(i), DType::kF32); }

  /// Reads input i as [batch, steps, width] if its width is among `allowed`.
  bool widths(int i, std::initializer_list<int64_t> allowed, int& to) {
    if (!w_.has(i)) return false;
    const int64_t n = w_.in_type(i).shape.elements(), width = n / (batch_ * steps_);
    if (std::ranges::count(allowed, width) == 0 || width * batch_ * steps_ != n) return false;
    to = p_.reshape(real(i), Shape{batch_, steps_, width});
    return true;
  }
  /// Token t of x [batch, steps, ...] as [batch, kv_heads, rows, columns].
  int token(int x, int64_t t, int64_t rows, int64_t columns) {
    return p_.reshape(sliced(w_, x, 1, t, t + 1), Shape{batch_, a_.kv_heads, rows, columns});
  }
  int factor(int x, int64_t t) {
    const int row = sliced(w_, x, 1, t, t + 1);
    const int64_t heads = w_.shape(row)[2] == 1 ? 1 : a_.kv_heads;
    return p_.reshape(row, Shape{batch_, heads, w_.shape(row)[2] / heads, 1});
  }

  std::optional<int> step(int q, int k, int v, int64_t t) {
    if (a_.gated) state_ = w_.mul(state_, factor(decay_, t));
    if (a_.delta) {
      const auto seen = product(w_, k, state_);
      if (!seen) return std::nullopt;
      v = w_.mul({w_.sub(v, *seen), factor(rate_, t)});
    }
    const int column = p_.reshape(k, Shape{batch_, a_.kv_heads, key_, 1});
    state_ = w_.add(state_, w_.mul(column, v));
    return product(w_, q, state_);
  }

  CallWriter& w_;
  const LinearAttentionAttrs& a_;
  PlanWriter& p_;
  int64_t batch_ = 0, steps_ = 0, key_ = 0, value_ = 0;
  int state_ = -1, decay_ = -1, rate_ = -1;
};

}  // namespace

bool call_linear_attention(CallWriter& w) {
  const auto& a = w.attrs<LinearAttentionAttrs>();
  const Shape &q = w.in_type(0).shape, &v = w.in_type(2).shape;
  if (q.rank() != 3 || v.rank() != 3 || q.elements() == 0 || v.elements() == 0 || q[1] > kMostSteps) return false;
  if (w.has(3) && w.in_type(3).shape.elements() != q[0] * a.kv_heads * (q[2] / a.q_heads) * (v[2] / a.kv_heads))
    return false;
  LinearState cell(w, a);
  const auto y = cell.run();
  if (!y || (w.wants(0) && !w.out(0, w.cast(*y, w.out_type(0).dtype)))) return false;
  return !w.wants(1) || w.out(1, w.cast(w.plan().reshape(cell.state(), w.out_type(1).shape), w.out_type(1).dtype));
}

}  // namespace smelt::executorch
