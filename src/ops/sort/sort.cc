#include "ops/sort/sort.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/rules.h"
#include "ops/sort/keys.h"

namespace smelt {
namespace {

/// Brings the first `keep` of `order` to the front as PyTorch does, by algorithms that leave ties where they fall.
template <class Before>
void select_unstably(std::vector<int64_t>& order, int64_t keep, bool sorted, Before before) {
  const auto begin = order.begin(), end = order.end();
  if (keep * 64 <= static_cast<int64_t>(order.size())) return std::partial_sort(begin, begin + keep, end, before);
  std::nth_element(begin, begin + keep - 1, end, before);
  if (sorted) std::sort(begin, begin + keep - 1, before);
}

/// Numbers that ascend as floats do, NaN last; both zeros have one.
uint32_t ascending_bits(float v) {
  if (v != v) return UINT32_MAX;
  const auto bits = std::bit_cast<uint32_t>(v == 0 ? 0.0f : v);
  return bits >> 31 != 0 ? ~bits : bits | uint32_t{1} << 31;
}

/// Writes the indices of the first `keep` of a line of numbers, whose neighbours are `step` apart, to the front of
/// `order`; ties: lower index first. `line` is workspace for the line.
void select_floats(const float* x, int64_t step, int64_t keep, bool descending, std::vector<uint64_t>& line,
                   std::vector<int64_t>& order) {
  for (size_t k = 0; k < line.size(); ++k, x += step) {
    const uint32_t bits = ascending_bits(*x);
    line[k] = uint64_t{descending ? ~bits : bits} << 32 | k;
  }
  const auto end = line.begin() + keep;
  if (end != line.end()) std::nth_element(line.begin(), end, line.end());
  std::sort(line.begin(), end);
  std::transform(line.begin(), end, order.begin(), [](uint64_t v) { return static_cast<int64_t>(v & UINT32_MAX); });
}

struct Ordering {
  bool descending = false, sorted = true;
  bool torch_order = false;  ///< else ties: lower index first
};

/// Orders the entries of every line of x along `axis` and writes the first `keep` of each: values to output 0, indices
/// to output 1.
Status order_lines(KernelContext& ctx, int axis, int64_t keep, const Ordering& how) {
  const Tensor& x = ctx.input(0);
  const bool scalar = x.rank() == 0;
  const int64_t extent = scalar ? 1 : x.dim(axis);
  const Around around(x.shape(), axis);
  if (keep < 0 || keep > extent) return InvalidInput(keep, " entries of a dimension of ", extent);
  for (int i = 0; i < 2; ++i)
    if (ctx.wants(i) && ctx.output(i).elements() != around.outer * keep * around.inner)
      return InvalidInput("the number of entries does not fit the planned shape ", ctx.output(i).shape().str());
  if (x.elements() == 0 || keep == 0) return Ok();
  const CopySource source(x);
  std::optional<CopyTarget> values;
  if (ctx.wants(0)) values.emplace(ctx.output(0));
  std::vector<int64_t> order(static_cast<size_t>(extent));
  const bool floats = x.dtype() == DType::kF32 && !x.quant() && !how.torch_order && extent <= INT32_MAX;
  std::vector<uint64_t> line(floats ? order.size() : 0);
  SortKeys keys;
  if (!floats) {
    SMELT_ASSIGN(keys, SortKeys::of(x));
  }
  for (int64_t o = 0; o < around.outer; ++o)
    for (int64_t i = 0; i < around.inner; ++i) {
      const auto at = [&](int64_t k) { return (o * extent + k) * around.inner + i; };
      if (!floats) std::iota(order.begin(), order.end(), int64_t{0});
      const auto before = [&](int64_t a, int64_t b) {
        const int c = keys.compare(at(a), at(b));
        if (c != 0) return how.descending ? c > 0 : c < 0;
        return !how.torch_order && a < b;
      };
      if (floats)
        select_floats(x.data<float>() + at(0), around.inner, keep, how.descending, line, order);
      else if (how.torch_order)
        select_unstably(order, keep, how.sorted, before);
      else
        std::partial_sort(order.begin(), order.begin() + keep, order.end(), before);
      for (int64_t k = 0; k < keep; ++k) {
        const int64_t to = (o * keep + k) * around.inner + i, from = order[static_cast<size_t>(k)];
        if (values) copy_run(source, at(from), *values, to, 1);
        if (ctx.wants(1)) set_int(ctx.output(1), to, from);
      }
    }
  return Ok();
}

}  // namespace

Status infer_TopK(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 2));
  const auto& a = ctx.attrs<TopKAttrs>();
  const ValueType& x = ctx.input(0);
  if (!x.ranked) {
    ctx.set(0, like_unranked(x));
    ctx.set(1, ValueType::tensor(a.index_dtype));
    return Ok();
  }
  Shape out = x.shape;
  const auto k = int_of(ctx, 1);
  if (k && *k < 0) return InvalidModel("k is ", *k);
  if (x.shape.rank() == 0) {
    if (k && *k > 1) return InvalidModel("k is ", *k, " for a scalar");
  } else {
    SMELT_ASSIGN(const int axis, axis_of(a.axis, x.shape.rank()));
    if (k && out[axis] >= 0 && *k > out[axis]) return InvalidModel("k is ", *k, " for a dimension of ", out[axis]);
    out[axis] = k.value_or(-1);
  }
  ctx.set(0, like(x, out));
  ctx.set(1, ValueType::tensor(a.index_dtype, out));
  return Ok();
}

Status reference_TopK(KernelContext& ctx) {
  const auto& a = ctx.attrs<TopKAttrs>();
  const Tensor& x = ctx.input(0);
  if (ctx.input(1).elements() < 1) return InvalidInput("k is empty");
  SMELT_ASSIGN(const int axis, axis_of(a.axis, std::max(x.rank(), 1)));
  return order_lines(ctx, axis, get_int(ctx.input(1), 0),
                     {.descending = a.largest, .sorted = a.sorted, .torch_order = a.torch_order});
}

Status infer_Sort(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const ValueType& x = ctx.input(0);
  if (x.ranked) SMELT_TRY(axis_of(ctx.attrs<SortAttrs>().axis, std::max(x.shape.rank(), 1)));
  ctx.set(0, x);
  ValueType indices = x;
  indices.dtype = DType::kI64;
  indices.quant = nullptr;
  ctx.set(1, indices);
  return Ok();
}

Status reference_Sort(KernelContext& ctx) {
  const auto& a = ctx.attrs<SortAttrs>();
  const Tensor& x = ctx.input(0);
  SMELT_ASSIGN(const int axis, axis_of(a.axis, std::max(x.rank(), 1)));
  return order_lines(ctx, axis, x.rank() == 0 ? 1 : x.dim(axis), {.descending = a.descending});
}

Status infer_Bucketize(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 2));
  ValueType out = ctx.input(0);
  const DType declared = ctx.declared(0).dtype;
  out.dtype = is_integer(declared) ? declared : DType::kI32;
  out.quant = nullptr;
  ctx.set(0, out);
  return Ok();
}

Status reference_Bucketize(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  std::vector<double> boundaries(static_cast<size_t>(ctx.input(1).elements()));
  to_doubles(ctx.input(1), boundaries.data());
  if (!std::is_sorted(boundaries.begin(), boundaries.end())) return InvalidInput("the boundaries do not ascend");
  for (int64_t i = 0; i < x.elements(); ++i) {
    const auto at = std::upper_bound(boundaries.begin(), boundaries.end(), get_double(x, i));
    set_int(ctx.output(0), i, at - boundaries.begin());
  }
  return Ok();
}

Status infer_NonZero(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const ValueType& x = ctx.input(0);
  const int64_t rank = x.ranked ? x.shape.rank() : -1;
  ctx.set(0, ValueType::tensor(DType::kI64, ctx.attrs<NonZeroAttrs>().rows ? Shape{-1, rank} : Shape{rank, -1}));
  return Ok();
}

namespace {

bool is_nonzero(const Tensor& x, int64_t i) {
  if (x.dtype() == DType::kString) return !x.data<std::string>()[i].empty();
  if (x.dtype() == DType::kC64) return x.data<float>()[2 * i] != 0 || x.data<float>()[2 * i + 1] != 0;
  if (x.dtype() == DType::kC128) return x.data<double>()[2 * i] != 0 || x.data<double>()[2 * i + 1] != 0;
  return is_float(x.dtype()) ? get_double(x, i) != 0 : get_int(x, i) != 0;
}

/// Positions of the elements that are not zero, in their order.
std::vector<int64_t> nonzero_elements(const Tensor& x) {
  std::vector<int64_t> found;
  const auto collect = [&](auto&& holds) {
    for (int64_t i = 0; i < x.elements(); ++i)
      if (holds(i)) found.push_back(i);
  };
  if (x.dtype() == DType::kF32)
    collect([p = x.data<float>()](int64_t i) { return p[i] != 0; });
  else if (x.dtype() == DType::kBool)
    collect([p = x.data<char>()](int64_t i) { return p[i] != 0; });
  else
    collect([&](int64_t i) { return is_nonzero(x, i); });
  return found;
}

}  // namespace

Status reference_NonZero(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const bool rows = ctx.attrs<NonZeroAttrs>().rows;
  const std::vector<int64_t> found = nonzero_elements(x);
  const auto n = static_cast<int64_t>(found.size());
  const int rank = x.rank();
  SMELT_ASSIGN(Tensor * y, ctx.allocate(0, DType::kI64, rows ? Shape{n, rank} : Shape{rank, n}));
  const Shape strides = x.shape().strides();
  const int64_t line = rank > 0 ? x.dim(rank - 1) : 1;
  Shape at = Shape::of_rank(rank, 0);
  for (int64_t k = 0, begin = -line; k < n; ++k) {
    int64_t rest = found[static_cast<size_t>(k)];
    if (rest - begin < line) {  // of the line of the one before
      at[rank - 1] = rest - begin;
    } else {
      begin = rest / line * line;
      for (int d = 0; d < rank; ++d) {
        at[d] = rest / strides[d];
        rest %= strides[d];
      }
    }
    for (int d = 0; d < rank; ++d) y->data<int64_t>()[rows ? k * rank + d : d * n + k] = at[d];
  }
  return Ok();
}

}  // namespace smelt
