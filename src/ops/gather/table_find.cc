// TableFind: values by key, as TFLite's hash tables give them.
#include <string>
#include <unordered_map>

#include "ops/core/op.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

Status check(const ValueType& keys, const ValueType& values, const ValueType& queries, const ValueType& otherwise) {
  if (queries.dtype != keys.dtype || values.dtype != otherwise.dtype)
    return InvalidModel("queries ", to_string(queries.dtype), " of keys ", to_string(keys.dtype), ", values ",
                        to_string(values.dtype), " with default ", to_string(otherwise.dtype));
  return Ok();
}

template <class K, class Read>
std::unordered_map<K, int64_t> index_of(const Tensor& keys, Read read) {
  std::unordered_map<K, int64_t> index;
  for (int64_t i = 0; i < keys.elements(); ++i) index.emplace(read(keys, i), i);
  return index;
}

void copy_element(const Tensor& from, int64_t i, Tensor& to, int64_t k) {
  if (to.dtype() == DType::kString)
    to.data<std::string>()[k] = from.data<std::string>()[i];
  else if (is_float(to.dtype()))
    set_double(to, k, get_double(from, i));
  else
    set_int(to, k, get_int(from, i));
}

template <class K, class Read>
void find(KernelContext& ctx, Read read) {
  const Tensor &queries = ctx.input(0), &keys = ctx.input(1), &values = ctx.input(2);
  const auto index = index_of<K>(keys, read);
  Tensor& y = ctx.output(0);
  for (int64_t i = 0; i < queries.elements(); ++i) {
    const auto found = index.find(read(queries, i));
    if (found != index.end())
      copy_element(values, found->second, y, i);
    else
      copy_element(ctx.input(3), 0, y, i);
  }
}

}  // namespace

Status infer_TableFind(InferContext& ctx) {
  SMELT_TRY(check(ctx.input(1), ctx.input(2), ctx.input(0), ctx.input(3)));
  ValueType y = ctx.input(0);
  y.dtype = ctx.input(2).dtype;
  y.quant = ctx.input(2).quant;
  ctx.set(0, std::move(y));
  return Ok();
}

Status reference_TableFind(KernelContext& ctx) {
  const Tensor &keys = ctx.input(1), &values = ctx.input(2), &otherwise = ctx.input(3);
  if (keys.elements() != values.elements())
    return InvalidInput(keys.elements(), " keys and ", values.elements(), " values");
  if (otherwise.elements() < 1) return InvalidInput("the default value is empty");
  if (is_complex(values.dtype())) return Unsupported("a table of complex values");
  if (keys.dtype() == DType::kString)
    find<std::string>(ctx, [](const Tensor& t, int64_t i) { return t.data<std::string>()[i]; });
  else if (is_integer(keys.dtype()))
    find<int64_t>(ctx, [](const Tensor& t, int64_t i) { return get_int(t, i); });
  else
    return Unsupported("keys of ", to_string(keys.dtype()));
  return Ok();
}

}  // namespace smelt
