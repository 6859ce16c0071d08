#include "formats/executorch/aten/lowering.h"

#include <cmath>

#include "base/error.h"
#include "tensor/numeric.h"

namespace smelt::aten {

const Arg& CallContext::arg(size_t i) const {
  static const Arg absent;
  return i < call.args.size() ? call.args[i] : absent;
}

ValueId CallContext::t(size_t at) {
  if (!ok()) return kNoValue;
  const Arg& a = arg(at);
  switch (a.kind) {
    case Arg::Kind::kTensor:
    case Arg::Kind::kSymbol:
      return a.id;
    case Arg::Kind::kInt:
      return integer(DType::kI64, a.i);
    case Arg::Kind::kBool:
      return integer(DType::kBool, a.i);
    case Arg::Kind::kDouble:
      return number(DType::kF32, a.d);
    default:
      fail("argument ", at, " must be a tensor");
      return kNoValue;
  }
}

ValueId CallContext::opt(size_t at) { return none(at) ? kNoValue : t(at); }

int64_t CallContext::i(size_t at, std::optional<int64_t> otherwise) {
  const Arg& a = arg(at);
  switch (a.kind) {
    case Arg::Kind::kInt:
    case Arg::Kind::kBool:
      return a.i;
    case Arg::Kind::kDouble:
      if (a.d == std::floor(a.d) && std::fabs(a.d) < 9e18) return static_cast<int64_t>(a.d);
      break;
    case Arg::Kind::kTensor:
    case Arg::Kind::kSymbol:
      if (const Tensor* k = constant_of(a.id); k && k->elements() == 1) return get_int(*k, 0);
      unsupported("argument ", at, " must be known before the run");
      return otherwise.value_or(0);
    case Arg::Kind::kNone:
      if (otherwise) return *otherwise;
      break;
    case Arg::Kind::kInts:
      if (a.ints.size() == 1 && !a.ints[0].symbolic()) return a.ints[0].value;
      break;
    default:
      break;
  }
  fail("argument ", at, " must be an integer");
  return otherwise.value_or(0);
}

double CallContext::d(size_t at, std::optional<double> otherwise) {
  const Arg& a = arg(at);
  switch (a.kind) {
    case Arg::Kind::kInt:
    case Arg::Kind::kBool:
      return static_cast<double>(a.i);
    case Arg::Kind::kDouble:
      return a.d;
    case Arg::Kind::kTensor:
    case Arg::Kind::kSymbol:
      if (const Tensor* k = constant_of(a.id); k && k->elements() == 1) return get_double(*k, 0);
      unsupported("argument ", at, " must be known before the run");
      return otherwise.value_or(0);
    case Arg::Kind::kNone:
      if (otherwise) return *otherwise;
      break;
    default:
      break;
  }
  fail("argument ", at, " must be a number");
  return otherwise.value_or(0);
}

std::string CallContext::text(size_t at, const std::string& otherwise) {
  const Arg& a = arg(at);
  if (a.kind == Arg::Kind::kString) return a.text;
  if (a.kind != Arg::Kind::kNone) fail("argument ", at, " must be a string");
  return otherwise;
}

std::vector<int64_t> CallContext::ints(size_t at) {
  const Arg& a = arg(at);
  std::vector<int64_t> out;
  switch (a.kind) {
    case Arg::Kind::kNone:
      return out;
    case Arg::Kind::kInt:
      return {a.i};
    case Arg::Kind::kInts:
    case Arg::Kind::kBools:
      for (const Int& v : a.ints) {
        int64_t value = v.value;
        if (v.symbolic()) {
          const Tensor* k = constant_of(v.id);
          if (!k || k->elements() != 1) {
            unsupported("the list of argument ", at, " must be known before the run");
            return {};
          }
          value = get_int(*k, 0);
        }
        out.push_back(value);
      }
      return out;
    case Arg::Kind::kTensors:
    case Arg::Kind::kDoubles:
      if (a.ids.empty() && a.doubles.empty()) return out;
      [[fallthrough]];
    default:
      fail("argument ", at, " must be a list of integers");
      return out;
  }
}

std::vector<double> CallContext::doubles(size_t at) {
  const Arg& a = arg(at);
  if (a.kind == Arg::Kind::kDoubles) return a.doubles;
  std::vector<double> out;
  for (int64_t v : ints(at)) out.push_back(static_cast<double>(v));
  return out;
}

std::vector<ValueId> CallContext::tensors(size_t at) {
  const Arg& a = arg(at);
  if (a.kind == Arg::Kind::kTensors) return a.ids;
  if (a.kind == Arg::Kind::kTensor) return {a.id};
  if (a.kind == Arg::Kind::kInts && a.ints.empty()) return {};
  fail("argument ", at, " must be a list of tensors");
  return {};
}

ValueId CallContext::int_value(size_t at, std::optional<int64_t> otherwise) {
  const Arg& a = arg(at);
  if (a.kind == Arg::Kind::kSymbol || a.kind == Arg::Kind::kTensor) {
    const ValueId v = cast(a.id, DType::kI64);
    return type(v).ranked && type(v).shape.rank() == 0 ? v : reshape_to(v, i64({}));
  }
  return integer(DType::kI64, i(at, otherwise));
}

ValueId CallContext::int_vector(const std::vector<Int>& items) {
  bool known = true;
  for (const Int& v : items) known = known && !v.symbolic();
  if (known) {
    std::vector<int64_t> values;
    for (const Int& v : items) values.push_back(v.value);
    return i64(values);
  }
  std::vector<ValueId> parts;
  for (const Int& v : items)
    parts.push_back(v.symbolic() ? reshape_to(cast(v.id, DType::kI64), i64({1})) : i64({v.value}));
  return parts.size() == 1 ? parts[0] : concat(parts, 0);
}

ValueId CallContext::other_addend(ValueId sum, ValueId addend) {
  constexpr size_t kNear = 1024;
  const std::vector<Node>& nodes = builder().graph().nodes;
  for (size_t i = nodes.size(); i > 0 && nodes.size() - i < kNear; --i) {
    const Node& n = nodes[i - 1];
    if (n.outputs[0] != sum) continue;
    if (n.op != Op::kBinary || static_cast<const BinaryAttrs&>(*n.attrs).fn != Binary::kAdd) return kNoValue;
    return n.inputs[0] == addend ? n.inputs[1] : n.inputs[1] == addend ? n.inputs[0] : kNoValue;
  }
  return kNoValue;
}

ValueId CallContext::int_vector(size_t at) {
  const Arg& a = arg(at);
  if (a.kind == Arg::Kind::kInts) return int_vector(a.ints);
  if (a.kind == Arg::Kind::kSymbol) return int_vector(std::vector<Int>{{0, a.id}});
  return i64(ints(at));
}

int CallContext::rank(ValueId v) {
  if (!ok()) return 0;
  if (!type(v).ranked) unsupported("the rank of a tensor is not known");
  return type(v).ranked ? type(v).shape.rank() : 0;
}

int64_t CallContext::axis(int64_t a, int rank) {
  const int64_t n = rank == 0 ? 1 : rank;
  if (a < -n || a >= n) {
    fail("dimension ", a, " is out of range for rank ", rank);
    return 0;
  }
  return a < 0 ? a + n : a;
}

std::vector<int64_t> CallContext::axes(std::vector<int64_t> list, int rank) {
  for (int64_t& a : list) a = axis(a, rank);
  return list;
}

ValueId CallContext::cast(ValueId v, DType to) {
  if (!ok() || v == kNoValue || to == DType::kInvalid || dtype(v) == to) return v;
  if (const Tensor* k = constant_of(v); k && k->elements() == 1 && is_integer(k->dtype()) && is_integer(to)) {
    Tensor value(to, k->shape());
    set_int(value, 0, get_int(*k, 0));
    return constant(std::move(value));
  }
  return add(Op::kCast, CastAttrs(to, false), {v});
}

ValueId CallContext::reduce(Reduction fn, ValueId v, const std::vector<int64_t>& ax, bool keep_dims,
                            double correction) {
  ReduceAttrs a;
  a.fn = fn;
  a.keep_dims = keep_dims;
  a.correction = correction;
  std::vector<ValueId> in{v};
  if (!ax.empty()) in.push_back(i64(ax));
  return add(Op::kReduce, a, in);
}

ValueId CallContext::shape_of(ValueId v) {
  if (ok() && type(v).is_static()) {
    const auto dims = type(v).shape.dims();
    return i64(std::vector<int64_t>(dims.begin(), dims.end()));
  }
  return dims_of(v);
}

ValueId CallContext::like_indices(ValueId entries, ValueId indices, int64_t width) {
  if (!ok()) return kNoValue;
  if (type(indices).is_static() && type(indices).shape.elements() > 0) {
    const auto known = type(indices).shape.dims();
    std::vector<int64_t> dims(known.begin(), known.end());
    dims.push_back(width);
    return reshape(entries, dims);
  }
  const ValueId shape = concat({shape_of(indices), i64({width})}, 0);
  return reshape_to(entries, shape);
}

ValueId CallContext::where(ValueId condition, ValueId a, ValueId bb) {
  return LoweringContext::where(cast(condition, DType::kBool), a, bb);
}

ValueId CallContext::number(DType to, double value) {
  Tensor k(to, Shape{});
  if (is_integer(to))
    set_int(k, 0,
            value >= 9.2e18                         ? INT64_MAX
            : value <= -9.2e18 || std::isnan(value) ? INT64_MIN
                                                    : static_cast<int64_t>(value));
  else
    set_double(k, 0, to == DType::kBool ? (value != 0) : value);
  return constant(std::move(k));
}

ValueId CallContext::integer(DType to, int64_t value) {
  Tensor k(to, Shape{});
  if (to == DType::kBool)
    set_int(k, 0, value != 0);
  else if (is_integer(to))
    set_int(k, 0, value);
  else
    set_double(k, 0, static_cast<double>(value));
  return constant(std::move(k));
}

ValueId CallContext::float_input(size_t at) {
  const ValueId v = t(at);
  return is_float(dtype(v)) || is_complex(dtype(v)) ? v : cast(v, DType::kF32);
}

Operand CallContext::operand(size_t at) {
  const Arg& a = arg(at);
  Operand o;
  switch (a.kind) {
    case Arg::Kind::kTensor:
      return operand_of(a.id);
    case Arg::Kind::kSymbol:
      o = operand_of(a.id);
      o.wrapped = true;
      if (o.kind == DType::kF64) o.kind = DType::kF32;
      return o;
    case Arg::Kind::kInt:
      return {.number = true, .wrapped = true, .kind = DType::kI64, .d = static_cast<double>(a.i), .i = a.i};
    case Arg::Kind::kBool:
      return {.number = true, .wrapped = true, .kind = DType::kBool, .d = static_cast<double>(a.i), .i = a.i};
    case Arg::Kind::kDouble:
      return {.number = true, .wrapped = true, .kind = DType::kF32, .d = a.d};
    default:
      fail("argument ", at, " must be a tensor or a number");
      return o;
  }
}

DType CallContext::result_type(std::span<const Operand> operands) {
  constexpr DType kNo = DType::kInvalid;
  DType dims = kNo, zero = kNo, wrapped = kNo;
  const auto join = [](DType a, DType bb) { return a == kNo ? bb : bb == kNo ? a : promote(a, bb); };
  for (const Operand& o : operands) {
    if (o.wrapped)
      wrapped = join(wrapped, o.kind);
    else if (type(o.id).ranked && type(o.id).shape.rank() == 0)
      zero = join(zero, o.kind);
    else
      dims = join(dims, o.kind);
  }
  const auto combine = [&](DType higher, DType lower) {
    if (higher == kNo || lower == kNo) return join(higher, lower);
    if (is_complex(higher)) return higher;
    if (is_float(higher)) return is_complex(lower) ? (higher == DType::kF64 ? DType::kC128 : DType::kC64) : higher;
    if (higher == DType::kBool || is_float(lower) || is_complex(lower)) return promote(higher, lower);
    return higher;
  };
  return combine(combine(dims, zero), wrapped);
}

DType CallContext::compute_type(DType result, std::span<const Operand> operands) const {
  if (result != DType::kF16 && result != DType::kBF16) return result;
  for (const Operand& o : operands)
    if (o.wrapped || o.kind != result) return DType::kF32;
  return result;
}

ValueId CallContext::as(const Operand& o, DType to) {
  if (!o.number) return cast(o.id, to);
  return o.kind == DType::kF32 ? number(to, o.d) : integer(to, o.i);
}

}  // namespace smelt::aten
