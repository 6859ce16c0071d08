#include "convert/quantize.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "ops/conv/conv.h"
#include "ops/conv/geometry.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "tensor/numeric.h"

namespace smelt::convert {
namespace {

/// Parameters of asymmetric int8 for a range.
QuantPtr activation_params(const Range& r) {
  Quantization q;
  const float span = r.high - r.low;
  q.scales = {span > 0 ? span / 255.f : 1.f};
  const float zero = std::nearbyint(-128.f - r.low / q.scales[0]);
  q.zero_points = {static_cast<int32_t>(std::clamp(zero, -128.f, 127.f))};
  return std::make_shared<const Quantization>(std::move(q));
}

Value constant_value(const Value& from, Tensor t, QuantPtr quant) {
  t.set_quant(quant);
  Value v = from;
  v.type = ValueType::tensor(t.dtype(), t.shape(), std::move(quant));
  v.constant = std::make_shared<const Tensor>(std::move(t));
  return v;
}

/// Weights in symmetric int8 with a scale for each entry of `axis`.
Value quantized_weights(const Value& from, int axis) {
  const Tensor& w = *from.constant;
  const int64_t channels = w.dim(axis), inner = [&] {
    int64_t n = 1;
    for (int k = axis + 1; k < w.rank(); ++k) n *= w.dim(k);
    return n;
  }();
  Quantization q;
  q.kind = Quantization::Kind::kPerAxis;
  q.axis = axis;
  std::vector<float> largest(static_cast<size_t>(channels), 0);
  for (int64_t i = 0; i < w.elements(); ++i) {
    float& m = largest[static_cast<size_t>(i / inner % channels)];
    m = std::max(m, std::fabs(w.data<float>()[i]));
  }
  for (const float m : largest) q.scales.push_back(m > 0 ? m / 127.f : 1.f);
  Tensor t(DType::kI8, w.shape());
  for (int64_t i = 0; i < w.elements(); ++i) {
    const float steps = w.data<float>()[i] / q.scales[static_cast<size_t>(i / inner % channels)];
    t.data<int8_t>()[i] = static_cast<int8_t>(std::clamp(std::nearbyint(steps), -127.f, 127.f));
  }
  return constant_value(from, std::move(t), std::make_shared<const Quantization>(std::move(q)));
}

/// A bias in int32 at the scale of x times that of the weights.
Value quantized_bias(const Value& from, float x_scale, const Quantization& weights) {
  const Tensor& b = *from.constant;
  Quantization q;
  q.kind = Quantization::Kind::kPerAxis;
  Tensor t(DType::kI32, b.shape());
  for (int64_t i = 0; i < b.elements(); ++i) {
    const float scale = x_scale * weights.scale(i);
    q.scales.push_back(scale);
    const double steps = std::nearbyint(static_cast<double>(b.data<float>()[i]) / scale);
    t.data<int32_t>()[i] = static_cast<int32_t>(std::clamp(steps, -2147483647.0, 2147483647.0));
  }
  return constant_value(from, std::move(t), std::make_shared<const Quantization>(std::move(q)));
}

/// A constant operand of an element-wise operator in asymmetric int8.
Value quantized_operand(const Value& from) {
  const Tensor& c = *from.constant;
  Range r;
  for (int64_t i = 0; i < c.elements(); ++i) {
    r.low = std::min(r.low, c.data<float>()[i]);
    r.high = std::max(r.high, c.data<float>()[i]);
  }
  Tensor t(DType::kI8, c.shape());
  t.set_quant(activation_params(r));
  smelt::quantize(c.data<float>(), t);
  const QuantPtr quant = t.quant();
  return constant_value(from, std::move(t), quant);
}

bool is_float_constant(const Graph& g, ValueId id) {
  return id != kNoValue && g.value(id).constant && is_unquantized_f32(g.value(id).type);
}

bool is_float_value(const Graph& g, ValueId id) {
  return id != kNoValue && !g.value(id).constant && g.value(id).type.kind == ValueType::Kind::kTensor &&
         is_unquantized_f32(g.value(id).type);
}

/// The dimension of the weights of a Conv, ConvTranspose or MatMul that counts output channels; -1: not quantized.
int output_axis(const Graph& g, const Node& n) {
  if (n.inputs.size() < 2 || !is_float_constant(g, n.inputs[1])) return -1;
  const int rank = g.value(n.inputs[1]).constant->rank();
  if (n.op == Op::kConv) return filter_dims(static_cast<const ConvAttrs&>(*n.attrs).filter, rank).output;
  if (n.op != Op::kMatMul || rank != 2 || n.inputs.size() > 3) return -1;
  const auto& a = static_cast<const MatMulAttrs&>(*n.attrs);
  if (a.alpha != 1 || a.beta != 1 || a.transpose_a || a.dynamic_quant || a.trans_batch_b) return -1;
  return a.transpose_b ? 0 : 1;
}

class Quantizer {
 public:
  Quantizer(Graph& g, const QuantizeOptions& o, const std::map<int32_t, Range>& ranges)
      : g_(g), o_(o), ranges_(ranges) {}

  void run() {
    nodes_.reserve(g_.nodes.size());
    const std::vector<Node> before = std::move(g_.nodes);
    for (const Node& n : before) {
      if (!kept(n) && (weighted(n) || elementwise(n) || moved(n))) continue;
      for (const ValueId id : n.inputs) real(id);
      nodes_.push_back(n);
    }
    for (const ValueId id : g_.outputs) real(id);
    g_.nodes = std::move(nodes_);
  }

 private:
  bool kept(const Node& n) const {
    return std::ranges::any_of(o_.keep_float, [&](const std::string& part) {
      return n.name.find(part) != std::string::npos || n.origin.find(part) != std::string::npos ||
             part == to_string(n.op);
    });
  }
  bool ranged(ValueId id) const { return id != kNoValue && ranges_.count(id) > 0; }

  /// True if the value can be had in int8.
  bool has_int8(ValueId id) const { return quantized_.count(id) > 0 || (is_float_value(g_, id) && ranged(id)); }

  /// The value in int8; a Quantize node makes it if none has.
  ValueId int8(ValueId id) {
    if (const auto it = quantized_.find(id); it != quantized_.end()) return it->second;
    const ValueId q = declare(id, activation_params(ranges_.at(id)));
    nodes_.push_back({Op::kQuantize, {id}, {q}, make_attrs<NoAttrs>(), "", "", ""});
    real_.insert(id);
    return q;
  }
  /// The int8 form of float value `id`, not yet made.
  ValueId declare(ValueId id, QuantPtr quant) {
    Value v{.name = g_.value(id).name + "_int8"};
    v.type = g_.value(id).type;
    v.type.dtype = DType::kI8;
    v.type.quant = std::move(quant);
    return quantized_[id] = g_.add_value(std::move(v));
  }
  /// Makes the float form of a value that is there in int8.
  void real(ValueId id) {
    const auto it = quantized_.find(id);
    if (it == quantized_.end() || !real_.insert(id).second) return;
    nodes_.push_back({Op::kDequantize, {it->second}, {id}, make_attrs<NoAttrs>(), "", "", ""});
  }
  void emit(Node n, std::vector<ValueId> inputs, QuantPtr quant) {
    const ValueId out = declare(n.outputs[0], std::move(quant));
    n.inputs = std::move(inputs);
    n.outputs = {out};
    nodes_.push_back(std::move(n));
  }

  bool weighted(const Node& n) {
    const int axis = output_axis(g_, n);
    if (axis < 0 || !has_int8(n.inputs[0]) || !ranged(n.outputs[0])) return false;
    const bool biased = n.inputs.size() > 2 && n.inputs[2] != kNoValue;
    const auto channels = g_.value(n.inputs[1]).constant->dim(axis);
    if (biased && (!is_float_constant(g_, n.inputs[2]) || g_.value(n.inputs[2]).constant->rank() != 1 ||
                   g_.value(n.inputs[2]).constant->elements() != channels))
      return false;
    const ValueId x = int8(n.inputs[0]);
    const float scale = g_.value(x).type.quant->scale();
    std::vector<ValueId> in{x, g_.add_value(quantized_weights(g_.value(n.inputs[1]), axis))};
    if (biased) {
      const QuantPtr w = g_.value(in[1]).type.quant;
      in.push_back(g_.add_value(quantized_bias(g_.value(n.inputs[2]), scale, *w)));
    }
    emit(n, std::move(in), activation_params(ranges_.at(n.outputs[0])));
    return true;
  }

  /// Sums, products and pools whose operands are int8 already.
  bool elementwise(const Node& n) {
    if (n.op == Op::kBinary) {
      const auto fn = static_cast<const BinaryAttrs&>(*n.attrs).fn;
      if (fn != Binary::kAdd && fn != Binary::kSub && fn != Binary::kMul) return false;
    } else if (n.op != Op::kConcat && n.op != Op::kPool && n.op != Op::kUnary && n.op != Op::kReduce) {
      return false;
    }
    if (n.outputs.size() != 1 || !is_float_value(g_, n.outputs[0]) || !ranged(n.outputs[0])) return false;
    bool some = false;
    const size_t operands = n.op == Op::kReduce ? 1 : n.inputs.size();
    for (size_t i = 0; i < operands; ++i) {
      some = some || quantized_.count(n.inputs[i]) > 0;
      if (!has_int8(n.inputs[i]) && !is_float_constant(g_, n.inputs[i])) return false;
    }
    if (!some) return false;
    std::vector<ValueId> in = n.inputs;
    for (size_t i = 0; i < operands; ++i)
      in[i] = is_float_constant(g_, in[i]) ? g_.add_value(quantized_operand(g_.value(in[i]))) : int8(in[i]);
    emit(n, std::move(in), activation_params(ranges_.at(n.outputs[0])));
    return true;
  }

  /// Operators that move elements keep the parameters of input 0.
  bool moved(const Node& n) {
    const uint32_t flags = op_info(n.op).flags;
    if ((flags & kQuantTransparent) == 0 || n.outputs.size() != 1 || quantized_.count(n.inputs[0]) == 0) return false;
    std::vector<ValueId> in = n.inputs;
    in[0] = quantized_.at(in[0]);
    emit(n, std::move(in), g_.value(quantized_.at(n.inputs[0])).type.quant);
    return true;
  }

  Graph& g_;
  const QuantizeOptions& o_;
  const std::map<int32_t, Range>& ranges_;
  std::vector<Node> nodes_;
  std::map<ValueId, ValueId> quantized_;  ///< float value -> int8 value
  std::set<ValueId> real_;                ///< float values that exist beside their int8 form
};

/// [N, K] weights in symmetric int4 with a scale for each `block` entries of a row.
Value int4_weights(const Value& from, const Tensor& w, int64_t block) {
  const int64_t rows = w.dim(0), k = w.dim(1), blocks = (k + block - 1) / block;
  Quantization q;
  q.kind = Quantization::Kind::kPerBlock;
  q.axis = 1;
  q.block = block;
  Tensor t(DType::kI4, w.shape());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t begin = r * k + b * block, end = std::min(begin + block, (r + 1) * k);
      float largest = 0;
      for (int64_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(w.data<float>()[i]));
      const float scale = largest > 0 ? largest / 7.f : 1.f;
      q.scales.push_back(scale);
      for (int64_t i = begin; i < end; ++i)
        set_int(t, i, static_cast<int64_t>(std::clamp(std::nearbyint(w.data<float>()[i] / scale), -8.f, 7.f)));
    }
  return constant_value(from, std::move(t), std::make_shared<const Quantization>(std::move(q)));
}

Tensor transposed(const Tensor& w) {
  Tensor t(w.dtype(), Shape{w.dim(1), w.dim(0)});
  for (int64_t i = 0; i < w.dim(0); ++i)
    for (int64_t j = 0; j < w.dim(1); ++j) t.data<float>()[j * w.dim(0) + i] = w.data<float>()[i * w.dim(1) + j];
  return t;
}

void quantize_products(Graph& g, const QuantizeOptions& o) {
  for (Node& n : g.nodes) {
    if (n.op != Op::kMatMul || output_axis(g, n) < 0) continue;
    const bool kept = std::ranges::any_of(o.keep_float, [&](const std::string& part) {
      return n.name.find(part) != std::string::npos || n.origin.find(part) != std::string::npos;
    });
    if (kept) continue;
    auto a = static_cast<const MatMulAttrs&>(*n.attrs);
    const Value& from = g.value(n.inputs[1]);
    const Tensor w = a.transpose_b ? *from.constant : transposed(*from.constant);
    n.inputs[1] = g.add_value(int4_weights(from, w, o.int4_block));
    a.transpose_b = true;
    n.attrs = make_attrs<MatMulAttrs>(a);
  }
}

}  // namespace

Status quantize(Module& module, const QuantizeOptions& options) {
  Graph& g = module.graphs[static_cast<size_t>(module.methods[0].graph)];
  if (options.int8) {
    if (options.calibration.empty()) return InvalidInput("int8 needs inputs to calibrate with (--calibrate)");
    SMELT_ASSIGN(const auto ranges, calibrate(module, options.calibration, options.rule));
    Quantizer(g, options, ranges).run();
  }
  if (options.int4_block > 0) quantize_products(g, options);
  return Ok();
}

}  // namespace smelt::convert
