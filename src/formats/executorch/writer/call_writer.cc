#include "formats/executorch/writer/call_writer.h"

#include <array>

#include "base/cat.h"
#include "formats/executorch/aten/aten.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::executorch {

WriteCallFn find_call_writer(Op op) {
  static const std::array<WriteCallFn, static_cast<size_t>(Op::kCount)> functions = [] {
    std::array<WriteCallFn, static_cast<size_t>(Op::kCount)> all{};
#define ATEN_WRITE(op, function) all[static_cast<size_t>(Op::k##op)] = function;
#include "formats/executorch/writer/operators.inc"
#undef ATEN_WRITE
    return all;
  }();
  return functions[static_cast<size_t>(op)];
}

Shape broadcast_shape(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape out = Shape::of_rank(rank, 1);
  for (int d = 1; d <= rank; ++d) {
    const int64_t x = d <= a.rank() ? a[a.rank() - d] : 1, y = d <= b.rank() ? b[b.rank() - d] : 1;
    out[rank - d] = x == 1 ? y : x;
  }
  return out;
}

Shape image_shape(CallWriter& w, Layout layout) {
  const Shape& s = w.out_type(0).shape;
  if (layout == Layout::kChannelsFirst) return s;
  Shape out{s[0], s.back()};
  for (int d = 1; d + 1 < s.rank(); ++d) out.push_back(s[d]);
  return out;
}

bool moves_integers(CallWriter& w, int i) {
  return w.in_type(i).dtype == w.out_type(0).dtype && same_quant_params(w.in_type(i).quant, w.out_type(0).quant);
}

namespace {

/// A slice of a constant, taken now.
int sliced_constant(CallWriter& w, int x, int axis, int64_t begin, const Shape& to) {
  const Shape from = w.shape(x);
  const Tensor& t = w.plan().contents(x);
  const auto size = static_cast<size_t>(bit_width(t.dtype()) / 8);
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < axis; ++d) outer *= from[d];
  for (int d = axis + 1; d < from.rank(); ++d) inner *= from[d];
  Tensor part(t.dtype(), to);
  const size_t bytes = static_cast<size_t>(to[axis] * inner) * size;
  for (int64_t i = 0; i < outer; ++i) {
    const std::byte* source = t.data<std::byte>() + static_cast<size_t>((i * from[axis] + begin) * inner) * size;
    std::copy_n(source, bytes, part.data<std::byte>() + static_cast<size_t>(i) * bytes);
  }
  return w.plan().constant(part);
}

}  // namespace

int sliced(CallWriter& w, int x, int64_t axis, int64_t begin, int64_t end, int64_t step) {
  Shape s = w.shape(x);
  if (begin == 0 && end == s[static_cast<int>(axis)] && step == 1) return x;
  s[static_cast<int>(axis)] = std::max<int64_t>(0, (end - begin + step - 1) / step);
  PlanWriter& p = w.plan();
  if (p.at(x).constant >= 0 && step == 1) return sliced_constant(w, x, static_cast<int>(axis), begin, s);
  const int d = p.integer(axis), b = p.integer(begin), e = p.integer(end), by = p.integer(step);
  return p.call("aten::slice_copy", "Tensor_out", {x, d, b, e, by}, w.dtype(x), s);
}

int flipped(CallWriter& w, int x, const std::vector<int64_t>& axes) {
  return w.call("aten::flip", {x, w.plan().integers(axes)});
}

std::optional<std::vector<int64_t>> CallWriter::axes(int i, int rank) const {
  auto all = ints(i);
  if (all)
    for (int64_t& d : *all) d = d < 0 ? d + rank : d;
  return all;
}

int CallWriter::dequantized(int x, const QuantPtr& quant, DType held) {
  const int type = p_.integer(aten::scalar_type_number(dtype(x)));
  const int lo = p_.integer(int_min(held)), hi = p_.integer(int_max(held));
  const Shape s = shape(x);
  if (is_per_tensor(quant))
    return p_.call("quantized_decomposed::dequantize_per_tensor", "out",
                   {x, p_.real(quant->scale()), p_.integer(quant->zero_point()), lo, hi, type, p_.null()}, DType::kF32,
                   s);
  const auto n = static_cast<int64_t>(quant->scales.size());
  Tensor scales = Tensor::from<float>(DType::kF32, Shape{n}, std::span<const float>(quant->scales));
  Tensor zeros(DType::kI64, Shape{n});
  for (int64_t c = 0; c < n; ++c) zeros.data<int64_t>()[c] = quant->zero_point(c);
  return p_.call("quantized_decomposed::dequantize_per_channel", "out",
                 {x, p_.constant(scales), p_.constant(zeros), p_.integer(quant->axis), lo, hi, type, p_.null()},
                 DType::kF32, s);
}

int CallWriter::quantized(int x, DType to, const QuantPtr& quant, int64_t min, int64_t max) {
  const int lo = p_.integer(min == max ? int_min(to) : min), hi = p_.integer(min == max ? int_max(to) : max);
  return p_.call("quantized_decomposed::quantize_per_tensor", "out",
                 {cast(x, DType::kF32), p_.real(quant->scale()), p_.integer(quant->zero_point()), lo, hi,
                  p_.integer(aten::scalar_type_number(to))},
                 to, shape(x));
}

int CallWriter::real(int i) {
  const Value& v = p_.graph().value(id(i));
  const QuantPtr quant = v.type.quant ? v.type.quant : v.constant ? v.constant->quant() : nullptr;
  if (!quant) return in(i);
  using Kind = Quantization::Kind;
  const bool wide = v.type.dtype == DType::kI32 || v.type.dtype == DType::kI64;
  if (v.constant && (wide || (quant->kind != Kind::kPerTensor && quant->kind != Kind::kPerAxis))) {
    Tensor values(DType::kF32, v.constant->shape());
    Tensor typed = *v.constant;
    typed.set_quant(quant);
    dequantize(typed, values.data<float>());
    return p_.constant(values);
  }
  return dequantized(in(i), quant, v.type.dtype);
}

int CallWriter::bias() {
  const Tensor* t = constant(2);
  const QuantPtr quant = t ? bias_quant(p_.graph(), node()) : nullptr;
  if (!quant) return optional(2);
  Tensor typed = *t, values(DType::kF32, t->shape());
  typed.set_quant(quant);
  dequantize(typed, values.data<float>());
  return p_.constant(values);
}

int CallWriter::quantized_image(int i, Layout layout) {
  return layout == Layout::kChannelsFirst ? in(i) : p_.channels_first(id(i));
}

int CallWriter::image(int i, Layout layout) {
  if (layout == Layout::kChannelsFirst) return real(i);
  if (!in_type(i).quant) return p_.channels_first(id(i));
  if (!is_per_tensor(in_type(i).quant)) return -1;
  return dequantized(p_.channels_first(id(i)), in_type(i).quant, in_type(i).dtype);
}

DType CallWriter::result_dtype(int i) const { return out_type(i).quant ? DType::kF32 : out_type(i).dtype; }

bool CallWriter::out(int i, int value) {
  const ValueType& t = out_type(i);
  if (t.quant && is_float(dtype(value))) {
    if (!is_per_tensor(t.quant)) return false;
    value = quantized(value, t.dtype, t.quant);
  }
  p_.bind(out_id(i), value);
  return true;
}

bool CallWriter::out_image(int i, int value, Layout layout) {
  if (layout == Layout::kChannelsFirst) return out(i, value);
  const ValueType& t = out_type(i);
  if (t.quant && is_float(dtype(value))) {
    if (!is_per_tensor(t.quant)) return false;
    value = quantized(value, t.dtype, t.quant);
  }
  p_.bind_channels_first(out_id(i), value);
  return true;
}

bool CallWriter::emit(std::string_view name, IntList args, std::string_view overload) {
  return out(0, p_.call(name, overload, args, result_dtype(0), out_type(0).shape));
}

bool CallWriter::move(std::string_view name, IntList args, std::string_view overload) {
  p_.bind(out_id(0), p_.call(name, overload, args, out_type(0).dtype, out_type(0).shape));
  return true;
}

int CallWriter::call(std::string_view name, IntList args, std::string_view overload) {
  const FileValue like = p_.at(args[0]);
  return p_.call(name, overload, args, like.dtype, like.shape);
}

int CallWriter::binary(std::string_view name, int a, int b, std::string_view overload) {
  return p_.call(aten(name), overload, {a, b}, dtype(a), broadcast_shape(shape(a), shape(b)));
}

int CallWriter::add(int a, int b) {
  return p_.call("aten::add", "out", {a, b, p_.integer(1)}, dtype(a), broadcast_shape(shape(a), shape(b)));
}

int CallWriter::sub(int a, int b) {
  return p_.call("aten::sub", "out", {a, b, p_.integer(1)}, dtype(a), broadcast_shape(shape(a), shape(b)));
}

int CallWriter::compare(std::string_view name, int a, int b) {
  return p_.call(aten(name), "Tensor_out", {a, b}, DType::kBool, broadcast_shape(shape(a), shape(b)));
}

int CallWriter::select(int condition, int a, int b) {
  const Shape s = broadcast_shape(shape(condition), broadcast_shape(shape(a), shape(b)));
  return p_.call("aten::where", "self_out", {condition, a, b}, dtype(a), s);
}

int CallWriter::clamp(int x, double lo, double hi) {
  const int a = p_.real(lo), b = p_.real(hi);
  return call("aten::clamp", {x, a, b});
}

int CallWriter::number_like(int value, double v) { return p_.number(dtype(value), v); }

int CallWriter::cast(int x, DType to) {
  if (dtype(x) == to) return x;
  return p_.call("aten::_to_copy", "out", {x, p_.boolean(false), p_.null()}, to, shape(x));
}

int CallWriter::reduce(std::string_view name, int x, Int64List axes, bool keep_dims) {
  const Shape from = shape(x);
  Shape to;
  for (int d = 0; d < from.rank(); ++d) {
    const bool reduced = std::ranges::count(axes, d) > 0;
    if (!reduced) to.push_back(from[d]);
    if (reduced && keep_dims) to.push_back(1);
  }
  const int dims = p_.integers(axes), keep = p_.boolean(keep_dims);
  if (name == "amax" || name == "amin") return p_.call(aten(name), "out", {x, dims, keep}, dtype(x), to);
  const std::string overload = name == "sum" ? "IntList_out" : "out";
  return p_.call(aten(name), overload, {x, dims, keep, p_.null()}, dtype(x), to);
}

std::optional<int> CallWriter::activated(int x, const Activation& act) {
  const Bounds b = activation_bounds(act);
  switch (act.kind) {
    case ActKind::kNone:
      return x;
    case ActKind::kRelu:
      return unary("relu", x);
    case ActKind::kRelu6:
    case ActKind::kReluN1:
    case ActKind::kClamp: {
      const auto bound = [&](float v) { return std::abs(v) > 3e38f ? p_.null() : p_.real(v); };
      const int lo = bound(b.lo), hi = bound(b.hi);
      return call("aten::clamp", {x, lo, hi});
    }
    case ActKind::kTanh:
      return unary("tanh", x);
    case ActKind::kSigmoid:
      return unary("sigmoid", x);
    case ActKind::kLeakyRelu:
      return call("aten::leaky_relu", {x, p_.real(act.a)});
    case ActKind::kHardSigmoid: {
      const int line = add({mul(x, number_like(x, act.a)), number_like(x, act.b)});
      return clamp(line, 0, 1);
    }
    case ActKind::kSignBit:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace smelt::executorch
