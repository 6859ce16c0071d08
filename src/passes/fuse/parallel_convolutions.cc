// Branches of a network in the form in which it was trained: RepVGG's, MobileOne's and the like.
#include <algorithm>
#include <utility>

#include "ops/common/real.h"
#include "ops/conv/conv.h"
#include "ops/core/op.h"
#include "ops/normalization/normalization.h"
#include "passes/fuse/weighted.h"

namespace smelt {
namespace {

/// A convolution of constant filters [outputs, inputs of a group, spatial].
struct Branch {
  const Node* node = nullptr;
  ValueId x = kNoValue;
  int64_t outputs = 0, group_inputs = 0, groups = 0;
  std::vector<int64_t> kernel, strides, dilations, pads;
  std::vector<float> filter, bias;
  int64_t taps() const {
    int64_t n = 1;
    for (const int64_t k : kernel) n *= k;
    return n;
  }
};

std::vector<int64_t> or_else(const std::vector<int64_t>& given, size_t count, int64_t value) {
  return given.empty() ? std::vector<int64_t>(count, value) : given;
}

/// Without filter and bias.
std::optional<Branch> convolution(const Pattern& in, const Node& n) {
  const auto& a = static_cast<const ConvAttrs&>(*n.attrs);
  const Tensor* w = n.inputs.size() > 1 ? in.constant(n.inputs[1]) : nullptr;
  const bool has_bias = n.inputs.size() > 2 && n.inputs[2] != kNoValue;
  const Tensor* b = has_bias ? in.constant(n.inputs[2]) : nullptr;
  if (!w || w->dtype() != DType::kF32 || w->quant() || w->rank() < 3 || (has_bias && (!b || b->quant()))) return {};
  if (b && (b->dtype() != DType::kF32 || b->elements() != w->dim(0))) return {};
  if (a.layout != Layout::kChannelsFirst || a.filter != FilterLayout::kOIS || a.act.kind != ActKind::kNone ||
      a.auto_pad != AutoPad::kExplicit || a.dynamic_quant || a.groups < 1 || w->dim(0) % a.groups != 0)
    return {};
  Branch made;
  made.node = &n;
  made.x = n.inputs[0];
  made.outputs = w->dim(0);
  made.group_inputs = w->dim(1);
  made.groups = a.groups;
  const auto spatial = static_cast<size_t>(w->rank()) - 2;
  for (int i = 2; i < w->rank(); ++i) made.kernel.push_back(w->dim(i));
  made.strides = or_else(a.strides, spatial, 1);
  made.dilations = or_else(a.dilations, spatial, 1);
  made.pads = or_else(a.pads, 2 * spatial, 0);
  if (made.strides.size() != spatial || made.dilations.size() != spatial || made.pads.size() != 2 * spatial) return {};
  return made;
}

std::optional<Branch> pointwise_norm(const Pattern& in, const Node& n) {
  const Shape& x = in.type(n.inputs[0]).shape;
  if (x.rank() < 3 || x[1] < 1 || static_cast<const BatchNormAttrs&>(*n.attrs).layout != Layout::kChannelsFirst)
    return {};
  auto affine = constant_batch_norm(in, n, x[1]);
  if (!affine) return {};
  const auto spatial = static_cast<size_t>(x.rank()) - 2;
  Branch made;
  made.node = &n;
  made.x = n.inputs[0];
  made.outputs = made.groups = x[1];
  made.group_inputs = 1;
  made.kernel = made.strides = made.dilations = std::vector<int64_t>(spatial, 1);
  made.pads.assign(2 * spatial, 0);
  made.filter = std::move(affine->scale);
  made.bias = std::move(affine->offset);
  return made;
}

std::optional<Branch> branch(const Pattern& in, ValueId id) {
  const int k = in.index_of_producer(id);
  if (k < 0 || !in.has_one_use(id) || !in.is_f32(id)) return {};
  const Node& n = in.node(k);
  if (n.outputs.size() != 1 || n.inputs.empty() || !in.is_f32(n.inputs[0])) return {};
  if (n.op == Op::kConv) return convolution(in, n);
  return n.op == Op::kBatchNorm ? pointwise_norm(in, n) : std::nullopt;
}

void read_constants(const Pattern& in, Branch& b) {
  if (!b.filter.empty()) return;
  b.filter = to_real_vector(*in.constant(b.node->inputs[1]));
  const bool has_bias = b.node->inputs.size() > 2 && b.node->inputs[2] != kNoValue;
  b.bias =
      has_bias ? to_real_vector(*in.constant(b.node->inputs[2])) : std::vector<float>(static_cast<size_t>(b.outputs));
}

/// How far the first tap of `small` lies behind that of `large`, in taps of `large`, for each spatial dimension. Empty
/// unless the taps of `small` are taps of `large` and both give an output of the same size.
std::vector<int64_t> offsets(const Branch& small, const Branch& large) {
  const size_t n = large.kernel.size();
  if (small.kernel.size() != n || small.strides != large.strides) return {};
  std::vector<int64_t> at;
  for (size_t i = 0; i < n; ++i) {
    const int64_t d = large.dilations[i], begin = large.pads[i] - small.pads[i];
    const auto reach = [&](const Branch& b) { return b.pads[i] + b.pads[n + i] - b.dilations[i] * (b.kernel[i] - 1); };
    if ((small.kernel[i] > 1 && small.dilations[i] != d) || reach(small) != reach(large) || d < 1) return {};
    if (begin < 0 || begin % d != 0 || begin / d + small.kernel[i] > large.kernel[i]) return {};
    at.push_back(begin / d);
  }
  return at;
}

/// large.filter += sign * small.filter, and the bias likewise.
void add_filter(Branch& large, const Branch& small, const std::vector<int64_t>& at, float sign) {
  const int64_t taps = small.taps(), all = large.taps();
  for (int64_t o = 0; o < large.outputs; ++o) {
    large.bias[static_cast<size_t>(o)] += sign * small.bias[static_cast<size_t>(o)];
    const int64_t first = o / (small.outputs / small.groups) * small.group_inputs -
                          o / (large.outputs / large.groups) * large.group_inputs;
    for (int64_t i = 0; i < small.group_inputs; ++i)
      for (int64_t t = 0; t < taps; ++t) {
        int64_t to = 0, rest = t, stride = 1;
        for (size_t k = small.kernel.size(); k-- > 0;) {
          to += (rest % small.kernel[k] + at[k]) * stride;
          rest /= small.kernel[k];
          stride *= large.kernel[k];
        }
        large.filter[static_cast<size_t>((o * large.group_inputs + first + i) * all + to)] +=
            sign * small.filter[static_cast<size_t>((o * small.group_inputs + i) * taps + t)];
      }
  }
}

}  // namespace

std::optional<Node> parallel_convolutions(Pattern& in, const Node& n) {
  const bool adds = in.binary(n.outputs[0], Binary::kAdd) != nullptr;
  if ((!adds && !in.binary(n.outputs[0], Binary::kSub)) || n.inputs[0] == n.inputs[1]) return std::nullopt;
  if (in.type(n.inputs[0]).shape.rank() != in.type(n.inputs[1]).shape.rank()) return std::nullopt;
  std::optional<Branch> both[2] = {branch(in, n.inputs[0]), branch(in, n.inputs[1])};
  if (!both[0] || !both[1] || both[0]->x != both[1]->x || both[0]->outputs != both[1]->outputs) return std::nullopt;
  for (const size_t i : {0, 1}) {
    Branch &large = *both[i], &small = *both[1 - i];
    const std::vector<int64_t> at = offsets(small, large);
    if (large.node->op != Op::kConv || at.empty() || small.groups % large.groups != 0 ||
        small.group_inputs * small.groups != large.group_inputs * large.groups)
      continue;
    read_constants(in, large);
    read_constants(in, small);
    if (!adds && i == 1) {  // small - large
      for (float& v : large.filter) v = -v;
      for (float& v : large.bias) v = -v;
    }
    add_filter(large, small, at, adds || i == 1 ? 1.0f : -1.0f);
    const Tensor& w = *in.constant(large.node->inputs[1]);
    const Shape shape = w.shape();
    Node made = remade(n, Op::kConv, large.node->attrs, {large.x}, "Conv+Add");
    made.inputs.push_back(add_constant(in, DType::kF32, shape, large.filter));
    made.inputs.push_back(add_constant(in, DType::kF32, Shape{large.outputs}, large.bias));
    return made;
  }
  return std::nullopt;
}

}  // namespace smelt
