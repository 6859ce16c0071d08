// Maps of ai.onnx.ml. A sequence of maps with equal keys is one map of keys [c] to values [n, c].
#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "ops/ml/scores.h"
#include "tensor/numeric.h"

namespace smelt {

namespace {

Tensor key_tensor(const ClassLabels& keys) {
  const Shape shape{static_cast<int64_t>(keys.size())};
  if (keys.strings.empty()) return Tensor::from<int64_t>(DType::kI64, shape, keys.ints);
  return Tensor::from<std::string>(DType::kString, shape, keys.strings);
}

/// The tensors of a map; an error unless there is one value for each key.
struct Map {
  const Tensor* keys;
  const Tensor* values;
};
Result<Map> open_map(const Datum& d) {
  if (d.kind != Datum::Kind::kMap || !d.items || d.items->size() != 2 || !(*d.items)[0].is_tensor() ||
      !(*d.items)[1].is_tensor())
    return InvalidInput("the input is no map");
  const Map m{&(*d.items)[0].tensor, &(*d.items)[1].tensor};
  if (m.keys->elements() != m.values->elements())
    return InvalidInput("the map has ", m.keys->elements(), " keys and ", m.values->elements(), " values");
  return m;
}

std::string print(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::kString) return t.data<std::string>()[i];
  if (is_integer(t.dtype())) return Cat(get_int(t, i));
  return Cat(static_cast<float>(get_double(t, i)));
}

Status convert(const Tensor& from, int64_t i, Tensor& to, int64_t k) {
  if (to.dtype() == DType::kString) {
    to.data<std::string>()[k] = print(from, i);
  } else if (from.dtype() == DType::kString) {
    const std::string& s = from.data<std::string>()[i];
    char* end = nullptr;
    const double v = std::strtod(s.c_str(), &end);
    if (end == s.c_str()) return InvalidInput("'", s, "' is not a number");
    set_double(to, k, v);
  } else if (is_integer(from.dtype()) && is_integer(to.dtype())) {
    set_int(to, k, get_int(from, i));
  } else {
    set_double(to, k, get_double(from, i));
  }
  return Ok();
}

}  // namespace

Status infer_ZipMap(InferContext& ctx) {
  const auto& a = ctx.attrs<MapAttrs>();
  ValueType map;
  map.kind = ValueType::Kind::kMap;
  map.dtype = a.keys.strings.empty() ? DType::kI64 : DType::kString;
  map.element = std::make_shared<const ValueType>(ValueType::tensor(DType::kF32));
  ctx.set(0, ValueType::sequence(std::move(map)));
  return Ok();
}

Status reference_ZipMap(KernelContext& ctx) {
  const auto& a = ctx.attrs<MapAttrs>();
  const Tensor& x = ctx.input(0);
  const auto count = static_cast<int64_t>(a.keys.size());
  if (x.rank() < 1 || x.rank() > 2 || x.shape().back() != count)
    return InvalidInput("scores have shape ", x.shape().str(), " for ", count, " keys");
  const int64_t rows = x.rank() == 2 ? x.dim(0) : 1;
  ctx.set_output(0, Datum::map(key_tensor(a.keys), x.reshaped(Shape{rows, count})));
  return Ok();
}

Status infer_MapToTensor(InferContext& ctx) {
  const auto& a = ctx.attrs<MapAttrs>();
  ctx.set(0, ValueType::tensor(a.to, Shape{1, a.sparse ? a.max_map : -1}));
  return Ok();
}

Status reference_MapToTensor(KernelContext& ctx) {
  const auto& a = ctx.attrs<MapAttrs>();
  SMELT_ASSIGN(const Map m, open_map(ctx.datum(0)));
  if (m.keys->dtype() == DType::kString) return InvalidInput("the map's keys are strings, integers expected");
  const int64_t n = m.keys->elements();
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t p, int64_t q) { return get_int(*m.keys, p) < get_int(*m.keys, q); });
  SMELT_ASSIGN(Tensor * out, ctx.allocate(0, a.to, Shape{1, a.sparse ? a.max_map : n}));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t key = get_int(*m.keys, order[static_cast<size_t>(i)]);
    if (a.sparse && (key < 0 || key >= a.max_map)) return InvalidInput("key ", key, " is not in [0, ", a.max_map, ")");
    SMELT_TRY(convert(*m.values, order[static_cast<size_t>(i)], *out, a.sparse ? key : i));
  }
  return Ok();
}

Status infer_DictVectorize(InferContext& ctx) {
  const auto& a = ctx.attrs<MapAttrs>();
  ctx.set(0, ValueType::tensor(a.to, Shape{1, static_cast<int64_t>(a.keys.size())}));
  return Ok();
}

Status reference_DictVectorize(KernelContext& ctx) {
  const auto& a = ctx.attrs<MapAttrs>();
  SMELT_ASSIGN(const Map m, open_map(ctx.datum(0)));
  const Tensor vocabulary = key_tensor(a.keys);
  std::unordered_map<std::string, int64_t> index;
  for (int64_t i = 0; i < vocabulary.elements(); ++i) index[print(vocabulary, i)] = i;
  SMELT_ASSIGN(Tensor * out, ctx.allocate(0, a.to, Shape{1, vocabulary.elements()}));
  for (int64_t i = 0; i < m.keys->elements(); ++i) {
    const auto it = index.find(print(*m.keys, i));
    if (it != index.end()) SMELT_TRY(convert(*m.values, i, *out, it->second));
  }
  return Ok();
}

}  // namespace smelt
