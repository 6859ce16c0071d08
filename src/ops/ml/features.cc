// Feature transforms of ai.onnx.ml.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <unordered_map>

#include "base/checked.h"
#include "ops/ml/scores.h"
#include "tensor/numeric.h"

namespace smelt {

Status infer_FeatureNormalize(InferContext& ctx) {
  ValueType t = ctx.input(0);
  t.dtype = DType::kF32;
  t.quant = nullptr;
  ctx.set(0, t);
  return Ok();
}

Status reference_FeatureNormalize(KernelContext& ctx) {
  using Norm = FeatureNormalizeAttrs::Norm;
  const Norm norm = ctx.attrs<FeatureNormalizeAttrs>().norm;
  const Shape& shape = ctx.input(0).shape();
  const auto x = ml::load_rows(ctx.input(0));
  const int64_t rows = shape.rank() < 2 ? 1 : shape[0];
  const int64_t columns = shape.rank() == 0 ? 1 : shape[shape.rank() == 1 ? 0 : 1];
  int64_t inner = 1;
  for (int k = 2; k < shape.rank(); ++k) inner *= shape[k];
  float* y = ctx.output(0).data<float>();
  for (int64_t at = 0; at < rows * inner; ++at) {
    const int64_t base = at / inner * columns * inner + at % inner;
    double sum = norm == Norm::kMax ? -INFINITY : 0;
    for (int64_t k = 0; k < columns; ++k) {
      const double v = x[base + k * inner];
      sum = norm == Norm::kMax ? std::max(sum, v) : sum + (norm == Norm::kL1 ? std::fabs(v) : v * v);
    }
    if (norm == Norm::kL2) sum = std::sqrt(sum);
    for (int64_t k = 0; k < columns; ++k)
      y[base + k * inner] = static_cast<float>(sum != 0 ? x[base + k * inner] / sum : x[base + k * inner]);
  }
  return Ok();
}

Status infer_Impute(InferContext& ctx) {
  const auto& a = ctx.attrs<ImputeAttrs>();
  const ValueType& x = ctx.input(0);
  const bool real = is_float(x.dtype);
  const size_t count = real ? a.floats.size() : a.ints.size();
  if (x.dtype != DType::kInvalid && count == 0) return InvalidModel("no imputed value of the input's element type");
  ctx.set(0, x);
  return Ok();
}

Status reference_Impute(KernelContext& ctx) {
  const auto& a = ctx.attrs<ImputeAttrs>();
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const bool real = is_float(x.dtype());
  const auto count = static_cast<int64_t>(real ? a.floats.size() : a.ints.size());
  const int64_t columns = x.rank() == 0 ? 1 : x.shape()[x.rank() == 1 ? 0 : 1];
  if (count != 1 && count != columns) return InvalidInput(count, " imputed values for ", columns, " columns");
  for (int64_t i = 0; i < x.elements(); ++i) {
    const auto entry = static_cast<size_t>(count == 1 ? 0 : i % columns);
    if (real) {
      const double v = get_double(x, i);
      const bool hit = std::isnan(a.replaced) ? std::isnan(v) : v == a.replaced;
      set_double(y, i, hit ? a.floats[entry] : v);
    } else {
      const int64_t v = get_int(x, i);
      set_int(y, i, v == a.replaced_int ? a.ints[entry] : v);
    }
  }
  return Ok();
}

namespace {
/// Rows and columns of one part of a feature vector: [n, ...], [c] is one row of c.
ml::Rows part(const Shape& s) { return ml::rows_of(s); }
}  // namespace

Status infer_FeatureConcat(InferContext& ctx) {
  const auto& a = ctx.attrs<FeatureConcatAttrs>();
  if (!a.sizes.empty() && static_cast<int>(a.sizes.size()) != ctx.inputs())
    return InvalidModel(a.sizes.size(), " sizes for ", ctx.inputs(), " inputs");
  int64_t rows = -1, columns = 0;
  for (int i = 0; i < ctx.inputs(); ++i) {
    const bool ranked = ctx.input(i).ranked;
    const ml::Rows r = ranked ? part(ctx.input(i).shape) : ml::Rows{-1, -1};
    if (r.count >= 0) {
      if (rows >= 0 && rows != r.count) return InvalidModel("inputs have ", rows, " and ", r.count, " rows");
      rows = r.count;
    }
    const int64_t c = a.sizes.empty() ? r.features : a.sizes[static_cast<size_t>(i)];
    if (columns < 0 || c < 0)
      columns = -1;
    else if (auto sum = checked_add(columns, c))
      columns = *sum;
    else
      return InvalidModel("too many columns");
  }
  ctx.set(0, ValueType::tensor(DType::kF32, Shape{rows, columns}));
  return Ok();
}

Status reference_FeatureConcat(KernelContext& ctx) {
  const auto& a = ctx.attrs<FeatureConcatAttrs>();
  Tensor& y = ctx.output(0);
  const int64_t width = y.dim(1);
  int64_t at = 0;
  for (int i = 0; i < ctx.inputs(); ++i) {
    const ml::Rows r = part(ctx.input(i).shape());
    const auto x = ml::load_rows(ctx.input(i));
    const int64_t take = a.sizes.empty() ? r.features : a.sizes[static_cast<size_t>(i)];
    for (int64_t n = 0; n < r.count; ++n)
      for (int64_t k = 0; k < take; ++k)
        y.data<float>()[n * width + at + k] = k < r.features ? static_cast<float>(x[n * r.features + k]) : 0.0f;
    at += take;
  }
  return Ok();
}

Status infer_LabelEncode(InferContext& ctx) {
  const auto& a = ctx.attrs<LabelEncodeAttrs>();
  ValueType t = ctx.input(0);
  if (t.dtype != DType::kInvalid && t.dtype != a.keys.dtype())
    return InvalidModel("x is ", to_string(t.dtype), ", the keys are ", to_string(a.keys.dtype()));
  t.dtype = a.values.dtype();
  t.quant = nullptr;
  ctx.set(0, t);
  return Ok();
}

namespace {

constexpr const char* kNanKey = "nan";

/// One key as text that is equal exactly for equal keys; every NaN is the same key.
std::string key_of(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::kString) return t.data<std::string>()[i];
  if (is_float(t.dtype())) {
    double v = get_double(t, i);
    if (std::isnan(v)) return kNanKey;
    if (v == 0) v = 0;
    return {reinterpret_cast<const char*>(&v), sizeof v};
  }
  const int64_t v = get_int(t, i);
  return {reinterpret_cast<const char*>(&v), sizeof v};
}

void copy_element(Tensor& to, int64_t i, const Tensor& from, int64_t k) {
  if (to.dtype() == DType::kString) {
    to.data<std::string>()[i] = from.data<std::string>()[k];
  } else {
    const auto width = static_cast<size_t>(bit_width(to.dtype())) / 8;
    std::memcpy(to.data<char>() + static_cast<size_t>(i) * width, from.data<char>() + static_cast<size_t>(k) * width,
                width);
  }
}

}  // namespace

/// Positions of the keys; of equal keys, the last one counts.
struct KeyIndex {
  std::unordered_map<std::string, int64_t> positions;
};

Status reference_LabelEncode(KernelContext& ctx) {
  const auto& a = ctx.attrs<LabelEncodeAttrs>();
  SMELT_ASSIGN(const KeyIndex* const keys, a.index.get([&]() -> Result<KeyIndex> {
    KeyIndex made;
    for (int64_t i = 0; i < a.keys.elements(); ++i) made.positions[key_of(a.keys, i)] = i;
    if (!a.nan_is_key) made.positions.erase(kNanKey);
    return made;
  }));
  const auto& index = keys->positions;
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  for (int64_t i = 0; i < x.elements(); ++i) {
    const auto it = index.find(key_of(x, i));
    copy_element(y, i, it == index.end() ? a.fallback : a.values, it == index.end() ? 0 : it->second);
  }
  return Ok();
}

Status infer_CategoryOneHot(InferContext& ctx) {
  const auto& a = ctx.attrs<CategoryOneHotAttrs>();
  const auto count = static_cast<int64_t>(std::max(a.ints.size(), a.strings.size()));
  ValueType t = ValueType::tensor(DType::kF32);
  const ValueType& x = ctx.input(0);
  if (x.dtype != DType::kInvalid && (x.dtype == DType::kString) == a.strings.empty())
    return InvalidModel("x is ", to_string(x.dtype), ", the categories are not");
  if (x.ranked) {
    if (x.shape.rank() >= Shape::kMaxRank) return InvalidModel("x has rank ", x.shape.rank());
    t = ValueType::tensor(DType::kF32, x.shape);
    t.shape.push_back(count);
  }
  ctx.set(0, t);
  return Ok();
}

Status reference_CategoryOneHot(KernelContext& ctx) {
  const auto& a = ctx.attrs<CategoryOneHotAttrs>();
  const Tensor& x = ctx.input(0);
  float* y = ctx.output(0).data<float>();
  const auto count = static_cast<int64_t>(std::max(a.ints.size(), a.strings.size()));
  std::unordered_map<std::string, int64_t> strings;
  std::unordered_map<int64_t, int64_t> ints;
  for (size_t i = 0; i < a.strings.size(); ++i) strings[a.strings[i]] = static_cast<int64_t>(i);
  for (size_t i = 0; i < a.ints.size(); ++i) ints[a.ints[i]] = static_cast<int64_t>(i);
  for (int64_t i = 0; i < x.elements(); ++i) {
    int64_t at = -1;
    if (x.dtype() == DType::kString) {
      if (const auto it = strings.find(x.data<std::string>()[i]); it != strings.end()) at = it->second;
    } else if (const auto it = ints.find(get_int(x, i)); it != ints.end()) {
      at = it->second;
    }
    if (at < 0 && !a.zeros) return InvalidInput("element ", i, " is none of the categories");
    if (at >= 0) y[i * count + at] = 1;
  }
  return Ok();
}

}  // namespace smelt
