#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "ops/common/complex_view.h"
#include "ops/common/infer.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// A positive float as an exponent-only byte; mode 0 rounds up, 1 down, 2 to nearest (half up).
uint8_t to_e8m0(float v, bool saturate, int64_t mode) {
  if (v != v || v < 0) return 0xff;
  if (std::isinf(v)) return saturate ? 0xfe : 0xff;
  if (v == 0) return 0;
  int e;
  const float fraction = std::frexp(v, &e);  // v = fraction * 2^e, fraction in [0.5, 1)
  int exponent = e - 1;
  if (fraction > 0.5f && (mode == 0 || (mode == 2 && fraction >= 0.75f))) ++exponent;
  if (exponent > 127) return saturate ? 0xfe : 0xff;
  return static_cast<uint8_t>(std::max(exponent + 127, 0));
}

void store_float(const CastAttrs& attrs, Tensor& y, int64_t i, double v) {
  if (attrs.round && is_integer(y.dtype())) v = std::round(v);
  if (attrs.clamp && is_integer(y.dtype()) && y.dtype() != DType::kU64 && y.dtype() != DType::kI64) {
    const auto lo = static_cast<double>(int_min(y.dtype())), hi = static_cast<double>(int_max(y.dtype()));
    set_int(y, i, v != v ? 0 : static_cast<int64_t>(std::clamp(v, lo, hi)));
    return;
  }
  if (attrs.clamp && y.dtype() == DType::kU64) v = std::max(v, 0.0);
  switch (y.dtype()) {
    case DType::kF8E4M3FN:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
      y.data<uint8_t>()[i] = f32_to_narrow(y.dtype(), static_cast<float>(v), attrs.saturate);
      return;
    case DType::kF8E8M0:
      y.data<uint8_t>()[i] = to_e8m0(static_cast<float>(v), attrs.saturate, attrs.round_mode);
      return;
    default:
      set_double(y, i, v);
  }
}

std::string print_float(double v, DType dtype) {
  if (v != v) return "NaN";
  if (std::isinf(v)) return v > 0 ? "INF" : "-INF";
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, dtype == DType::kF64 ? "%.17g" : "%.8g", v);
  return buffer;
}

std::string print(const Tensor& x, int64_t i) {
  if (is_float(x.dtype())) return print_float(get_double(x, i), x.dtype());
  if (x.dtype() == DType::kU64) return Cat(static_cast<uint64_t>(get_int(x, i)));
  return Cat(get_int(x, i));
}

Status parse(const CastAttrs& attrs, const std::string& text, Tensor& y, int64_t i) {
  const char* begin = text.c_str();
  const char* end = begin + text.size();
  while (begin < end && (*begin == ' ' || *begin == '\t' || *begin == '\n')) ++begin;
  while (end > begin && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\n')) --end;
  if (begin < end && *begin == '+') ++begin;
  if (is_integer(y.dtype())) {
    int64_t v = 0;
    if (y.dtype() == DType::kU64) {
      uint64_t u = 0;
      if (auto r = std::from_chars(begin, end, u); r.ec == std::errc{} && r.ptr == end) {
        set_int(y, i, static_cast<int64_t>(u));
        return Ok();
      }
    } else if (auto r = std::from_chars(begin, end, v); r.ec == std::errc{} && r.ptr == end) {
      set_int(y, i, v);
      return Ok();
    }
  }
  if (y.dtype() == DType::kBool && (text == "True" || text == "true" || text == "False" || text == "false")) {
    set_int(y, i, text[0] == 'T' || text[0] == 't');
    return Ok();
  }
  double v = 0;
  const auto r = std::from_chars(begin, end, v);
  if (begin == end || r.ptr != end || (r.ec != std::errc{} && r.ec != std::errc::result_out_of_range))
    return InvalidInput("the string '", text.substr(0, 40), "' is not a number");
  if (r.ec == std::errc::result_out_of_range) v = std::strtod(std::string(begin, end).c_str(), nullptr);
  store_float(attrs, y, i, v);
  return Ok();
}

}  // namespace

Status infer_Cast(InferContext& ctx) {
  ValueType type = ctx.input(0);
  type.dtype = ctx.attrs<CastAttrs>().to;
  type.quant = ctx.declared(0).quant;
  ctx.set(0, std::move(type));
  return Ok();
}

Status reference_Cast(KernelContext& ctx) {
  const auto& attrs = ctx.attrs<CastAttrs>();
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const int64_t n = x.elements();
  const DType from = x.dtype(), to = y.dtype();
  if (from == DType::kString || to == DType::kString) {
    for (int64_t i = 0; i < n; ++i) {
      if (from == to)
        y.data<std::string>()[i] = x.data<std::string>()[i];
      else if (to == DType::kString)
        y.data<std::string>()[i] = print(x, i);
      else
        SMELT_TRY(parse(attrs, x.data<std::string>()[i], y, i));
    }
  } else if (from == to) {
    if (x.bytes()) std::memcpy(y.raw(), x.raw(), x.bytes());
  } else if (is_complex(from) && to == DType::kBool) {
    for (int64_t i = 0; i < n; ++i) set_int(y, i, get_complex(x, i) != 0.0);
  } else if (is_complex(from) && is_complex(to)) {
    for (int64_t i = 0; i < n; ++i) set_complex(y, i, get_complex(x, i));
  } else if (to == DType::kF32 && !is_float(from) && !is_complex(from) && from != DType::kU64) {
    for (int64_t i = 0; i < n; ++i) y.data<float>()[i] = static_cast<float>(get_int(x, i));
  } else if (!is_float(from) && !is_complex(from) && !is_float(to) && !is_complex(to)) {
    for (int64_t i = 0; i < n; ++i) set_int(y, i, get_int(x, i));
  } else if (from == DType::kF32 && to == DType::kF16) {
    for (int64_t i = 0; i < n; ++i) y.data<uint16_t>()[i] = f32_to_f16(x.data<float>()[i]);
  } else if (from == DType::kF16 && to == DType::kF32) {
    to_floats(x, y.data<float>());
  } else {
    for (int64_t i = 0; i < n; ++i) store_float(attrs, y, i, get_double(x, i));
  }
  return Ok();
}

Status infer_BitCast(InferContext& ctx) {
  const ValueType& x = ctx.input(0);
  const DType to = ctx.attrs<CastAttrs>().to;
  ValueType type = ValueType::tensor(to);
  const int from_bits = bit_width(x.dtype), to_bits = bit_width(to);
  if (to_bits == 0 || (x.dtype != DType::kInvalid && from_bits == 0))
    return InvalidModel("no bit cast from ", to_string(x.dtype), " to ", to_string(to));
  if (x.ranked && from_bits > 0) {
    type.ranked = true;
    type.shape = x.shape;
    if (to_bits < from_bits) {
      if (x.shape.rank() == Shape::kMaxRank) return InvalidModel("the result of the bit cast has too many dimensions");
      type.shape.push_back(from_bits / to_bits);
    } else if (to_bits > from_bits) {
      const int64_t ratio = to_bits / from_bits;
      if (x.shape.rank() == 0 || (x.shape.back() >= 0 && x.shape.back() != ratio))
        return InvalidModel("bit cast of ", x.str(), " to ", to_string(to), ": last dimension ", ratio, " expected");
      type.shape.erase(x.shape.rank() - 1);
    }
  }
  ctx.set(0, std::move(type));
  return Ok();
}

Status reference_BitCast(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  if (x.bytes() != y.bytes()) return InvalidInput("bit cast of ", x.bytes(), " bytes into ", y.bytes());
  if (x.bytes()) std::memcpy(y.raw(), x.raw(), x.bytes());
  return Ok();
}

}  // namespace smelt
