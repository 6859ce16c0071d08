#include "formats/onnx/quant_helpers.h"

#include "ops/elementwise/elementwise.h"

namespace smelt::onnx {

QuantPtr const_quant(NodeContext& n, int scale, int zero_point, int axis) {
  const auto scales = n.const_floats(scale);
  if (!scales || scales->empty()) return nullptr;
  Quantization q;
  q.scales = *scales;
  q.axis = axis;
  q.kind = scales->size() == 1 ? Quantization::Kind::kPerTensor : Quantization::Kind::kPerAxis;
  q.rounding = Rounding::kFloatHalfEven;
  if (zero_point >= 0 && n.has(zero_point)) {
    const auto zps = n.const_ints(zero_point);
    if (!zps || (zps->size() != 1 && zps->size() != scales->size())) return nullptr;
    for (const int64_t z : *zps) q.zero_points.push_back(static_cast<int32_t>(z));
  }
  return std::make_shared<const Quantization>(std::move(q));
}

DType quantized_type(NodeContext& n, int zero_point, DType fallback) {
  if (zero_point < 0 || !n.has(zero_point)) return fallback;
  const DType d = n.dtype(n.in(zero_point));
  return d == DType::kInvalid ? fallback : d;
}

ValueId dequantized(NodeContext& n, const QuantArg& arg, int64_t axis) {
  QuantizeLinearAttrs a;
  a.axis = axis;
  const ValueId scale = n.in(arg.scale);
  a.to = n.dtype(scale) == DType::kInvalid ? DType::kF32 : n.dtype(scale);
  std::vector<ValueId> in{n.in(arg.x), scale};
  if (arg.zero_point >= 0 && n.has(arg.zero_point)) in.push_back(n.in(arg.zero_point));
  return n.add(Op::kDequantizeLinear, a, in);
}

ValueId quantized(NodeContext& n, ValueId real, const QuantArg& arg, DType fallback) {
  QuantizeLinearAttrs a;
  a.to = quantized_type(n, arg.zero_point, fallback);
  std::vector<ValueId> in{real, n.in(arg.scale)};
  if (arg.zero_point >= 0 && n.has(arg.zero_point)) in.push_back(n.in(arg.zero_point));
  return n.add(Op::kQuantizeLinear, a, in);
}

void emit_quantized(NodeContext& n, Op op, const AttrsPtr& attrs, const std::vector<QuantArg>& args,
                    const QuantArg& out, const std::vector<ValueId>& rest) {
  std::vector<QuantPtr> quants;
  bool constant = true;
  for (const QuantArg& arg : args) {
    quants.push_back(const_quant(n, arg.scale, arg.zero_point));
    constant = constant && quants.back() && quants.back()->kind == Quantization::Kind::kPerTensor;
  }
  const QuantPtr to = const_quant(n, out.scale, out.zero_point);
  constant = constant && to && to->kind == Quantization::Kind::kPerTensor;
  const DType fallback = n.dtype(n.in(args[0].x)) == DType::kInvalid ? DType::kU8 : n.dtype(n.in(args[0].x));
  std::vector<ValueId> in;
  if (constant) {
    for (size_t i = 0; i < args.size(); ++i) in.push_back(n.typed(args[i].x, quants[i]));
    in.insert(in.end(), rest.begin(), rest.end());
    ValueType type;
    type.dtype = quantized_type(n, out.zero_point, fallback);
    type.quant = to;
    return n.bind_typed(0, n.add_as(op, attrs, in, type));
  }
  for (const QuantArg& arg : args) in.push_back(dequantized(n, arg));
  in.insert(in.end(), rest.begin(), rest.end());
  n.bind(0, quantized(n, n.add(op, attrs, in), out, fallback));
}

ValueId unpack_bits(NodeContext& n, ValueId bytes, int64_t bits) {
  const ValueId x = n.cast(bytes, DType::kI32);
  const int rank = n.rank_or_fail(bytes);
  if (bits == 8 || rank < 1) return x;
  const int64_t per = 8 / bits;
  Tensor shifts(DType::kI32, Shape{per}), mask(DType::kI32, Shape{});
  for (int64_t i = 0; i < per; ++i) shifts.data<int32_t>()[i] = static_cast<int32_t>(i * bits);
  mask.data<int32_t>()[0] = (1 << bits) - 1;
  const auto binary = [&](Binary fn, ValueId a, ValueId b) { return n.binary(fn, a, b); };
  const ValueId low = binary(Binary::kShiftRight, n.unsqueeze(x, {-1}), n.constant(std::move(shifts)));
  const ValueId parts = binary(Binary::kBitAnd, low, n.constant(std::move(mask)));
  std::vector<int64_t> shape(static_cast<size_t>(rank) - 1, 0);
  shape.push_back(-1);
  // The last two axes become one; those before them stay.
  return n.reshape(parts, shape);
}

ValueId first_of_last(NodeContext& n, ValueId x, int64_t count) {
  return n.add(Op::kSlice, {x, n.i64({0}), n.i64({count}), n.i64({-1})});
}

}  // namespace smelt::onnx
