// ONNX's recurrent layers, step by step: the format's own cells keep their states from one run to the next.
#include "formats/tflite/writer/op_writer.h"
#include "ops/recurrent/recurrent.h"
#include "tensor/numeric.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;
using Cell = RecurrentAttrs::Cell;

/// Steps of a sequence that are written one by one; more make files that no runtime loads in reasonable time.
constexpr int64_t kMaxSteps = 512;

/// One direction of a layer.
class RecurrentWriter {
 public:
  RecurrentWriter(OpWriter& w, int direction) : w_(w), s_(w.subgraph()), a_(w.attrs<RecurrentAttrs>()), d_(direction) {
    const Shape& x = w.in_type(0).shape;
    steps_ = x[0];
    batch_ = x[1];
    hidden_ = w.in_type(2).shape[2];
    gates_ = a_.cell == Cell::kLstm ? 4 : a_.cell == Cell::kGru ? 3 : 1;
  }

  /// Writes all steps, from the last to the first for the backward direction.
  void run() {
    const int64_t rows = gates_ * hidden_;
    const int x = s_.reshape(w_.real(0), {steps_ * batch_, w_.in_type(0).shape[2]});
    const int projected = dense(x, part(1, {rows, w_.in_type(1).shape[2]}), bias(0));
    std::vector<int> inputs = unpacked(s_.reshape(projected, {steps_, batch_, rows}), steps_);
    const bool backward = a_.backward && (!a_.forward || d_ == 1);
    recurrent_ = part(2, {rows, hidden_});
    h = w_.has(5) ? state(5) : zeros();
    c = w_.has(6) ? state(6) : zeros();
    outputs.assign(static_cast<size_t>(steps_), -1);
    for (int64_t i = 0; i < steps_; ++i) {
      const auto t = static_cast<size_t>(backward ? steps_ - 1 - i : i);
      a_.cell == Cell::kLstm ? lstm(inputs[t]) : a_.cell == Cell::kGru ? gru(inputs[t]) : rnn(inputs[t]);
      outputs[t] = h;
    }
  }

  std::vector<int> outputs;  ///< of each step
  int h = -1, c = -1;

 private:
  /// The direction's rows of a constant input, as float32 of a shape.
  int part(int input, const Shape& shape, int64_t begin = 0) {
    const Tensor& all = *w_.constant(input);
    const int64_t each = all.elements() / all.dim(0);
    Tensor t(DType::kF32, shape);
    for (int64_t i = 0; i < t.elements(); ++i)
      t.data<float>()[i] = static_cast<float>(get_double(all, d_ * each + begin + i));
    return s_.constant(std::move(t));
  }
  /// Bias of the input (0) or of the recurrence (1); -1: none.
  int bias(int which) {
    const int64_t rows = gates_ * hidden_;
    return w_.has(3) ? part(3, Shape{rows}, which * rows) : -1;
  }
  int zeros() { return s_.constant(Tensor(DType::kF32, Shape{batch_, hidden_})); }
  int state(int input) {
    const int x = w_.real(input);
    const int row = s_.add(Code::SLICE, {x, s_.i32({d_, 0, 0}), s_.i32({1, -1, -1})}, DType::kF32);
    return s_.reshape(row, {batch_, hidden_});
  }
  int dense(int x, int weights, int bias) {
    std::vector<int> in{x, weights};
    if (bias >= 0) in.push_back(bias);
    return s_.add(Code::FULLY_CONNECTED, in, DType::kF32,
                  options_of<tfl::FullyConnectedOptions>([](auto& b) { return tfl::CreateFullyConnectedOptions(b); }));
  }
  std::vector<int> unpacked(int x, int64_t count) {
    std::vector<int> parts;
    for (int64_t i = 0; i < count; ++i) parts.push_back(s_.add_tensor({.dtype = DType::kF32}));
    const auto n = static_cast<int32_t>(count);
    s_.add_to(Code::UNPACK, {x}, parts,
              options_of<tfl::UnpackOptions>([=](auto& b) { return tfl::CreateUnpackOptions(b, n, 0); }));
    return parts;
  }
  std::vector<int> split(int x) {
    std::vector<int> parts;
    for (int64_t i = 0; i < gates_; ++i) parts.push_back(s_.add_tensor({.dtype = DType::kF32}));
    const auto n = static_cast<int32_t>(gates_);
    s_.add_to(Code::SPLIT, {s_.i32_scalar(1), x}, parts,
              options_of<tfl::SplitOptions>([=](auto& b) { return tfl::CreateSplitOptions(b, n); }));
    return parts;
  }
  int sigmoid(int x) { return w_.call(Code::LOGISTIC, {x}); }
  int tanh(int x) { return w_.call(Code::TANH, {x}); }

  void lstm(int x) {
    const auto z = split(w_.add(x, dense(h, recurrent_, recurrent_bias())));
    const int input = sigmoid(z[0]), output = sigmoid(z[1]), candidate = tanh(z[3]);
    const int forget = a_.input_forget ? w_.sub(s_.f32(1), input) : sigmoid(z[2]);
    c = w_.add(w_.mul(forget, c), w_.mul(input, candidate));
    h = w_.mul(output, tanh(c));
  }
  void gru(int x) {
    const auto in = split(x);
    int candidate = -1, update = -1;
    if (a_.linear_before_reset) {
      const auto z = split(dense(h, recurrent_, recurrent_bias()));
      update = sigmoid(w_.add(in[0], z[0]));
      candidate = tanh(w_.add(in[2], w_.mul(sigmoid(w_.add(in[1], z[1])), z[2])));
    } else {
      if (gates_weights_ < 0) {
        gates_weights_ = part(2, Shape{2 * hidden_, hidden_});
        candidate_weights_ = part(2, Shape{hidden_, hidden_}, 2 * hidden_ * hidden_);
        const int64_t rows = gates_ * hidden_;
        if (w_.has(3)) {
          gates_bias_ = part(3, Shape{2 * hidden_}, rows);
          candidate_bias_ = part(3, Shape{hidden_}, rows + 2 * hidden_);
        }
      }
      const int z = dense(h, gates_weights_, gates_bias_);
      const int zu = s_.add(Code::SLICE, {z, s_.i32({0, 0}), s_.i32({-1, hidden_})}, DType::kF32);
      const int zr = s_.add(Code::SLICE, {z, s_.i32({0, hidden_}), s_.i32({-1, hidden_})}, DType::kF32);
      update = sigmoid(w_.add(in[0], zu));
      const int reset = w_.mul(sigmoid(w_.add(in[1], zr)), h);
      candidate = tanh(w_.add(in[2], dense(reset, candidate_weights_, candidate_bias_)));
    }
    h = w_.add(candidate, w_.mul(update, w_.sub(h, candidate)));
  }
  void rnn(int x) { h = tanh(w_.add(x, dense(h, recurrent_, recurrent_bias()))); }
  int recurrent_bias() {
    if (recurrent_bias_ < 0 && w_.has(3)) recurrent_bias_ = bias(1);
    return recurrent_bias_;
  }

  OpWriter& w_;
  SubgraphWriter& s_;
  const RecurrentAttrs& a_;
  int d_;
  int64_t steps_ = 0, batch_ = 0, hidden_ = 0, gates_ = 0;
  int recurrent_ = -1, recurrent_bias_ = -1;
  int gates_weights_ = -1, candidate_weights_ = -1, gates_bias_ = -1, candidate_bias_ = -1;
};

bool default_activations(const RecurrentAttrs& a) {
  static const std::vector<std::string> of[] = {{"Tanh"}, {"Sigmoid", "Tanh"}, {"Sigmoid", "Tanh", "Tanh"}};
  const auto& cycle = of[static_cast<int>(a.cell)];
  for (size_t i = 0; i < a.activations.size(); ++i)
    if (a.activations[i] != cycle[i % cycle.size()]) return false;
  return true;
}

}  // namespace

bool write_recurrent(OpWriter& w) {
  const auto& a = w.attrs<RecurrentAttrs>();
  SubgraphWriter& s = w.subgraph();
  const ValueType& x = w.in_type(0);
  if (!x.is_static() || x.shape.rank() != 3 || x.shape[0] < 1 || x.shape[0] > kMaxSteps || !w.constant(1) ||
      !w.constant(2) || (w.has(3) && !w.constant(3)) || w.has(7) || a.batch_first || a.clip != 0 ||
      a.dynamic_quantization || !default_activations(a))
    return false;
  if (w.has(4)) {
    // Sequences that all have the whole length need no masks.
    const auto lengths = w.ints(4);
    if (!lengths || std::ranges::any_of(*lengths, [&](int64_t n) { return n != x.shape[0]; })) return false;
  }
  const int directions = a.forward && a.backward ? 2 : 1;
  std::vector<int> sequences, hidden, cells;
  const auto packed = [&](const std::vector<int>& parts, int axis) {
    const auto n = static_cast<int32_t>(parts.size());
    return s.add(Code::PACK, parts, DType::kF32,
                 options_of<tfl::PackOptions>([=](auto& b) { return tfl::CreatePackOptions(b, n, axis); }));
  };
  for (int d = 0; d < directions; ++d) {
    RecurrentWriter r(w, d);
    r.run();
    sequences.push_back(packed(r.outputs, 0));
    hidden.push_back(r.h);
    cells.push_back(r.c);
  }
  if (w.wants(0)) w.out(0, packed(sequences, 1));
  if (w.wants(1)) w.out(1, packed(hidden, 0));
  if (w.wants(2)) w.out(2, packed(cells, 0));
  return true;
}

}  // namespace smelt::tflite
