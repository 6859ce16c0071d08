// Formulas of several calls that the functions of nodes share.
#include <algorithm>
#include <numeric>

#include "formats/executorch/writer/call_writer.h"
#include "tensor/numeric.h"

namespace smelt::executorch {

int entry(CallWriter& w, int x, int64_t index) {
  Shape s = w.shape(x);
  s.erase(0);
  return w.plan().reshape(sliced(w, x, 0, index, index + 1), s);
}

int concatenated(CallWriter& w, const std::vector<int>& parts, int64_t axis) {
  if (parts.size() == 1) return parts[0];
  Shape s = w.shape(parts[0]);
  const int d = static_cast<int>(axis);
  s[d] = 0;
  for (const int part : parts) s[d] += w.shape(part)[d];
  const int list = w.plan().list(parts), dim = w.plan().integer(axis);
  return w.plan().call("aten::cat", "out", {list, dim}, w.dtype(parts[0]), s);
}

int stacked(CallWriter& w, const std::vector<int>& parts, int64_t axis) {
  Shape s = w.shape(parts[0]);
  s.insert(static_cast<int>(axis), static_cast<int64_t>(parts.size()));
  const int list = w.plan().list(parts), dim = w.plan().integer(axis);
  return w.plan().call("aten::stack", "out", {list, dim}, w.dtype(parts[0]), s);
}

int expanded(CallWriter& w, int x, const Shape& to) {
  if (w.shape(x) == to) return x;
  const int size = w.plan().integers({to.begin(), to.end()}), implicit = w.plan().boolean(false);
  return w.plan().call("aten::expand_copy", "out", {x, size, implicit}, w.dtype(x), to);
}

int bordered(CallWriter& w, int x, int64_t axis, int64_t before, int64_t after, double value) {
  if (before == 0 && after == 0) return x;
  Shape s = w.shape(x);
  std::vector<int64_t> list(static_cast<size_t>(s.rank() - axis) * 2, 0);
  list[list.size() - 2] = before;
  list[list.size() - 1] = after;
  s[static_cast<int>(axis)] += before + after;
  PlanWriter& p = w.plan();
  const int widths = p.integers(list);
  const int fill = is_float(w.dtype(x)) ? p.real(value) : p.integer(static_cast<int64_t>(value));
  return p.call("aten::constant_pad_nd", "out", {x, widths, fill}, w.dtype(x), s);
}

int int64_constant(CallWriter& w, const std::vector<int64_t>& values, const Shape& shape) {
  return w.plan().constant(Tensor::from<int64_t>(DType::kI64, shape, std::span<const int64_t>(values)));
}

int clamped(CallWriter& w, int x, double limit) { return limit > 0 ? w.clamp(x, -limit, limit) : x; }

int look_up(CallWriter& w, int table, int at) {
  PlanWriter& p = w.plan();
  const Shape indices = w.shape(at);
  Shape taken = w.shape(table), result = indices;
  taken[0] = indices.elements();
  for (int d = 1; d < taken.rank(); ++d) result.push_back(taken[d]);
  const int flat = p.reshape(at, Shape{taken[0]}), dim = p.integer(0);
  return p.reshape(p.call("aten::index_select", "out", {table, dim, flat}, w.dtype(table), taken), result);
}

int linear(CallWriter& w, int x, int weights, int bias) {
  Shape s = w.shape(x);
  s[s.rank() - 1] = w.shape(weights)[0];
  return w.plan().call("aten::linear", "out", {x, weights, bias}, w.dtype(x), s);
}

int rounded_half_away(CallWriter& w, int x) {
  const int size = w.unary("floor", w.add({w.unary("abs", x), w.number_like(x, 0.5)}));
  return w.mul(w.unary("sign", x), size);
}

}  // namespace smelt::executorch
