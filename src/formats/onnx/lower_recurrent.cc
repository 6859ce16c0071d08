// RNN, GRU and LSTM of ai.onnx.
#include <cctype>
#include <limits>

#include "formats/onnx/attr_readers.h"
#include "formats/onnx/ops.h"
#include "ops/recurrent/recurrent.h"

namespace smelt::onnx {

void read_activations(NodeContext& n, RecurrentAttrs& a) {
  a.activations = n.strings("activations");
  const auto alphas = n.doubles("activation_alpha"), betas = n.doubles("activation_beta");
  size_t next_alpha = 0, next_beta = 0;
  const double none = std::numeric_limits<double>::quiet_NaN();
  for (const std::string& text : a.activations) {
    std::string name;
    for (const char c : text) name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const bool both = name == "affine" || name == "scaledtanh" || name == "hardsigmoid";
    const bool alpha = both || name == "leakyrelu" || name == "thresholdedrelu" || name == "elu";
    a.alpha.push_back(alpha && next_alpha < alphas.size() ? alphas[next_alpha++] : none);
    a.beta.push_back(both && next_beta < betas.size() ? betas[next_beta++] : none);
  }
}

namespace {

void lower_recurrent(NodeContext& n) {
  RecurrentAttrs a;
  using Cell = RecurrentAttrs::Cell;
  a.cell = n.op() == "RNN" ? Cell::kRnn : n.op() == "GRU" ? Cell::kGru : Cell::kLstm;
  const ValueId x = n.in(0), w = n.in(1), r = n.in(2);
  a.hidden = n.i("hidden_size", 0);
  if (a.hidden == 0) {
    const ValueType t = n.type(r);
    if (t.ranked && t.shape.rank() == 3) a.hidden = t.shape[2];
  }
  if (a.hidden < 1) return n.fail("hidden_size is ", a.hidden);
  const std::string direction = n.s("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return n.fail("direction is '", direction, "'");
  a.forward = direction != "reverse";
  a.backward = direction != "forward";
  a.batch_first = n.flag("layout");
  a.linear_before_reset = n.flag("linear_before_reset");
  a.input_forget = n.flag("input_forget");
  a.clip = n.f("clip", 0);
  read_activations(n, a);
  // The default of an RNN lists the activations of two directions, and ONNX Runtime writes it out.
  if (a.cell == Cell::kRnn && !(a.forward && a.backward) && a.activations.size() == 2) {
    a.activations.pop_back();
    a.alpha.pop_back();
    a.beta.pop_back();
  }
  std::vector<ValueId> in{x, w, r, n.opt(3), n.opt(4), n.opt(5)};
  if (a.cell == Cell::kLstm) {
    in.push_back(n.opt(6));
    in.push_back(n.opt(7));
  }
  while (in.back() == kNoValue) in.pop_back();
  n.emit(Op::kRecurrent, a, in);
}

constexpr OpEntry kOps[] = {
    {"RNN", 1, lower_recurrent},
    {"GRU", 1, lower_recurrent},
    {"LSTM", 1, lower_recurrent},
};

}  // namespace

std::span<const OpEntry> recurrent_ops() { return kOps; }

}  // namespace smelt::onnx
