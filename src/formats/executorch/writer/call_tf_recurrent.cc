// TFLite's recurrent operators with float activations as ATen calls, one group for each step.
#include <algorithm>
#include <map>

#include "formats/executorch/writer/call_writer.h"
#include "formats/executorch/writer/dynamic_quant.h"
#include "ops/recurrent/recurrent.h"
#include "ops/recurrent/tf_lstm.h"
#include "tensor/quant_params.h"

namespace smelt::executorch {
namespace {

/// The formula of fake_quantized_rows() as calls.
class CallOps {
 public:
  using Value = int;
  CallOps(CallWriter& w, int like) : w_(w), like_(like), row_(w.shape(like).rank() - 1) {}
  Value number(double v) { return w_.number_like(like_, v); }
  Value abs(Value x) { return w_.unary("abs", x); }
  Value rounded(Value x) { return rounded_half_away(w_, x); }
  Value clamp(Value x, double lo, double hi) { return w_.clamp(x, lo, hi); }
  Value add(Value a, Value b) { return w_.add(a, b); }
  Value sub(Value a, Value b) { return w_.sub(a, b); }
  Value mul(Value a, Value b) { return w_.mul(a, b); }
  Value div(Value a, Value b) { return w_.div(a, b); }
  Value min(Value a, Value b) { return w_.binary("minimum", a, b); }
  Value max(Value a, Value b) { return w_.binary("maximum", a, b); }
  Value less(Value a, Value b) { return w_.compare("lt", a, b); }
  Value select(Value condition, Value a, Value b) { return w_.select(condition, a, b); }
  Value lowest(Value x) { return w_.reduce("amin", x, {row_}, true); }
  Value highest(Value x) { return w_.reduce("amax", x, {row_}, true); }

 private:
  CallWriter& w_;
  int like_;
  int64_t row_;
};

/// Operands of a recurrent node of TFLite as real numbers, each read once.
class TfOperands {
 public:
  TfOperands(CallWriter& w, bool asymmetric) : w_(w), asymmetric_(asymmetric) {}

  /// Old files hold int8 weights as uint8.
  int real(int i) {
    const auto [at, added] = read_.try_emplace(i, -1);
    if (!added) return at->second;
    const Tensor* t = w_.constant(i);
    const QuantPtr quant = w_.in_type(i).quant ? w_.in_type(i).quant : t ? t->quant() : nullptr;
    if (!t || t->dtype() != DType::kU8 || !is_per_tensor(quant)) return at->second = w_.cast(w_.real(i), DType::kF32);
    Tensor values(DType::kF32, t->shape());
    for (int64_t k = 0; k < t->elements(); ++k)
      values.data<float>()[k] = quant->scale() * static_cast<float>(t->data<int8_t>()[k]);
    return at->second = w_.plan().constant(values);
  }
  /// x @ weights^T + bias, input i the weights; `bias` may be null(). Rows of x are quantized where the weights are.
  int product(int x, int i, int bias) {
    if (!w_.in_type(i).quant) return linear(w_, x, real(i), bias);
    if (rows_of_ != x) {
      CallOps ops(w_, x);
      rows_ = fake_quantized_rows(ops, x, asymmetric_);
      rows_of_ = x;
    }
    return linear(w_, rows_, real(i), bias);
  }

 private:
  CallWriter& w_;
  bool asymmetric_;
  std::map<int, int> read_;
  int rows_of_ = -1, rows_ = -1;
};

/// True if the activations are float32 and weights float or 8-bit.
bool float_activations(CallWriter& w) {
  for (int i = 0; i < w.inputs(); ++i) {
    if (!w.has(i)) continue;
    const ValueType& t = w.in_type(i);
    if (t.quant ? bit_width(t.dtype) != 8 || !is_per_tensor(t.quant) || !w.constant(i) : !is_float(t.dtype))
      return false;
  }
  return w.in_type(0).dtype == DType::kF32;
}

/// One direction of TFLite's LSTM with float activations.
class TfLstmCell {
 public:
  TfLstmCell(CallWriter& w, const tf_lstm::Inputs& in)
      : w_(w), a_(w.attrs<TfLstmAttrs>()), in_(in), operands_(w, a_.asymmetric_inputs) {}

  /// Steps of one direction; `aux` -1: none. Gives the outputs by step; states are updated.
  std::optional<std::vector<int>> run(int x, int aux, bool backward, int& h, int& c) {
    std::array<int, 4> projected{};
    for (size_t g = 0; g < 4; ++g) {
      projected[g] = w_.has(in_.w[g]) ? project(g, x, aux) : -1;
      if (projected[g] < 0 && g != tf_lstm::kInput) return std::nullopt;
    }
    const int64_t steps = w_.shape(x)[0];
    if (steps > kMostSteps) return std::nullopt;
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
    const int bias = has(in_.bias[g]) && !has(in_.norm[g]) ? operands_.real(in_.bias[g]) : w_.plan().null();
    const int y = operands_.product(x, in_.w[g], bias);
    if (aux < 0 || !has(in_.aux_w[g])) return y;
    return w_.add(y, operands_.product(aux, in_.aux_w[g], w_.plan().null()));
  }

  std::optional<int> gate(size_t g, int x, int h, int c, const Activation& act) {
    const bool diagonal = w_.in_type(in_.r[g]).shape.rank() == 1;
    int y =
        w_.add(x, diagonal ? w_.mul(h, operands_.real(in_.r[g])) : operands_.product(h, in_.r[g], w_.plan().null()));
    const int peephole = g == tf_lstm::kCell ? -1 : in_.peephole[g == tf_lstm::kOutput ? 2 : g];
    if (has(peephole)) y = w_.add(y, w_.mul(c, operands_.real(peephole)));
    if (has(in_.norm[g])) {
      const int centered = w_.sub(y, w_.reduce("mean", y, {1}, true));
      const int variance = w_.reduce("mean", w_.mul(centered, centered), {1}, true);
      y = w_.mul(centered, w_.unary("rsqrt", w_.add(variance, w_.number_like(variance, 1e-8))));
      y = w_.mul(y, operands_.real(in_.norm[g]));
      if (has(in_.bias[g])) y = w_.add(y, operands_.real(in_.bias[g]));
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
    c = clamped(w_, w_.add({w_.mul(*forget, c), w_.mul(in, *update)}), a_.cell_clip);
    const auto out = at(kOutput, sigmoid), shown = w_.activated(c, a_.act);
    if (!out || !shown) return false;
    h = w_.mul(*out, *shown);
    if (!has(in_.projection)) return true;
    const int bias = has(in_.projection_bias) ? operands_.real(in_.projection_bias) : w_.plan().null();
    h = clamped(w_, operands_.product(h, in_.projection, bias), a_.proj_clip);
    return true;
  }

  CallWriter& w_;
  const TfLstmAttrs& a_;
  const tf_lstm::Inputs& in_;
  TfOperands operands_;
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

bool tf_basic_lstm(CallWriter& w) {
  const int x = w.in(0), list = w.plan().list({x, w.in(1)});
  Shape s = w.in_type(0).shape;
  s[1] += w.in_type(1).shape[1];
  const int row = w.plan().call("aten::cat", "out", {list, w.plan().integer(1)}, w.dtype(x), s);
  const int weights = w.in(2), gates = linear(w, row, weights, w.in(3));
  const int64_t n = w.in_type(1).shape[1];
  const auto gate = [&](const char* fn, int64_t g) { return w.unary(fn, sliced(w, gates, 1, g * n, (g + 1) * n)); };
  const int kept = w.mul({gate("sigmoid", 2), w.in(4)});
  const int c = w.add(w.mul({gate("sigmoid", 0), gate("tanh", 1)}), kept);
  const int h = w.mul({gate("sigmoid", 3), w.unary("tanh", c)});
  return w.out(0, h) && (!w.wants(1) || w.out(1, c)) && (!w.wants(2) || w.out(2, row)) &&
         (!w.wants(3) || w.out(3, gates));
}

}  // namespace

bool call_tf_lstm(CallWriter& w) {
  const auto& a = w.attrs<TfLstmAttrs>();
  if (!float_activations(w)) return false;
  if (a.basic) return !w.in_type(2).quant && tf_basic_lstm(w);
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
  if (!float_activations(w)) return false;
  // Inputs `first` to first + 3 are weights, recurrent weights, bias and state.
  const auto run = [&](int first, int x, int aux, int aux_weights, bool backward, int state) -> std::optional<int> {
    TfOperands operands(w, a.asymmetric_inputs);
    int projected = operands.product(x, first, w.has(first + 2) ? operands.real(first + 2) : w.plan().null());
    if (aux >= 0) projected = w.add(projected, operands.product(aux, aux_weights, w.plan().null()));
    int h = w.in(first + 3);
    const int64_t steps = w.shape(x)[0];
    // The format's kernel for 8-bit weights walks a time-major sequence in both directions as often as it has steps.
    const int64_t rounds = a.bidirectional && a.time_major && w.in_type(first).quant ? steps : 1;
    if (steps > kMostSteps / std::max<int64_t>(rounds, 1)) return std::nullopt;
    std::vector<int> all(static_cast<size_t>(steps));
    for (int64_t k = 0; k < steps * rounds; ++k) {
      const int64_t s = k % steps, t = backward ? steps - 1 - s : s;
      const auto next =
          w.activated(w.add({entry(w, projected, t), operands.product(h, first + 1, w.plan().null())}), a.act);
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

/// Each filter keeps the last values that its features gave; a unit is what its filters' weights in time make of them.
bool call_tf_svdf(CallWriter& w) {
  const auto& a = w.attrs<TfSvdfAttrs>();
  if (!float_activations(w) || !w.has(4)) return false;
  PlanWriter& p = w.plan();
  TfOperands operands(w, a.asymmetric_inputs);
  const int64_t batch = w.in_type(0).shape[0], filters = w.in_type(1).shape[0], memory = w.in_type(2).shape[1];
  if (memory < 1 || a.rank < 1 || filters % a.rank != 0) return false;
  const int x = w.in(0), newest = p.reshape(operands.product(x, 1, p.null()), Shape{batch, filters, 1});
  const int old = p.reshape(operands.real(4), Shape{batch, filters, memory});
  const int state = memory == 1 ? newest : concatenated(w, {sliced(w, old, 2, 1, memory), newest}, 2);
  const int by_filter = w.reduce("sum", w.mul(state, operands.real(2)), {2}, false);
  int y = w.reduce("sum", p.reshape(by_filter, Shape{batch, filters / a.rank, a.rank}), {2}, false);
  if (w.has(3)) y = w.add(y, operands.real(3));
  const auto after = w.activated(y, a.act);
  return after && w.out(0, *after) && (!w.wants(1) || w.out(1, p.reshape(state, w.out_type(1).shape)));
}

}  // namespace smelt::executorch
