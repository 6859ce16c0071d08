#include "formats/tflite/writer/op_writer.h"

#include <algorithm>
#include <array>

#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::tflite {

WriteFn find_writer(Op op) {
  static const std::array<WriteFn, static_cast<size_t>(Op::kCount)> functions = [] {
    std::array<WriteFn, static_cast<size_t>(Op::kCount)> all{};
#define TFL_WRITE(op, function) all[static_cast<size_t>(Op::k##op)] = function;
#include "formats/tflite/writer/operators.inc"
#undef TFL_WRITE
    return all;
  }();
  return functions[static_cast<size_t>(op)];
}

int scaled_bias(SubgraphWriter& s, int bias, int x, int filter) {
  const FileTensor &b = s.at(bias), &f = s.at(filter);
  if (!b.contents || b.quant || f.quant->kind == Quantization::Kind::kPerBlock) return bias;
  Quantization q;
  q.kind = f.quant->kind;
  for (const float scale : f.quant->scales) q.scales.push_back(s.at(x).quant->scales[0] * scale);
  q.zero_points.assign(q.scales.size(), 0);
  Tensor t = *b.contents;
  t.set_quant(std::make_shared<const Quantization>(std::move(q)));
  return s.constant(std::move(t));
}

OperatorOptions concat_options(int64_t axis) {
  return options_of<tfl::ConcatenationOptions>(
      [=](auto& b) { return tfl::CreateConcatenationOptions(b, static_cast<int32_t>(axis)); });
}

tfl::TensorType tensor_type(DType dtype) {
  using enum tfl::TensorType;
  switch (dtype) {
    case DType::kF32:
      return FLOAT32;
    case DType::kF16:
      return FLOAT16;
    case DType::kBF16:
      return BFLOAT16;
    case DType::kF64:
      return FLOAT64;
    case DType::kI2:
      return INT2;
    case DType::kI4:
      return INT4;
    case DType::kU4:
      return UINT4;
    case DType::kI8:
      return INT8;
    case DType::kU8:
      return UINT8;
    case DType::kI16:
      return INT16;
    case DType::kU16:
      return UINT16;
    case DType::kI32:
      return INT32;
    case DType::kU32:
      return UINT32;
    case DType::kI64:
      return INT64;
    case DType::kU64:
      return UINT64;
    case DType::kBool:
      return BOOL;
    case DType::kString:
      return STRING;
    case DType::kC64:
      return COMPLEX64;
    case DType::kC128:
      return COMPLEX128;
    case DType::kF8E4M3FN:
      return FLOAT8_E4M3FN;
    case DType::kF8E5M2:
      return FLOAT8_E5M2;
    default:
      return RESOURCE;
  }
}

bool same_type(const ValueType& a, const ValueType& b) {
  return a.dtype == b.dtype && same_quant_params(a.quant, b.quant);
}

std::vector<int32_t> as_i32(const std::vector<int64_t>& values) {
  std::vector<int32_t> out;
  for (const int64_t v : values) out.push_back(static_cast<int32_t>(std::clamp<int64_t>(v, INT32_MIN, INT32_MAX)));
  return out;
}

bool OpWriter::unquantized() const {
  for (int i = 0; i < inputs(); ++i)
    if (has(i) && in_type(i).quant) return false;
  for (int i = 0; i < outputs(); ++i)
    if (wants(i) && out_type(i).quant) return false;
  return true;
}

bool OpWriter::real_result() const {
  for (int i = 0; i < outputs(); ++i)
    if (wants(i) && !is_float(out_type(i).dtype) && !out_type(i).quant) return false;
  return true;
}

int OpWriter::in_i32(int i) {
  if (const auto values = ints(i)) {
    if (in_type(i).shape.rank() == 0) return s_.i32_scalar(values->front());
    if (in_type(i).shape.rank() == 1) return s_.i32(*values);
  }
  int x = in(i);
  if (file_dtype(x) == DType::kI64 && !s_.at(x).contents)
    x = binary(Code::MINIMUM, {binary(Code::MAXIMUM, x, number_like(x, INT32_MIN)), number_like(x, INT32_MAX)});
  return s_.cast(x, DType::kI32);
}

std::vector<int> OpWriter::all() {
  std::vector<int> tensors;
  for (int i = 0; i < inputs(); ++i) tensors.push_back(optional(i));
  return tensors;
}

void OpWriter::out(int i, int tensor) {
  const auto [dtype, quant] = s_.file_type(out_type(i));
  if (quant && is_float(s_.at(tensor).dtype)) tensor = s_.quantize(tensor, dtype, quant);
  s_.bind(out_id(i), tensor);
}

void OpWriter::out_last(int i, int tensor) {
  const auto [dtype, quant] = s_.file_type(out_type(i));
  if (quant && is_float(s_.at(tensor).dtype)) tensor = s_.quantize(tensor, dtype, quant);
  s_.bind_channels_last(out_id(i), tensor);
}

bool OpWriter::emit(Code code, IntList in, OperatorOptions options) {
  const auto [dtype, quant] = s_.file_type(out_type(0));
  s_.bind(out_id(0), s_.add(code, in, dtype, std::move(options), quant));
  return true;
}

bool OpWriter::emit_last(Code code, IntList in, OperatorOptions options) {
  const auto [dtype, quant] = s_.file_type(out_type(0));
  s_.bind_channels_last(out_id(0), s_.add(code, in, dtype, std::move(options), quant));
  return true;
}

bool OpWriter::emit_all(Code code, IntList in, OperatorOptions options) {
  std::vector<int> outs;
  for (int i = 0; i < outputs(); ++i) {
    const auto [dtype, quant] = wants(i) ? s_.file_type(out_type(i)) : std::pair{DType::kF32, QuantPtr()};
    outs.push_back(s_.add_tensor({.dtype = dtype, .quant = quant}));
    if (wants(i)) s_.bind(out_id(i), outs.back());
  }
  s_.add_to(code, in, outs, std::move(options));
  return true;
}

int OpWriter::call(Code code, IntList in, OperatorOptions options) {
  const DType dtype = file_dtype(in[0]);
  return s_.add(code, in, dtype, std::move(options));
}

OperatorOptions arithmetic_options(tfl::BuiltinOperator code, tfl::ActivationFunctionType act, bool pot_scale) {
  switch (code) {
    case tfl::BuiltinOperator::ADD:
      return options_of<tfl::AddOptions>([=](auto& b) { return tfl::CreateAddOptions(b, act, pot_scale); });
    case tfl::BuiltinOperator::SUB:
      return options_of<tfl::SubOptions>([=](auto& b) { return tfl::CreateSubOptions(b, act, pot_scale); });
    case tfl::BuiltinOperator::MUL:
      return options_of<tfl::MulOptions>([=](auto& b) { return tfl::CreateMulOptions(b, act); });
    default:
      return options_of<tfl::DivOptions>([=](auto& b) { return tfl::CreateDivOptions(b, act); });
  }
}

int OpWriter::add(int a, int b) { return call(Code::ADD, {a, b}, arithmetic_options(Code::ADD, {}, false)); }
int OpWriter::sub(int a, int b) { return call(Code::SUB, {a, b}, arithmetic_options(Code::SUB, {}, false)); }
int OpWriter::mul(int a, int b) { return call(Code::MUL, {a, b}, arithmetic_options(Code::MUL, {}, false)); }
int OpWriter::div(int a, int b) { return call(Code::DIV, {a, b}, arithmetic_options(Code::DIV, {}, false)); }

int OpWriter::number_like(int tensor, double v) {
  Tensor t(file_dtype(tensor), Shape{});
  set_double(t, 0, v);
  return s_.constant(std::move(t));
}

int OpWriter::reduce(Code code, int x, Int64List axes, bool keep_dims) {
  return call(code, {x, s_.i32(axes)},
              options_of<tfl::ReducerOptions>([=](auto& b) { return tfl::CreateReducerOptions(b, keep_dims); }));
}

int dims_of(SubgraphWriter& s, int x) {
  return s.add(tfl::BuiltinOperator::SHAPE, {x}, DType::kI32, options_of<tfl::ShapeOptions>([](auto& b) {
                 return tfl::CreateShapeOptions(b, tfl::TensorType::INT32);
               }));
}

int spread(OpWriter& w, int values, int axes, int rank, int64_t fill) {
  SubgraphWriter& s = w.subgraph();
  const int from_end =
      w.select({w.compare(OpWriter::Code::LESS, axes, s.i32_scalar(0)), w.add(axes, s.i32_scalar(rank)), axes});
  if (fill != 0) values = w.sub(values, s.i32_scalar(fill));
  const int all = s.add(OpWriter::Code::SCATTER_ND, {s.reshape(from_end, {-1, 1}), values, s.i32({rank})}, DType::kI32);
  return fill != 0 ? w.add(all, s.i32_scalar(fill)) : all;
}

std::optional<tfl::ActivationFunctionType> fused_activation(const Activation& act) {
  using enum tfl::ActivationFunctionType;
  switch (act.kind) {
    case ActKind::kNone:
      return NONE;
    case ActKind::kRelu:
      return RELU;
    case ActKind::kRelu6:
      return RELU6;
    case ActKind::kReluN1:
      return RELU_N1_TO_1;
    case ActKind::kClamp:
      if (act.a == 0 && act.b == 6) return RELU6;
      if (act.a == -1 && act.b == 1) return RELU_N1_TO_1;
      if (act.a == 0 && act.b > 3e38f) return RELU;
      if (act.a < -3e38f && act.b > 3e38f) return NONE;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

std::optional<int> OpWriter::activated(int x, const Activation& act) {
  if (fused_activation(act) == tfl::ActivationFunctionType::NONE) return x;
  const FileTensor from = s_.at(x);
  const auto like = [&](double v) {
    if (!from.quant) return number_like(x, v);
    Tensor t(from.dtype, Shape{});
    t.set_quant(from.quant);
    const auto real = static_cast<float>(v);
    smelt::quantize(&real, t);
    return s_.constant(std::move(t));
  };
  const auto apply = [&](Code code, std::vector<int> in) { return s_.add(code, in, from.dtype, {}, from.quant); };
  switch (act.kind) {
    case ActKind::kRelu:
      return apply(Code::RELU, {x});
    case ActKind::kRelu6:
      return apply(Code::RELU6, {x});
    case ActKind::kReluN1:
      return apply(Code::RELU_N1_TO_1, {x});
    case ActKind::kClamp: {
      using enum tfl::ActivationFunctionType;
      const auto named = fused_activation(act);
      if (named == RELU) return apply(Code::RELU, {x});
      if (named == RELU6) return apply(Code::RELU6, {x});
      if (named == RELU_N1_TO_1) return apply(Code::RELU_N1_TO_1, {x});
      int y = x;
      if (act.a > -3e38f) y = apply(Code::MAXIMUM, {y, like(act.a)});
      if (act.b < 3e38f) y = apply(Code::MINIMUM, {y, like(act.b)});
      return y;
    }
    case ActKind::kTanh:
      if (from.quant) return std::nullopt;
      return apply(Code::TANH, {x});
    case ActKind::kSigmoid:
      if (from.quant) return std::nullopt;
      return apply(Code::LOGISTIC, {x});
    case ActKind::kLeakyRelu: {
      if (from.quant) return std::nullopt;
      const float alpha = act.a;
      return call(Code::LEAKY_RELU, {x},
                  options_of<tfl::LeakyReluOptions>([=](auto& b) { return tfl::CreateLeakyReluOptions(b, alpha); }));
    }
    case ActKind::kHardSigmoid: {
      if (from.quant) return std::nullopt;
      const int line = add({mul(x, number_like(x, act.a)), number_like(x, act.b)});
      return binary(Code::MINIMUM, {binary(Code::MAXIMUM, line, number_like(x, 0)), number_like(x, 1)});
    }
    default:
      return std::nullopt;
  }
}

}  // namespace smelt::tflite
