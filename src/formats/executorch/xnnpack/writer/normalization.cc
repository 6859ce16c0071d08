// Softmax and normalization of groups of channels.
#include "ops/normalization/normalization.h"
#include "formats/executorch/xnnpack/writer/nodes.h"
#include "ops/softmax/softmax.h"
#include "tensor/numeric.h"

namespace smelt::executorch {
namespace {

using Id = XnnNodeWriter::Id;
using Type = XnnNodeWriter::Type;
using Builder = XnnNodeWriter::Builder;

/// The mean over rows and columns of an image [n, h, w, c].
Id image_mean(XnnGraphWriter& g, Id x) {
  const Id y = g.add_value(DType::kF32, Shape{g.shape(x)[0], 1, 1, g.shape(x)[3]});
  constexpr uint32_t kKeepDims = 0x40;
  g.node(Type::XNNGlobalAvgPooling2d,
         [=](Builder& b) { return fb_xnnpack::Create_XNNNode1x1(b, x, y, kKeepDims).Union(); });
  return y;
}

}  // namespace

bool xnn_softmax(XnnNodeWriter& w) {
  const auto& a = w.attrs<SoftmaxAttrs>();
  const int rank = w.in_type(0).shape.rank();
  const int64_t axis = a.axis < 0 ? a.axis + rank : a.axis;
  const bool channels = axis == 1 && rank > 2 && !a.flatten;  // the last dimension of an image with channels last
  if (a.kind != SoftmaxAttrs::Kind::kSoftmax || a.beta != 1 || (axis != rank - 1 && !channels)) return false;
  const Layout layout = channels ? Layout::kChannelsFirst : Layout::kChannelsLast;
  const Id x = w.image(0, layout, true);
  return w.out_image(w.g().unary(Type::XNNSoftmax, x, w.real_dtype(), Shape(w.g().shape(x)), nullptr), layout);
}

bool xnn_group_norm(XnnNodeWriter& w) {
  const auto& a = w.attrs<GroupNormAttrs>();
  XnnGraphWriter& g = w.g();
  const Shape given = w.in_type(0).shape;
  if (given.rank() < 3 || w.node().outputs.size() != 1 || w.real_dtype() != DType::kF32 || w.makes_8bit() ||
      !clamps(a.act))
    return false;
  const int64_t channels = a.layout == Layout::kChannelsLast ? given.back() : given[1];
  const int64_t groups = a.groups == 0 ? channels : a.groups;
  if (groups < 1 || channels % groups != 0 || (a.per_group_affine && groups != channels)) return false;
  for (const int i : {1, 2})
    if (w.has(i) && (!w.constant(i) || w.constant(i)->elements() != channels || !is_float(w.constant(i)->dtype())))
      return false;
  const auto filled = [&](const Shape& shape, double value) {
    return g.add_constant(DType::kF32, shape, nullptr, [shape, value] {
      Tensor t(DType::kF32, shape);
      for (int64_t i = 0; i < t.elements(); ++i) set_double(t, i, value);
      return t;
    });
  };
  // The first operand has the shape of the result.
  const auto binary_of = [&](Type type, Id x, Id y, const Activation& act = {}) {
    const Id z = g.add_value(DType::kF32, Shape(g.shape(x)));
    const auto table = [=](Builder& b) { return fb_xnnpack::Create_XNNNode2x1(b, x, y, z).Union(); };
    act.kind == ActKind::kNone ? g.node(type, table) : g.node(type, table, activation_bounds(act));
    return z;
  };
  const Id whole = w.image(0, a.layout, true);
  const Shape last = g.shape(whole);
  const int64_t n = last[0], size = channels / groups;
  const Id x = last.rank() == 4 ? whole : g.reshape(whole, Shape{n, last.elements() / (n * channels), 1, channels});
  const auto mean_of = [&](Id v) {
    const Id each = image_mean(g, v);
    if (size == 1) return each;
    const Id mean = image_mean(g, g.reshape(each, Shape{n * groups, size, 1, 1}));
    const Id spread = g.add_value(DType::kF32, Shape{n * groups, size, 1, 1});
    const Id ones = filled(Shape{1, size, 1, 1}, 1);
    g.node(Type::XNNMultiply, [=](Builder& b) { return fb_xnnpack::Create_XNNNode2x1(b, mean, ones, spread).Union(); });
    return g.reshape(spread, Shape{n, 1, 1, channels});
  };
  const Id centred = binary_of(Type::XNNSubtract, x, mean_of(x));
  const Id variance = mean_of(binary_of(Type::XNNMultiply, centred, centred));
  const Id sum = binary_of(Type::XNNAdd, variance, filled(Shape{1}, a.epsilon));
  Id factor = g.unary(Type::XNNReciprocalSquareRoot, sum, DType::kF32, Shape(g.shape(sum)), nullptr);
  if (w.has(1)) factor = binary_of(Type::XNNMultiply, factor, w.real_constant(1, {}, Shape{channels}));
  Id y = binary_of(Type::XNNMultiply, centred, factor, w.has(2) ? Activation{} : a.act);
  if (w.has(2)) y = binary_of(Type::XNNAdd, y, w.real_constant(2, {}, Shape{channels}), a.act);
  return w.out_image(g.reshape(y, last), a.layout);
}

}  // namespace smelt::executorch
