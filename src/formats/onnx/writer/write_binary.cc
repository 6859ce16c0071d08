// Functions of two variables.
#include <algorithm>
#include <numbers>

#include "formats/onnx/writer/write_elementwise.h"

namespace smelt::onnx {
namespace {

struct Direct2 {
  Binary fn;
  const char* op;
};
constexpr Direct2 kDirect2[] = {{Binary::kAdd, "Add"},         {Binary::kSub, "Sub"},
                                {Binary::kMul, "Mul"},         {Binary::kDiv, "Div"},
                                {Binary::kPow, "Pow"},         {Binary::kMin, "Min"},
                                {Binary::kMax, "Max"},         {Binary::kFmin, "Min"},
                                {Binary::kFmax, "Max"},        {Binary::kEqual, "Equal"},
                                {Binary::kLess, "Less"},       {Binary::kLessEqual, "LessOrEqual"},
                                {Binary::kGreater, "Greater"}, {Binary::kGreaterEqual, "GreaterOrEqual"}};

DType unsigned_of(DType dtype) {
  switch (bit_width(dtype)) {
    case 8:
      return DType::kU8;
    case 16:
      return DType::kU16;
    case 32:
      return DType::kU32;
    default:
      return DType::kU64;
  }
}

/// Builds the ONNX form of one function of a and b, both of `dtype`.
class BinaryForm {
 public:
  BinaryForm(NodeWriter& n, Name a, Name b, DType dtype) : n_(n), a_(a), b_(b), dtype_(dtype) {}

  /// kNoName: the function has no form.
  Name write(const BinaryAttrs& attrs) {
    if (attrs.alpha != 1) b_ = op("Mul", b_, s(attrs.alpha));
    for (const Direct2& d : kDirect2)
      if (d.fn == attrs.fn) return op(d.op, a_, b_);
    if (const Name y = logical(attrs.fn); y != kNoName) return y;
    if (const Name y = shift(attrs.fn); y != kNoName) return y;
    return is_integer(dtype_) ? integers(attrs.fn) : reals(attrs.fn);
  }

 private:
  Name s(double v) { return n_.scalar(dtype_, v); }
  Name op(const char* name, Name a, Name b) { return n_.op(name, {a, b}); }
  Name truth(Name x) { return dtype_ == DType::kBool ? x : n_.cast(x, DType::kBool); }
  Name where(Name condition, Name a, Name b) { return n_.op("Where", {condition, a, b}); }

  Name logical(Binary fn) {
    const bool boolean = dtype_ == DType::kBool;
    switch (fn) {
      case Binary::kLogicalAnd:
        return n_.op("And", {truth(a_), truth(b_)});
      case Binary::kLogicalOr:
        return n_.op("Or", {truth(a_), truth(b_)});
      case Binary::kLogicalXor:
        return n_.op("Xor", {truth(a_), truth(b_)});
      case Binary::kBitAnd:
        return op(boolean ? "And" : "BitwiseAnd", a_, b_);
      case Binary::kBitOr:
        return op(boolean ? "Or" : "BitwiseOr", a_, b_);
      case Binary::kBitXor:
        return op(boolean ? "Xor" : "BitwiseXor", a_, b_);
      case Binary::kNotEqual:
        return n_.op("Not", {op("Equal", a_, b_)});
      default:
        return kNoName;
    }
  }

  Name bit_shift(const char* direction) {
    const DType bits = unsigned_of(dtype_);
    const bool direct = bits == dtype_;
    const Name a = direct ? a_ : n_.cast(a_, bits), b = direct ? b_ : n_.cast(b_, bits);
    const Name y = n_.op("BitShift", {a, b}, {{"direction", direction}});
    return direct ? y : n_.cast(y, dtype_);
  }

  Name shift(Binary fn) {
    if (fn == Binary::kShiftLeft) return bit_shift("LEFT");
    if (fn == Binary::kShiftRightLogical || (fn == Binary::kShiftRight && !is_signed_integer(dtype_)))
      return bit_shift("RIGHT");
    if (fn != Binary::kShiftRight) return kNoName;
    // Arithmetic: the division by a power of two, rounded down.
    const Name power = n_.cast(n_.op("Pow", {n_.scalar(DType::kF64, 2), n_.cast(b_, DType::kF64)}), dtype_);
    return op("Div", op("Sub", a_, op("Mod", a_, power)), power);
  }

  /// Functions that are written alike for integers and reals.
  Name numbers(Binary fn) {
    switch (fn) {
      case Binary::kFmod:
        return n_.op("Mod", {a_, b_}, {{"fmod", true}});
      case Binary::kSquaredDifference: {
        const Name d = op("Sub", a_, b_);
        return op("Mul", d, d);
      }
      case Binary::kPRelu:
        return n_.op("Where", {op("Less", a_, s(0)), op("Mul", a_, b_), a_});
      default:
        return kNoName;
    }
  }

  /// The quotient of integers, rounded down. The multiple of b next to a may lie outside of a signed type.
  Name floor_div() {
    const bool wide = is_signed_integer(dtype_) && dtype_ != DType::kI64;
    const DType type = !wide ? dtype_ : dtype_ == DType::kI32 ? DType::kI64 : DType::kI32;
    const Name a = wide ? n_.cast(a_, type) : a_, b = wide ? n_.cast(b_, type) : b_;
    const Name y = op("Div", op("Sub", a, op("Mod", a, b)), b);
    return wide ? n_.cast(y, dtype_) : y;
  }

  Name integers(Binary fn) {
    switch (fn) {
      case Binary::kFloorDiv:
      case Binary::kFloorDivMod:
        return floor_div();
      case Binary::kTruncDiv:
        return op("Div", a_, b_);
      case Binary::kMod:
        return op("Mod", a_, b_);
      default:
        return numbers(fn);
    }
  }

  /// The remainder with the sign of the divisor.
  Name floor_mod() {
    const Name m = n_.op("Mod", {a_, b_}, {{"fmod", true}});
    const Name differs = n_.op("Xor", {op("Less", m, s(0)), op("Less", b_, s(0))});
    const Name some = n_.op("Not", {op("Equal", m, s(0))});
    return n_.op("Where", {op("And", differs, some), op("Add", m, b_), m});
  }

  Name atan2() {
    const double pi = std::numbers::pi;
    const Name zero = s(0), r = n_.op("Atan", {op("Div", a_, b_)});
    const Name left = n_.op("Where", {op("GreaterOrEqual", a_, zero), op("Add", r, s(pi)), op("Sub", r, s(pi))});
    const Name middle =
        n_.op("Where", {op("Greater", a_, zero), s(pi / 2), n_.op("Where", {op("Less", a_, zero), s(-pi / 2), zero})});
    return n_.op("Where", {op("Greater", b_, zero), r, where(op("Less", b_, zero), left, middle)});
  }

  Name reals(Binary fn) {
    switch (fn) {
      case Binary::kFloorDiv:
        return n_.op("Floor", {op("Div", a_, b_)});
      case Binary::kFloorDivMod:
        return n_.op("Round", {op("Div", op("Sub", a_, floor_mod()), b_)});
      case Binary::kTruncDiv: {
        const Name q = op("Div", a_, b_);
        return n_.op("Mul", {n_.op("Sign", {q}), n_.op("Floor", {n_.op("Abs", {q})})});
      }
      case Binary::kMod:
        return floor_mod();
      case Binary::kAtan2:
        return atan2();
      case Binary::kHypot:
        return n_.op("Sqrt", {n_.op("Add", {op("Mul", a_, a_), op("Mul", b_, b_)})});
      case Binary::kCopySign: {
        const Name magnitude = n_.op("Abs", {a_});
        return n_.op("Where", {op("Less", b_, s(0)), n_.op("Neg", {magnitude}), magnitude});
      }
      default:
        return numbers(fn);
    }
  }

  NodeWriter& n_;
  Name a_, b_;
  DType dtype_;
};

/// Operand i of a node whose result has `rank` dimensions and is written channels-first.
Name broadcast_channels_first(NodeWriter& n, int i, int rank) {
  const int own = n.type(i).shape.rank();
  if (own == rank) return n.in(i, Order::kChannelsFirst);
  const Name x = n.in(i);
  if (own == 0) return x;
  std::vector<int64_t> axes;
  for (int k = 0; k < rank - own; ++k) axes.push_back(k);
  return n.transpose(n.unsqueeze(x, axes), to_channels_first(rank));
}

/// True if operand i is computed, of the result's rank, and not there channels-first alone.
bool is_in_own_order(const NodeWriter& n, int i, int rank) {
  return n.type(i).shape.rank() == rank && !n.constant(i) && !n.channels_first_at_hand(i);
}

/// True if both operands can be written channels-first, and one is. If the other has its own order, one of them is
/// transposed: what reads the result tells which.
bool both_channels_first(const NodeWriter& n, int& rank) {
  if (!n.type(0).ranked || !n.type(1).ranked) return false;
  rank = std::max(n.type(0).shape.rank(), n.type(1).shape.rank());
  for (int i = 0; i < 2; ++i)
    if (n.type(i).shape.rank() == rank && n.channels_first_at_hand(i))
      return rank >= 3 && (!is_in_own_order(n, 1 - i, rank) || n.reaches_image_node(n.out_id()));
  return false;
}

/// True if the slopes broadcast to x without enlarging it, as ONNX's PRelu asks.
bool slopes_fit(const NodeWriter& n) {
  const ValueType &x = n.type(0), &slope = n.type(1);
  return x.ranked && slope.ranked && slope.shape.rank() <= x.shape.rank();
}

}  // namespace

void write_binary(NodeWriter& n) {
  const auto& a = n.attrs<BinaryAttrs>();
  int rank = 0;
  const bool first = both_channels_first(n, rank);
  const Order order = first ? Order::kChannelsFirst : Order::kAsIs;
  const Name x = first ? broadcast_channels_first(n, 0, rank) : n.in(0);
  const Name y = first ? broadcast_channels_first(n, 1, rank) : n.in(1);
  const DType dtype = n.real_dtype(0);
  if (a.fn == Binary::kPRelu && !is_integer(dtype) && slopes_fit(n))
    return n.bind(0, n.op("PRelu", {x, y}), a.act, order);
  const Name result = is_complex(dtype) ? kNoName : BinaryForm(n, x, y, dtype).write(a);
  if (result == kNoName) return n.fail("no form for ", to_string(a.fn), " of ", to_string(dtype));
  n.bind(0, result, a.act, order);
}

}  // namespace smelt::onnx
