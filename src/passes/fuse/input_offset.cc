// What is added to the channels that a product reads becomes part of its bias.
#include <algorithm>

#include "ops/common/real.h"
#include "ops/conv/conv.h"
#include "ops/core/op.h"
#include "ops/matmul/matmul.h"
#include "passes/fuse/weighted.h"

namespace smelt {
namespace {

/// Weights as [outputs][outer][inputs][inner] of `inputs` channels, or [outer][inputs][outputs] if outputs are last.
struct InputOrder {
  int64_t outputs = 0, inputs = 0, inner = 1;
  bool outputs_last = false;
  Layout layout = Layout::kChannelsLast;  ///< of the channels that are read
};

/// nullopt unless every output reads the same values of whole channels, none of them padding.
std::optional<InputOrder> input_order(const Node& n, const Tensor& w) {
  if (n.op == Op::kMatMul) {
    const auto& a = static_cast<const MatMulAttrs&>(*n.attrs);
    if (w.rank() != 2 || a.transpose_a || a.flatten_a || a.alpha != 1 || a.beta != 1 || a.dynamic_quant ||
        a.row_block != 0 || a.trans_batch_a || a.trans_batch_b)
      return std::nullopt;
    return a.transpose_b ? InputOrder{.outputs = w.dim(0), .inputs = w.dim(1)}
                         : InputOrder{.outputs = w.dim(1), .inputs = w.dim(0), .outputs_last = true};
  }
  const auto& a = static_cast<const ConvAttrs&>(*n.attrs);
  const bool padded = std::ranges::any_of(a.pads, [](int64_t p) { return p != 0; });
  if (n.op != Op::kConv || w.rank() < 3 || a.groups != 1 || a.dynamic_quant || padded ||
      (a.auto_pad != AutoPad::kExplicit && a.auto_pad != AutoPad::kValid))
    return std::nullopt;
  InputOrder order{.outputs = w.dim(0), .inputs = w.dim(1), .layout = a.layout};
  if (a.filter == FilterLayout::kOSI) order.inputs = w.dim(w.rank() - 1);
  if (a.filter != FilterLayout::kOSI && a.filter != FilterLayout::kOIS) return std::nullopt;
  if (a.filter == FilterLayout::kOIS) order.inner = w.elements() / std::max<int64_t>(1, w.dim(0) * w.dim(1));
  return order;
}

/// bias += what the product gives for channels of these values.
void add_outputs_of(const Tensor& w, const InputOrder& order, const std::vector<float>& channels,
                    std::vector<float>& bias) {
  const std::vector<float> weights = to_real_vector(w);
  std::vector<double> sums(bias.begin(), bias.end());
  const float* from = weights.data();
  if (order.outputs_last) {
    for (const float v : channels)
      for (double& sum : sums) sum += static_cast<double>(*from++) * v;
  } else {
    const int64_t outer = w.elements() / (order.outputs * order.inputs * order.inner);
    for (double& sum : sums)
      for (int64_t k = 0; k < outer; ++k)
        for (const float v : channels)
          for (int64_t i = 0; i < order.inner; ++i) sum += static_cast<double>(*from++) * v;
  }
  std::ranges::transform(sums, bias.begin(), [](double v) { return static_cast<float>(v); });
}

}  // namespace

bool is_of_channels(const Pattern& in, const Tensor& c, ValueId x, int64_t channels, Layout layout) {
  const int rank = in.type(x).shape.rank(), channel = layout == Layout::kChannelsFirst ? 1 : rank - 1;
  const int at = channel - (rank - c.rank());
  return c.dtype() == DType::kF32 && !c.quant() && c.rank() <= rank && at >= 0 && c.elements() == channels &&
         c.dim(at) == channels;
}

std::optional<Node> added_to_input(Pattern& in, const Node& n) {
  if ((n.op != Op::kConv && n.op != Op::kMatMul) || n.inputs.size() < 2 || n.outputs.size() != 1 ||
      !in.is_f32(n.outputs[0]) || !in.has_one_use(n.inputs[0]))
    return std::nullopt;
  const Node* sum = in.binary(n.inputs[0], Binary::kAdd);
  const Tensor* w = in.constant(n.inputs[1]);
  const bool has_bias = n.inputs.size() > 2 && n.inputs[2] != kNoValue;
  const Tensor* b = has_bias ? in.constant(n.inputs[2]) : nullptr;
  if (!sum || !w || w->dtype() != DType::kF32 || w->quant()) return std::nullopt;
  const auto order = input_order(n, *w);
  if (!order || order->outputs == 0 || order->inputs == 0) return std::nullopt;
  if (has_bias && (!b || b->dtype() != DType::kF32 || b->quant() || b->rank() != 1 || b->dim(0) != order->outputs))
    return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const ValueId x = sum->inputs[1 - i];
    const Tensor* c = in.constant(sum->inputs[i]);
    if (!c || in.constant(x) || !in.is_f32(x) || in.type(x).shape.rank() != in.type(n.inputs[0]).shape.rank() ||
        !is_of_channels(in, *c, x, order->inputs, order->layout))
      continue;
    const std::vector<float> offset = to_real_vector(*c);
    std::vector<float> bias = b ? to_real_vector(*b) : std::vector<float>(static_cast<size_t>(order->outputs));
    add_outputs_of(*w, *order, offset, bias);
    Node made = n;
    made.inputs.resize(std::max<size_t>(made.inputs.size(), 3), kNoValue);
    made.inputs[0] = x;
    made.inputs[2] = add_constant(in, DType::kF32, Shape{order->outputs}, bias);
    made.origin = sum->origin + "+" + n.origin;
    return made;
  }
  return std::nullopt;
}

}  // namespace smelt
