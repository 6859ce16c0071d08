// Normalizations and softmax.
#include <algorithm>
#include <cmath>

#include "formats/onnx/writer/op_writers.h"
#include "ops/normalization/normalization.h"
#include "ops/random/random.h"
#include "ops/softmax/softmax.h"

namespace smelt::onnx {
namespace {

/// A parameter of each channel: input i, or `fill`.
Name channel_parameter(NodeWriter& n, int i, int64_t channels, float fill, DType dtype) {
  if (n.has(i)) return n.real_dtype(i) == dtype ? n.in(i) : n.cast(n.in(i), dtype);
  if (channels < 0) {
    n.fail("the number of channels must be known");
    return kNoName;
  }
  const Name v = n.floats(std::vector<float>(static_cast<size_t>(channels), fill));
  return dtype == DType::kF32 ? v : n.cast(v, dtype);
}

void write_batch_norm(NodeWriter& n) {
  const auto& a = n.attrs<BatchNormAttrs>();
  const int rank = n.rank(0);
  if (!n.ok() || rank < 1) return n.fail("a scalar");
  const bool last = a.layout == Layout::kChannelsLast && rank >= 3;
  const Order order = last ? Order::kChannelsFirst : Order::kAsIs;
  const Shape& x = n.type(0).shape;
  const int64_t channels = rank == 1 ? x[0] : x[a.layout == Layout::kChannelsLast ? rank - 1 : 1];
  const DType dtype = n.real_dtype(0);
  std::vector<Name> in{n.in(0, order)};
  for (int i = 1; i < 5; ++i) in.push_back(channel_parameter(n, i, channels, i == 1 || i == 4 ? 1.0f : 0.0f, dtype));
  std::vector<Attribute> attributes{{"epsilon", a.epsilon}};
  const bool statistics = n.wants(1) || n.wants(2);
  if (a.torch_outputs && (a.training || statistics)) {
    if (a.training) return n.fail("training");
    // Without training PyTorch's further outputs are empty.
    for (int i = 1; i < n.outputs(); ++i) n.bind(i, n.floats({}));
    return n.bind(0, n.op("BatchNormalization", in, attributes), order);
  }
  if (!a.training) return n.bind(0, n.op("BatchNormalization", in, attributes), order);
  if (!n.model().need_opset(14)) return n.fail("training needs opset 14");
  attributes.emplace_back("momentum", a.momentum);
  attributes.emplace_back("training_mode", true);
  const auto out = n.ops("BatchNormalization", in, 3, attributes);
  n.bind(0, out[0], order);
  for (int i = 1; i < n.outputs() && i < 3; ++i) n.bind(i, out[static_cast<size_t>(i)]);
}

/// Layer normalization in elementary operators; `axes` are those of the statistics.
struct Moments {
  Name y, mean, inverse;
};
Moments normalized(NodeWriter& n, Name x, const std::vector<int64_t>& axes, double epsilon, bool rms, DType dtype) {
  Moments m{x, kNoName, kNoName};
  if (!rms) {
    m.mean = n.reduce("ReduceMean", x, axes, true);
    m.y = n.op("Sub", {x, m.mean});
  }
  const Name variance = n.reduce("ReduceMean", n.op("Mul", {m.y, m.y}), axes, true);
  m.inverse = n.op("Reciprocal", {n.op("Sqrt", {n.op("Add", {variance, n.scalar(dtype, epsilon)})})});
  m.y = n.op("Mul", {m.y, m.inverse});
  return m;
}

void write_layer_norm(NodeWriter& n) {
  const auto& a = n.attrs<LayerNormAttrs>();
  const int rank = n.rank(0);
  const int64_t axis = a.axis < 0 ? a.axis + rank : a.axis;
  const DType dtype = n.real_dtype(0);
  const bool extra = n.wants(1) || n.wants(2);
  if (!a.rms && n.has(1) && n.model().need_opset(17)) {
    std::vector<Attribute> attributes{{"axis", a.axis}, {"epsilon", a.epsilon}, {"stash_type", type_code(a.stash)}};
    const auto out = n.ops("LayerNormalization", {n.in(0), n.in(1), n.in(2)}, extra ? 3 : 1, attributes);
    for (int i = 0; i < n.outputs(); ++i)
      if (n.wants(i)) n.bind(i, out[static_cast<size_t>(i)]);
    return;
  }
  const bool asks_for_23 = n.model().options().opset >= 23;
  if (a.rms && n.has(1) && !n.has(2) && !extra && asks_for_23)
    return n.bind(0, n.op("RMSNormalization", {n.in(0), n.in(1)},
                          {{"axis", a.axis}, {"epsilon", a.epsilon}, {"stash_type", type_code(a.stash)}}));
  std::vector<int64_t> axes;
  for (int64_t k = axis; k < rank; ++k) axes.push_back(k);
  const bool wide = a.stash == DType::kF32 && bit_width(dtype) < 32;
  const DType inner = wide ? DType::kF32 : dtype;
  Moments m = normalized(n, wide ? n.cast(n.in(0), inner) : n.in(0), axes, a.epsilon, a.rms, inner);
  if (wide) m.y = n.cast(m.y, dtype);
  if (n.has(1)) m.y = n.op("Mul", {m.y, n.in(1)});
  if (n.has(2)) m.y = n.op("Add", {m.y, n.in(2)});
  n.bind(0, m.y);
  if (n.wants(1)) n.bind(1, m.mean == kNoName ? n.reduce("ReduceMean", n.in(0), axes, true) : m.mean);
  n.bind(2, m.inverse);
}

/// Group normalization: groups become rows of a 3-D value, which InstanceNormalization takes.
void write_group_norm(NodeWriter& n) {
  const auto& a = n.attrs<GroupNormAttrs>();
  const int rank = n.rank(0);
  if (!n.ok() || rank < 2) return n.fail("rank ", rank);
  const bool last = a.layout == Layout::kChannelsLast && rank >= 3;
  const Order order = last ? Order::kChannelsFirst : Order::kAsIs;
  const Shape& x = n.type(0).shape;
  const int64_t channels = x[last ? rank - 1 : 1];
  const DType dtype = n.real_dtype(0);
  if (a.groups == 0 && rank >= 3 && !n.wants(1) && !n.wants(2)) {
    const Name y =
        n.op("InstanceNormalization",
             {n.in(0, order), channel_parameter(n, 1, channels, 1, dtype), channel_parameter(n, 2, channels, 0, dtype)},
             {{"epsilon", a.epsilon}});
    return n.bind(0, y, a.act, order);
  }
  if (channels < 0) return n.fail("the number of channels must be known");
  const int64_t groups = a.groups == 0 ? channels : a.groups;
  const Name v = n.in(0, order);
  const Moments m = normalized(n, n.reshape(v, {0, groups, -1}), {2}, a.epsilon, false, dtype);
  if (n.wants(1)) n.bind(1, n.reshape(m.mean, {0, groups}));
  if (n.wants(2)) n.bind(2, n.reshape(m.inverse, {0, groups}));
  std::vector<int64_t> spread(static_cast<size_t>(rank) - 1, 1);
  spread[0] = channels;
  const auto affine = [&](Name y, const char* op, int i) {
    if (!n.has(i)) return y;
    if (a.per_group_affine) return n.op(op, {y, n.reshape(n.in(i), {groups, 1})});
    return n.op(op, {y, n.reshape(n.in(i), spread)});
  };
  Name y = m.y;
  if (a.per_group_affine) y = affine(affine(y, "Mul", 1), "Add", 2);
  y = n.op("Reshape", {y, n.op("Shape", {v})});
  if (!a.per_group_affine) y = affine(affine(y, "Mul", 1), "Add", 2);
  n.bind(0, y, a.act, order);
}

void write_lrn(NodeWriter& n) {
  const auto& a = n.attrs<LrnAttrs>();
  if (n.rank(0) < 2) return n.fail("too few dimensions");
  const Order order = a.layout == Layout::kChannelsLast ? Order::kChannelsFirst : Order::kAsIs;
  n.bind(0,
         n.op("LRN", {n.in(0, order)},
              {{"size", a.size}, {"alpha", a.alpha * static_cast<double>(a.size)}, {"beta", a.beta}, {"bias", a.bias}}),
         order);
}

void write_lp_norm(NodeWriter& n) {
  const auto& a = n.attrs<LpNormAttrs>();
  const DType dtype = n.real_dtype(0);
  const Name x = n.in(0);
  if (a.epsilon == 0) return n.bind(0, n.op("LpNormalization", {x}, {{"axis", a.axis}, {"p", a.p}}), a.act);
  Name norm = kNoName;
  if (a.epsilon_max)
    norm = n.op("Max", {n.reduce(a.p == 1 ? "ReduceL1" : "ReduceL2", x, {a.axis}, true), n.scalar(dtype, a.epsilon)});
  else
    norm = n.op("Sqrt", {n.op("Add", {n.reduce("ReduceSumSquare", x, {a.axis}, true), n.scalar(dtype, a.epsilon)})});
  n.bind(0, n.op("Div", {x, norm}), a.act);
}

void write_mean_variance_norm(NodeWriter& n) {
  n.bind(0, n.op("MeanVarianceNormalization", {n.in(0)}, {{"axes", n.attrs<MeanVarianceNormAttrs>().axes}}));
}

void write_softmax(NodeWriter& n) {
  using Kind = SoftmaxAttrs::Kind;
  const auto& a = n.attrs<SoftmaxAttrs>();
  const char* const op = a.kind == Kind::kLogSoftmax ? "LogSoftmax" : a.kind == Kind::kHardmax ? "Hardmax" : "Softmax";
  const Order order = a.flatten ? Order::kAsIs : order_at_hand(n);
  Name x = n.in(0, order);
  if (a.beta != 1) x = n.op("Mul", {x, n.scalar(n.real_dtype(0), a.beta)});
  if (!a.flatten) return n.bind(0, n.op(op, {x}, {{"axis", axis_in(a.axis, n.rank(0), order)}}), order);
  const int rank = n.rank(0);
  if (rank > 0 && (a.axis == rank - 1 || a.axis == -1)) return n.bind(0, n.op(op, {x}, {{"axis", int64_t{-1}}}));
  // Over all dimensions from the axis on: as rows of a matrix.
  const Name shape = n.op("Shape", {x});
  const Name rows = n.op("Flatten", {x}, {{"axis", a.axis}});
  n.bind(0, n.op("Reshape", {n.op(op, {rows}, {{"axis", int64_t{-1}}}), shape}));
}

void write_loss(NodeWriter& n) {
  const auto& a = n.attrs<LossAttrs>();
  std::vector<Attribute> attributes{{"reduction", to_string(a.reduction)}};
  if (a.has_ignore_index) attributes.emplace_back("ignore_index", a.ignore_index);
  const bool cross = n.node().op == Op::kCrossEntropyLoss;
  const auto out = n.ops(cross ? "SoftmaxCrossEntropyLoss" : "NegativeLogLikelihoodLoss", n.all_in(),
                         n.wants(1) ? 2 : 1, attributes);
  n.bind(0, out[0]);
  if (n.wants(1)) n.bind(1, out[1]);
}

void write_dropout(NodeWriter& n) {
  const auto& a = n.attrs<RandomAttrs>();
  std::vector<Attribute> attributes;
  if (a.seeded) attributes.emplace_back("seed", static_cast<int64_t>(a.seed));
  const auto out = n.ops("Dropout", n.all_in(), n.wants(1) ? 2 : 1, attributes);
  n.bind(0, out[0]);
  if (n.wants(1)) n.bind(1, out[1]);
}

constexpr OpWriter kNorm[] = {
    {Op::kBatchNorm, write_batch_norm, "BatchNormalization"},
    {Op::kLayerNorm, write_layer_norm, "LayerNormalization, RMSNormalization; ReduceMean, Sub, Mul, ..."},
    {Op::kGroupNorm, write_group_norm, "InstanceNormalization; Reshape, ReduceMean, ..."},
    {Op::kLRN, write_lrn, "LRN"},
    {Op::kLpNorm, write_lp_norm, "LpNormalization; ReduceL2, Div"},
    {Op::kMeanVarianceNorm, write_mean_variance_norm, "MeanVarianceNormalization"},
    {Op::kSoftmax, write_softmax, "Softmax, LogSoftmax, Hardmax"},
    {Op::kNllLoss, write_loss, "NegativeLogLikelihoodLoss"},
    {Op::kCrossEntropyLoss, write_loss, "SoftmaxCrossEntropyLoss"},
    {Op::kDropout, write_dropout, "Dropout"},
};

}  // namespace

std::span<const OpWriter> norm_writers() { return kNorm; }

}  // namespace smelt::onnx
