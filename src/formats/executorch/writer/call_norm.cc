// Softmax and normalization as ATen calls.
#include <numeric>

#include "formats/executorch/writer/call_writer.h"
#include "ops/normalization/normalization.h"
#include "ops/softmax/softmax.h"

namespace smelt::executorch {

namespace {

/// 1 at the first largest element along the axis, else 0.
int hardmax(CallWriter& w, int x, int64_t axis) {
  PlanWriter& p = w.plan();
  Shape one = w.shape(x), counted = Shape::of_rank(one.rank(), 1);
  const auto d = static_cast<int>(axis);
  counted[d] = one[d];
  one[d] = 1;
  Tensor steps(DType::kI64, counted);
  std::iota(steps.data<int64_t>(), steps.data<int64_t>() + steps.elements(), 0);
  const int dim = p.integer(axis), keep = p.boolean(true);
  const int at = p.call("aten::argmax", "out", {x, dim, keep}, DType::kI64, one);
  return w.cast(w.compare("eq", p.constant(steps), at), w.dtype(x));
}

}  // namespace

bool call_softmax(CallWriter& w) {
  const auto& a = w.attrs<SoftmaxAttrs>();
  const int rank = w.rank(0);
  if (rank < 1) return false;
  int64_t axis = a.axis < 0 ? a.axis + rank : a.axis;
  int x = w.real(0);
  const Shape whole = w.shape(x);
  if (a.flatten && axis != rank - 1) {
    int64_t outer = 1;
    for (int d = 0; d < axis; ++d) outer *= whole[d];
    x = w.plan().reshape(x, Shape{outer, whole.elements() / std::max<int64_t>(outer, 1)});
    axis = 1;
  }
  if (a.beta != 1) x = w.mul(x, w.number_like(x, a.beta));
  if (a.kind == SoftmaxAttrs::Kind::kHardmax) return w.out(0, w.plan().reshape(hardmax(w, x, axis), whole));
  const int dim = w.plan().integer(axis), half = w.plan().boolean(false);
  const bool log = a.kind == SoftmaxAttrs::Kind::kLogSoftmax;
  const int y = w.call(log ? "aten::_log_softmax" : "aten::_softmax", {x, dim, half});
  return w.out(0, w.plan().reshape(y, whole));
}

namespace {

/// The call of that name, whose parameters are vectors of the input's element type.
bool native_batch_norm(CallWriter& w, const BatchNormAttrs& a) {
  PlanWriter& p = w.plan();
  const int x = w.real(0);
  const DType dtype = w.dtype(x);
  std::vector<int> args{x};
  for (const int i : {1, 2, 3, 4}) {
    if (w.has(i) && (w.in_type(i).shape.rank() != 1 || w.in_type(i).quant)) return false;
    args.push_back(w.has(i) ? w.cast(w.real(i), dtype) : p.null());
  }
  args.push_back(p.real(a.momentum));
  args.push_back(p.real(a.epsilon));
  std::vector<int> outputs{p.add_tensor(dtype, w.shape(x))};
  for (int i = 0; i < 2; ++i) outputs.push_back(p.add_tensor(dtype, Shape{0}));
  p.call_to("aten::_native_batch_norm_legit_no_training", "out", args, outputs);
  return w.out(0, outputs[0]);
}

}  // namespace

bool call_batch_norm(CallWriter& w) {
  const auto& a = w.attrs<BatchNormAttrs>();
  if (a.training || w.wants(1) || w.wants(2) || w.rank(0) < 2) return false;
  const int rank = w.rank(0), axis = a.layout == Layout::kChannelsFirst ? 1 : rank - 1;
  if (axis == 1 && w.has(3) && w.has(4)) return native_batch_norm(w, a);
  const int x = w.real(0);
  Shape s = Shape::of_rank(rank, 1);
  s[axis] = w.in_type(3).shape[0];
  const auto in = [&](int i) { return w.plan().reshape(w.cast(w.real(i), w.dtype(x)), s); };
  const int variance = in(4);
  int factor = w.unary("rsqrt", w.add(variance, w.number_like(variance, a.epsilon)));
  if (w.has(1)) factor = w.mul(factor, in(1));
  int y = w.mul(w.sub(x, in(3)), factor);
  if (w.has(2)) y = w.add(y, in(2));
  return w.out(0, y);
}

namespace {

int normalized_over(CallWriter& w, int x, const std::vector<int64_t>& axes, double epsilon, bool centered) {
  const int d = centered ? w.sub(x, w.reduce("mean", x, axes, true)) : x;
  const int variance = w.reduce("mean", w.mul(d, d), axes, true);
  return w.mul(d, w.unary("rsqrt", w.add(variance, w.number_like(variance, epsilon))));
}

bool extra_outputs(CallWriter& w) { return w.wants(1) || w.wants(2); }

/// The call of that name, whose scale and offset have the shape of the dimensions normalized over.
bool native_layer_norm(CallWriter& w, const std::vector<int64_t>& axes) {
  const int x = w.real(0);
  PlanWriter& p = w.plan();
  Shape inner, outer = w.shape(x);
  for (const int64_t d : axes) {
    inner.push_back(outer[static_cast<int>(d)]);
    outer[static_cast<int>(d)] = 1;
  }
  for (const int i : {1, 2})
    if (w.has(i) && !(w.in_type(i).shape == inner)) return false;
  std::vector<int> args{x, p.integers({inner.begin(), inner.end()})};
  for (const int i : {1, 2}) args.push_back(w.has(i) ? w.cast(w.real(i), w.dtype(x)) : p.null());
  args.push_back(p.real(w.attrs<LayerNormAttrs>().epsilon));
  std::vector<int> outputs{p.add_tensor(w.dtype(x), w.shape(x))};
  for (int i = 0; i < 2; ++i) outputs.push_back(p.add_tensor(w.dtype(x), outer));
  p.call_to("aten::native_layer_norm", "out", args, outputs);
  for (const int i : {1, 2})
    if (w.wants(i) && !w.out(i, w.cast(outputs[static_cast<size_t>(i)], w.out_type(i).dtype))) return false;
  return w.out(0, outputs[0]);
}

}  // namespace

bool call_layer_norm(CallWriter& w) {
  const auto& a = w.attrs<LayerNormAttrs>();
  const int rank = w.rank(0);
  std::vector<int64_t> axes;
  for (int64_t d = a.axis < 0 ? a.axis + rank : a.axis; d < rank; ++d) axes.push_back(d);
  if (!a.rms && !axes.empty() && native_layer_norm(w, axes)) return true;
  if (extra_outputs(w)) return false;
  int y = normalized_over(w, w.real(0), axes, a.epsilon, !a.rms);
  if (w.has(1)) y = w.mul(y, w.cast(w.real(1), w.dtype(y)));
  if (w.has(2)) y = w.add(y, w.cast(w.real(2), w.dtype(y)));
  return w.out(0, y);
}

namespace {

/// The call of that name, which takes channels first and a scale and an offset for each channel.
bool native_group_norm(CallWriter& w, int64_t groups) {
  const auto& a = w.attrs<GroupNormAttrs>();
  PlanWriter& p = w.plan();
  const int x = w.real(0);
  const Shape s = w.shape(x);
  std::vector<int> args{x};
  for (const int i : {1, 2})
    args.push_back(w.has(i) ? w.cast(p.reshape(w.real(i), Shape{s[1]}), w.dtype(x)) : p.null());
  for (const int64_t n : {s[0], s[1], s.elements() / (s[0] * s[1]), groups}) args.push_back(p.integer(n));
  args.push_back(p.real(a.epsilon));
  std::vector<int> outputs{p.add_tensor(w.dtype(x), s)};
  for (int i = 0; i < 2; ++i) outputs.push_back(p.add_tensor(w.dtype(x), Shape{s[0], groups}));
  p.call_to("aten::native_group_norm", "out", args, outputs);
  const auto after = w.activated(outputs[0], a.act);
  return after && w.out(0, *after);
}

}  // namespace

bool call_group_norm(CallWriter& w) {
  const auto& a = w.attrs<GroupNormAttrs>();
  if (extra_outputs(w) || a.layout != Layout::kChannelsFirst || w.rank(0) < 3) return false;
  const Shape s = w.in_type(0).shape;
  const int64_t groups = a.groups == 0 ? s[1] : a.groups;
  if (groups < 1 || s[1] % groups != 0) return false;
  if (!a.per_group_affine && s.elements() > 0) return native_group_norm(w, groups);
  PlanWriter& p = w.plan();
  int y = p.reshape(w.real(0), Shape{s[0], groups, s.elements() / std::max<int64_t>(s[0] * groups, 1)});
  y = normalized_over(w, y, {2}, a.epsilon, true);
  if (!a.per_group_affine) y = p.reshape(y, s);
  Shape affine = a.per_group_affine ? Shape{groups, 1} : Shape::of_rank(s.rank(), 1);
  if (!a.per_group_affine) affine[1] = s[1];
  if (w.has(1)) y = w.mul(y, p.reshape(w.real(1), affine));
  if (w.has(2)) y = w.add(y, p.reshape(w.real(2), affine));
  const auto after = w.activated(p.reshape(y, s), a.act);
  return after && w.out(0, *after);
}

bool call_mean_variance_norm(CallWriter& w) {
  std::vector<int64_t> axes = w.attrs<MeanVarianceNormAttrs>().axes;
  for (int64_t& d : axes) d = axis_of(d, w.rank(0));
  const int x = w.real(0), centered = w.sub(x, w.reduce("mean", x, axes, true));
  const int deviation = w.unary("sqrt", w.reduce("mean", w.mul(centered, centered), axes, true));
  return w.out(0, w.div(centered, w.add(deviation, w.number_like(deviation, 1e-9))));
}

/// x / (bias + alpha * (squares of the channels around each one, summed))^beta.
bool call_lrn(CallWriter& w) {
  const auto& a = w.attrs<LrnAttrs>();
  const int rank = w.rank(0);
  if (rank < 2 || a.size < 1 || a.size > 64) return false;
  const int axis = a.layout == Layout::kChannelsFirst ? 1 : rank - 1;
  PlanWriter& p = w.plan();
  const int x = w.real(0), squares = w.mul(x, x);
  Shape s = w.shape(x);
  const int64_t channels = s[axis], before = (a.size - 1) / 2;
  std::vector<int64_t> list(static_cast<size_t>(rank - axis) * 2, 0);
  list[list.size() - 2] = before;
  list[list.size() - 1] = a.size - 1 - before;
  s[axis] += a.size - 1;
  const int widths = p.integers(list), fill = p.real(0);
  const int wide = p.call("aten::constant_pad_nd", "out", {squares, widths, fill}, w.dtype(x), s);
  int sum = sliced(w, wide, axis, 0, channels, 1);
  for (int64_t k = 1; k < a.size; ++k) sum = w.add(sum, sliced(w, wide, axis, k, k + channels, 1));
  const int base = w.add({w.mul(sum, w.number_like(x, a.alpha)), w.number_like(x, a.bias)});
  return w.out(0, w.div(x, w.binary("pow", base, w.number_like(x, a.beta), "Tensor_Tensor_out")));
}

bool call_lp_norm(CallWriter& w) {
  const auto& a = w.attrs<LpNormAttrs>();
  if (a.p != 1 && a.p != 2) return false;
  const int x = w.real(0);
  const std::vector<int64_t> axes{a.axis < 0 ? a.axis + w.rank(0) : a.axis};
  int norm = w.reduce("sum", a.p == 1 ? w.unary("abs", x) : w.mul(x, x), axes, true);
  if (!a.epsilon_max && a.epsilon != 0) norm = w.add(norm, w.number_like(norm, a.epsilon));
  if (a.p == 2) norm = w.unary("sqrt", norm);
  if (a.epsilon_max && a.epsilon != 0) norm = w.binary("maximum", norm, w.number_like(norm, a.epsilon));
  // A norm of 0 gives 0.
  const int zero = w.compare("eq", norm, w.number_like(norm, 0));
  const int y = w.div(x, w.select(zero, w.add(norm, w.number_like(norm, 1)), norm));
  const auto after = w.activated(y, a.act);
  return after && w.out(0, *after);
}

}  // namespace smelt::executorch
