// Linear models and feature transforms of ai.onnx.ml.
#include <algorithm>
#include <cmath>

#include "formats/tflite/writer/scores.h"
#include "tensor/numeric.h"

namespace smelt::tflite {
using Code = tfl::BuiltinOperator;

bool write_linear_model(OpWriter& w) {
  const auto& a = w.attrs<LinearModelAttrs>();
  SubgraphWriter& s = w.subgraph();
  const auto x = feature_rows(w);
  if (!x || a.targets < 1) return false;
  std::vector<float> bias(a.intercepts);
  bias.resize(static_cast<size_t>(a.targets), 0);
  const int64_t features = static_cast<int64_t>(a.coefficients.size()) / a.targets;
  const int scores = dense(s, *x, a.coefficients, features, bias);
  const bool binary = a.classifier && a.targets == 1;
  if (binary && a.labels.size() < 2) {
    // One label: the positive class.
    ClassLabels table{.ints = {0, a.labels.ints.empty() ? 1 : a.labels.ints[0]}};
    if (!a.labels.strings.empty()) table = {.strings = {"", a.labels.strings[0]}};
    bind_labels(w, table, above(w, scores, 0));
  } else if (a.classifier) {
    bind_labels(w, a.labels, binary ? above(w, scores, 0) : first_largest(s, scores));
  }
  const auto other = a.post == PostTransform::kLogistic ? ml::SecondClass::kNegative : ml::SecondClass::kComplement;
  return bind_scores(w, a.classifier ? 1 : 0, scores, a.targets, a.post,
                     binary && a.labels.size() == 2 ? other : ml::SecondClass::kNone);
}

bool write_feature_normalize(OpWriter& w) {
  using Norm = FeatureNormalizeAttrs::Norm;
  SubgraphWriter& s = w.subgraph();
  const auto x = feature_rows(w);
  if (!x) return false;
  const Norm norm = w.attrs<FeatureNormalizeAttrs>().norm;
  const int magnitude = norm == Norm::kMax ? *x : w.call(norm == Norm::kL1 ? Code::ABS : Code::SQUARE, {*x});
  int size = w.reduce(norm == Norm::kMax ? Code::REDUCE_MAX : Code::SUM, magnitude, {1}, true);
  if (norm == Norm::kL2) size = w.call(Code::SQRT, {size});
  // A row whose norm is 0 stays.
  const int divisor = w.select({w.compare(Code::NOT_EQUAL, size, s.f32(0)), size, s.f32(1)});
  w.out(0, w.div(*x, divisor));
  return true;
}

bool write_impute(OpWriter& w) {
  const auto& a = w.attrs<ImputeAttrs>();
  SubgraphWriter& s = w.subgraph();
  const ValueType& t = w.in_type(0);
  const bool real = is_float(t.dtype);
  const size_t count = real ? a.floats.size() : a.ints.size();
  const int64_t columns = t.ranked && t.shape.rank() > 0 ? t.shape[t.shape.rank() == 1 ? 0 : 1] : 1;
  if (!t.ranked || t.shape.rank() > 2 || t.quant || (count != 1 && static_cast<int64_t>(count) != columns))
    return false;
  const int x = w.in(0);
  Tensor values(w.file_dtype(x), count == 1 ? Shape{} : Shape{columns});
  for (size_t i = 0; i < count; ++i) {
    if (real)
      set_double(values, static_cast<int64_t>(i), a.floats[i]);
    else
      set_int(values, static_cast<int64_t>(i), a.ints[i]);
  }
  const bool nan = real && std::isnan(a.replaced);
  const int replaced = nan ? x : w.number_like(x, real ? a.replaced : static_cast<double>(a.replaced_int));
  const int hit = w.compare(nan ? Code::NOT_EQUAL : Code::EQUAL, x, replaced);
  w.out(0, s.add(Code::SELECT_V2, {hit, s.constant(std::move(values)), x}, w.file_dtype(x), select_options()));
  return true;
}

bool write_feature_concat(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  const auto& sizes = w.attrs<FeatureConcatAttrs>().sizes;
  std::vector<int> parts;
  for (int i = 0; i < w.inputs(); ++i) {
    const ValueType& t = w.in_type(i);
    const bool whole =
        sizes.empty() || (t.ranked && t.shape.rank() == 2 && t.shape[1] == sizes[static_cast<size_t>(i)]);
    if (!t.ranked || t.shape.rank() != 2 || t.dtype == DType::kString || !whole) return false;
    parts.push_back(s.cast(w.in(i), DType::kF32));
  }
  w.out(0, s.add(Code::CONCATENATION, parts, DType::kF32, concat_options(1)));
  return true;
}

namespace {

/// x with a further dimension behind it, compared with each of n keys: bool [..., n].
std::optional<int> matches(OpWriter& w, const Tensor& keys) {
  SubgraphWriter& s = w.subgraph();
  const ValueType& t = w.in_type(0);
  if (!t.ranked || t.shape.rank() > 3 || t.quant || keys.elements() < 1) return std::nullopt;
  int x = w.in(0);
  x = s.add(Code::EXPAND_DIMS, {x, s.i32_scalar(t.shape.rank())}, s.at(x).dtype);
  const bool number = s.at(x).dtype != DType::kString;
  if (number && s.at(x).dtype != keys.dtype()) x = s.cast(x, keys.dtype());
  Tensor table = keys;
  return w.compare(Code::EQUAL, x, s.constant(std::move(table)));
}

}  // namespace

bool write_label_encode(OpWriter& w) {
  const auto& a = w.attrs<LabelEncodeAttrs>();
  SubgraphWriter& s = w.subgraph();
  const int64_t n = a.keys.elements();
  if (is_float(a.keys.dtype()) || a.values.dtype() == DType::kF64) return false;
  const auto hit = matches(w, a.keys);
  if (!hit) return false;
  // The largest of 1 + the positions of equal keys, 0 if there are none: the place in a table behind the fallback.
  std::vector<int32_t> places(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) places[static_cast<size_t>(i)] = static_cast<int32_t>(i) + 1;
  const int at = w.mul({s.cast(*hit, DType::kI32), i32_table(s, places, Shape{n})});
  const int place = w.reduce(Code::REDUCE_MAX, at, {w.rank(0)}, false);
  Tensor table(a.values.dtype(), Shape{n + 1});
  for (int64_t i = 0; i <= n; ++i) {
    const Tensor& from = i == 0 ? a.fallback : a.values;
    const int64_t k = i == 0 ? 0 : i - 1;
    if (from.dtype() == DType::kString)
      table.data<std::string>()[i] = from.data<std::string>()[k];
    else if (is_float(from.dtype()))
      set_double(table, i, get_double(from, k));
    else
      set_int(table, i, get_int(from, k));
  }
  const DType dtype = table.dtype();
  w.out(0, s.add(Code::GATHER, {s.constant(std::move(table)), place}, dtype, gather_options(0)));
  return true;
}

bool write_category_one_hot(OpWriter& w) {
  const auto& a = w.attrs<CategoryOneHotAttrs>();
  if (!a.zeros) return false;
  const auto n = static_cast<int64_t>(std::max(a.ints.size(), a.strings.size()));
  Tensor keys(a.strings.empty() ? DType::kI64 : DType::kString, Shape{n});
  for (int64_t i = 0; i < n; ++i) {
    if (a.strings.empty())
      set_int(keys, i, a.ints[static_cast<size_t>(i)]);
    else
      keys.data<std::string>()[i] = a.strings[static_cast<size_t>(i)];
  }
  const auto hit = matches(w, keys);
  if (!hit) return false;
  w.out(0, w.subgraph().cast(*hit, DType::kF32));
  return true;
}

/// The values [n, c] alone, since the format has no maps: column k belongs to key k.
bool write_zip_map(OpWriter& w) {
  const auto& keys = w.attrs<MapAttrs>().keys;
  if (w.rank(0) != 2 || w.in_type(0).shape[1] != static_cast<int64_t>(keys.size())) return false;
  w.out(0, w.in(0));
  return true;
}

}  // namespace smelt::tflite
