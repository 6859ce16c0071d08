#include "passes/layout/image_forms.h"

#include <algorithm>
#include <cstddef>

#include "ops/conv/conv.h"
#include "ops/core/op.h"
#include "ops/shape/channels_perm.h"
#include "ops/shape/shape.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// True if the node computes on either form, or has a form of its own for channels-last images.
bool passes_layout_on(const Node& n) {
  switch (n.op) {
    case Op::kBinary:
    case Op::kConcat:
    case Op::kClamp:
    case Op::kPad:
    case Op::kSlice:
    case Op::kSliceSize:
    case Op::kTableFind:
    case Op::kResize:
    case Op::kReshape:
    case Op::kTranspose:  // of a channel shuffle, between two Reshapes
    case Op::kQuantizeLinear:
    case Op::kDequantizeLinear:
      return true;
    default:
      return n.op != Op::kSoftmax && (op_info(n.op).flags & kAnyLayout) != 0;
  }
}

bool wants_channels_last(const Graph& graph, const Node& n) {
  if (n.op == Op::kConv || n.op == Op::kConvTranspose)
    return static_cast<const ConvAttrs&>(*n.attrs).layout == Layout::kChannelsFirst;
  const ValueType& x = graph.value(n.inputs[0]).type;
  return n.op == Op::kTranspose && n.inputs.size() == 1 && x.ranked && x.shape.rank() > 2 &&
         static_cast<const TransposeAttrs&>(*n.attrs).perm == channels_last_perm(x.shape.rank());
}

}  // namespace

std::vector<char> wanted_channels_last(const Graph& graph) {
  std::vector<char> wanted(graph.values.size(), 0);
  for (size_t k = graph.nodes.size(); k-- > 0;) {
    const Node& n = graph.nodes[k];
    if (n.inputs.empty() || n.inputs[0] == kNoValue) continue;
    bool wants = wants_channels_last(graph, n);
    if (!wants && passes_layout_on(n))
      for (const ValueId id : n.outputs) wants = wants || (id != kNoValue && wanted[static_cast<size_t>(id)]);
    if (!wants) continue;
    const size_t operands = n.op == Op::kBinary || n.op == Op::kConcat ? n.inputs.size() : 1;
    for (size_t i = 0; i < operands; ++i)
      if (n.inputs[i] != kNoValue) wanted[static_cast<size_t>(n.inputs[i])] = 1;
  }
  return wanted;
}

bool gains_channels_last(const Graph& graph, const Node& conv) {
  constexpr int64_t kFew = 8, kDeep = 32;  // filters; numbers in a column of a window
  const ValueType &y = graph.value(conv.outputs[0]).type, &filter = graph.value(conv.inputs[1]).type;
  if (conv.op != Op::kConv || !y.ranked || y.shape[1] < 0 || y.shape[1] >= kFew) return true;
  const auto& a = static_cast<const ConvAttrs&>(*conv.attrs);
  return filter.is_static() && filter.shape.rank() == 4 && a.filter == FilterLayout::kOIS && a.groups == 1 &&
         std::ranges::all_of(a.strides, [](int64_t stride) { return stride == 1; }) && filter.shape[3] > 1 &&
         filter.shape[1] * filter.shape[2] >= kDeep;
}

std::vector<int64_t> channels_last_target(const Graph& graph, const Node& n) {
  const Shape &from = graph.value(n.inputs[0]).type.shape, &to = graph.value(n.outputs[0]).type.shape;
  if (from[1] < 1 || from[1] != to[1]) return {};
  const bool states = n.op == Op::kReshape && n.inputs.size() > 1 && n.inputs[1] != kNoValue;
  const Tensor* given = states ? graph.value(n.inputs[1]).constant.get() : nullptr;
  const bool copies = given && given->elements() > 0 && get_int(*given, 0) == 0 &&
                      !static_cast<const ReshapeAttrs&>(*n.attrs).allow_zero;
  if (!copies && (from[0] < 1 || from[0] != to[0])) return {};
  std::vector<int64_t> target{0};  // 0 keeps the batch dimension, which a caller may change
  for (int i = 2; i < to.rank(); ++i) {
    if (to[i] == 0) return {};
    target.push_back(to[i] < 0 ? -1 : to[i]);
  }
  if (std::count(target.begin(), target.end(), -1) > 1) return {};
  target.push_back(to[1]);
  return target;
}

}  // namespace smelt
