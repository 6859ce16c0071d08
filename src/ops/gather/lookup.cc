#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/gather/gather.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/rules.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// A number of any real type as an integer; nullopt when not one finite number.
std::optional<int64_t> whole_number(const Tensor& t) {
  if (t.elements() < 1) return std::nullopt;
  if (!is_float(t.dtype())) return get_int(t, 0);
  const double v = get_double(t, 0);
  if (!(v > -9e18 && v < 9e18)) return std::nullopt;
  return static_cast<int64_t>(v);
}

constexpr int64_t kMaxDepth = int64_t{1} << 40;

}  // namespace

Status infer_OneHot(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 3));
  if (ctx.has(3)) SMELT_TRY(same_dtype(ctx, 2, 3));
  const ValueType &indices = ctx.input(0), &on = ctx.input(2);
  if (!indices.ranked) {
    ctx.set(0, like_unranked(on));
    return Ok();
  }
  if (indices.shape.rank() == Shape::kMaxRank) return Unsupported("a rank above ", Shape::kMaxRank);
  SMELT_ASSIGN(const int axis, axis_of(ctx.attrs<OneHotAttrs>().axis, indices.shape.rank() + 1));
  Shape out = indices.shape;
  int64_t depth = -1;
  if (const Tensor* t = ctx.constant(1)) {
    auto d = whole_number(*t);
    if (!d || *d < 0 || *d > kMaxDepth) return InvalidModel("the depth is not a size");
    depth = *d;
  }
  out.insert(axis, depth);
  ctx.set(0, like(on, out));
  return Ok();
}

Status reference_OneHot(KernelContext& ctx) {
  const auto& a = ctx.attrs<OneHotAttrs>();
  const Tensor &indices = ctx.input(0), &on = ctx.input(2);
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(const int axis, axis_of(a.axis, y.rank()));
  const int64_t depth = y.dim(axis);
  const bool both = !ctx.has(3);  // input 2 is [off, on]
  if (on.elements() < (both ? 2 : 1)) return InvalidInput("the values have ", on.elements(), " elements");
  if (!both && ctx.input(3).elements() < 1) return InvalidInput("the off value is empty");
  const CopySource hot(on), cold(both ? on : ctx.input(3));
  CopyTarget target(y);
  fill_run(cold, 0, target, 0, y.elements());
  if (y.elements() == 0) return Ok();
  const int64_t inner = Around(y.shape(), axis).inner;
  for (int64_t i = 0; i < indices.elements(); ++i) {
    int64_t index = is_float(indices.dtype()) ? static_cast<int64_t>(std::clamp(get_double(indices, i), -9e18, 9e18))
                                              : get_int(indices, i);
    if (index < 0 && a.wrap_negative && index >= -depth) index += depth;
    if (index < 0 || index >= depth) continue;
    copy_run(hot, both ? 1 : 0, target, (i / inner * depth + index) * inner + i % inner, 1);
  }
  return Ok();
}

namespace {

/// Real value of element i of a table: dequantized where it is quantized.
class TableReader {
 public:
  explicit TableReader(const Tensor& t) : t_(t), quant_(is_integer(t.dtype()) ? t.quant().get() : nullptr) {
    if (quant_ && quant_->kind != Quantization::Kind::kPerTensor && quant_->axis < t.rank()) {
      inner_ = Around(t.shape(), quant_->axis).inner;
      extent_ = t.dim(quant_->axis);
      block_ = quant_->kind == Quantization::Kind::kPerBlock ? std::max<int64_t>(1, quant_->block) : 1;
    }
  }
  double operator[](int64_t i) const {
    if (!quant_) return get_double(t_, i);
    const int64_t s = parameter(i);
    return static_cast<double>(static_cast<float>(get_int(t_, i) - quant_->zero_point(s)) * quant_->scale(s));
  }

 private:
  int64_t parameter(int64_t i) const {
    if (quant_->scales.size() == 1) return 0;
    const int64_t along = i / inner_ % extent_;
    if (quant_->kind != Quantization::Kind::kPerBlock) return along;
    const int64_t blocks = (extent_ + block_ - 1) / block_;
    return (i / inner_ / extent_ * blocks + along / block_) * inner_ + i % inner_;
  }
  const Tensor& t_;
  const Quantization* quant_;
  int64_t inner_ = 1, extent_ = 1, block_ = 1;
};

}  // namespace

Status infer_EmbeddingLookup(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 2));
  const ValueType &ids = ctx.input(0), &table = ctx.input(1);
  const ValueType& declared = ctx.declared(0);
  ValueType out = like_unranked(table);
  if (declared.dtype != DType::kInvalid && declared.dtype != table.dtype) {
    out.dtype = declared.dtype;
    out.quant = declared.quant;
  }
  if (table.ranked && table.shape.rank() < 1) return InvalidModel("the table is a scalar");
  if (ids.ranked && table.ranked) {
    if (ids.shape.rank() + table.shape.rank() - 1 > Shape::kMaxRank) return Unsupported("a rank above 16");
    out.ranked = true;
    out.shape = ids.shape;
    for (int i = 1; i < table.shape.rank(); ++i) out.shape.push_back(table.shape[i]);
  }
  ctx.set(0, out);
  return Ok();
}

Status reference_EmbeddingLookup(KernelContext& ctx) {
  const auto ids = ints_of(ctx.input(0));
  const Tensor& table = ctx.input(1);
  Tensor& y = ctx.output(0);
  if (y.elements() == 0) return Ok();
  const int64_t rows = table.dim(0), run = Around(table.shape(), 0).inner;
  for (int64_t id : ids) SMELT_TRY(index_of(id, rows, false));
  if (y.dtype() == table.dtype()) {
    const CopySource source(table);
    CopyTarget target(y);
    for (size_t i = 0; i < ids.size(); ++i) copy_run(source, ids[i] * run, target, static_cast<int64_t>(i) * run, run);
    return Ok();
  }
  if (!is_float(y.dtype())) return Unsupported("rows of ", to_string(table.dtype()), " as ", to_string(y.dtype()));
  const TableReader reader(table);
  for (size_t i = 0; i < ids.size(); ++i)
    for (int64_t k = 0; k < run; ++k) set_double(y, static_cast<int64_t>(i) * run + k, reader[ids[i] * run + k]);
  return Ok();
}

Status infer_EmbeddingLookupSparse(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 5));
  const ValueType& table = ctx.input(4);
  auto dense = ctx.ints(2);
  const DType dtype = is_float(table.dtype) ? table.dtype : DType::kF32;
  if (!table.ranked) {
    ctx.set(0, ValueType::tensor(dtype));
    return Ok();
  }
  const auto rank = dense ? std::optional<int64_t>(static_cast<int64_t>(dense->size())) : entries_of(ctx, 2);
  if (!rank) {
    ctx.set(0, ValueType::tensor(dtype));
    return Ok();
  }
  if (*rank < 1 || table.shape.rank() < 1 || *rank - 1 + table.shape.rank() - 1 > Shape::kMaxRank)
    return InvalidModel("a lookup of rank ", *rank, " in a table of rank ", table.shape.rank());
  Shape out;
  for (int64_t i = 0; i + 1 < *rank; ++i) {
    if (dense && (*dense)[static_cast<size_t>(i)] < 0) return InvalidModel("a negative dense shape");
    out.push_back(dense ? (*dense)[static_cast<size_t>(i)] : -1);
  }
  for (int i = 1; i < table.shape.rank(); ++i) out.push_back(table.shape[i]);
  ctx.set(0, ValueType::tensor(dtype, out));
  return Ok();
}

Status reference_EmbeddingLookupSparse(KernelContext& ctx) {
  using Combiner = EmbeddingSparseAttrs::Combiner;
  const Combiner combiner = ctx.attrs<EmbeddingSparseAttrs>().combiner;
  const auto ids = ints_of(ctx.input(0)), indices = ints_of(ctx.input(1)), dense = ints_of(ctx.input(2));
  const Tensor &weights = ctx.input(3), &table = ctx.input(4);
  Tensor& y = ctx.output(0);
  const size_t rank = dense.size();
  if (indices.size() != ids.size() * rank || weights.elements() != static_cast<int64_t>(ids.size()))
    return InvalidInput(ids.size(), " ids with ", indices.size(), " indices and ", weights.elements(), " weights");
  const int64_t run = Around(table.shape(), 0).inner;
  const int64_t buckets = run == 0 ? 0 : y.elements() / run;
  std::vector<double> sum(static_cast<size_t>(y.elements()), 0);
  double total = 0, squares = 0;
  int64_t open = -1;  // the bucket of the ids before
  // As in TFLite a bucket is divided when ids of another follow, so indices out of order divide it more than once.
  const auto close = [&] {
    if (open < 0 || combiner == Combiner::kSum) return;
    const double divisor = combiner == Combiner::kMean ? total : std::sqrt(squares);
    for (int64_t k = 0; k < run; ++k) sum[static_cast<size_t>(open * run + k)] /= divisor;
  };
  if (buckets == 0) return Ok();
  const TableReader reader(table);
  for (size_t i = 0; i < ids.size(); ++i) {
    SMELT_ASSIGN(const int64_t row, index_of(ids[i], table.dim(0), false));
    int64_t bucket = 0;
    for (size_t k = 0; k + 1 < rank; ++k) {
      SMELT_ASSIGN(const int64_t p, index_of(indices[i * rank + k], dense[k], false));
      bucket = bucket * dense[k] + p;
    }
    const double w = get_double(weights, static_cast<int64_t>(i));
    if (bucket != open) {
      close();
      total = squares = 0;
      open = bucket;
    }
    total += w;
    squares += w * w;
    for (int64_t k = 0; k < run; ++k) sum[static_cast<size_t>(bucket * run + k)] += w * reader[row * run + k];
  }
  close();
  for (int64_t i = 0; i < y.elements(); ++i) set_double(y, i, sum[static_cast<size_t>(i)]);
  return Ok();
}

Status infer_HashtableLookup(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 3));
  const ValueType &queries = ctx.input(0), &keys = ctx.input(1), &values = ctx.input(2);
  const auto n = entries_of(ctx, 0), k = entries_of(ctx, 1);
  if (values.ranked && values.shape.rank() < 1) return InvalidModel("the values are a scalar");
  if (values.ranked && k && values.shape[0] >= 0 && values.shape[0] != *k)
    return InvalidModel(*k, " keys for ", values.shape[0], " values");
  if (queries.dtype != keys.dtype && queries.dtype != DType::kInvalid && keys.dtype != DType::kInvalid)
    return InvalidModel("queries and keys differ in element type");
  if (values.ranked) {
    Shape out = values.shape;
    out[0] = n.value_or(-1);
    ctx.set(0, like(values, out));
  } else {
    ctx.set(0, like_unranked(values));
  }
  ctx.set(1, ValueType::tensor(DType::kU8, Shape{n.value_or(-1)}));
  return Ok();
}

Status reference_HashtableLookup(KernelContext& ctx) {
  const auto queries = ints_of(ctx.input(0)), keys = ints_of(ctx.input(1));
  const Tensor& values = ctx.input(2);
  const int64_t run = Around(values.shape(), 0).inner;
  std::vector<int64_t> found(queries.size(), -1);
  for (size_t i = 0; i < queries.size(); ++i) {
    const auto at = std::lower_bound(keys.begin(), keys.end(), queries[i]);
    if (at != keys.end() && *at == queries[i]) found[i] = at - keys.begin();
    if (ctx.wants(1)) ctx.output(1).data<uint8_t>()[i] = found[i] >= 0;
  }
  if (!ctx.wants(0)) return Ok();
  const CopySource source(values), zero(zero_element(values.dtype()));
  CopyTarget target(ctx.output(0));
  for (size_t i = 0; i < queries.size(); ++i) {
    const int64_t to = static_cast<int64_t>(i) * run;
    if (found[i] >= 0)
      copy_run(source, found[i] * run, target, to, run);
    else
      fill_run(zero, 0, target, to, run);
  }
  return Ok();
}

}  // namespace smelt
