// Source of what the delegate takes: google-ai-edge/LiteRT, tflite/delegates/xnnpack/xnnpack_delegate.cc.
#include <algorithm>
#include <utility>
#include <vector>

#include "ops/common/quantized_pair.h"
#include "ops/conv/conv.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/resize/resize.h"
#include "ops/shape/shape.h"
#include "passes/passes.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

class DelegateArithmetic {
 public:
  explicit DelegateArithmetic(Graph& g) : g_(g) {}
  void run() {
    for (Node& n : g_.nodes) {
      rewrite(n);
      nodes_.push_back(std::move(n));
    }
    g_.nodes = std::move(nodes_);
  }

 private:
  void rewrite(Node& n) {
    switch (n.op) {
      case Op::kConv:
        return conv(n);
      case Op::kConvTranspose:
        if (is_byte(n.inputs[0]) && is_byte(n.outputs[0]))
          set_rounding<ConvTransposeAttrs>(n, Rounding::kFloatHalfEven);
        return;
      case Op::kMatMul:
        return matmul(n);
      case Op::kBinary:
        return binary(n);
      case Op::kUnary:
        return unary(n);
      case Op::kReduce:
        if (is_byte(n.inputs[0]) && is_byte(n.outputs[0])) set_rounding<ReduceAttrs>(n, Rounding::kXnnpack);
        return;
      case Op::kResize:
        if (is_byte(n.inputs[0]) && is_byte(n.outputs[0]) && type(n.inputs[0]).ranked &&
            type(n.inputs[0]).shape.rank() == 4)
          set_rounding<ResizeAttrs>(n, Rounding::kXnnpack);
        return;
      case Op::kQuantize:
        return quantize(n);
      default:
        return;
    }
  }

  const ValueType& type(ValueId id) const { return g_.value(id).type; }
  /// True if a value holds 8-bit integers that are quantized per tensor.
  bool is_byte(ValueId id) const {
    if (id == kNoValue) return false;
    const ValueType& t = type(id);
    return is_8bit(t.dtype) && t.quant && t.quant->kind == Quantization::Kind::kPerTensor;
  }
  bool is_f32(ValueId id) const { return id != kNoValue && is_unquantized_f32(type(id)); }

  template <class A>
  static void set_rounding(Node& n, Rounding rounding) {
    A a = static_cast<const A&>(*n.attrs);
    if (a.rounding == Rounding::kFloatHalfEven) return;
    a.rounding = rounding;
    n.attrs = make_attrs<A>(std::move(a));
  }

  void conv(Node& n) {
    ConvAttrs a = static_cast<const ConvAttrs&>(*n.attrs);
    if (is_byte(n.inputs[0]) && is_byte(n.outputs[0])) return set_rounding<ConvAttrs>(n, Rounding::kFloatHalfEven);
    // The delegate leaves depthwise convolutions of float32 images with integer filters to LiteRT's own kernels.
    if (!a.dynamic_quant || a.filter == FilterLayout::kISO || !takes_rows(n) || !in_xnnpack(a.act)) return;
    if (is_pointwise(n, a)) return pointwise(n, a);
    a.dynamic_quant = a.asymmetric_inputs = false;
    n.inputs[0] = quantized_rows(n, n.inputs[0], 3);
    n.attrs = make_attrs<ConvAttrs>(std::move(a));
  }

  bool is_pointwise(const Node& n, const ConvAttrs& a) const {
    const ValueType& w = type(n.inputs[1]);
    const auto ones = [](const std::vector<int64_t>& list) {
      return std::ranges::all_of(list, [](int64_t v) { return v == 1; });
    };
    const bool no_pads = std::ranges::all_of(a.pads, [](int64_t v) { return v == 0; });
    return a.groups == 1 && a.filter == FilterLayout::kOSI && w.shape.rank() == 4 && w.shape[1] == 1 &&
           w.shape[2] == 1 && ones(a.strides) && no_pads && g_.value(n.inputs[1]).constant;
  }
  /// XNNPACK computes a pointwise convolution as a matrix product, with parameters for each pixel.
  void pointwise(Node& n, const ConvAttrs& a) {
    const ValueType w = type(n.inputs[1]);
    const Shape matrix{w.shape[0], w.shape[3]};
    auto content = std::make_shared<Tensor>(g_.value(n.inputs[1]).constant->reshaped(matrix));
    MatMulAttrs product;
    product.transpose_b = true;
    product.act = a.act;
    n.op = Op::kMatMul;
    n.attrs = make_attrs<MatMulAttrs>(std::move(product));
    n.inputs[0] = quantized_rows(n, n.inputs[0], 1);
    n.inputs[1] = add(ValueType::tensor(w.dtype, matrix, w.quant), std::move(content));
  }

  void matmul(Node& n) {
    MatMulAttrs a = static_cast<const MatMulAttrs&>(*n.attrs);
    if (is_byte(n.inputs[0]) && is_byte(n.outputs[0])) {
      // A product of two activations is LiteRT's own unless b has no zero point.
      const ValueType& b = type(n.inputs[1]);
      const bool has_zero = b.quant && std::ranges::any_of(b.quant->zero_points, [](int32_t z) { return z != 0; });
      if (b.dtype != DType::kI8 || !has_zero) set_rounding<MatMulAttrs>(n, Rounding::kFloatHalfEven);
      return;
    }
    if (!a.dynamic_quant || a.transpose_a || !in_xnnpack(a.act) || !takes_rows(n) || !g_.value(n.inputs[1]).constant)
      return;
    ValueId x = n.inputs[0];
    const ValueType& w = type(n.inputs[1]);
    if (a.flatten_a) {
      const int64_t depth = w.shape[a.transpose_b ? 1 : 0];
      if (type(x).shape.rank() != 2 || type(x).shape[1] != depth) x = reshaped(n, x, depth);
      a.flatten_a = false;
    }
    a.dynamic_quant = a.asymmetric_inputs = false;
    n.inputs[0] = quantized_rows(n, x, 1);
    n.attrs = make_attrs<MatMulAttrs>(std::move(a));
  }

  /// The delegate fuses clamps alone.
  static bool in_xnnpack(const Activation& act) { return act.kind != ActKind::kTanh && act.kind != ActKind::kSignBit; }
  /// True if the first operand may be quantized by rows or images: float32 of a known shape, and int8 or narrower
  /// weights.
  bool takes_rows(const Node& n) const {
    const ValueType &x = type(n.inputs[0]), &w = type(n.inputs[1]);
    return is_f32(n.inputs[0]) && is_f32(n.outputs[0]) && x.ranked && x.shape.rank() >= 2 && w.ranked &&
           w.shape.rank() >= 2 && w.quant && is_signed_integer(w.dtype) && bit_width(w.dtype) <= 8;
  }

  void binary(Node& n) {
    const auto fn = static_cast<const BinaryAttrs&>(*n.attrs).fn;
    if (fn != Binary::kAdd && fn != Binary::kSub && fn != Binary::kMul) return;
    if (!is_byte(n.inputs[0]) || !is_byte(n.inputs[1]) || !is_byte(n.outputs[0])) return;
    if (delegated(fn, n)) set_rounding<BinaryAttrs>(n, Rounding::kXnnpack);
  }
  /// True if the scales are in the range that the delegate takes.
  bool delegated(Binary fn, const Node& n) const {
    const float a = type(n.inputs[0]).quant->scale(), b = type(n.inputs[1]).quant->scale(),
                y = type(n.outputs[0]).quant->scale();
    const auto between = [](float scale, float low) { return scale >= low && scale < 256; };
    if (fn == Binary::kMul) return between(a * b / y, 0x1p-16f);
    return between(a / y, 0x1p-10f) && between(b / y, 0x1p-10f);
  }

  void unary(Node& n) {
    const auto fn = static_cast<const UnaryAttrs&>(*n.attrs).fn;
    if (!is_byte(n.inputs[0]) || !is_byte(n.outputs[0]) || type(n.inputs[0]).dtype != type(n.outputs[0]).dtype) return;
    const bool takes = fn == Unary::kSigmoid || fn == Unary::kTanh || fn == Unary::kLeakyRelu ||
                       (fn == Unary::kElu && type(n.inputs[0]).dtype == DType::kI8);
    if (takes) set_rounding<UnaryAttrs>(n, Rounding::kXnnpack);
  }

  void quantize(Node& n) {
    const ValueId y = n.outputs[0];
    if (!is_byte(y)) return;
    if (is_f32(n.inputs[0])) {
      auto q = std::make_shared<Quantization>(*type(y).quant);
      q->rounding = Rounding::kFloatHalfEven;
      g_.value(y).type.quant = std::move(q);
      return;
    }
    if (!is_byte(n.inputs[0]) || type(n.inputs[0]).dtype != type(y).dtype) return;
    const float ratio = type(n.inputs[0]).quant->scale() / type(y).quant->scale();
    if (!(ratio >= 0x1p-8f && ratio <= 128)) return;
    UnaryAttrs a(Unary::kIdentity);
    a.rounding = Rounding::kXnnpack;
    n.op = Op::kUnary;
    n.attrs = make_attrs<UnaryAttrs>(std::move(a));
  }

  ValueId add(ValueType type, std::shared_ptr<const Tensor> constant = nullptr) {
    Value v;
    v.type = std::move(type);
    v.constant = std::move(constant);
    return g_.add_value(std::move(v));
  }
  void emit(const Node& like, Op op, AttrsPtr attrs, std::vector<ValueId> inputs, ValueId output) {
    Node n = like;
    n.op = op;
    n.attrs = std::move(attrs);
    n.inputs = std::move(inputs);
    n.outputs = {output};
    nodes_.push_back(std::move(n));
  }
  /// x as int8 with a scale and a zero point for each slice of its last `inner` dimensions, chosen at run time.
  ValueId quantized_rows(const Node& n, ValueId x, int inner) {
    ValueType t = type(x);
    t.dtype = DType::kI8;
    t.quant = per_slice_quant(inner);
    const ValueId rows = add(std::move(t));
    emit(n, Op::kQuantize, make_attrs<NoAttrs>(), {x}, rows);
    return rows;
  }
  /// x as [-1, depth].
  ValueId reshaped(const Node& n, ValueId x, int64_t depth) {
    auto shape = std::make_shared<Tensor>(DType::kI64, Shape{2});
    shape->data<int64_t>()[0] = -1;
    shape->data<int64_t>()[1] = depth;
    const ValueId to = add(ValueType::tensor(DType::kI64, Shape{2}), std::move(shape));
    const Shape& from = type(x).shape;
    const int64_t rows = from.is_static() && depth > 0 ? from.elements() / depth : -1;
    const ValueId y = add(ValueType::tensor(DType::kF32, Shape{rows, depth}));
    emit(n, Op::kReshape, make_attrs<ReshapeAttrs>(), {x, to}, y);
    return y;
  }

  Graph& g_;
  std::vector<Node> nodes_;
};

}  // namespace

std::shared_ptr<const Module> litert_xnnpack(std::shared_ptr<const Module> module) {
  if (module->format != "tflite") return module;
  auto copy = std::make_shared<Module>(*module);
  for (Graph& graph : copy->graphs) DelegateArithmetic(graph).run();
  return copy;
}

}  // namespace smelt
