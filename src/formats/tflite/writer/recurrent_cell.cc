#include "formats/tflite/writer/recurrent_cell.h"

#include <algorithm>

#include "tensor/numeric.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;
using Cell = RecurrentAttrs::Cell;

}  // namespace

int requantized(OpWriter& w, int x, int rank) {
  const DynamicLevels q = dynamic_levels(w, x, DynamicRule::whole(rank));
  return w.mul(w.sub(q.levels, q.point), q.scale);
}

std::vector<int> unpacked(SubgraphWriter& s, int x, int64_t count) {
  std::vector<int> parts;
  for (int64_t i = 0; i < count; ++i) parts.push_back(s.add_tensor({.dtype = s.at(x).dtype}));
  const auto n = static_cast<int32_t>(count);
  s.add_to(Code::UNPACK, {x}, parts,
           options_of<tfl::UnpackOptions>([=](auto& b) { return tfl::CreateUnpackOptions(b, n, 0); }));
  return parts;
}

RecurrentCell::RecurrentCell(OpWriter& w, const std::vector<RecurrentGate>& gates, int direction)
    : w_(w), s_(w.subgraph()), a_(w.attrs<RecurrentAttrs>()), d_(direction) {
  count_ = a_.cell == Cell::kLstm ? 4 : a_.cell == Cell::kGru ? 3 : 1;
  gates_ = gates.data() + direction * (a_.cell == Cell::kLstm ? 3 : a_.cell == Cell::kGru ? 2 : 1);
  hidden_ = w.in_type(2).shape[2];
}

int RecurrentCell::part(int input, int64_t begin, int64_t rows, int64_t columns) {
  const auto shape = columns > 0 ? std::vector{rows, columns} : std::vector{rows};
  const int64_t width = std::max<int64_t>(columns, 1);
  if (const Tensor* all = w_.constant(input)) {
    // Quantized constants hold what their parameters say.
    Tensor real(DType::kF32, all->shape());
    if (const QuantPtr quant = w_.in_type(input).quant) {
      Tensor typed = *all;
      typed.set_quant(quant);
      smelt::dequantize(typed, real.data<float>());
    } else {
      to_floats(*all, real.data<float>());
    }
    Tensor t(DType::kF32, Shape{std::span<const int64_t>(shape)});
    const int64_t first = d_ * (all->elements() / all->dim(0)) + begin * width;
    std::copy_n(real.data<float>() + first, t.elements(), t.data<float>());
    return s_.constant(std::move(t));
  }
  const auto from = columns > 0 ? std::vector<int64_t>{d_, begin, 0} : std::vector<int64_t>{d_, begin};
  const auto size = columns > 0 ? std::vector<int64_t>{1, rows, -1} : std::vector<int64_t>{1, rows};
  return s_.reshape(s_.add(Code::SLICE, {w_.real(input), s_.i32(from), s_.i32(size)}, DType::kF32), shape);
}

int RecurrentCell::bias(int64_t begin, int64_t rows) { return w_.has(3) ? part(3, begin, rows, 0) : -1; }

int RecurrentCell::dense(int x, int weights, int bias) {
  std::vector<int> in{x, weights};
  if (bias >= 0) in.push_back(bias);
  return s_.add(Code::FULLY_CONNECTED, in, DType::kF32, options_of<tfl::FullyConnectedOptions>([](auto& b) {
                  return tfl::CreateFullyConnectedOptions(b, {}, {}, true);
                }));
}

int RecurrentCell::projected(int x) {
  const int64_t rows = count_ * hidden_;
  const int weights = part(1, 0, rows, w_.in_type(1).shape[2]);
  return dense(x, weights, bias(0, rows));
}

std::vector<int> RecurrentCell::split(int x) {
  std::vector<int> parts;
  for (int64_t i = 0; i < count_; ++i) parts.push_back(s_.add_tensor({.dtype = DType::kF32}));
  const auto n = static_cast<int32_t>(count_);
  s_.add_to(Code::SPLIT, {s_.i32_scalar(1), x}, parts,
            options_of<tfl::SplitOptions>([=](auto& b) { return tfl::CreateSplitOptions(b, n); }));
  return parts;
}

int RecurrentCell::activated(const RecurrentGate& g, int x) {
  using Fn = RecurrentGate::Fn;
  const auto n = [&](double v) { return s_.f32(v); };
  const auto f = [&](Code code, int v) { return w_.call(code, {v}); };
  switch (g.fn) {
    case Fn::kAffine:
      return w_.add({w_.mul(x, n(g.alpha)), n(g.beta)});
    case Fn::kElu:
      return w_.add({f(Code::RELU, x), w_.mul({f(Code::ELU, w_.binary(Code::MINIMUM, x, n(0))), n(g.alpha)})});
    case Fn::kHardSigmoid: {
      const int line = w_.add({w_.mul(x, n(g.alpha)), n(g.beta)});
      return w_.binary(Code::MINIMUM, {w_.binary(Code::MAXIMUM, line, n(0)), n(1)});
    }
    case Fn::kLeakyRelu:
      return w_.call(Code::LEAKY_RELU, {x},
                     options_of<tfl::LeakyReluOptions>([alpha = static_cast<float>(g.alpha)](auto& b) {
                       return tfl::CreateLeakyReluOptions(b, alpha);
                     }));
    case Fn::kRelu:
      return f(Code::RELU, x);
    case Fn::kScaledTanh:
      return w_.mul({f(Code::TANH, w_.mul(x, n(g.beta))), n(g.alpha)});
    case Fn::kSigmoid:
      return f(Code::LOGISTIC, x);
    case Fn::kSoftplus:
      return w_.add({f(Code::RELU, x), f(Code::LOG, w_.add({f(Code::EXP, f(Code::NEG, f(Code::ABS, x))), n(1)}))});
    case Fn::kSoftsign:
      return w_.div(x, w_.add({f(Code::ABS, x), n(1)}));
    case Fn::kTanh:
      return f(Code::TANH, x);
    case Fn::kThresholdedRelu:
      return w_.select({w_.compare(Code::GREATER, x, n(g.alpha)), x, n(0)});
  }
  return x;
}

int RecurrentCell::gate(size_t which, int x) {
  if (a_.clip > 0) x = w_.binary(Code::MINIMUM, {w_.binary(Code::MAXIMUM, x, s_.f32(-a_.clip)), s_.f32(a_.clip)});
  return activated(gates_[which], x);
}

int RecurrentCell::peeped(int x, int64_t which, int cell) {
  return w_.has(7) ? w_.add(x, w_.mul(part(7, which * hidden_, hidden_, 0), cell)) : x;
}

void RecurrentCell::lstm(int x) {
  const auto z = split(x);
  const int input = gate(0, peeped(z[0], 0, c));
  const int forget = a_.input_forget ? w_.sub(s_.f32(1), input) : gate(0, peeped(z[2], 2, c));
  c = w_.add({w_.mul(forget, c), w_.mul(input, gate(1, z[3]))});
  const int output = gate(0, peeped(z[1], 1, c));
  h = w_.mul(output, activated(gates_[2], c));
}

void RecurrentCell::gru(int x) {
  const auto in = split(x);
  int candidate = -1, update = -1;
  if (a_.linear_before_reset) {
    const auto z = split(dense(h, recurrent_, recurrent_bias_));
    update = gate(0, w_.add(in[0], z[0]));
    candidate = gate(1, w_.add(in[2], w_.mul(gate(0, w_.add(in[1], z[1])), z[2])));
  } else {
    const int z = dense(h, recurrent_, recurrent_bias_);
    const auto half = [&](int64_t begin) {
      return s_.add(Code::SLICE, {z, s_.i32({0, begin}), s_.i32({-1, hidden_})}, DType::kF32);
    };
    update = gate(0, w_.add(in[0], half(0)));
    const int reset = w_.mul(gate(0, w_.add(in[1], half(hidden_))), h);
    candidate = gate(1, w_.add(in[2], dense(reset, candidate_, candidate_bias_)));
  }
  h = w_.add(candidate, w_.mul(update, w_.sub(h, candidate)));
}

void RecurrentCell::step(int x) {
  const bool late = a_.cell == Cell::kGru && !a_.linear_before_reset;
  const int64_t all = count_ * hidden_, rows = late ? 2 * hidden_ : all;
  if (recurrent_ < 0) {
    recurrent_ = part(2, 0, rows, hidden_);
    recurrent_bias_ = bias(all, rows);
    if (late) {
      candidate_ = part(2, rows, hidden_, hidden_);
      candidate_bias_ = bias(all + rows, hidden_);
    }
  }
  if (a_.cell == Cell::kGru) return gru(x);
  const int seen = a_.dynamic_quantization ? requantized(w_, h, 2) : h;
  const int z = w_.add(x, dense(seen, recurrent_, recurrent_bias_));
  if (a_.cell == Cell::kLstm) return lstm(z);
  h = gate(0, z);
}

}  // namespace smelt::tflite
