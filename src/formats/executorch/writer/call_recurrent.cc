// Recurrent layers of ONNX, of known length, as ATen calls, one group for each step.
#include <algorithm>

#include "formats/executorch/writer/call_writer.h"
#include "ops/elementwise/elementwise.h"
#include "ops/recurrent/gates.h"
#include "ops/recurrent/recurrent.h"
#include "tensor/numeric.h"

namespace smelt::executorch {
namespace {

/// Columns of gate `g` in [batch, gates * hidden].
int gate_columns(CallWriter& w, int x, int64_t g, int64_t hidden) {
  return sliced(w, x, 1, g * hidden, (g + 1) * hidden, 1);
}

int gate_value(CallWriter& w, const RecurrentGate& gate, int x) {
  using Fn = RecurrentGate::Fn;
  const auto function = [&](Unary fn, double a = 0, double b = 0) { return *unary_value(w, UnaryAttrs(fn, a, b), x); };
  switch (gate.fn) {
    case Fn::kAffine:
      return w.add({w.mul(x, w.number_like(x, gate.alpha)), w.number_like(x, gate.beta)});
    case Fn::kElu:
      return function(Unary::kElu, gate.alpha, 1);
    case Fn::kHardSigmoid:
      return function(Unary::kHardSigmoid, gate.alpha, gate.beta);
    case Fn::kLeakyRelu:
      return function(Unary::kLeakyRelu, gate.alpha);
    case Fn::kRelu:
      return w.unary("relu", x);
    case Fn::kScaledTanh:
      return w.mul({w.unary("tanh", w.mul(x, w.number_like(x, gate.beta))), w.number_like(x, gate.alpha)});
    case Fn::kSigmoid:
      return w.unary("sigmoid", x);
    case Fn::kSoftplus:
      return function(Unary::kSoftplus, 1);
    case Fn::kSoftsign:
      return function(Unary::kSoftsign);
    case Fn::kTanh:
      return w.unary("tanh", x);
    case Fn::kThresholdedRelu:
      return function(Unary::kThresholdedRelu, gate.alpha);
  }
  return x;
}

/// One direction of an ONNX layer. States are [batch, hidden].
class OnnxCell {
 public:
  OnnxCell(CallWriter& w, int direction, const RecurrentGate* gates)
      : w_(w), a_(w.attrs<RecurrentAttrs>()), gates_(gates), hidden_(w.in_type(2).shape.back()) {
    const auto part = [&](int i) { return w.has(i) ? entry(w, w.real(i), direction) : -1; };
    input_ = part(1);
    recurrent_ = part(2);
    const int64_t rows = w.shape(input_)[0];
    const int bias = part(3);
    const auto half = [&](int64_t from) {
      return bias < 0 ? w.plan().null() : sliced(w, bias, 0, from, from + rows, 1);
    };
    input_bias_ = half(0);
    recurrent_bias_ = half(rows);
    if (w.has(7)) {
      const int peephole = part(7);
      for (int64_t k = 0; k < 3; ++k) peepholes_.push_back(sliced(w, peephole, 0, k * hidden_, (k + 1) * hidden_, 1));
    }
  }

  /// What the inputs of all steps give to the gates: [steps, batch, gates * hidden].
  int project(int x) { return linear(w_, seen(x), input_, input_bias_); }

  void step(int x, int& h, int& c) {
    using Cell = RecurrentAttrs::Cell;
    if (a_.cell == Cell::kGru) return gru(x, h);
    const int sum = w_.add(x, linear(w_, seen(h), recurrent_, recurrent_bias_));
    if (a_.cell == Cell::kLstm) return lstm(sum, h, c);
    h = gate(0, sum);
  }

 private:
  /// x as the products take it.
  int seen(int x) { return a_.dynamic_quantization ? quantized_at_run_time(w_, x, DType::kU8) : x; }
  int gate(int which, int x) { return gate_value(w_, gates_[which], clamped(w_, x, a_.clip)); }
  int columns(int x, int64_t g) { return gate_columns(w_, x, g, hidden_); }
  int rest(int x) { return w_.sub(w_.number_like(x, 1), x); }

  void gru(int x, int& h) {
    const int both = sliced(w_, recurrent_, 0, 0, 2 * hidden_, 1);
    const int last = sliced(w_, recurrent_, 0, 2 * hidden_, 3 * hidden_, 1);
    const bool biased = w_.has(3);
    const auto bias = [&](int64_t from, int64_t to) {
      return biased ? sliced(w_, recurrent_bias_, 0, from, to, 1) : w_.plan().null();
    };
    const int zr = w_.add({sliced(w_, x, 1, 0, 2 * hidden_, 1), linear(w_, h, both, bias(0, 2 * hidden_))});
    const int z = gate(0, columns(zr, 0)), r = gate(0, columns(zr, 1));
    const int own = bias(2 * hidden_, 3 * hidden_);
    const int seen = a_.linear_before_reset ? w_.mul(r, linear(w_, h, last, own)) : linear(w_, w_.mul(r, h), last, own);
    const int n = gate(1, w_.add(columns(x, 2), seen));
    h = w_.add({w_.mul(rest(z), n), w_.mul(z, h)});
  }

  void lstm(int sum, int& h, int& c) {
    const auto sees = [&](int x, size_t peephole) {
      return peepholes_.empty() ? x : w_.add(x, w_.mul(c, peepholes_[peephole]));
    };
    const int in = gate(0, sees(columns(sum, 0), 0));
    const int forget = a_.input_forget ? rest(in) : gate(0, sees(columns(sum, 2), 2));
    c = w_.add({w_.mul(forget, c), w_.mul(in, gate(1, columns(sum, 3)))});
    h = w_.mul({gate(0, sees(columns(sum, 1), 1)), gate_value(w_, gates_[2], c)});
  }

  CallWriter& w_;
  const RecurrentAttrs& a_;
  const RecurrentGate* gates_;
  int64_t hidden_;
  int input_ = -1, recurrent_ = -1, input_bias_ = -1, recurrent_bias_ = -1;
  std::vector<int> peepholes_;
};

/// True if the lengths of sequences are absent or all `steps`.
bool whole_sequences(CallWriter& w, int64_t steps) {
  if (!w.has(4)) return true;
  const auto lengths = w.ints(4);
  return lengths && std::ranges::all_of(*lengths, [&](int64_t n) { return n == steps; });
}

/// Which sequences of a batch go on at a step, by their lengths; nothing is masked where all are whole.
class Lengths {
 public:
  Lengths(CallWriter& w, int64_t steps, int64_t batch) : w_(w) {
    if (!whole_sequences(w, steps)) lengths_ = w.plan().reshape(w.cast(w.in(4), DType::kI64), Shape{batch, 1});
  }
  /// `next` for sequences longer than `step`, `rest` for the others.
  int going_on(int64_t step, int next, int rest) {
    if (lengths_ < 0) return next;
    return w_.select(w_.compare("gt", lengths_, w_.number_like(lengths_, static_cast<double>(step))), next, rest);
  }
  int or_zero(int64_t step, int next) { return lengths_ < 0 ? next : going_on(step, next, w_.number_like(next, 0)); }

 private:
  CallWriter& w_;
  int lengths_ = -1;
};

}  // namespace

bool call_recurrent(CallWriter& w) {
  const auto& a = w.attrs<RecurrentAttrs>();
  const int directions = a.forward && a.backward ? 2 : 1;
  const auto gates = recurrent_gates(a, directions);
  if (!gates.ok()) return false;
  PlanWriter& p = w.plan();
  int x = w.real(0);
  if (a.batch_first) x = p.permute(x, {1, 0, 2});
  const Shape s = w.shape(x);
  const int64_t steps = s[0], batch = s[1], hidden = w.in_type(2).shape.back();
  if (steps < 1 || steps > kMostSteps) return false;
  Lengths lengths(w, steps, batch);
  const size_t each = gates->size() / static_cast<size_t>(directions);
  const auto first = [&](int i, int d) {
    if (!w.has(i)) return p.constant(Tensor(w.dtype(x), Shape{batch, hidden}));
    return entry(w, a.batch_first ? p.permute(w.real(i), {1, 0, 2}) : w.real(i), d);
  };
  std::vector<int> results, last_h, last_c;
  for (int d = 0; d < directions; ++d) {
    OnnxCell cell(w, d, gates->data() + static_cast<size_t>(d) * each);
    const bool backward = a.backward && (d == 1 || !a.forward);
    const int projected = cell.project(x);
    int h = first(5, d), c = a.cell == RecurrentAttrs::Cell::kLstm ? first(6, d) : -1;
    std::vector<int> all(static_cast<size_t>(steps));
    for (int64_t k = 0; k < steps; ++k) {
      const int64_t t = backward ? steps - 1 - k : k;
      const int h_before = h, c_before = c;
      cell.step(entry(w, projected, t), h, c);
      all[static_cast<size_t>(t)] = lengths.or_zero(t, h);
      h = lengths.going_on(t, h, h_before);
      if (c >= 0) c = lengths.going_on(t, c, c_before);
    }
    if (w.wants(0)) results.push_back(stacked(w, all, 0));
    last_h.push_back(lengths.or_zero(0, h));
    if (c >= 0) last_c.push_back(lengths.or_zero(0, c));
  }
  // [steps, directions, batch, hidden], or with the batch first [batch, steps, directions, hidden].
  const auto laid = [&](int y, const std::vector<int64_t>& perm) { return a.batch_first ? p.permute(y, perm) : y; };
  if (w.wants(0) && !w.out(0, laid(stacked(w, results, 1), {2, 0, 1, 3}))) return false;
  if (w.wants(1) && !w.out(1, laid(stacked(w, last_h, 0), {1, 0, 2}))) return false;
  return !w.wants(2) || w.out(2, laid(stacked(w, last_c, 0), {1, 0, 2}));
}

}  // namespace smelt::executorch
