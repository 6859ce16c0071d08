#include "formats/tflite/writer/scores.h"

#include <algorithm>

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

template <class T, class Values>
int table(SubgraphWriter& s, DType dtype, const Values& values, const Shape& shape) {
  Tensor t(dtype, shape);
  std::copy(values.begin(), values.end(), t.data<T>());
  return s.constant(std::move(t));
}

}  // namespace

std::optional<int> feature_rows(OpWriter& w) {
  const ValueType& x = w.in_type(0);
  if (x.quant || !x.ranked || x.shape.rank() != 2 || x.shape[1] == 0 || x.dtype == DType::kF64 ||
      x.dtype == DType::kString || is_complex(x.dtype))
    return std::nullopt;
  return w.subgraph().cast(w.in(0), DType::kF32);
}

int f32_table(SubgraphWriter& s, const std::vector<float>& values, const Shape& shape) {
  return table<float>(s, DType::kF32, values, shape);
}
int i32_table(SubgraphWriter& s, const std::vector<int32_t>& values, const Shape& shape) {
  return table<int32_t>(s, DType::kI32, values, shape);
}
int bool_table(SubgraphWriter& s, const std::vector<bool>& values, const Shape& shape) {
  return table<bool>(s, DType::kBool, values, shape);
}

OperatorOptions gather_options(int64_t axis, int64_t batch_dims) {
  return options_of<tfl::GatherOptions>([=](auto& b) {
    return tfl::CreateGatherOptions(b, static_cast<int32_t>(axis), static_cast<int32_t>(batch_dims));
  });
}
OperatorOptions select_options() {
  return options_of<tfl::SelectV2Options>([](auto& b) { return tfl::CreateSelectV2Options(b); });
}

int dense(SubgraphWriter& s, int x, const std::vector<float>& matrix, int64_t k, const std::vector<float>& bias) {
  const auto m = static_cast<int64_t>(matrix.size()) / k;
  const int b = bias.empty() ? -1 : f32_table(s, bias, Shape{m});
  return s.add(Code::FULLY_CONNECTED, {x, f32_table(s, matrix, Shape{m, k}), b}, DType::kF32,
               options_of<tfl::FullyConnectedOptions>([](auto& fbb) { return tfl::CreateFullyConnectedOptions(fbb); }));
}

int first_largest(SubgraphWriter& s, int x) {
  return s.add(Code::ARG_MAX, {x, s.i32_scalar(1)}, DType::kI32, options_of<tfl::ArgMaxOptions>([](auto& b) {
                 return tfl::CreateArgMaxOptions(b, tfl::TensorType::INT32);
               }));
}

int above(OpWriter& w, int x, double bound) {
  SubgraphWriter& s = w.subgraph();
  return s.reshape(s.cast(w.compare(Code::GREATER, x, w.number_like(x, bound)), DType::kI32), {-1});
}

void bind_labels(OpWriter& w, const ClassLabels& labels, int index) {
  if (!w.wants(0)) return;
  SubgraphWriter& s = w.subgraph();
  const Shape shape{static_cast<int64_t>(labels.size())};
  const DType dtype = labels.strings.empty() ? DType::kI64 : DType::kString;
  const int names = labels.strings.empty() ? table<int64_t>(s, dtype, labels.ints, shape)
                                           : table<std::string>(s, dtype, labels.strings, shape);
  w.out(0, s.add(Code::GATHER, {names, index}, dtype, gather_options(0)));
}

bool bind_scores(OpWriter& w, int output, int scores, int64_t columns, PostTransform post, ml::SecondClass second) {
  if (!w.wants(output)) return true;
  SubgraphWriter& s = w.subgraph();
  const auto logistic = [&](int x) { return w.call(Code::LOGISTIC, {x}); };
  if (post == PostTransform::kProbit || (columns > 1 && post == PostTransform::kSoftmaxZero)) return false;
  int y = scores;
  if (columns == 1 && second != ml::SecondClass::kNone) {
    int other = w.call(Code::NEG, {y});
    if (second == ml::SecondClass::kComplement) {
      other = w.add(other, w.number_like(other, 1));
    } else if (post == PostTransform::kLogistic) {
      other = logistic(other);
      y = logistic(y);
    }
    y = s.add(Code::CONCATENATION, {other, y}, DType::kF32, concat_options(1));
    columns = 2;
  } else if (columns > 1 && post == PostTransform::kSoftmax) {
    y = w.call(Code::SOFTMAX, {y},
               options_of<tfl::SoftmaxOptions>([](auto& b) { return tfl::CreateSoftmaxOptions(b, 1.0f); }));
  } else if (columns > 1 && post == PostTransform::kLogistic) {
    y = logistic(y);
  }
  if (w.out_type(output).shape.back() != columns) return false;
  w.out(output, s.cast(y, w.out_type(output).dtype));
  return true;
}

}  // namespace smelt::tflite
