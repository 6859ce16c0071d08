// Quantization with parameters that are chosen at run time, as formulas of float32 values.
#include <numeric>

#include "formats/tflite/writer/op_writer.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

}  // namespace

DynamicRule DynamicRule::whole(int rank) {
  DynamicRule rule{.keep_dims = false};
  rule.axes.resize(static_cast<size_t>(rank));
  std::iota(rule.axes.begin(), rule.axes.end(), 0);
  return rule;
}

DynamicLevels dynamic_levels(OpWriter& w, int x, const DynamicRule& rule) {
  SubgraphWriter& s = w.subgraph();
  const auto least = [&](int a, int b) { return w.binary(Code::MINIMUM, a, b); };
  const auto most = [&](int a, int b) { return w.binary(Code::MAXIMUM, a, b); };
  const int zero = s.f32(0), one = s.f32(1), lo = s.f32(rule.lo), hi = s.f32(rule.hi), span = s.f32(rule.hi - rule.lo);
  const int low = least(w.reduce(Code::REDUCE_MIN, x, rule.axes, rule.keep_dims), zero);
  const int high = most(w.reduce(Code::REDUCE_MAX, x, rule.axes, rule.keep_dims), zero);
  const auto clamped = [&](int v) { return least(most(v, lo), hi); };
  const auto rounded = [&](int v) { return w.call(Code::ROUND, {v}); };
  const auto unless_zero = [&](int v, int then) { return w.select(w.compare(Code::EQUAL, v, zero), one, then); };
  if (rule.xnnpack) {
    const int range = w.sub(high, low);
    int inverse = unless_zero(range, w.div(span, range));
    if (rule.eps > 0) inverse = least(inverse, s.f32(1 / rule.eps));
    const int steps = least(w.mul(w.call(Code::NEG, {low}), inverse), span);
    const int point = w.add(rounded(steps), lo);
    return {clamped(w.add(rounded(w.mul(x, inverse)), point)), w.div(one, inverse), point};
  }
  int step = rule.symmetric ? w.div(most(w.call(Code::NEG, {low}), high), hi) : w.div(w.sub(high, low), span);
  if (rule.eps > 0) step = most(step, s.f32(rule.eps));
  const int scale = unless_zero(step, step), steps = rounded(w.div(x, scale));
  if (rule.symmetric) return {clamped(steps), scale, w.mul(scale, zero)};
  const int point = clamped(rounded(w.sub(lo, w.div(low, scale))));
  return {clamped(w.add(steps, point)), scale, point};
}

int rounded_by_slice(OpWriter& w) {
  const ValueType& y = w.out_type(0);
  DynamicRule rule{.symmetric = y.quant->symmetric,
                   .xnnpack = !y.quant->symmetric,
                   .lo = static_cast<double>(int_min(y.dtype)),
                   .hi = static_cast<double>(int_max(y.dtype))};
  for (int64_t k = 1; k <= y.quant->axis; ++k) rule.axes.push_back(-k);
  const DynamicLevels q = dynamic_levels(w, w.real(0), rule);
  return w.mul(rule.symmetric ? q.levels : w.sub(q.levels, q.point), q.scale);
}

bool write_dynamic_quantize(OpWriter& w) {
  const auto& a = w.attrs<DynamicQuantizeAttrs>();
  SubgraphWriter& s = w.subgraph();
  const bool bytes = a.to == DType::kU8 || a.to == DType::kI8;
  if (!bytes || w.rank(0) < (a.per_row ? 1 : 0) || w.in_type(0).quant) return false;
  const int x = w.in(0);
  if (s.at(x).dtype != DType::kF32) return false;
  DynamicRule rule = DynamicRule::whole(w.rank(0));
  if (a.per_row) {
    rule.axes = {w.rank(0) - 1};
    rule.keep_dims = true;
  }
  const bool given = a.quant_min != a.quant_max;
  rule.symmetric = a.symmetric;
  rule.xnnpack = a.xnnpack_rule && !a.symmetric;
  rule.lo = static_cast<double>(given ? a.quant_min : int_min(a.to));
  rule.hi = static_cast<double>(given ? a.quant_max : int_max(a.to));
  rule.eps = a.eps;
  const DynamicLevels q = dynamic_levels(w, x, rule);
  if (w.wants(0)) w.out(0, s.cast(q.levels, a.to));
  if (w.wants(1)) w.out(1, s.cast(q.scale, s.file_type(w.out_type(1)).first));
  if (w.wants(2)) w.out(2, s.cast(q.point, s.file_type(w.out_type(2)).first));
  return true;
}

}  // namespace smelt::tflite
