// Lookups, reductions and sorting as ATen calls.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "formats/executorch/writer/call_writer.h"
#include "ops/gather/gather.h"
#include "ops/reduce/reduce.h"
#include "ops/resize/resize.h"
#include "ops/sort/sort.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::executorch {
namespace {

/// int64 indices without negative ones, which count from the end of a dimension of `extent`. `narrow`: int32 stays.
int wrapped(CallWriter& w, int i, bool negative, int64_t extent, bool narrow = false) {
  if (const Tensor* t = w.constant(i)) {
    std::vector<int64_t> v(static_cast<size_t>(t->elements()));
    to_ints(*t, v.data());
    for (int64_t& at : v)
      if (negative && at < 0) at += extent;
    return int64_constant(w, v, t->shape());
  }
  const int given = w.in(i);
  const int x = narrow && w.dtype(given) == DType::kI32 ? given : w.cast(given, DType::kI64);
  if (!negative) return x;
  return w.select(
      {w.compare("lt", x, w.number_like(x, 0)), w.add(x, w.number_like(x, static_cast<double>(extent))), x});
}

}  // namespace

bool call_gather(CallWriter& w) {
  const auto& a = w.attrs<GatherAttrs>();
  const int rank = w.rank(0);
  if (a.batch_dims != 0 || rank < 1 || !moves_integers(w)) return false;
  const int64_t axis = axis_of(a.axis, rank), extent = w.in_type(0).shape[static_cast<int>(axis)];
  const Shape indices = w.in_type(1).shape;
  const bool rows = rank == 2 && axis == 0 && indices.rank() > 0;
  int at = wrapped(w, 1, a.negative, extent, rows);
  if (rows) {
    const int no_padding = w.plan().integer(-1), no = w.plan().boolean(false), table = w.in(0);
    return w.out(0, w.plan().call("aten::embedding", "out", {table, at, no_padding, no, no}, w.dtype(table),
                                  w.out_type(0).shape));
  }
  at = w.plan().reshape(at, Shape{indices.elements()});
  Shape s = w.in_type(0).shape;
  s[static_cast<int>(axis)] = indices.elements();
  const int dim = w.plan().integer(axis), x = w.in(0);
  const int y = w.plan().call("aten::index_select", "out", {x, dim, at}, w.dtype(x), s);
  return w.out(0, w.plan().reshape(y, w.out_type(0).shape));
}

bool call_gather_elements(CallWriter& w) {
  const auto& a = w.attrs<GatherAttrs>();
  if (!moves_integers(w)) return false;
  const int64_t axis = axis_of(a.axis, w.rank(0));
  const int at = wrapped(w, 1, a.negative, w.in_type(0).shape[static_cast<int>(axis)]);
  const int dim = w.plan().integer(axis), sparse = w.plan().boolean(false);
  return w.move("aten::gather", {w.in(0), dim, at, sparse});
}

namespace {

/// Elements of the comparison of all indices with all places that a scatter with a reduction may have.
constexpr int64_t kMostCompared = int64_t{1} << 24;

/// How updates join each other and the elements in place.
struct Joined {
  const char* call;
  const char* reduction;
  double neutral;
};

/// nullopt for another reduction.
std::optional<Joined> joined(ScatterAttrs::Reduce reduction, DType dtype) {
  using Reduce = ScatterAttrs::Reduce;
  const bool real = is_float(dtype);
  switch (reduction) {
    case Reduce::kMul:
      return Joined{"mul", "prod", 1};
    case Reduce::kMax:
      return Joined{"maximum", "amax", real ? -INFINITY : static_cast<double>(int_min(dtype))};
    case Reduce::kMin:
      return Joined{"minimum", "amin", real ? INFINITY : static_cast<double>(int_max(dtype))};
    default:
      return std::nullopt;
  }
}

/// What the updates of each place are along `axis`, which counts updates, where `hit` says which place takes which.
int joined_updates(CallWriter& w, const Joined& how, int hit, int updates, int64_t axis) {
  const int all = w.select(hit, updates, w.number_like(updates, how.neutral));
  if (how.reduction != std::string_view("prod")) return w.reduce(how.reduction, all, {axis}, false);
  Shape s = w.shape(all);
  s.erase(static_cast<int>(axis));
  PlanWriter& p = w.plan();
  const int dim = p.integer(axis), keep = p.boolean(false);
  return p.call("aten::prod", "int_out", {all, dim, keep, p.null()}, w.dtype(all), s);
}

/// A scatter along one axis whose updates are joined.
bool joined_scatter(CallWriter& w, const Joined& how, int at, int64_t axis) {
  PlanWriter& p = w.plan();
  const Shape x = w.in_type(0).shape;
  const int d = static_cast<int>(axis);
  Shape each = w.shape(at), places = Shape::of_rank(x.rank() + 1, 1);
  if (each.elements() == 0 || each.elements() > kMostCompared / std::max<int64_t>(x[d], 1)) return false;
  each.insert(d + 1, 1);
  places[d + 1] = x[d];
  std::vector<int64_t> steps(static_cast<size_t>(x[d]));
  std::iota(steps.begin(), steps.end(), 0);
  const int hit = w.compare("eq", {p.reshape(at, each), int64_constant(w, steps, places)});
  int y = joined_updates(w, how, hit, p.reshape(w.in(2), each), axis);
  for (int k = 0; k < x.rank(); ++k) y = bordered(w, y, k, 0, x[k] - w.shape(y)[k], how.neutral);
  return w.out(0, w.binary(how.call, w.in(0), y));
}

}  // namespace

bool call_scatter_elements(CallWriter& w) {
  using Reduce = ScatterAttrs::Reduce;
  const auto& a = w.attrs<ScatterAttrs>();
  const auto how = joined(a.reduction, w.in_type(0).dtype);
  if (!moves_integers(w) || (a.reduction != Reduce::kNone && a.reduction != Reduce::kAdd && !how) || !a.include_self)
    return false;
  const int64_t axis = axis_of(a.axis, w.rank(0));
  const int at = wrapped(w, 1, true, w.in_type(0).shape[static_cast<int>(axis)]);
  const int dim = w.plan().integer(axis);
  if (how) return !w.in_type(0).quant && joined_scatter(w, *how, at, axis);
  if (a.reduction == Reduce::kAdd) return w.move("aten::scatter_add", {w.in(0), dim, at, w.in(2)});
  return w.move("aten::scatter", {w.in(0), dim, at, w.in(2)}, "src_out");
}

namespace {

/// Where the rows that input `i` names begin, counted in rows: tuples of coordinates into dimensions `from` and on of
/// `shape`, for each of the first `from` dimensions.
int row_numbers(CallWriter& w, int i, const Shape& shape, int from) {
  const int at = w.cast(w.in(i), DType::kI64);
  const Shape tuples = w.shape(at);
  const int count = static_cast<int>(tuples.back());
  std::vector<int64_t> strides(static_cast<size_t>(count), 1), extents;
  for (int k = 0; k < count; ++k) extents.push_back(shape[from + k]);
  for (int k = count - 2; k >= 0; --k)
    strides[static_cast<size_t>(k)] = strides[static_cast<size_t>(k) + 1] * extents[static_cast<size_t>(k) + 1];
  const int extent = int64_constant(w, extents, Shape{count});
  const int positive = w.select({w.compare("lt", at, w.number_like(at, 0)), w.add(at, extent), at});
  const int offsets = w.mul(positive, int64_constant(w, strides, Shape{count}));
  int rows = w.reduce("sum", offsets, {tuples.rank() - 1}, false);
  if (from > 0) {
    int64_t batches = 1;
    for (int d = 0; d < from; ++d) batches *= shape[d];
    const int64_t each = std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
    std::vector<int64_t> first(static_cast<size_t>(batches));
    for (int64_t b = 0; b < batches; ++b) first[static_cast<size_t>(b)] = b * each;
    Shape s = w.shape(rows);
    for (int d = from; d < s.rank(); ++d) s[d] = 1;
    rows = w.add(rows, int64_constant(w, first, s));
  }
  return w.plan().reshape(rows, Shape{w.shape(rows).elements()});
}

/// The tensor as rows [rows, rest], where the first `dims` dimensions count rows.
Shape as_rows(const Shape& s, int dims) {
  Shape out{1, 1};
  for (int d = 0; d < s.rank(); ++d) out[d < dims ? 0 : 1] *= s[d];
  return out;
}

}  // namespace

bool call_gather_nd(CallWriter& w) {
  const int batch = static_cast<int>(w.attrs<GatherAttrs>().batch_dims);
  const Shape s = w.in_type(0).shape, tuples = w.in_type(1).shape;
  if (!moves_integers(w) || tuples.rank() < 1 || tuples.back() < 1 || batch + tuples.back() > s.rank()) return false;
  const int rows = row_numbers(w, 1, s, batch), flat = static_cast<int>(batch + tuples.back());
  PlanWriter& p = w.plan();
  Shape taken = as_rows(s, flat);
  const int x = p.reshape(w.in(0), taken);
  taken[0] = w.shape(rows)[0];
  const int dim = p.integer(0);
  return w.out(0,
               p.reshape(p.call("aten::index_select", "out", {x, dim, rows}, w.dtype(x), taken), w.out_type(0).shape));
}

bool call_scatter_nd(CallWriter& w) {
  using Reduce = ScatterAttrs::Reduce;
  const auto& a = w.attrs<ScatterAttrs>();
  const Shape s = w.in_type(0).shape, tuples = w.in_type(1).shape;
  const auto how = joined(a.reduction, w.in_type(0).dtype);
  if (!moves_integers(w) || (a.reduction != Reduce::kNone && a.reduction != Reduce::kAdd && !how) ||
      tuples.rank() < 1 || tuples.back() < 1 || tuples.back() > s.rank())
    return false;
  PlanWriter& p = w.plan();
  const int rows = row_numbers(w, 1, s, 0);
  const Shape table = as_rows(s, static_cast<int>(tuples.back()));
  const int x = p.reshape(w.in(0), table), updates = p.reshape(w.in(2), Shape{w.shape(rows)[0], table[1]});
  if (how) {
    const int64_t count = table[0], updated = w.shape(rows)[0];
    if (w.in_type(0).quant || updated == 0 || updated > kMostCompared / std::max<int64_t>(table.elements(), 1))
      return false;
    std::vector<int64_t> steps(static_cast<size_t>(count));
    std::iota(steps.begin(), steps.end(), 0);
    const int hit = w.compare("eq", {p.reshape(rows, Shape{updated, 1, 1}), int64_constant(w, steps, Shape{count, 1})});
    const int y = joined_updates(w, *how, hit, p.reshape(updates, Shape{updated, 1, table[1]}), 0);
    return w.out(0, p.reshape(w.binary(how->call, x, y), s));
  }
  const int places = p.list({rows}, true), accumulate = p.boolean(a.reduction == Reduce::kAdd);
  return w.out(0, p.reshape(w.call("aten::index_put", {x, places, updates, accumulate}), s));
}

/// Rows of the dimensions up to the last one in which the update is narrower go where the clamped starts say.
bool call_dynamic_update_slice(CallWriter& w) {
  const Shape s = w.in_type(0).shape, part = w.in_type(1).shape;
  if (!moves_integers(w)) return false;
  int lead = 0;
  for (int d = 0; d < s.rank(); ++d)
    if (part[d] != s[d]) lead = d + 1;
  if (lead == 0 || part.elements() == 0) return w.out(0, w.in(lead == 0 ? 1 : 0));
  const Shape table = as_rows(s, lead);
  Tensor limits(DType::kI64, Shape{s.rank()}), strides(DType::kI64, Shape{s.rank()}),
      rows(DType::kI64, Shape{as_rows(part, lead)[0]});
  for (int64_t d = s.rank() - 1, stride = 1; d >= 0; --d) {
    const int at = static_cast<int>(d);
    set_int(limits, d, s[at] - part[at]);
    set_int(strides, d, at < lead ? stride : 0);
    stride *= at < lead ? s[at] : 1;
  }
  for (int64_t i = 0; i < rows.elements(); ++i) {
    int64_t row = 0, rest = i;
    for (int d = lead - 1; d >= 0; rest /= part[d--]) row += rest % part[d] * get_int(strides, d);
    set_int(rows, i, row);
  }
  PlanWriter& p = w.plan();
  const int from_zero = w.binary("maximum", {w.cast(w.in(2), DType::kI64), p.number(DType::kI64, 0)});
  const int start = w.binary("minimum", from_zero, p.constant(limits));
  const int first = w.reduce("sum", w.mul(start, p.constant(strides)), {0}, true);
  const int places = p.list({w.add(first, p.constant(rows))}, true), accumulate = p.boolean(false);
  const int updates = p.reshape(w.in(1), Shape{rows.elements(), table[1]});
  return w.out(0, p.reshape(w.call("aten::index_put", {p.reshape(w.in(0), table), places, updates, accumulate}), s));
}

/// Zeros with updates added.
bool call_scatter_new(CallWriter& w) {
  const Shape s = w.out_type(0).shape, tuples = w.in_type(0).shape;
  if (tuples.rank() < 1 || tuples.back() < 1 || tuples.back() > s.rank() || s.elements() == 0 || w.out_type(0).quant)
    return false;
  PlanWriter& p = w.plan();
  const int rows = row_numbers(w, 0, s, 0);
  const Shape table = as_rows(s, static_cast<int>(tuples.back()));
  const bool truth = w.out_type(0).dtype == DType::kBool;
  const int updates = p.reshape(w.in(1), Shape{w.shape(rows)[0], table[1]});
  const int zeros = p.constant(Tensor(w.out_type(0).dtype, table)), places = p.list({rows}, true);
  return !truth && w.out(0, p.reshape(w.call("aten::index_put", {zeros, places, updates, p.boolean(true)}), s));
}

/// Rows of a table, dequantized if the table is quantized.
bool call_embedding_lookup(CallWriter& w) {
  const ValueType& table = w.in_type(1);
  if (table.shape.rank() < 1 || (table.quant && !is_per_tensor(table.quant)) || w.out_type(0).quant) return false;
  const int all = w.in(1), rows = look_up(w, all, w.cast(w.in(0), DType::kI64));
  const int real = table.quant ? w.dequantized(rows, table.quant, table.dtype) : rows;
  return w.out(0, w.plan().reshape(w.cast(real, w.out_type(0).dtype), w.out_type(0).shape));
}

/// Where elements are not 0, as many rows as a run finds.
bool call_non_zero(CallWriter& w) {
  const Shape& s = w.out_type(0).shape;
  const bool rows = w.attrs<NonZeroAttrs>().rows;
  const int x = w.in(0), rank = w.rank(0);
  if (!w.plan().has_bounds() || rank == 0 || is_complex(w.dtype(x)) || w.in_type(0).quant) return false;
  const int y = w.plan().call("aten::nonzero", "out", {x}, DType::kI64, Shape{s[rows ? 0 : 1], rank});
  return w.out(0, rows ? y : w.plan().permute(y, {1, 0}));
}

/// The slices along an axis, or the elements, for which a condition holds.
bool call_compress(CallWriter& w) {
  const int64_t given = w.attrs<AxisAttrs>().axis;
  const bool flat = given == INT64_MIN;
  if (!w.plan().has_bounds() || !moves_integers(w) || w.rank(0) == 0) return false;
  PlanWriter& p = w.plan();
  const int axis = flat ? 0 : static_cast<int>(axis_of(given, w.rank(0)));
  const int x = flat ? p.reshape(w.in(0), Shape{w.in_type(0).shape.elements()}) : w.in(0);
  const Shape s = w.out_type(0).shape;
  const int at = p.call("aten::nonzero", "out", {w.in(1)}, DType::kI64, Shape{s[axis], 1});
  const int dim = p.integer(axis);
  return w.move("aten::index_select", {x, dim, p.reshape(at, Shape{s[axis]})});
}

bool call_grid_sample(CallWriter& w) {
  const auto& a = w.attrs<GridSampleAttrs>();
  if (w.rank(0) != 4 || w.in_type(0).dtype != w.in_type(1).dtype || w.in_type(0).quant) return false;
  PlanWriter& p = w.plan();
  const int mode = p.integer(static_cast<int64_t>(a.mode)), padding = p.integer(static_cast<int64_t>(a.padding));
  return w.emit("aten::grid_sampler_2d", {w.in(0), w.in(1), mode, padding, p.boolean(a.align_corners)});
}

bool call_top_k(CallWriter& w) {
  const auto& a = w.attrs<TopKAttrs>();
  const auto k = w.number(1);
  if (!k || (w.in_type(0).quant && !(moves_integers(w) && is_per_tensor(w.in_type(0).quant)))) return false;
  PlanWriter& p = w.plan();
  const int64_t axis = axis_of(a.axis, w.rank(0));
  Shape s = w.in_type(0).shape;
  s[static_cast<int>(axis)] = static_cast<int64_t>(*k);
  const int values = p.add_tensor(w.in_type(0).dtype, s), places = p.add_tensor(DType::kI64, s);
  const int n = p.integer(static_cast<int64_t>(*k)), dim = p.integer(axis);
  const int largest = p.boolean(a.largest), sorted = p.boolean(a.sorted);
  p.call_to("aten::topk", "values", {w.in(0), n, dim, largest, sorted}, {values, places});
  if (w.wants(0) && !w.out(0, values)) return false;
  return !w.wants(1) || w.out(1, w.cast(places, a.index_dtype));
}

/// indices == 0, 1, ... along a new dimension chooses between two values.
bool call_one_hot(CallWriter& w) {
  const auto& a = w.attrs<OneHotAttrs>();
  const Shape& s = w.out_type(0).shape;
  const int64_t axis = axis_of(a.axis, s.rank()), depth = s[static_cast<int>(axis)];
  int at = w.cast(w.in(0), DType::kI64);
  if (a.wrap_negative)
    at = w.select(
        {w.compare("lt", at, w.number_like(at, 0)), w.add(at, w.number_like(at, static_cast<double>(depth))), at});
  Shape open = w.in_type(0).shape, counted = Shape::of_rank(s.rank(), 1);
  open.insert(static_cast<int>(axis), 1);
  counted[static_cast<int>(axis)] = depth;
  std::vector<int64_t> steps(static_cast<size_t>(depth));
  std::iota(steps.begin(), steps.end(), 0);
  const int hit = w.compare("eq", {w.plan().reshape(at, open), int64_constant(w, steps, counted)});
  int on = -1, off = -1;
  if (w.has(3)) {
    on = w.in(2);
    off = w.in(3);
  } else {
    off = sliced(w, w.in(2), 0, 0, 1, 1);
    on = sliced(w, w.in(2), 0, 1, 2, 1);
  }
  return w.out(0, w.select({hit, w.plan().reshape(on, Shape{}), w.plan().reshape(off, Shape{})}));
}

namespace {

/// The mean of integers, rounded towards zero.
int whole_mean(CallWriter& w, int x, const std::vector<int64_t>& axes, bool keep) {
  if (axes.empty()) return x;
  double n = 1;
  for (const int64_t d : axes) n *= static_cast<double>(w.shape(x)[static_cast<int>(d)]);
  const int sum = w.reduce("sum", w.cast(x, DType::kI64), axes, keep), towards = w.plan().text("trunc");
  const int mean =
      w.plan().call("aten::div", "out_mode", {sum, w.number_like(sum, n), towards}, DType::kI64, w.shape(sum));
  return w.cast(mean, w.dtype(x));
}

}  // namespace

bool call_reduce(CallWriter& w) {
  const auto& a = w.attrs<ReduceAttrs>();
  const int rank = w.rank(0);
  auto axes = w.has(1) ? w.axes(1, rank) : std::optional(std::vector<int64_t>{});
  if (!axes) return false;
  int x = w.real(0);
  if (axes->empty() && !a.noop_with_empty_axes) {
    axes->resize(static_cast<size_t>(rank));
    std::iota(axes->begin(), axes->end(), 0);
  }
  if (a.accumulate != DType::kInvalid) x = w.cast(x, w.result_dtype(0));
  // An empty list means all dimensions to calls, here none.
  const auto all = [&](const std::string& name, int v, bool keep) {
    return axes->empty() ? v : w.reduce(name, v, *axes, keep);
  };
  const bool keep = a.keep_dims;
  switch (a.fn) {
    case Reduction::kSum:
      return w.out(0, all("sum", x, keep));
    case Reduction::kMean:
      return w.out(0, is_float(w.dtype(x)) ? all("mean", x, keep) : whole_mean(w, x, *axes, keep));
    case Reduction::kMax:
      return w.out(0, all("amax", x, keep));
    case Reduction::kMin:
      return w.out(0, all("amin", x, keep));
    case Reduction::kL1:
      return w.out(0, all("sum", w.unary("abs", x), keep));
    case Reduction::kSumSquare:
      return w.out(0, all("sum", w.mul(x, x), keep));
    case Reduction::kL2:
      return w.out(0, w.unary("sqrt", all("sum", w.mul(x, x), keep)));
    case Reduction::kLogSum:
      return w.out(0, w.unary("log", all("sum", x, keep)));
    case Reduction::kLogSumExp: {
      const int top = all("amax", x, true);
      const int sum = w.unary("log", all("sum", w.unary("exp", w.sub(x, top)), keep));
      return w.out(0, w.add(sum, keep ? top : all("amax", x, false)));
    }
    case Reduction::kProd: {
      // One dimension a call, from the last on, so that the others keep their numbers.
      std::ranges::sort(*axes, std::greater<>());
      for (const int64_t d : *axes) {
        Shape s = w.shape(x);
        keep ? void(s[static_cast<int>(d)] = 1) : s.erase(static_cast<int>(d));
        const int dim = w.plan().integer(d), kept = w.plan().boolean(keep);
        x = w.plan().call("aten::prod", "int_out", {x, dim, kept, w.plan().null()}, w.dtype(x), s);
      }
      return w.out(0, x);
    }
    case Reduction::kAny:
    case Reduction::kAll: {
      if (axes->empty()) return w.out(0, w.cast(x, DType::kBool));
      const int dims = w.plan().integers(*axes), kept = w.plan().boolean(keep);
      // ExecuTorch has no all: none is false.
      const bool inverse = a.fn == Reduction::kAll;
      if (inverse) x = w.unary("logical_not", w.cast(x, DType::kBool));
      const int y = w.plan().call("aten::any", "dims_out", {x, dims, kept}, DType::kBool, w.out_type(0).shape);
      return w.out(0, inverse ? w.unary("logical_not", y) : y);
    }
    case Reduction::kVar:
    case Reduction::kStd: {
      double n = 1;
      for (const int64_t d : *axes) n *= static_cast<double>(w.in_type(0).shape[static_cast<int>(d)]);
      const int d = w.sub(x, all("mean", x, true));
      const int y = w.mul({all("sum", w.mul(d, d), keep), w.number_like(x, 1 / (n - a.correction))});
      return w.out(0, a.fn == Reduction::kStd ? w.unary("sqrt", y) : y);
    }
  }
  return false;
}

bool call_arg_reduce(CallWriter& w) {
  const auto& a = w.attrs<ArgReduceAttrs>();
  const auto given = w.has(1) ? w.axes(1, w.rank(0)) : std::optional(std::vector<int64_t>{axis_of(a.axis, w.rank(0))});
  if (!given || given->size() != 1 || (w.in_type(0).quant && !is_per_tensor(w.in_type(0).quant))) return false;
  if (a.select_last && (a.flatten || w.rank(0) < 1)) return false;
  PlanWriter& p = w.plan();
  const int dim = a.flatten ? p.null() : p.integer(given->front()), keep = p.boolean(a.keep_dims);
  const int x = a.select_last ? flipped(w, w.in(0), *given) : w.in(0);
  int y = p.call(a.min ? "aten::argmin" : "aten::argmax", "out", {x, dim, keep}, DType::kI64, w.out_type(0).shape);
  if (a.select_last)
    y = w.sub(w.number_like(y, static_cast<double>(w.shape(x)[static_cast<int>(given->front())] - 1)), y);
  return w.out(0, w.cast(y, a.to));
}

namespace {

/// Products, or largest or smallest elements, of all entries up to each one along `axis`, in rounds that double their
/// reach.
int running(CallWriter& w, int x, int64_t axis, const char* name) {
  const int64_t n = w.shape(x)[static_cast<int>(axis)];
  for (int64_t reach = 1; reach < n; reach *= 2) {
    const int later = w.binary(name, {sliced(w, x, axis, reach, n), sliced(w, x, axis, 0, n - reach)});
    x = concatenated(w, {sliced(w, x, axis, 0, reach), later}, axis);
  }
  return x;
}

/// The element that leaves another one as it is under a function.
double neutral(CumulativeAttrs::Fn fn, DType dtype) {
  using Fn = CumulativeAttrs::Fn;
  if (fn == Fn::kSum || fn == Fn::kProd) return fn == Fn::kProd ? 1 : 0;
  const bool low = fn == Fn::kMax;
  if (is_float(dtype)) return low ? -INFINITY : INFINITY;
  return static_cast<double>(low ? int_min(dtype) : int_max(dtype));
}

}  // namespace

bool call_cumulative(CallWriter& w) {
  using Fn = CumulativeAttrs::Fn;
  const auto& a = w.attrs<CumulativeAttrs>();
  const auto axis = w.axes(1, w.rank(0));
  if (!axis || axis->size() != 1 || a.fn == Fn::kLogSumExp || w.in_type(0).quant) return false;
  const int64_t along = axis->front(), n = w.in_type(0).shape[static_cast<int>(along)];
  int x = w.in(0);
  if (a.reverse) x = flipped(w, x, *axis);
  int y = -1;
  if (a.fn == Fn::kSum) {
    const int dim = w.plan().integer(along);
    y = w.call("aten::cumsum", {x, dim, w.plan().null()});
    if (a.exclusive) y = w.sub(y, x);
  } else {
    if (a.exclusive && n > 0) x = bordered(w, sliced(w, x, along, 0, n - 1), along, 1, 0, neutral(a.fn, w.dtype(x)));
    y = running(w, x, along, a.fn == Fn::kProd ? "mul" : a.fn == Fn::kMax ? "maximum" : "minimum");
  }
  return w.out(0, a.reverse ? flipped(w, y, *axis) : y);
}

}  // namespace smelt::executorch
