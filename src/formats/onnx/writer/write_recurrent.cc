// Recurrent networks.
#include <cctype>
#include <cmath>

#include "formats/onnx/writer/op_writers.h"
#include "ops/recurrent/recurrent.h"
#include "ops/recurrent/tf_lstm.h"

namespace smelt::onnx {
namespace {

/// The names of activations as the standard spells them, with the parameters that some have.
void activation_attributes(const RecurrentAttrs& a, std::vector<Attribute>& out) {
  static constexpr const char* kNames[] = {
      "Relu",       "Tanh",        "Sigmoid", "Affine",   "LeakyRelu", "ThresholdedRelu",
      "ScaledTanh", "HardSigmoid", "Elu",     "Softsign", "Softplus"};
  if (a.activations.empty()) return;
  std::vector<std::string> names;
  std::vector<double> alpha, beta;
  for (size_t i = 0; i < a.activations.size(); ++i) {
    const auto same = [&](const char* name) {
      const std::string& given = a.activations[i];
      size_t k = 0;
      for (; name[k] != 0 && k < given.size(); ++k)
        if (std::tolower(static_cast<unsigned char>(name[k])) != std::tolower(static_cast<unsigned char>(given[k])))
          return false;
      return name[k] == 0 && k == given.size();
    };
    std::string text = a.activations[i];
    for (const char* name : kNames)
      if (same(name)) text = name;
    names.push_back(text);
    if (i < a.alpha.size() && !std::isnan(a.alpha[i])) alpha.push_back(a.alpha[i]);
    if (i < a.beta.size() && !std::isnan(a.beta[i])) beta.push_back(a.beta[i]);
  }
  out.emplace_back("activations", names);
  if (!alpha.empty()) out.emplace_back("activation_alpha", alpha);
  if (!beta.empty()) out.emplace_back("activation_beta", beta);
}

void write_recurrent(NodeWriter& n) {
  using Cell = RecurrentAttrs::Cell;
  const auto& a = n.attrs<RecurrentAttrs>();
  if (a.dynamic_quantization) return n.fail("products of dynamically quantized values");
  std::vector<Attribute> attributes{{"hidden_size", a.hidden},
                                    {"direction", a.forward && a.backward ? "bidirectional"
                                                  : a.backward            ? "reverse"
                                                                          : "forward"}};
  // ONNX Runtime takes layout 0 alone: a batch-first value is transposed around the node.
  const bool turn = a.batch_first;
  if (a.clip > 0) attributes.emplace_back("clip", a.clip);
  if (a.cell == Cell::kGru && a.linear_before_reset) attributes.emplace_back("linear_before_reset", true);
  if (a.cell == Cell::kLstm && a.input_forget) attributes.emplace_back("input_forget", true);
  activation_attributes(a, attributes);
  std::vector<Name> in = n.all_in();
  const std::vector<int64_t> states{1, 0, 2};
  if (turn) {
    in[0] = n.transpose(in[0], {1, 0, 2});
    for (const size_t i : {size_t{5}, size_t{6}})
      if (i < in.size() && in[i] != kNoName) in[i] = n.transpose(in[i], states);
  }
  if (n.has(4) && n.dtype(4) != DType::kI32) in[4] = n.cast(in[4], DType::kI32);
  const char* const op = a.cell == Cell::kRnn ? "RNN" : a.cell == Cell::kGru ? "GRU" : "LSTM";
  auto out = n.ops(op, in, static_cast<size_t>(n.outputs()), attributes);
  if (turn) {
    out[0] = n.transpose(out[0], {2, 0, 1, 3});
    for (size_t i = 1; i < out.size(); ++i) out[i] = n.transpose(out[i], states);
  }
  for (int i = 0; i < n.outputs(); ++i) n.bind(i, out[static_cast<size_t>(i)]);
}

/// TFLite's LSTM over a sequence as ONNX's: the operands of the gates are joined in ONNX's order.
class SequenceLstm {
 public:
  explicit SequenceLstm(NodeWriter& n) : n_(n), a_(n.attrs<TfLstmAttrs>()) {}

  void write() {
    if (!supported()) return;
    Name x = n_.in(0);
    if (!a_.time_major) x = n_.transpose(x, {1, 0, 2});
    const tf_lstm::Inputs& forward = a_.bidirectional ? tf_lstm::forward_inputs() : tf_lstm::single_inputs();
    std::vector<Direction> directions{direction(forward)};
    if (a_.bidirectional) directions.push_back(direction(tf_lstm::backward_inputs()));
    if (!n_.ok()) return;
    run(x, directions);
  }

 private:
  struct Direction {
    Name w, r, b, p = kNoName, h, c;
  };
  using Gates = std::array<int, 4>;
  static constexpr Gates kOrder{tf_lstm::kInput, tf_lstm::kOutput, tf_lstm::kForget, tf_lstm::kCell};

  bool supported() {
    if (a_.basic) n_.fail("the basic kernel");
    if (!a_.sequence) n_.fail("a single step");
    if (n_.quantized(0)) n_.fail("an integer cell");
    if (a_.diagonal_recurrent) n_.fail("diagonal recurrent weights");
    if (a_.proj_clip != 0) n_.fail("a clipped projection");
    if (a_.act.kind != ActKind::kTanh) n_.fail("activation ", to_string(a_.act));
    return n_.ok();
  }

  bool has(int i) const { return i >= 0 && n_.has(i); }

  Name joined(const std::vector<Name>& parts, int64_t axis) {
    return parts.size() == 1 ? parts[0] : n_.op("Concat", parts, {{"axis", axis}});
  }

  Direction direction(const tf_lstm::Inputs& in) {
    if (has(in.projection) || has(in.norm[1])) n_.fail("a projection or layer normalization");
    if (!has(in.w[0])) n_.fail("a coupled input gate");
    for (const int i : in.aux_w)
      if (has(i)) n_.fail("an auxiliary input");
    if (!n_.ok()) return {};
    std::vector<Name> w, r, b;
    const int64_t units = n_.type(in.w[1]).shape[0];
    const Name zeros = n_.floats(std::vector<float>(static_cast<size_t>(std::max<int64_t>(units, 0)), 0));
    for (const int g : kOrder) {
      const auto k = static_cast<size_t>(g);
      w.push_back(n_.in(in.w[k]));
      r.push_back(n_.in(in.r[k]));
      b.push_back(has(in.bias[k]) ? n_.in(in.bias[k]) : zeros);
    }
    for (int g = 0; g < 4; ++g) b.push_back(zeros);
    Direction d{n_.unsqueeze(joined(w, 0), {0}), n_.unsqueeze(joined(r, 0), {0}), n_.unsqueeze(joined(b, 0), {0})};
    if (has(in.peephole[1])) {
      // ONNX's order is input, output, forget.
      std::vector<Name> p;
      for (const size_t k : {size_t{0}, size_t{2}, size_t{1}})
        p.push_back(has(in.peephole[k]) ? n_.in(in.peephole[k]) : zeros);
      d.p = n_.unsqueeze(joined(p, 0), {0});
    }
    d.h = n_.unsqueeze(n_.in(in.output_state), {0});
    d.c = n_.unsqueeze(n_.in(in.cell_state), {0});
    hidden_ = units;
    return d;
  }

  void run(Name x, const std::vector<Direction>& directions) {
    const auto all = [&](Name Direction::*part) {
      std::vector<Name> parts;
      for (const Direction& d : directions) parts.push_back(d.*part);
      return parts[0] == kNoName ? kNoName : joined(parts, 0);
    };
    std::vector<Attribute> attributes{{"hidden_size", hidden_},
                                      {"direction", a_.bidirectional ? "bidirectional" : "forward"}};
    if (a_.cell_clip > 0) return n_.fail("a clipped cell");
    const auto out = n_.ops("LSTM",
                            {x, all(&Direction::w), all(&Direction::r), all(&Direction::b), kNoName, all(&Direction::h),
                             all(&Direction::c), all(&Direction::p)},
                            3, attributes);
    bind_sequence(out[0]);
    int at = a_.bidirectional && !a_.merge_outputs ? 2 : 1;
    for (size_t d = 0; d < directions.size(); ++d)
      for (const size_t state : {size_t{1}, size_t{2}}) {
        const Name one =
            n_.op("Gather", {out[state], n_.scalar(DType::kI64, static_cast<double>(d))}, {{"axis", int64_t{0}}});
        n_.bind(at++, one);
      }
  }

  /// y [time, directions, batch, units] as TFLite's outputs.
  void bind_sequence(Name y) {
    const auto placed = [&](Name v) { return a_.time_major ? v : n_.transpose(v, {1, 0, 2}); };
    const auto one = [&](int d) {
      return placed(n_.op("Gather", {y, n_.scalar(DType::kI64, d)}, {{"axis", int64_t{1}}}));
    };
    if (!a_.bidirectional) return n_.bind(0, placed(n_.squeeze(y, {1})));
    if (a_.merge_outputs) return n_.bind(0, n_.op("Concat", {one(0), one(1)}, {{"axis", int64_t{2}}}));
    n_.bind(0, one(0));
    n_.bind(1, one(1));
  }

  NodeWriter& n_;
  const TfLstmAttrs& a_;
  int64_t hidden_ = 0;
};

void write_tf_lstm(NodeWriter& n) { SequenceLstm(n).write(); }

constexpr OpWriter kRecurrent[] = {
    {Op::kRecurrent, write_recurrent, "RNN, GRU, LSTM"},
    {Op::kTfLstm, write_tf_lstm, "LSTM"},
};

}  // namespace

std::span<const OpWriter> recurrent_writers() { return kRecurrent; }

}  // namespace smelt::onnx
