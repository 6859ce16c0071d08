#include "formats/onnx/writer/node_writer.h"

#include <algorithm>
#include <cmath>

#include "base/cat.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::onnx {
namespace {

/// Operators of the default domain that are newer than opset 13, or whose form written here is.
struct Since {
  const char* op;
  int opset;
};
constexpr Since kSince[] = {{"Trilu", 14},
                            {"HardSwish", 14},
                            {"Optional", 15},
                            {"OptionalGetElement", 18},
                            {"GridSample", 16},
                            {"LayerNormalization", 17},
                            {"BlackmanWindow", 17},
                            {"HannWindow", 17},
                            {"HammingWindow", 17},
                            {"DFT", 20},
                            {"STFT", 17},
                            {"MelWeightMatrix", 17},
                            {"SequenceMap", 17},
                            {"Mish", 18},
                            {"BitwiseAnd", 18},
                            {"BitwiseOr", 18},
                            {"BitwiseXor", 18},
                            {"BitwiseNot", 18},
                            {"Col2Im", 18},
                            {"CenterCropPad", 18},
                            {"OptionalHasElement", 18},
                            {"DeformConv", 19},
                            {"AffineGrid", 20},
                            {"Gelu", 20},
                            {"ImageDecoder", 20},
                            {"RegexFullMatch", 20},
                            {"StringConcat", 20},
                            {"StringSplit", 20},
                            {"GroupNormalization", 21},
                            {"Attention", 23},
                            {"RMSNormalization", 23},
                            {"RotaryEmbedding", 23},
                            {"TensorScatter", 24},
                            {"Swish", 24},
                            {"CumProd", 26},
                            {"BitCast", 26},
                            {"LinearAttention", 27}};

/// The oldest opset that quantizes to or from an element type; 0: none does.
int quantized_opset(DType dtype) {
  switch (dtype) {
    case DType::kI8:
    case DType::kU8:
      return 13;
    case DType::kF8E4M3FN:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
      return 19;
    case DType::kI16:
    case DType::kU16:
    case DType::kI4:
    case DType::kU4:
      return 21;
    default:
      return 0;
  }
}

bool all_zero(const std::vector<int32_t>& v) {
  return std::ranges::all_of(v, [](int32_t z) { return z == 0; });
}

std::string base_name(const Graph& graph, ValueId id) {
  const std::string& name = graph.value(id).name;
  return name.empty() ? Cat("v", id) : name;
}

}  // namespace

const ValueType& NodeWriter::type(int i) const {
  static const ValueType none;
  return has(i) ? scope_.graph.value(id(i)).type : none;
}

DType NodeWriter::real_dtype(int i) const { return real_type(type(i)); }

int NodeWriter::rank(int i) {
  if (!type(i).ranked) fail("the rank of input ", i, " must be known");
  return type(i).ranked ? type(i).shape.rank() : 1;
}

std::vector<int64_t> NodeWriter::need_ints(int i, const char* what) {
  auto v = ints(i);
  if (!v) fail(what, " must be constant");
  return v ? std::move(*v) : std::vector<int64_t>{};
}

Name NodeWriter::in(int i, Order order) { return has(i) ? form(id(i), true, order) : kNoName; }
Name NodeWriter::raw(int i, Order order) { return has(i) ? form(id(i), false, order) : kNoName; }

std::vector<Name> NodeWriter::all_in() {
  std::vector<Name> out;
  for (int i = 0; i < inputs(); ++i) out.push_back(in(i));
  return out;
}

Name NodeWriter::in_i64(int i) {
  if (!has(i)) return kNoName;
  if (const auto v = ints(i)) {
    const Tensor* t = constant(i);
    if (t->dtype() == DType::kI64) return in(i);
    return tensor(Tensor::from<int64_t>(DType::kI64, t->shape(), *v));
  }
  return dtype(i) == DType::kI64 ? in(i) : cast(in(i), DType::kI64);
}

bool NodeWriter::channels_first_at_hand(int i) const {
  if (!has(i) || constant(i)) return false;
  const ValueForms::Pair& p = scope_.forms[static_cast<size_t>(id(i))].raw;
  const ValueForms::Pair& r = scope_.forms[static_cast<size_t>(id(i))].real;
  return (p.channels_first != kNoName || r.channels_first != kNoName) && p.as_is == kNoName && r.as_is == kNoName;
}

Name NodeWriter::reordered(Name x, ValueId id, Order to) {
  const ValueType& t = scope_.graph.value(id).type;
  if (!t.ranked) fail("the rank of '", scope_.graph.value(id).name, "' must be known");
  const int rank = t.ranked ? t.shape.rank() : 3;
  const auto perm = to == Order::kAsIs ? to_channels_last(rank) : to_channels_first(rank);
  if (t.ranked && std::ranges::count(t.shape.dims(), -1) < 2 &&
      formats::moves_nothing(t.shape, to_channels_first(rank))) {
    std::vector<int64_t> dims(t.shape.begin(), t.shape.end());
    if (to == Order::kChannelsFirst)
      std::ranges::transform(perm, dims.begin(), [&](int64_t p) { return t.shape[static_cast<int>(p)]; });
    if (std::ranges::count(dims, 0) == 0) return reshape(x, dims);
  }
  return transpose(x, perm);
}

Name NodeWriter::form(ValueId id, bool real, Order order) {
  ValueForms& f = scope_.forms[static_cast<size_t>(id)];
  const Value& v = scope_.graph.value(id);
  const bool per_token = v.type.quant && v.type.quant->kind == Quantization::Kind::kPerToken;
  const bool narrow = !v.type.quant && v.type.dtype == DType::kBF16;
  if (!v.type.quant && !narrow) real = false;
  const auto slot = [&](bool r, Order o) -> Name& {
    ValueForms::Pair& p = r ? f.real : f.raw;
    return o == Order::kAsIs ? p.as_is : p.channels_first;
  };
  Name& want = slot(real, order);
  if (want != kNoName) return want;
  const Order other = order == Order::kAsIs ? Order::kChannelsFirst : Order::kAsIs;
  if (const bool given = slot(false, Order::kAsIs) != kNoName; v.constant && !given)
    return want = constant_form(id, real, order);
  if (per_token && !real) {
    fail("the integers of '", v.name, "', which is quantized at run time, are asked for");
    return kNoName;
  }
  if (real && !per_token) {
    const Name integers = form(id, false, order);
    if (integers == kNoName) return kNoName;
    want = narrow ? cast(integers, DType::kF32)
                  : dequantize(integers, v.type.dtype, *v.type.quant, order, v.type.ranked ? v.type.shape.rank() : 1);
  } else if (const Name have = slot(real, other); have != kNoName) {
    want = reordered(have, id, order);
  } else {
    fail("'", v.name, "' has no value here");
    return kNoName;
  }
  name_result(id, want, order);
  return want;
}

Name NodeWriter::constant_form(ValueId id, bool real, Order order) {
  const Value& v = scope_.graph.value(id);
  const std::string base = base_name(scope_.graph, id);
  if (model_.dry()) return model_.fresh(base);
  Tensor t = *v.constant;
  QuantPtr quant = v.type.quant;
  const int rank = t.rank();
  if (order == Order::kChannelsFirst) {
    const auto perm = to_channels_first(rank);
    t = permuted(t, perm);
    if (quant && quant->kind != Quantization::Kind::kPerTensor) {
      auto moved = std::make_shared<Quantization>(*quant);
      moved->axis = static_cast<int>(std::ranges::find(perm, quant->axis) - perm.begin());
      quant = std::move(moved);
    }
  }
  if (real && t.dtype() == DType::kBF16) {
    Tensor wide(DType::kF32, t.shape());
    to_floats(t, wide.data<float>());
    return model_.constant(wide, base);
  }
  if (!real || !quant) return model_.constant(t, base);
  const bool direct = quantized_opset(t.dtype()) > 0 || (t.dtype() == DType::kI32 && all_zero(quant->zero_points));
  if (!direct || !model_.need_opset(std::max(13, quantized_opset(t.dtype()))))
    return model_.dequantized_constant(t, *quant, base);
  const Name integers = model_.constant(t, base + "_quantized");
  into_ = &model_.prologue();
  Name result;
  if (quant->kind == Quantization::Kind::kPerBlock) {
    if (!model_.need_opset(21)) {
      into_ = &scope_.nodes;
      return model_.dequantized_constant(t, *quant, base);
    }
    Shape shape = t.shape();
    shape[quant->axis] = (shape[quant->axis] + quant->block - 1) / quant->block;
    Tensor scales(DType::kF32, shape), zeros(t.dtype(), shape);
    for (int64_t i = 0; i < shape.elements(); ++i) {
      scales.data<float>()[i] = quant->scale(i);
      set_int(zeros, i, quant->zero_point(i));
    }
    result = op("DequantizeLinear", {integers, tensor(scales), tensor(zeros)},
                {{"axis", int64_t{quant->axis}}, {"block_size", quant->block}});
  } else {
    result = dequantize(integers, t.dtype(), *quant, Order::kAsIs, rank);
  }
  into_ = &scope_.nodes;
  free_.erase(result);
  model_.rename(result, base);
  return result;
}

Name NodeWriter::broadcast_params(const std::vector<float>& values, const Quantization& q, int64_t axis, int rank) {
  Shape shape;
  if (q.kind == Quantization::Kind::kPerAxis && values.size() > 1) {
    shape = Shape::of_rank(rank, 1);
    shape[static_cast<int>(axis)] = static_cast<int64_t>(values.size());
  }
  return tensor(Tensor::from<float>(DType::kF32, shape, values));
}

namespace {

std::vector<float> real_zero_points(const Quantization& q) {
  std::vector<float> zeros;
  for (size_t i = 0; i < q.scales.size(); ++i)
    zeros.push_back(static_cast<float>(q.zero_point(static_cast<int64_t>(i))));
  return zeros;
}

int64_t axis_in_order(const Quantization& q, Order order, int rank) {
  if (order == Order::kAsIs) return q.axis;
  const auto perm = to_channels_first(rank);
  return std::ranges::find(perm, q.axis) - perm.begin();
}

}  // namespace

Name NodeWriter::quantize(Name x, DType to, const Quantization& q, Order order, int rank) {
  if (q.kind == Quantization::Kind::kPerBlock) fail("a result quantized by blocks");
  const int since = quantized_opset(to);
  const int64_t axis = axis_in_order(q, order, rank);
  if (since > 0 && model_.need_opset(since)) {
    const bool many = q.kind == Quantization::Kind::kPerAxis;
    const Shape shape = many ? Shape{static_cast<int64_t>(q.scales.size())} : Shape{};
    Tensor zeros(to, shape);
    for (int64_t i = 0; i < shape.elements(); ++i) set_int(zeros, i, q.zero_point(i));
    std::vector<Attribute> attributes;
    if (many) attributes.emplace_back("axis", axis);
    return op("QuantizeLinear", {x, tensor(Tensor::from<float>(DType::kF32, shape, q.scales)), tensor(zeros)},
              attributes);
  }
  if (!is_integer(to)) fail("quantization to ", to_string(to), " needs opset ", since);
  Name y = op("Round", {op("Div", {x, broadcast_params(q.scales, q, axis, rank)})});
  if (!all_zero(q.zero_points)) y = op("Add", {y, broadcast_params(real_zero_points(q), q, axis, rank)});
  // The largest float32 below the type's bound keeps the cast in range.
  const double hi =
      std::min(static_cast<double>(int_max(to)), to == DType::kI64 ? 9223371487098961920.0 : 2147483520.0);
  return cast(clip(y, DType::kF32, static_cast<double>(int_min(to)), hi), to);
}

Name NodeWriter::dequantize(Name x, DType from, const Quantization& q, Order order, int rank) {
  if (q.kind == Quantization::Kind::kPerBlock) fail("a computed value quantized by blocks");
  const int since = quantized_opset(from);
  const int64_t axis = axis_in_order(q, order, rank);
  const bool symmetric_int32 = from == DType::kI32 && all_zero(q.zero_points);
  if (symmetric_int32 || (since > 0 && model_.need_opset(since))) {
    const bool many = q.kind == Quantization::Kind::kPerAxis;
    const Shape shape = many ? Shape{static_cast<int64_t>(q.scales.size())} : Shape{};
    std::vector<Name> in{x, tensor(Tensor::from<float>(DType::kF32, shape, q.scales))};
    if (!symmetric_int32) {
      Tensor zeros(from, shape);
      for (int64_t i = 0; i < shape.elements(); ++i) set_int(zeros, i, q.zero_point(i));
      in.push_back(tensor(zeros));
    }
    std::vector<Attribute> attributes;
    if (many) attributes.emplace_back("axis", axis);
    return op("DequantizeLinear", in, attributes);
  }
  Name y = cast(x, DType::kF32);
  if (!all_zero(q.zero_points)) y = op("Sub", {y, broadcast_params(real_zero_points(q), q, axis, rank)});
  return op("Mul", {y, broadcast_params(q.scales, q, axis, rank)});
}

/// Values rounded to the steps that each slice of the last `axis` dimensions chooses from its own range.
Name NodeWriter::per_token(Name x, const ValueType& type) {
  const Quantization& q = *type.quant;
  if (type.dtype != DType::kI8) fail("values quantized at run time to ", to_string(type.dtype));
  std::vector<int64_t> axes;
  for (int64_t k = 1; k <= std::max(1, q.axis); ++k) axes.push_back(-k);
  const DType f32 = DType::kF32;
  const auto reduced = [&](const char* fn) { return reduce(fn, x, axes, true); };
  if (q.symmetric) {
    const Name largest = op("Max", {op("Neg", {reduced("ReduceMin")}), reduced("ReduceMax")});
    const Name scale = op("Div", {op("Max", {largest, scalar(f32, 1e-30)}), scalar(f32, 127)});
    return op("Mul", {op("Round", {op("Div", {x, scale})}), scale});
  }
  const Name low = op("Min", {reduced("ReduceMin"), scalar(f32, 0)});
  const Name high = op("Max", {reduced("ReduceMax"), scalar(f32, 0)});
  const Name range = op("Sub", {high, low});
  const Name flat = op("Equal", {range, scalar(f32, 0)});
  const Name inverse = op("Where", {flat, scalar(f32, 1), op("Div", {scalar(f32, 255), range})});
  const Name zero = op("Sub", {op("Round", {op("Mul", {op("Neg", {low}), inverse})}), scalar(f32, 128)});
  const Name steps = op("Add", {op("Round", {op("Mul", {x, inverse})}), zero});
  const Name kept = clip(steps, f32, -128, 127);
  return op("Mul", {op("Sub", {kept, zero}), op("Reciprocal", {inverse})});
}

void NodeWriter::name_result(ValueId id, Name name, Order order) {
  if (free_.erase(name) == 0) return;
  const std::string base = base_name(scope_.graph, id);
  model_.rename(name, order == Order::kAsIs ? base : base + "_channels_first");
}

void NodeWriter::bind_raw(int i, Name raw, Order order) {
  if (!wants(i)) return;
  const ValueId id = out_id(i);
  ValueForms::Pair& p = scope_.forms[static_cast<size_t>(id)].raw;
  (order == Order::kAsIs ? p.as_is : p.channels_first) = raw;
  name_result(id, raw, order);
}

void NodeWriter::bind_forms(int i, const ValueForms& forms) {
  if (wants(i)) scope_.forms[static_cast<size_t>(out_id(i))] = forms;
}

void NodeWriter::bind(int i, Name real, Order order) {
  if (!wants(i)) return;
  const ValueType& t = out_type(i);
  if (!t.quant) return bind_raw(i, t.dtype == DType::kBF16 ? cast(real, t.dtype) : real, order);
  if (t.quant->kind == Quantization::Kind::kPerToken) {
    const ValueId id = out_id(i);
    ValueForms::Pair& p = scope_.forms[static_cast<size_t>(id)].real;
    const Name y = per_token(real, t);
    (order == Order::kAsIs ? p.as_is : p.channels_first) = y;
    return name_result(id, y, order);
  }
  bind_raw(i, quantize(real, t.dtype, *t.quant, order, t.ranked ? t.shape.rank() : 1), order);
}

void NodeWriter::bind(int i, Name real, const Activation& act, Order order) {
  const ValueType& t = out_type(i);
  if (is_per_tensor(t.quant) && is_integer(t.dtype)) {
    const Bounds b = activation_bounds(act);
    const float scale = t.quant->scale(), zero = static_cast<float>(t.quant->zero_point());
    const float low = (static_cast<float>(int_min(t.dtype)) - zero) * scale;
    const float high = (static_cast<float>(int_max(t.dtype)) - zero) * scale;
    const bool clamps = act.kind == ActKind::kRelu || act.kind == ActKind::kRelu6 || act.kind == ActKind::kReluN1 ||
                        act.kind == ActKind::kClamp;
    if (clamps && b.lo <= low && high <= b.hi + scale / 2) return bind(i, real, order);
  }
  bind(i, activated(real, act), order);
}

std::vector<Name> NodeWriter::ops(std::string_view name, IntList inputs, size_t count, ListView<Attribute> attributes) {
  OutNode node;
  const size_t dot = name.rfind('.');
  node.op = dot == std::string::npos ? name : name.substr(dot + 1);
  if (dot != std::string::npos) {
    node.domain = name.substr(0, dot);
    model_.need_domain(node.domain);
  } else if (const auto* it = std::ranges::find(kSince, name, &Since::op); it != std::end(kSince)) {
    if (!model_.need_opset(it->opset)) fail(name, " needs opset ", it->opset);
  }
  node.inputs = inputs.copy();
  while (!node.inputs.empty() && node.inputs.back() == kNoName) node.inputs.pop_back();
  node.attributes = attributes.copy();
  for (size_t i = 0; i < count; ++i) {
    node.outputs.push_back(model_.fresh(node.op));
    free_.insert(node.outputs.back());
  }
  std::vector<Name> outputs = node.outputs;
  into_->push_back(std::move(node));
  return outputs;
}

Name NodeWriter::op(std::string_view name, IntList inputs, ListView<Attribute> attributes) {
  return ops(name, inputs, 1, attributes)[0];
}

Name NodeWriter::i64(Int64List values) {
  return tensor(Tensor::from<int64_t>(DType::kI64, Shape{static_cast<int64_t>(values.size())}, values));
}

Name NodeWriter::floats(const std::vector<float>& values) {
  return tensor(Tensor::from<float>(DType::kF32, Shape{static_cast<int64_t>(values.size())}, values));
}

Name NodeWriter::scalar(DType dtype, double value) {
  if (dtype == DType::kInvalid) {
    fail("the element type must be known");
    return kNoName;
  }
  Tensor t(dtype, Shape{});
  if (is_integer(dtype))
    set_int(t, 0, static_cast<int64_t>(value));
  else
    set_double(t, 0, value);
  return tensor(t);
}

Name NodeWriter::cast(Name x, DType to) {
  if (type_code(to) == 0) fail("ONNX has no element type ", to_string(to));
  return op("Cast", {x}, {{"to", type_code(to)}});
}

Name NodeWriter::transpose(Name x, Int64List perm) { return op("Transpose", {x}, {{"perm", perm.copy()}}); }

Name NodeWriter::reshape(Name x, Int64List shape) { return op("Reshape", {x, i64(shape)}); }

Name NodeWriter::slice(Name x, int64_t start, int64_t end, int64_t axis) {
  return op("Slice", {x, i64({start}), i64({end}), i64({axis})});
}

Name NodeWriter::reduce(const char* name, Name x, Int64List axes, bool keep_dims) {
  std::vector<Attribute> attributes{{"keepdims", keep_dims}};
  const bool as_input = std::string_view(name) == "ReduceSum" || model_.need_opset(18);
  if (as_input) return op(name, {x, i64(axes)}, attributes);
  attributes.emplace_back("axes", axes.copy());
  return op(name, {x}, attributes);
}

Name NodeWriter::clip(Name x, DType dtype, double lo, double hi) {
  if (std::isinf(lo) && std::isinf(hi)) return x;
  return op("Clip", {x, std::isinf(lo) ? kNoName : scalar(dtype, lo), std::isinf(hi) ? kNoName : scalar(dtype, hi)});
}

Name NodeWriter::activated(Name x, const Activation& act) {
  const DType dtype = real_out_dtype(0);
  switch (act.kind) {
    case ActKind::kNone:
      return x;
    case ActKind::kRelu:
      return op("Relu", {x});
    case ActKind::kTanh:
      return op("Tanh", {x});
    case ActKind::kSigmoid:
      return op("Sigmoid", {x});
    case ActKind::kLeakyRelu:
      return op("LeakyRelu", {x}, {{"alpha", double{act.a}}});
    case ActKind::kHardSigmoid:
      return op("HardSigmoid", {x}, {{"alpha", double{act.a}}, {"beta", double{act.b}}});
    case ActKind::kSignBit:
      return cast(op("Less", {x, scalar(dtype, 0)}), dtype);
    case ActKind::kReluN1:
    case ActKind::kRelu6:
    case ActKind::kClamp: {
      const Bounds b = activation_bounds(act);
      return clip(x, dtype, b.lo, b.hi);
    }
  }
  return x;
}

}  // namespace smelt::onnx
