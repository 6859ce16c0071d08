// Recurrent layers of known length as ATen calls, one group for each step.
#include <algorithm>

#include "formats/executorch/writer/call_writer.h"
#include "ops/elementwise/elementwise.h"
#include "ops/recurrent/gates.h"
#include "ops/recurrent/recurrent.h"
#include "ops/recurrent/tf_lstm.h"
#include "tensor/numeric.h"

namespace smelt::executorch {
namespace {

/// x @ weights^T + bias over the last dimension; `bias` may be null().
int linear(CallWriter& w, int x, int weights, int bias) {
  Shape s = w.shape(x);
  s[s.rank() - 1] = w.shape(weights)[0];
  return w.plan().call("aten::linear", "out", {x, weights, bias}, w.dtype(x), s);
}

/// Entry `index` of dimension 0.
int entry(CallWriter& w, int x, int64_t index) {
  Shape s = w.shape(x);
  s.erase(0);
  return w.plan().reshape(sliced(w, x, 0, index, index + 1, 1), s);
}

/// Columns of gate `g` in [batch, gates * hidden].
int gate_columns(CallWriter& w, int x, int64_t g, int64_t hidden) {
  return sliced(w, x, 1, g * hidden, (g + 1) * hidden, 1);
}

int clamped(CallWriter& w, int x, double limit) {
  if (limit <= 0) return x;
  const int lo = w.plan().real(-limit), hi = w.plan().real(limit);
  return w.call("aten::clamp", {x, lo, hi});
}

int stacked(CallWriter& w, const std::vector<int>& parts, int64_t axis) {
  Shape s = w.shape(parts[0]);
  s.insert(static_cast<int>(axis), static_cast<int64_t>(parts.size()));
  const int list = w.plan().list(parts), dim = w.plan().integer(axis);
  return w.plan().call("aten::stack", "out", {list, dim}, w.dtype(parts[0]), s);
}

int gate_value(CallWriter& w, const RecurrentGate& gate, int x) {
  using Fn = RecurrentGate::Fn;
  const auto function = [&](Unary fn, double a = 0, double b = 0) { return *unary_value(w, UnaryAttrs(fn, a, b), x); };
  switch (gate.fn) {
    case Fn::kAffine:
      return w.add(w.mul(x, w.number_like(x, gate.alpha)), w.number_like(x, gate.beta));
    case Fn::kElu:
      return function(Unary::kElu, gate.alpha, 1);
    case Fn::kHardSigmoid:
      return function(Unary::kHardSigmoid, gate.alpha, gate.beta);
    case Fn::kLeakyRelu:
      return function(Unary::kLeakyRelu, gate.alpha);
    case Fn::kRelu:
      return w.unary("relu", x);
    case Fn::kScaledTanh:
      return w.mul(w.unary("tanh", w.mul(x, w.number_like(x, gate.beta))), w.number_like(x, gate.alpha));
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
  int project(int x) { return linear(w_, x, input_, input_bias_); }

  void step(int x, int& h, int& c) {
    using Cell = RecurrentAttrs::Cell;
    if (a_.cell == Cell::kGru) return gru(x, h);
    const int sum = w_.add(x, linear(w_, h, recurrent_, recurrent_bias_));
    if (a_.cell == Cell::kLstm) return lstm(sum, h, c);
    h = gate(0, sum);
  }

 private:
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
    const int zr = w_.add(sliced(w_, x, 1, 0, 2 * hidden_, 1), linear(w_, h, both, bias(0, 2 * hidden_)));
    const int z = gate(0, columns(zr, 0)), r = gate(0, columns(zr, 1));
    const int own = bias(2 * hidden_, 3 * hidden_);
    const int seen = a_.linear_before_reset ? w_.mul(r, linear(w_, h, last, own)) : linear(w_, w_.mul(r, h), last, own);
    const int n = gate(1, w_.add(columns(x, 2), seen));
    h = w_.add(w_.mul(rest(z), n), w_.mul(z, h));
  }

  void lstm(int sum, int& h, int& c) {
    const auto sees = [&](int x, size_t peephole) {
      return peepholes_.empty() ? x : w_.add(x, w_.mul(c, peepholes_[peephole]));
    };
    const int in = gate(0, sees(columns(sum, 0), 0));
    const int forget = a_.input_forget ? rest(in) : gate(0, sees(columns(sum, 2), 2));
    c = w_.add(w_.mul(forget, c), w_.mul(in, gate(1, columns(sum, 3))));
    h = w_.mul(gate(0, sees(columns(sum, 1), 1)), gate_value(w_, gates_[2], c));
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

}  // namespace

bool call_recurrent(CallWriter& w) {
  const auto& a = w.attrs<RecurrentAttrs>();
  const int directions = a.forward && a.backward ? 2 : 1;
  const auto gates = recurrent_gates(a, directions);
  if (!gates.ok() || a.dynamic_quantization) return false;
  PlanWriter& p = w.plan();
  int x = w.real(0);
  if (a.batch_first) x = p.permute(x, {1, 0, 2});
  const Shape s = w.shape(x);
  const int64_t steps = s[0], batch = s[1], hidden = w.in_type(2).shape.back();
  if (steps < 1 || !whole_sequences(w, steps)) return false;
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
      cell.step(entry(w, projected, t), h, c);
      all[static_cast<size_t>(t)] = h;
    }
    if (w.wants(0)) results.push_back(stacked(w, all, 0));
    last_h.push_back(h);
    last_c.push_back(c);
  }
  // [steps, directions, batch, hidden], or with the batch first [batch, steps, directions, hidden].
  const auto laid = [&](int y, const std::vector<int64_t>& perm) { return a.batch_first ? p.permute(y, perm) : y; };
  if (w.wants(0) && !w.out(0, laid(stacked(w, results, 1), {2, 0, 1, 3}))) return false;
  if (w.wants(1) && !w.out(1, laid(stacked(w, last_h, 0), {1, 0, 2}))) return false;
  return !w.wants(2) || w.out(2, laid(stacked(w, last_c, 0), {1, 0, 2}));
}

namespace {

/// One direction of TFLite's float LSTM.
class TfLstmCell {
 public:
  TfLstmCell(CallWriter& w, const tf_lstm::Inputs& in) : w_(w), a_(w.attrs<TfLstmAttrs>()), in_(in) {}

  /// Steps of one direction; `aux` -1: none. Gives the outputs by step; states are updated.
  std::optional<std::vector<int>> run(int x, int aux, bool backward, int& h, int& c) {
    std::array<int, 4> projected{};
    for (size_t g = 0; g < 4; ++g) {
      projected[g] = w_.has(in_.w[g]) ? project(g, x, aux) : -1;
      if (projected[g] < 0 && g != tf_lstm::kInput) return std::nullopt;
    }
    const int64_t steps = w_.shape(x)[0];
    std::vector<int> out(static_cast<size_t>(steps));
    for (int64_t k = 0; k < steps; ++k) {
      const int64_t t = backward ? steps - 1 - k : k;
      if (!step(projected, t, h, c)) return std::nullopt;
      out[static_cast<size_t>(t)] = h;
    }
    return out;
  }

 private:
  bool has(int i) const { return i >= 0 && w_.has(i); }

  int project(size_t g, int x, int aux) {
    const int bias = has(in_.bias[g]) && !has(in_.norm[g]) ? w_.real(in_.bias[g]) : w_.plan().null();
    int y = linear(w_, x, w_.real(in_.w[g]), bias);
    if (aux >= 0 && has(in_.aux_w[g])) y = w_.add(y, linear(w_, aux, w_.real(in_.aux_w[g]), w_.plan().null()));
    return y;
  }

  std::optional<int> gate(size_t g, int x, int h, int c, const Activation& act) {
    const int weights = w_.real(in_.r[g]);
    int y = w_.add(x, w_.shape(weights).rank() == 1 ? w_.mul(h, weights) : linear(w_, h, weights, w_.plan().null()));
    const int peephole = g == tf_lstm::kCell ? -1 : in_.peephole[g == tf_lstm::kOutput ? 2 : g];
    if (has(peephole)) y = w_.add(y, w_.mul(c, w_.real(peephole)));
    if (has(in_.norm[g])) {
      const int centered = w_.sub(y, w_.reduce("mean", y, {1}, true));
      const int variance = w_.reduce("mean", w_.mul(centered, centered), {1}, true);
      y = w_.mul(centered, w_.unary("rsqrt", w_.add(variance, w_.number_like(variance, 1e-8))));
      y = w_.mul(y, w_.real(in_.norm[g]));
      if (has(in_.bias[g])) y = w_.add(y, w_.real(in_.bias[g]));
    }
    return w_.activated(y, act);
  }

  bool step(const std::array<int, 4>& projected, int64_t t, int& h, int& c) {
    using namespace tf_lstm;
    const Activation sigmoid{ActKind::kSigmoid};
    const auto at = [&](size_t g, const Activation& act) { return gate(g, entry(w_, projected[g], t), h, c, act); };
    const auto forget = at(kForget, sigmoid), update = at(kCell, a_.act);
    if (!forget || !update) return false;
    int in = -1;
    if (projected[kInput] >= 0) {
      const auto given = at(kInput, sigmoid);
      if (!given) return false;
      in = *given;
    } else {
      in = w_.sub(w_.number_like(*forget, 1), *forget);
    }
    c = clamped(w_, w_.add(w_.mul(*forget, c), w_.mul(in, *update)), a_.cell_clip);
    const auto out = at(kOutput, sigmoid), shown = w_.activated(c, a_.act);
    if (!out || !shown) return false;
    h = w_.mul(*out, *shown);
    if (!has(in_.projection)) return true;
    const int bias = has(in_.projection_bias) ? w_.real(in_.projection_bias) : w_.plan().null();
    h = clamped(w_, linear(w_, h, w_.real(in_.projection), bias), a_.proj_clip);
    return true;
  }

  CallWriter& w_;
  const TfLstmAttrs& a_;
  const tf_lstm::Inputs& in_;
};

/// The sequence of input i as [steps, batch, features].
int tf_sequence(CallWriter& w, int i, bool sequence, bool time_major) {
  const int x = w.in(i);
  if (!sequence) {
    Shape s = w.shape(x);
    s.insert(0, 1);
    return w.plan().reshape(x, s);
  }
  return time_major ? x : w.plan().permute(x, {1, 0, 2});
}

/// Outputs by step in the layout of the operator.
int tf_result(CallWriter& w, const std::vector<int>& steps, bool sequence, bool time_major) {
  if (!sequence) return steps[0];
  return stacked(w, steps, time_major ? 0 : 1);
}

/// The outputs of two directions, joined or apart.
bool tf_outputs(CallWriter& w, int forward, int backward, bool merge) {
  if (!merge) return w.out(0, forward) && (!w.wants(1) || w.out(1, backward));
  const int axis = w.shape(forward).rank() - 1;
  const int list = w.plan().list({forward, backward});
  return w.emit("aten::cat", {list, w.plan().integer(axis)});
}

bool float_weights(CallWriter& w) {
  for (int i = 0; i < w.inputs(); ++i)
    if (w.has(i) && (w.in_type(i).quant || !is_float(w.in_type(i).dtype))) return false;
  return w.in_type(0).dtype == DType::kF32;
}

bool tf_basic_lstm(CallWriter& w) {
  const int list = w.plan().list({w.in(0), w.in(1)});
  Shape s = w.in_type(0).shape;
  s[1] += w.in_type(1).shape[1];
  const int row = w.plan().call("aten::cat", "out", {list, w.plan().integer(1)}, w.dtype(w.in(0)), s);
  const int gates = linear(w, row, w.in(2), w.in(3));
  const int64_t n = w.in_type(1).shape[1];
  const auto gate = [&](const char* fn, int64_t g) { return w.unary(fn, gate_columns(w, gates, g, n)); };
  const int kept = w.mul(gate("sigmoid", 2), w.in(4));
  const int c = w.add(w.mul(gate("sigmoid", 0), gate("tanh", 1)), kept);
  const int h = w.mul(gate("sigmoid", 3), w.unary("tanh", c));
  return w.out(0, h) && (!w.wants(1) || w.out(1, c)) && (!w.wants(2) || w.out(2, row)) &&
         (!w.wants(3) || w.out(3, gates));
}

}  // namespace

bool call_tf_lstm(CallWriter& w) {
  const auto& a = w.attrs<TfLstmAttrs>();
  if (!float_weights(w)) return false;
  if (a.basic) return tf_basic_lstm(w);
  const auto run = [&](const tf_lstm::Inputs& in, int x, int aux, bool backward, int state) -> std::optional<int> {
    if (!w.has(in.output_state) || !w.has(in.cell_state)) return std::nullopt;
    int h = w.in(in.output_state), c = w.in(in.cell_state);
    const auto steps = TfLstmCell(w, in).run(x, aux, backward, h, c);
    if (!steps || steps->empty()) return std::nullopt;
    if ((w.wants(state) && !w.out(state, h)) || (w.wants(state + 1) && !w.out(state + 1, c))) return std::nullopt;
    return tf_result(w, *steps, a.sequence, a.time_major);
  };
  const int x = tf_sequence(w, 0, a.sequence, a.time_major);
  if (!a.bidirectional) {
    const auto y = run(tf_lstm::single_inputs(), x, -1, false, 1);
    return y && w.out(0, *y);
  }
  const int other = w.has(39) ? tf_sequence(w, 39, a.sequence, a.time_major) : -1;
  const int aux = w.has(41) ? other : -1;
  const auto forward = run(tf_lstm::forward_inputs(), x, aux, false, 2);
  const auto backward = run(tf_lstm::backward_inputs(), other >= 0 && aux < 0 ? other : x, aux, true, 4);
  return forward && backward && tf_outputs(w, *forward, *backward, a.merge_outputs);
}

bool call_tf_rnn(CallWriter& w) {
  const auto& a = w.attrs<TfRnnAttrs>();
  if (!float_weights(w)) return false;
  // Inputs `first` to first + 3 are weights, recurrent weights, bias and state.
  const auto run = [&](int first, int x, int aux, int aux_weights, bool backward, int state) -> std::optional<int> {
    int projected = linear(w, x, w.in(first), w.optional(first + 2));
    if (aux >= 0) projected = w.add(projected, linear(w, aux, w.in(aux_weights), w.plan().null()));
    int h = w.in(first + 3);
    const int64_t steps = w.shape(x)[0];
    std::vector<int> all(static_cast<size_t>(steps));
    for (int64_t k = 0; k < steps; ++k) {
      const int64_t t = backward ? steps - 1 - k : k;
      const auto next =
          w.activated(w.add(entry(w, projected, t), linear(w, h, w.in(first + 1), w.plan().null())), a.act);
      if (!next) return std::nullopt;
      all[static_cast<size_t>(t)] = h = *next;
    }
    if (all.empty() || (w.wants(state) && !w.out(state, h))) return std::nullopt;
    return tf_result(w, all, a.sequence, a.time_major);
  };
  const int x = tf_sequence(w, 0, a.sequence, a.time_major);
  if (!a.bidirectional) {
    const auto y = run(1, x, -1, -1, false, 1);
    return y && w.out(0, *y);
  }
  const int other = w.has(9) ? tf_sequence(w, 9, a.sequence, a.time_major) : -1;
  const int aux = w.has(10) ? other : -1;
  const auto forward = run(1, x, aux, 10, false, 2);
  const auto backward = run(5, other >= 0 && aux < 0 ? other : x, aux, 11, true, 3);
  return forward && backward && tf_outputs(w, *forward, *backward, a.merge_outputs);
}

}  // namespace smelt::executorch
