#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "ops/common/quantized_pair.h"
#include "ops/conv/conv_shape.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/normalization/normalization.h"
#include "ops/pool/pool.h"
#include "ops/reduce/reduce.h"
#include "ops/resize/resize.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"
#include "passes/passes.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

/// A value of integers and the quantization parameters that give their real values.
struct Quantized {
  ValueId id = kNoValue;
  QuantPtr quant;
};

class QuantizationFuser {
 public:
  QuantizationFuser(Graph& g, const QuantizedOperators& operators)
      : g_(g), operators_(operators), quantized_(g.values.size()), quantizer_(g.values.size(), -1) {
    merge_quantizers();
    const std::vector<int> uses = count_uses(g);
    for (size_t k = 0; k < g.nodes.size(); ++k) {
      const Node& n = g.nodes[k];
      if (n.inputs.empty() || n.inputs[0] == kNoValue || n.outputs.empty()) continue;
      if (n.op == Op::kDequantizeLinear && n.outputs[0] != kNoValue && g.value(n.outputs[0]).type.dtype == DType::kF32)
        quantized_[static_cast<size_t>(n.outputs[0])] = {n.inputs[0], parameters(n)};
      else if (n.op == Op::kQuantizeLinear && g.value(n.inputs[0]).type.dtype == DType::kF32 &&
               uses[static_cast<size_t>(n.inputs[0])] == 1)
        quantizer_[static_cast<size_t>(n.inputs[0])] = static_cast<int>(k);
    }
  }
  void run() {
    if (std::ranges::all_of(quantizer_, [](int q) { return q < 0; })) return;
    std::vector<char> done(g_.nodes.size(), 0);
    for (size_t k = 0; k < g_.nodes.size(); ++k) {
      if (done[k]) continue;
      const Node& n = g_.nodes[k];
      const std::vector<const Node*> quantizers = quantizers_of(n);
      if (quantizers.empty() || !fuse(n, quantizers)) {
        nodes_.push_back(n);
        continue;
      }
      for (const Node* q : quantizers) done[static_cast<size_t>(q - g_.nodes.data())] = 1;
    }
    g_.nodes = std::move(nodes_);
  }

 private:
  /// A value that several nodes quantize alike, one for each reader, is quantized by the first of them.
  void merge_quantizers() {
    std::map<ValueId, std::vector<const Node*>> quantizers;
    std::map<ValueId, ValueId> same;
    for (Node& n : g_.nodes) {
      for (ValueId& id : n.inputs)
        if (const auto it = same.find(id); it != same.end()) id = it->second;
      if (n.op != Op::kQuantizeLinear || n.inputs[0] == kNoValue || n.outputs[0] == kNoValue) continue;
      auto& before = quantizers[n.inputs[0]];
      const auto it = std::ranges::find_if(before, [&](const Node* b) { return quantizes_alike(*b, n); });
      if (it == before.end())
        before.push_back(&n);
      else if (std::ranges::find(g_.outputs, n.outputs[0]) == g_.outputs.end())
        same[n.outputs[0]] = (*it)->outputs[0];
    }
    std::erase_if(g_.nodes, [&](const Node& n) { return n.op == Op::kQuantizeLinear && same.contains(n.outputs[0]); });
  }
  bool quantizes_alike(const Node& a, const Node& b) const {
    const auto &x = static_cast<const QuantizeLinearAttrs&>(*a.attrs),
               &y = static_cast<const QuantizeLinearAttrs&>(*b.attrs);
    if (x.reciprocal != y.reciprocal || x.saturate != y.saturate) return false;
    const QuantPtr p = parameters(a), q = parameters(b);
    return p && q && same_quant_params(p, q) && g_.value(a.outputs[0]).type.dtype == g_.value(b.outputs[0]).type.dtype;
  }
  /// The nodes that quantize the outputs, each its output's only user. Empty: an output has none.
  std::vector<const Node*> quantizers_of(const Node& n) const {
    std::vector<const Node*> all;
    for (const ValueId y : n.outputs) {
      const auto i = static_cast<size_t>(y);
      const int q = y == kNoValue || i >= quantizer_.size() ? -1 : quantizer_[i];
      if (q < 0 || g_.nodes[static_cast<size_t>(q)].outputs[0] == kNoValue) return {};
      all.push_back(&g_.nodes[static_cast<size_t>(q)]);
    }
    return all;
  }
  const Tensor* constant(const Node& n, size_t i) const {
    return i < n.inputs.size() && n.inputs[i] != kNoValue ? g_.value(n.inputs[i]).constant.get() : nullptr;
  }
  /// Parameters of a QuantizeLinear or DequantizeLinear; nullptr if they are not constant, or of a kind that quantized
  /// values don't have.
  QuantPtr parameters(const Node& n) const {
    const auto& a = static_cast<const QuantizeLinearAttrs&>(*n.attrs);
    const bool has_zero = n.inputs.size() > 2 && n.inputs[2] != kNoValue;
    const Tensor *scale = constant(n, 1), *zero = constant(n, 2);
    if (a.block != 0 || a.quant_min != a.quant_max || !scale || scale->dtype() != DType::kF32 ||
        scale->elements() < 1 || scale->rank() > 1 || (has_zero && (!zero || zero->elements() != scale->elements())))
      return nullptr;
    const ValueType& x = g_.value(n.inputs[0]).type;
    auto q = std::make_shared<Quantization>();
    for (int64_t i = 0; i < scale->elements(); ++i) {
      const float s = scale->data<float>()[i];
      if (!(std::isnormal(s) && s > 0)) return nullptr;
      q->scales.push_back(s);
      if (!has_zero) continue;
      const int64_t z = get_int(*zero, i);
      if (z < -128 || z > 255) return nullptr;
      q->zero_points.push_back(static_cast<int32_t>(z));
    }
    if (scale->elements() > 1) {
      if (!x.ranked) return nullptr;
      q->kind = Quantization::Kind::kPerAxis;
      q->axis = static_cast<int>(a.axis < 0 ? a.axis + x.shape.rank() : a.axis);
    }
    return q;
  }
  /// The integers that a DequantizeLinear made input i from; nullptr: there are none.
  const Quantized* quantized(const Node& n, size_t i) const {
    if (i >= n.inputs.size() || n.inputs[i] == kNoValue || static_cast<size_t>(n.inputs[i]) >= quantized_.size())
      return nullptr;
    const Quantized& s = quantized_[static_cast<size_t>(n.inputs[i])];
    return s.quant && !g_.value(s.id).type.quant ? &s : nullptr;
  }
  const Quantized* quantized_8bit(const Node& n, size_t i) const {
    const Quantized* s = quantized(n, i);
    return s && is_8bit(g_.value(s->id).type.dtype) ? s : nullptr;
  }
  /// True if the operator gives on integers what it gives on their real values, in the parameters of input 0.
  bool is_transparent(const Node& n) const {
    if (n.op == Op::kPad) return !has_border_value(n) || border_is_zero(n);
    return (op_info(n.op).flags & kQuantTransparent) != 0 || n.op == Op::kGather || n.op == Op::kSplit;
  }
  static bool has_border_value(const Node& n) {
    return static_cast<const PadAttrs&>(*n.attrs).mode == PadAttrs::Mode::kConstant && n.inputs.size() > 2 &&
           n.inputs[2] != kNoValue;
  }
  bool border_is_zero(const Node& n) const {
    const Tensor* value = constant(n, 2);
    return value && value->dtype() == DType::kF32 && value->elements() == 1 && get_double(*value, 0) == 0;
  }
  /// Number of leading inputs that must be 8-bit quantized.
  size_t operands(const Node& n) const {
    const OpInfo& info = op_info(n.op);
    if (info.max_inputs == kMany) return n.inputs.size();
    return is_transparent(n) || n.op == Op::kBatchNorm ? 1 : static_cast<size_t>(info.min_inputs);
  }
  bool per_tensor_operands(const Node& n) const {
    for (size_t i = 0; i < operands(n); ++i) {
      const Quantized* s = quantized_8bit(n, i);
      if (!s || !is_per_tensor(s->quant)) return false;
    }
    return true;
  }

  static bool has_bias(const Node& n) {
    return op_info(n.op).flags & kWeighted && n.inputs.size() > 2 && n.inputs[2] != kNoValue;
  }
  const Tensor* bias_constant(const Node& n) const {
    const Quantized* s = quantized(n, 2);
    return g_.value(s ? s->id : n.inputs[2]).constant.get();
  }
  /// The constant bias as int32 in units of the accumulators: given so, or rounded from float32 or from integers in
  /// other units, as a bias that several products share has. Undefined if it is neither.
  Tensor integer_bias(const Node& n, int64_t channels) const {
    const QuantPtr units = accumulator_quant(*quantized(n, 0)->quant, *quantized(n, 1)->quant);
    const Quantized* s = quantized(n, 2);
    const Tensor* t = bias_constant(n);
    if (!t || t->elements() != channels || t->rank() != 1 || !(s ? is_integer(t->dtype()) : t->dtype() == DType::kF32))
      return {};
    const auto count = s ? static_cast<int64_t>(s->quant->scales.size()) : 1;
    if ((!s && t->quant()) || (count != 1 && count != channels)) return {};
    const auto unit = [&](int64_t c) { return double{units->scale(units->scales.size() == 1 ? 0 : c)}; };
    const auto scale = [&](int64_t c) { return s ? double{s->quant->scale(count == 1 ? 0 : c)} : 1; };
    const auto zero = [&](int64_t c) { return s ? s->quant->zero_point(count == 1 ? 0 : c) : 0; };
    bool given = s && t->dtype() == DType::kI32;
    for (int64_t c = 0; c < channels && given; ++c)
      given = zero(c) == 0 && std::abs(scale(c) - unit(c)) <= 1e-4 * unit(c);
    Tensor bias = given ? *t : Tensor(DType::kI32, t->shape());
    for (int64_t c = 0; c < channels && !given; ++c) {
      const double v = std::nearbyint((get_double(*t, c) - zero(c)) * scale(c) / unit(c));
      if (!(std::abs(v) < 1 << 30)) return {};
      bias.data<int32_t>()[c] = static_cast<int32_t>(v);
    }
    bias.set_quant(units);
    return bias;
  }
  /// True if a weighted node can be quantized: input 0 is 8-bit per tensor, and the weights are constant and 8-bit, per
  /// tensor or per output channel. `axis` is the weights' dimension of the output channels of one group.
  bool weighted_fits(const Node& n, int axis, int64_t groups) const {
    const Quantized *x = quantized_8bit(n, 0), *w = quantized_8bit(n, 1);
    if (!x || !w || !is_per_tensor(x->quant) || !g_.value(w->id).constant) return false;
    const Shape& filter = g_.value(w->id).constant->shape();
    if (axis >= filter.rank() || (w->quant->kind == Quantization::Kind::kPerAxis && w->quant->axis != axis))
      return false;
    const int64_t channels = filter[axis] * groups;
    if (w->quant->scales.size() != 1 && static_cast<int64_t>(w->quant->scales.size()) != channels) return false;
    return !has_bias(n) || integer_bias(n, channels).defined();
  }
  /// True if a kernel runs `n` on quantized values with a result of type y.
  bool fits(const Node& n, const ValueType& y) const {
    if (is_transparent(n)) return keeps_quant_params(n, y);
    switch (n.op) {
      case Op::kConv:
      case Op::kConvTranspose: {
        const auto& a = static_cast<const ConvAttrs&>(*n.attrs);
        const Quantized* w = quantized_8bit(n, 1);
        return !a.dynamic_quant && w &&
               weighted_fits(n, filter_output_axis(a, g_.value(w->id).type.shape.rank()),
                             a.filter == FilterLayout::kIOS ? a.groups : 1);
      }
      case Op::kMatMul: {
        const auto& a = static_cast<const MatMulAttrs&>(*n.attrs);
        if (a.dynamic_quant || a.alpha != 1 || a.beta != 1 || a.trans_batch_a || a.trans_batch_b) return false;
        const Quantized* w = quantized_8bit(n, 1);
        if (w && !g_.value(w->id).constant) return !has_bias(n) && per_tensor_operands(n);
        return w && g_.value(w->id).type.shape.rank() == 2 && weighted_fits(n, a.transpose_b ? 0 : 1, 1);
      }
      case Op::kBinary: {
        const Binary fn = static_cast<const BinaryAttrs&>(*n.attrs).fn;
        const bool has_kernels = fn == Binary::kAdd || fn == Binary::kSub || fn == Binary::kMul;
        return (has_kernels || (operators_.functions && fn == Binary::kSquaredDifference && same_types(n, y))) &&
               per_tensor_operands(n);
      }
      case Op::kReduce:
        return operators_.means && static_cast<const ReduceAttrs&>(*n.attrs).fn == Reduction::kMean &&
               per_tensor_operands(n) && same_types(n, y);
      case Op::kUnary:
        return per_tensor_operands(n);
      case Op::kBatchNorm:
        return operators_.batch_norms && per_tensor_operands(n) && has_constant_statistics(n);
      case Op::kSoftmax: {
        const bool counts = static_cast<const SoftmaxAttrs&>(*n.attrs).kind == SoftmaxAttrs::Kind::kSoftmax;
        return operators_.softmax && counts && per_tensor_operands(n) && y.quant->scale() == 1.f / 256 &&
               y.quant->zero_point() == int_min(y.dtype) && same_types(n, y);
      }
      case Op::kConcat:
        return per_tensor_operands(n) && same_types(n, y);
      case Op::kPool:
        return static_cast<const PoolAttrs&>(*n.attrs).kind == PoolKind::kAverage ? per_tensor_operands(n)
                                                                                  : keeps_quant_params(n, y);
      case Op::kResize:
        return static_cast<const ResizeAttrs&>(*n.attrs).mode == ResizeAttrs::Mode::kNearest &&
               keeps_quant_params(n, y);
      default:
        return false;
    }
  }
  bool has_constant_statistics(const Node& n) const {
    if (static_cast<const BatchNormAttrs&>(*n.attrs).training || n.outputs.size() != 1) return false;
    for (size_t i = 1; i < n.inputs.size(); ++i)
      if (const Tensor* t = constant(n, i); n.inputs[i] != kNoValue && (!t || t->dtype() != DType::kF32 || t->quant()))
        return false;
    return true;
  }
  /// True if the integers of all operands are of the type of the result's.
  bool same_types(const Node& n, const ValueType& y) const {
    for (size_t i = 0; i < operands(n); ++i) {
      const Quantized* s = quantized_8bit(n, i);
      if (!s || g_.value(s->id).type.dtype != y.dtype) return false;
    }
    return true;
  }
  bool keeps_quant_params(const Node& n, const ValueType& y) const {
    return per_tensor_operands(n) && same_quant_params(quantized_8bit(n, 0)->quant, y.quant) &&
           g_.value(quantized_8bit(n, 0)->id).type.dtype == y.dtype;
  }

  /// Emits `n` on quantized values in place of `n` and the nodes that quantize its outputs. False if it does not fit.
  bool fuse(const Node& n, const std::vector<const Node*>& quantizers) {
    if (quantizers.size() > 1 && !is_transparent(n)) return false;
    std::vector<QuantPtr> quants;
    for (const Node* quantize : quantizers) {
      ValueType type = g_.value(quantize->outputs[0]).type;
      type.quant = parameters(*quantize);
      if (!is_8bit(type.dtype) || !is_per_tensor(type.quant) || !fits(n, type)) return false;
      quants.push_back(type.quant);
    }
    Node fused = n;
    for (size_t i = 0; i < operands(n); ++i) fused.inputs[i] = typed(n, *quantized(n, i));
    if (has_bias(n)) fused.inputs[2] = constant_of(integer_bias(n, bias_constant(n)->elements()));
    if (n.op == Op::kPad && has_border_value(n)) fused.inputs[2] = kNoValue;  // the zero point
    fused.outputs.clear();
    for (size_t i = 0; i < quantizers.size(); ++i) {
      fused.outputs.push_back(with_quant(quantizers[i]->outputs[0], quants[i]));
      fused.origin += "+" + quantizers[i]->origin;
    }
    const std::vector<ValueId> made = fused.outputs;
    nodes_.push_back(std::move(fused));
    for (size_t i = 0; i < made.size(); ++i) {
      const ValueId unquantized = quantizers[i]->outputs[0];
      typed_[unquantized].push_back({made[i], quants[i]});
      bit_cast(n, made[i], unquantized);
    }
    return true;
  }
  /// Quantization parameters of the accumulators, channel by channel.
  static QuantPtr accumulator_quant(const Quantization& x, const Quantization& w) {
    auto q = std::make_shared<Quantization>();
    q->kind = w.kind;
    for (const float s : w.scales) q->scales.push_back(x.scale() * s);
    return q;
  }
  ValueId constant_of(Tensor t) { return g_.add_value(constant_value(std::move(t))); }
  ValueId with_quant(ValueId like, const QuantPtr& quant) {
    Value v;
    v.type = g_.value(like).type;
    v.type.quant = quant;
    return g_.add_value(std::move(v));
  }
  void bit_cast(const Node& like, ValueId from, ValueId to) {
    Node n = like;
    CastAttrs same;
    same.to = g_.value(to).type.dtype;
    n.op = Op::kBitCast;
    n.attrs = make_attrs<CastAttrs>(same);
    n.inputs = {from};
    n.outputs = {to};
    nodes_.push_back(std::move(n));
  }
  /// The integers as a value of quantized type.
  ValueId typed(const Node& user, const Quantized& s) {
    auto& known = typed_[s.id];
    for (const Quantized& t : known)
      if (same_quant_params(t.quant, s.quant)) return t.id;
    ValueId id;
    if (const auto& constant = g_.value(s.id).constant) {
      Tensor copy = *constant;
      copy.set_quant(s.quant);
      id = constant_of(std::move(copy));
    } else {
      id = with_quant(s.id, s.quant);
      bit_cast(user, s.id, id);
    }
    known.push_back({id, s.quant});
    return id;
  }

  Graph& g_;
  QuantizedOperators operators_;
  std::vector<Quantized> quantized_;  ///< by value of the original graph: what a DequantizeLinear made it from
  std::vector<int> quantizer_;        ///< by value: the node that quantizes it, where that is its only user; -1: none
  std::map<ValueId, std::vector<Quantized>> typed_;
  std::vector<Node> nodes_;
};

}  // namespace

void fuse_quantization(Graph& graph, const QuantizedOperators& operators) {
  QuantizationFuser(graph, operators).run();
  remove_dead_nodes(graph);
}

}  // namespace smelt
