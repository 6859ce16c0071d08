// Element-wise operators besides the functions of one and two variables.
#include "formats/onnx/writer/write_elementwise.h"

#include <cmath>

namespace smelt::onnx {

Name clamp(NodeWriter& n, Name x, Name lo, Name hi) {
  if (lo != kNoName) x = n.op("Max", {x, lo});
  return hi == kNoName ? x : n.op("Min", {x, hi});
}

Name round_half_away(NodeWriter& n, Name x, DType dtype) {
  const Name up = n.op("Floor", {n.op("Add", {n.op("Abs", {x}), n.scalar(dtype, 0.5)})});
  return n.op("Mul", {n.op("Sign", {x}), up});
}

namespace {

void write_where(NodeWriter& n) { n.bind_raw(0, n.op("Where", {n.in(0), n.raw(1), n.raw(2)})); }

void write_clamp(NodeWriter& n) {
  const auto scalar = [&](int i) { return !n.has(i) || (n.is_static(i) && n.type(i).shape.rank() == 0); };
  const Order order = scalar(1) && scalar(2) ? order_at_hand(n) : Order::kAsIs;
  const Name x = n.in(0, order), lo = n.in(1), hi = n.in(2);
  if (lo == kNoName && hi == kNoName) return n.bind(0, x, order);
  n.bind(0, scalar(1) && scalar(2) ? n.op("Clip", {x, lo, hi}) : clamp(n, x, lo, hi), order);
}

void write_cast(NodeWriter& n) {
  const auto& a = n.attrs<CastAttrs>();
  const Order order = order_at_hand(n);
  Name x = n.raw(0, order);
  const DType from = n.dtype(0);
  if (from == a.to) return n.bind_raw(0, x, order);
  if (type_code(a.to) == 0 || is_complex(a.to) || is_complex(from))
    return n.fail("no conversion from ", to_string(from), " to ", to_string(a.to));
  const bool to_integer = is_float(from) && is_integer(a.to);
  if (to_integer && a.round) x = round_half_away(n, x, from);
  if (to_integer && a.clamp) {
    const double bits = bit_width(from) == 32 ? 128 : bit_width(from) == 64 ? 1024 : 0;
    const double hi = static_cast<double>(int_max(a.to));
    const bool exact = bit_width(a.to) < 32 || (bit_width(from) == 64 && bit_width(a.to) == 32);
    x = n.clip(x, from, static_cast<double>(int_min(a.to)), exact ? hi : hi - hi / (bits > 128 ? 1e15 : 1e7));
  }
  std::vector<Attribute> attributes{{"to", type_code(a.to)}};
  if (is_float(a.to) && bit_width(a.to) == 8 && !a.saturate) attributes.emplace_back("saturate", false);
  if (a.to == DType::kF8E8M0 && a.round_mode != 0) {
    if (!n.model().need_opset(24)) return n.fail("round_mode needs opset 24");
    attributes.emplace_back("round_mode", a.round_mode == 1 ? "down" : "nearest");
  }
  n.bind_raw(0, n.op("Cast", {x}, attributes), order);
}

void write_bit_cast(NodeWriter& n) {
  const auto& a = n.attrs<CastAttrs>();
  if (n.dtype(0) == a.to) return n.bind_raw(0, n.raw(0));
  if (bit_width(n.dtype(0)) != bit_width(a.to))
    return n.fail("element types ", to_string(n.dtype(0)), " and ", to_string(a.to), " differ in size");
  n.bind_raw(0, n.op("BitCast", {n.raw(0)}, {{"to", type_code(a.to)}}));
}

constexpr OpWriter kElementwise[] = {
    {Op::kUnary, write_unary, "Abs, Relu, Sigmoid, ... or a few of them"},
    {Op::kBinary, write_binary, "Add, Mul, Less, ... or a few of them"},
    {Op::kWhere, write_where, "Where"},
    {Op::kClamp, write_clamp, "Clip; Max, Min"},
    {Op::kCast, write_cast, "Cast"},
    {Op::kBitCast, write_bit_cast, "BitCast, or nothing"},
};

}  // namespace

std::span<const OpWriter> elementwise_writers() { return kElementwise; }

}  // namespace smelt::onnx
