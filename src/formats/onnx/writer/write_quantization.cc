// Quantization: conversions between real values and integers.
#include <algorithm>
#include <cmath>

#include "formats/onnx/writer/write_elementwise.h"

namespace smelt::onnx {

Name dynamically_rounded(NodeWriter& n, Name x, const std::vector<int64_t>& axes, bool asymmetric) {
  const DType f32 = DType::kF32;
  const auto s = [&](double v) { return n.scalar(f32, v); };
  const Name low = n.op("Min", {n.reduce("ReduceMin", x, axes, true), s(0)});
  const Name high = n.op("Max", {n.reduce("ReduceMax", x, axes, true), s(0)});
  if (!asymmetric) {
    const Name range = n.op("Max", {n.op("Max", {n.op("Neg", {low}), high}), s(1e-37)});
    const Name steps = round_half_away(n, n.op("Mul", {x, n.op("Div", {s(127), range})}), f32);
    return n.op("Mul", {n.clip(steps, f32, -127, 127), n.op("Div", {range, s(127)})});
  }
  const Name scale = n.op("Max", {n.op("Div", {n.op("Sub", {high, low}), s(255)}), s(1e-37)});
  const Name below = n.op("Div", {low, scale}), above = n.op("Div", {high, scale});
  const Name nearer_low = n.op("Less", {n.op("Sub", {s(128), below}), n.op("Add", {s(127), above})});
  const Name zero = n.op("Where", {nearer_low, n.op("Sub", {s(-128), below}), n.op("Sub", {s(127), above})});
  const Name bounded = round_half_away(n, n.clip(zero, f32, -128, 127), f32);
  const Name steps = round_half_away(n, n.op("Mul", {x, n.op("Reciprocal", {scale})}), f32);
  const Name q = n.clip(n.op("Add", {bounded, steps}), f32, -128, 127);
  return n.op("Mul", {n.op("Sub", {q, bounded}), scale});
}

namespace {

void write_quantize(NodeWriter& n) {
  const QuantPtr& quant = n.out_type(0).quant;
  // Rows are those of the graph's order, but for such as span all dimensions behind the first.
  const bool rows = quant && quant->kind == Quantization::Kind::kPerToken && quant->axis + 1 < n.rank(0);
  const Order order = rows ? Order::kAsIs : order_at_hand(n);
  if (n.quantized(0) && n.dtype(0) == n.out_type(0).dtype && same_quant_params(n.type(0).quant, n.out_type(0).quant))
    return n.bind_raw(0, n.raw(0, order), order);
  Name x = n.in(0, order);
  if (n.real_dtype(0) != DType::kF32) x = n.cast(x, DType::kF32);
  if (!n.out_type(0).quant) return n.fail("the result has no quantization parameters");
  n.bind(0, x, order);
}

void write_dequantize(NodeWriter& n) {
  const Order order = order_at_hand(n);
  const DType to = n.real_out_dtype(0);
  const Name x = n.in(0, order);
  n.bind(0, n.real_dtype(0) == to ? x : n.cast(x, to), order);
}

/// Attributes and operands that both linear operators share. False after fail().
bool linear_operands(NodeWriter& n, DType quantized, std::vector<Name>& in, std::vector<Attribute>& attributes) {
  const auto& a = n.attrs<QuantizeLinearAttrs>();
  in = {n.raw(0), n.in(1)};
  if (n.has(2)) in.push_back(n.dtype(2) == quantized ? n.raw(2) : n.cast(n.raw(2), quantized));
  attributes.emplace_back("axis", a.axis);
  if (a.block > 0) {
    if (!n.model().need_opset(21)) n.fail("blocks need opset 21");
    attributes.emplace_back("block_size", a.block);
  }
  const bool bytes = quantized == DType::kI8 || quantized == DType::kU8 || quantized == DType::kI32;
  const int since = is_float(quantized) ? 19 : bit_width(quantized) < 4 ? 25 : 21;
  if (!bytes && !n.model().need_opset(since)) n.fail(to_string(quantized), " needs opset ", since);
  return n.ok();
}

void write_quantize_linear(NodeWriter& n) {
  const auto& a = n.attrs<QuantizeLinearAttrs>();
  if (a.to == DType::kI32 || a.to == DType::kI64) return n.fail("quantization to ", to_string(a.to));
  std::vector<Name> in;
  std::vector<Attribute> attributes;
  if (!linear_operands(n, a.to, in, attributes)) return;
  const DType x = n.dtype(0), scale = n.dtype(1);
  const bool mixed = x != scale, wide = mixed || (x != DType::kF32 && !n.model().need_opset(19));
  for (size_t k = 0; k < 2; ++k)
    if (wide && (k == 0 ? x : scale) != DType::kF32) in[k] = n.cast(in[k], DType::kF32);
  if (!n.has(2) && a.to != DType::kU8) {
    if (n.type(1).ranked && n.type(1).shape.rank() == 0) {
      in.push_back(n.scalar(a.to, 0));
    } else if (n.model().need_opset(21)) {
      attributes.emplace_back("output_dtype", type_code(a.to));
    } else {
      return n.fail("the type of the result needs opset 21");
    }
  }
  if (!a.saturate && n.model().need_opset(19)) attributes.emplace_back("saturate", false);
  Name y = n.op("QuantizeLinear", in, attributes);
  if (a.quant_min != a.quant_max && (a.quant_min > int_min(a.to) || a.quant_max < int_max(a.to)))
    y = n.clip(y, a.to, static_cast<double>(a.quant_min), static_cast<double>(a.quant_max));
  n.bind_raw(0, y);
}

void write_dequantize_linear(NodeWriter& n) {
  const auto& a = n.attrs<QuantizeLinearAttrs>();
  std::vector<Name> in;
  std::vector<Attribute> attributes;
  if (!linear_operands(n, n.dtype(0), in, attributes)) return;
  DType made = n.dtype(1);
  if (made == DType::kF64 || (made != DType::kF32 && !n.model().need_opset(19))) {
    in[1] = n.cast(in[1], DType::kF32);
    made = DType::kF32;
  }
  const Name y = n.op("DequantizeLinear", in, attributes);
  n.bind_raw(0, made == a.to ? y : n.cast(y, a.to));
}

/// Chooses scale and zero point from the range of x by ONNX operators.
class DynamicParameters {
 public:
  DynamicParameters(NodeWriter& n, const DynamicQuantizeAttrs& a) : n_(n), a_(a) {
    const bool given = a.quant_min != a.quant_max;
    lo_ = static_cast<double>(given ? a.quant_min : int_min(a.to));
    hi_ = static_cast<double>(given ? a.quant_max : int_max(a.to));
  }

  void write() {
    Name x = n_.in(0);
    if (n_.dtype(0) != DType::kF32) x = n_.cast(x, DType::kF32);
    const std::vector<int64_t> axes = a_.per_row ? std::vector<int64_t>{-1} : all_axes();
    const Name low = n_.op("Min", {n_.reduce("ReduceMin", x, axes, a_.per_row), s(0)});
    const Name high = n_.op("Max", {n_.reduce("ReduceMax", x, axes, a_.per_row), s(0)});
    if (a_.symmetric)
      symmetric(low, high);
    else if (a_.xnnpack_rule)
      balanced(low, high);
    else
      asymmetric(low, high);
    const Name steps = op("Add", n_.op("Round", {op("Div", x, scale_)}), zero_);
    n_.bind_raw(0, n_.cast(n_.clip(steps, DType::kF32, lo_, hi_), a_.to));
    const DType scale = n_.wants(1) ? n_.out_type(1).dtype : DType::kF32;
    n_.bind_raw(1, scale == DType::kF32 ? scale_ : n_.cast(scale_, scale));
    if (n_.wants(2)) n_.bind_raw(2, n_.cast(zero_, n_.out_type(2).dtype));
  }

 private:
  Name s(double v) { return n_.scalar(DType::kF32, v); }
  Name op(const char* name, Name a, Name b) { return n_.op(name, {a, b}); }

  std::vector<int64_t> all_axes() {
    std::vector<int64_t> axes;
    for (int i = 0; i < n_.rank(0); ++i) axes.push_back(i);
    return axes;
  }
  Name positive(Name scale) {
    if (a_.eps > 0) scale = op("Max", scale, s(a_.eps));
    return n_.op("Where", {op("Greater", scale, s(0)), scale, s(1)});
  }
  void symmetric(Name low, Name high) {
    scale_ = positive(n_.op("Div", {op("Max", n_.op("Neg", {low}), high), s(hi_)}));
    zero_ = op("Mul", scale_, s(0));
  }
  void asymmetric(Name low, Name high) {
    scale_ = positive(n_.op("Div", {op("Sub", high, low), s(hi_ - lo_)}));
    zero_ = n_.op("Round", {n_.clip(n_.op("Sub", {s(lo_), op("Div", low, scale_)}), DType::kF32, lo_, hi_)});
  }
  void balanced(Name low, Name high) {
    const Name range = op("Sub", high, low);
    Name inverse = n_.op("Where", {op("Equal", range, s(0)), s(1), op("Div", s(hi_ - lo_), range)});
    if (a_.eps > 0) inverse = op("Min", inverse, s(1 / a_.eps));
    scale_ = n_.op("Reciprocal", {inverse});
    const Name steps = n_.op("Round", {n_.op("Min", {op("Mul", n_.op("Neg", {low}), inverse), s(hi_ - lo_)})});
    zero_ = op("Add", steps, s(lo_));
  }

  NodeWriter& n_;
  const DynamicQuantizeAttrs& a_;
  double lo_ = 0, hi_ = 0;
  Name scale_ = kNoName, zero_ = kNoName;
};

void write_dynamic_quantize(NodeWriter& n) {
  const auto& a = n.attrs<DynamicQuantizeAttrs>();
  const bool standard = a.to == DType::kU8 && !a.symmetric && !a.per_row && !a.xnnpack_rule && a.eps == 0 &&
                        a.quant_min == a.quant_max && n.dtype(0) == DType::kF32;
  if (!standard) return DynamicParameters(n, a).write();
  const auto out = n.ops("DynamicQuantizeLinear", {n.in(0)}, 3);
  for (int i = 0; i < 3; ++i) n.bind_raw(i, out[static_cast<size_t>(i)]);
}

void write_fake_quant(NodeWriter& n) {
  const auto& a = n.attrs<FakeQuantAttrs>();
  const float lo = a.narrow_range ? 1.0f : 0.0f, hi = static_cast<float>((int64_t{1} << a.bits) - 1);
  const float scale = (a.max - a.min) / (hi - lo);
  if (!(scale > 0)) return n.fail("range ", a.min, " to ", a.max);
  const float from_min = lo - a.min / scale;
  const float zero = from_min < lo ? lo : from_min > hi ? hi : std::round(from_min);
  const float low = (lo - zero) * scale, high = (hi - zero) * scale;
  const DType f32 = DType::kF32;
  const Order order = order_at_hand(n);
  const Name kept = n.clip(n.in(0, order), f32, low, high);
  const Name steps = n.op("Mul", {n.op("Sub", {kept, n.scalar(f32, low)}), n.scalar(f32, 1.0f / scale)});
  const Name rounded = n.op("Floor", {n.op("Add", {steps, n.scalar(f32, 0.5)})});
  n.bind(0, n.op("Add", {n.op("Mul", {rounded, n.scalar(f32, scale)}), n.scalar(f32, low)}), order);
}

/// Accumulators times multiplier * 2^(shift - 31), in float64, which holds them exactly.
void write_fixed_scale(NodeWriter& n) {
  const auto& a = n.attrs<FixedScaleAttrs>();
  const int rank = n.rank(0);
  const size_t count = a.multipliers.size();
  Shape shape = Shape::of_rank(count > 1 ? rank : 0, 1);
  if (count > 1) shape[static_cast<int>(a.axis < 0 ? a.axis + rank : a.axis)] = static_cast<int64_t>(count);
  Tensor factors(DType::kF64, shape);
  for (size_t i = 0; i < count; ++i)
    factors.data<double>()[i] = std::ldexp(static_cast<double>(a.multipliers[i]), static_cast<int>(a.shifts[i]) - 31);
  const DType f64 = DType::kF64;
  const Name scaled = n.op("Mul", {n.cast(n.in(0), f64), n.tensor(factors)});
  const Name rounded = n.op("Floor", {n.op("Add", {scaled, n.scalar(f64, 0.5)})});
  const Name moved = n.op("Add", {rounded, n.scalar(f64, static_cast<double>(a.zero_point))});
  const Name kept = n.clip(moved, f64, static_cast<double>(a.min), static_cast<double>(a.max));
  n.bind_raw(0, n.cast(kept, a.to));
}

constexpr OpWriter kQuantization[] = {
    {Op::kQuantize, write_quantize, "QuantizeLinear"},
    {Op::kDequantize, write_dequantize, "DequantizeLinear, Cast"},
    {Op::kQuantizeLinear, write_quantize_linear, "QuantizeLinear"},
    {Op::kDequantizeLinear, write_dequantize_linear, "DequantizeLinear"},
    {Op::kDynamicQuantize, write_dynamic_quantize, "DynamicQuantizeLinear; ReduceMin, ReduceMax, ..."},
    {Op::kFakeQuant, write_fake_quant, "Clip, Sub, Mul, Floor, ..."},
    {Op::kFixedScale, write_fixed_scale, "Cast, Mul, Floor, ..."},
};

}  // namespace

std::span<const OpWriter> quantization_writers() { return kQuantization; }

}  // namespace smelt::onnx
