#include "ops/elementwise/binary_quantized.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "ops/common/broadcast.h"
#include "ops/common/quantized_pair.h"
#include "ops/common/real.h"
#include "ops/elementwise/binary_fixed.h"
#include "ops/elementwise/binary_math.h"
#include "ops/elementwise/xnnpack_rules.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

Status through_float(const BinaryAttrs& attrs, const Tensor& a, const Tensor& b, Tensor& y) {
  const RealRows<float> write = real_rows<float>(attrs.fn);
  if (!write) return Unsupported(to_string(attrs.fn), " is not defined on quantized values");
  const std::vector<float> p = to_real_vector(a);
  std::vector<float> q = to_real_vector(b);
  if (attrs.fn == Binary::kAdd || attrs.fn == Binary::kSub)
    for (float& v : q) v *= static_cast<float>(attrs.alpha);
  std::vector<float> r(static_cast<size_t>(y.elements()));
  std::vector<uint8_t> truths(gives_bool(attrs.fn) ? r.size() : 0);
  const BroadcastWalk<2> walk(y.shape(), {a.shape(), b.shape()});
  walk.each_rows([&](int64_t out, const std::array<int64_t, 2>& at, const BroadcastWalk<2>::Rows& rows) {
    void* to = truths.empty() ? static_cast<void*>(r.data() + out) : truths.data() + out;
    write(p.data() + at[0], q.data() + at[1], to, rows);
  });
  std::copy(truths.begin(), truths.end(), r.begin());
  if (attrs.act.kind != ActKind::kNone && !gives_bool(attrs.fn))
    for (float& v : r) v = activate(attrs.act, v);
  if (attrs.rounding == Rounding::kXnnpack && is_quantized(y) && is_8bit(y.dtype()) && y.quant()->scales.size() == 1)
    store_xnnpack(r.data(), y);
  else
    store_real(r.data(), y);
  return Ok();
}

}  // namespace

Status binary_quantized(const BinaryAttrs& attrs, const Tensor& a, const Tensor& b, Tensor& y) {
  const auto per_tensor = [](const Tensor& t) { return is_quantized(t) && t.quant()->scales.size() == 1; };
  if (attrs.rounding != Rounding::kFloatHalfEven && per_tensor(a) && per_tensor(b) &&
      (per_tensor(y) || gives_bool(attrs.fn))) {
    const auto by_integers = attrs.rounding == Rounding::kXnnpack ? binary_xnnpack : binary_fixed;
    if (by_integers(attrs, a, b, y)) return Ok();
  }
  return through_float(attrs, a, b, y);
}

}  // namespace smelt
