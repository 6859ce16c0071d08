#include "ops/reduce/reduce.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "ops/common/complex_view.h"
#include "ops/common/infer.h"
#include "ops/common/real.h"
#include "ops/core/op.h"
#include "ops/reduce/plan.h"
#include "ops/reduce/reduce_quantized.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

std::vector<int64_t> all_axes(int rank) {
  std::vector<int64_t> axes;
  for (int d = 0; d < rank; ++d) axes.push_back(d);
  return axes;
}

/// Axes to reduce, ascending. Without given axes: all, or none with noop_with_empty_axes.
Result<std::vector<int>> reduced_axes(const ReduceAttrs& attrs, const std::vector<int64_t>* given, int rank) {
  if (!given || given->empty()) {
    if (attrs.noop_with_empty_axes) return std::vector<int>{};
    return normalize_axes(all_axes(rank), rank);
  }
  // A scalar accepts axis 0 and -1.
  if (rank == 0) {
    for (int64_t a : *given)
      if (a != 0 && a != -1) return InvalidInput("axis ", a, " is out of range for a scalar");
    return std::vector<int>{};
  }
  return normalize_axes(*given, rank);
}

template <class F>
void fold(const ReducePlan& plan, const double* x, double* acc, F&& f) {
  plan.each_row([&](int64_t in, int64_t out, int64_t n, bool reduced) {
    if (reduced) {
      double a = acc[out];
      for (int64_t i = 0; i < n; ++i) a = f(a, x[in + i]);
      acc[out] = a;
    } else {
      for (int64_t i = 0; i < n; ++i) acc[out + i] = f(acc[out + i], x[in + i]);
    }
  });
}

/// Sums of float32 data in double precision.
void sum_floats(const ReducePlan& plan, const float* x, double* acc) {
  plan.each_row([&](int64_t in, int64_t out, int64_t n, bool reduced) {
    const float* p = x + in;
    if (!reduced) {
      for (int64_t i = 0; i < n; ++i) acc[out + i] += p[i];
      return;
    }
    double lane[4] = {};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
      for (int k = 0; k < 4; ++k) lane[k] += p[i + k];
    for (; i < n; ++i) lane[0] += p[i];
    acc[out] += (lane[0] + lane[1]) + (lane[2] + lane[3]);
  });
}

double first_value(Reduction fn) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  switch (fn) {
    case Reduction::kMax:
      return -inf;
    case Reduction::kMin:
      return inf;
    case Reduction::kProd:
    case Reduction::kAll:
      return 1;
    default:
      return 0;
  }
}

std::vector<double> variance(const ReducePlan& plan, const double* x, double correction) {
  std::vector<double> mean(static_cast<size_t>(plan.outputs()), 0.0), sum(mean);
  fold(plan, x, mean.data(), [](double a, double v) { return a + v; });
  const auto n = static_cast<double>(plan.count());
  for (double& m : mean) m /= n;
  plan.each([&](int64_t in, int64_t out) {
    const double d = x[in] - mean[static_cast<size_t>(out)];
    sum[static_cast<size_t>(out)] += d * d;
  });
  for (double& s : sum) s /= std::max(n - correction, 0.0);
  return sum;
}

/// log(sum(exp(x))). `integers`: as in ONNX Runtime the exponentials, relative to the largest value, and the logarithm
/// are truncated to integers.
std::vector<double> log_sum_exp(const ReducePlan& plan, const double* x, bool integers) {
  std::vector<double> largest(static_cast<size_t>(plan.outputs()), -std::numeric_limits<double>::infinity());
  fold(plan, x, largest.data(), [](double a, double v) { return v > a || v != v ? v : a; });
  std::vector<double> sum(largest.size(), 0.0);
  const auto base = [&](int64_t out) {
    const double m = largest[static_cast<size_t>(out)];
    return std::isinf(m) ? 0.0 : m;
  };
  const auto whole = [&](double v) { return integers ? std::trunc(v) : v; };
  plan.each([&](int64_t in, int64_t out) { sum[static_cast<size_t>(out)] += whole(std::exp(x[in] - base(out))); });
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = whole(std::log(sum[i])) + base(static_cast<int64_t>(i));
  return sum;
}

}  // namespace

std::vector<double> reduce_doubles(const ReduceAttrs& attrs, const ReducePlan& plan, const double* x, bool integers) {
  if (attrs.fn == Reduction::kLogSumExp) return log_sum_exp(plan, x, integers);
  if (attrs.fn == Reduction::kVar || attrs.fn == Reduction::kStd) {
    auto v = variance(plan, x, attrs.correction);
    if (attrs.fn == Reduction::kStd)
      for (double& d : v) d = std::sqrt(d);
    return v;
  }
  std::vector<double> acc(static_cast<size_t>(plan.outputs()), first_value(attrs.fn));
  switch (attrs.fn) {
    case Reduction::kSum:
    case Reduction::kMean:
    case Reduction::kLogSum:
      fold(plan, x, acc.data(), [](double a, double v) { return a + v; });
      break;
    case Reduction::kMax:
      fold(plan, x, acc.data(), [](double a, double v) { return v > a || v != v ? v : a; });
      break;
    case Reduction::kMin:
      fold(plan, x, acc.data(), [](double a, double v) { return v < a || v != v ? v : a; });
      break;
    case Reduction::kProd:
      fold(plan, x, acc.data(), [](double a, double v) { return a * v; });
      break;
    case Reduction::kAny:
      fold(plan, x, acc.data(), [](double a, double v) { return a != 0 || v != 0 ? 1.0 : 0.0; });
      break;
    case Reduction::kAll:
      fold(plan, x, acc.data(), [](double a, double v) { return a != 0 && v != 0 ? 1.0 : 0.0; });
      break;
    case Reduction::kL1:
      fold(plan, x, acc.data(), [](double a, double v) { return a + std::fabs(v); });
      break;
    default:  // kL2, kSumSquare
      fold(plan, x, acc.data(), [](double a, double v) { return a + v * v; });
  }
  if (attrs.fn == Reduction::kMean)
    for (double& v : acc) v /= static_cast<double>(plan.count());
  if (attrs.fn == Reduction::kL2)
    for (double& v : acc) v = std::sqrt(v);
  if (attrs.fn == Reduction::kLogSum)
    for (double& v : acc) v = std::log(v);
  return acc;
}

namespace {

/// Functions that are exact on integers, modulo 2^bits; false for those that are computed on reals.
bool reduce_ints(const ReduceAttrs& attrs, const ReducePlan& plan, const Tensor& x, Tensor& y) {
  const uint64_t flip = x.dtype() == DType::kU64 ? uint64_t{1} << 63 : 0;  // maps unsigned order to signed order
  const auto ordered = [flip](int64_t v) { return static_cast<int64_t>(static_cast<uint64_t>(v) ^ flip); };
  std::vector<int64_t> acc(static_cast<size_t>(plan.outputs()), 0);
  const auto run = [&](int64_t first, auto f) {
    std::fill(acc.begin(), acc.end(), first);
    plan.each([&](int64_t in, int64_t out) {
      int64_t& a = acc[static_cast<size_t>(out)];
      a = f(a, get_int(x, in));
    });
  };
  const auto add = [](int64_t a, int64_t v) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(v));
  };
  const auto mul = [](int64_t a, int64_t v) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(v));
  };
  switch (attrs.fn) {
    case Reduction::kSum:
      run(0, add);
      break;
    case Reduction::kMean: {
      run(0, add);
      const int64_t n = std::max<int64_t>(plan.count(), 1);
      for (int64_t& v : acc) v /= n;
      break;
    }
    case Reduction::kMax:
      run(x.dtype() == DType::kU64 ? 0 : int_min(x.dtype()),
          [&](int64_t a, int64_t v) { return ordered(v) > ordered(a) ? v : a; });
      break;
    case Reduction::kMin:
      run(x.dtype() == DType::kU64 ? -1 : int_max(x.dtype()),
          [&](int64_t a, int64_t v) { return ordered(v) < ordered(a) ? v : a; });
      break;
    case Reduction::kProd:
      run(1, mul);
      break;
    case Reduction::kAny:
      run(0, [](int64_t a, int64_t v) { return int64_t{a != 0 || v != 0}; });
      break;
    case Reduction::kAll:
      run(1, [](int64_t a, int64_t v) { return int64_t{a != 0 && v != 0}; });
      break;
    case Reduction::kL1:
      run(0, [&](int64_t a, int64_t v) { return add(a, v < 0 && !flip ? mul(v, -1) : v); });
      break;
    case Reduction::kSumSquare:
      run(0, [&](int64_t a, int64_t v) { return add(a, mul(v, v)); });
      break;
    default:
      return false;
  }
  for (int64_t i = 0; i < plan.outputs(); ++i) set_int(y, i, acc[static_cast<size_t>(i)]);
  return true;
}

Status reduce_complex(Reduction fn, const ReducePlan& plan, const Tensor& x, Tensor& y) {
  if (fn != Reduction::kSum && fn != Reduction::kMean && fn != Reduction::kProd)
    return Unsupported("reduction ", to_string(fn), " is not defined on complex numbers");
  std::vector<std::complex<double>> acc(static_cast<size_t>(plan.outputs()), fn == Reduction::kProd ? 1.0 : 0.0);
  plan.each([&](int64_t in, int64_t out) {
    auto& a = acc[static_cast<size_t>(out)];
    a = fn == Reduction::kProd ? a * get_complex(x, in) : a + get_complex(x, in);
  });
  for (int64_t i = 0; i < plan.outputs(); ++i) {
    auto& a = acc[static_cast<size_t>(i)];
    set_complex(y, i, fn == Reduction::kMean ? a / static_cast<double>(plan.count()) : a);
  }
  return Ok();
}

}  // namespace

Status infer_Reduce(InferContext& ctx) {
  const auto& attrs = ctx.attrs<ReduceAttrs>();
  const ValueType& x = ctx.input(0);
  ValueType type = x;
  type.dtype = result_dtype(ctx);
  if (type.dtype != x.dtype) type.quant = nullptr;
  if (attrs.fn == Reduction::kAny || attrs.fn == Reduction::kAll) type.dtype = DType::kBool;
  if (attrs.accumulate != DType::kInvalid) type.dtype = attrs.accumulate;
  const auto given = ctx.ints(1);
  if (x.ranked && (!ctx.has(1) || given)) {
    SMELT_ASSIGN(const auto axes, reduced_axes(attrs, given ? &*given : nullptr, x.shape.rank()));
    for (size_t k = axes.size(); k-- > 0;) {
      if (attrs.keep_dims)
        type.shape[axes[k]] = 1;
      else
        type.shape.erase(axes[k]);
    }
  } else if (x.ranked && attrs.keep_dims) {
    type.shape = unknown_shape(x.shape.rank());
  } else {
    type.ranked = false;
    type.shape = Shape{};
  }
  ctx.set(0, std::move(type));
  return Ok();
}

Status reference_Reduce(KernelContext& ctx) {
  const auto& attrs = ctx.attrs<ReduceAttrs>();
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  std::vector<int64_t> given;
  if (ctx.has(1)) {
    given.resize(static_cast<size_t>(ctx.input(1).elements()));
    to_ints(ctx.input(1), given.data());
  }
  SMELT_ASSIGN(const auto axes, reduced_axes(attrs, &given, x.rank()));
  const ReducePlan plan(x.shape(), axes);
  if (plan.outputs() != y.elements())
    return InvalidInput("the reduction of ", x.shape().str(), " gives ", plan.outputs(), " elements, not ",
                        y.shape().str());
  if (is_quantized(x) || is_quantized(y)) return reduce_quantized(attrs, plan, x, y);
  if (is_complex(x.dtype())) return reduce_complex(attrs.fn, plan, x, y);
  if (!is_float(x.dtype()) && !is_float(y.dtype()) && reduce_ints(attrs, plan, x, y)) return Ok();
  if (x.dtype() == DType::kF32 && (attrs.fn == Reduction::kSum || attrs.fn == Reduction::kMean)) {
    std::vector<double> acc(static_cast<size_t>(plan.outputs()), 0.0);
    sum_floats(plan, x.data<float>(), acc.data());
    if (attrs.fn == Reduction::kMean)
      for (double& v : acc) v /= static_cast<double>(plan.count());
    from_doubles(acc.data(), y);
    return Ok();
  }
  std::vector<double> values(static_cast<size_t>(x.elements()));
  to_doubles(x, values.data());
  const std::vector<double> r =
      reduce_doubles(attrs, plan, values.data(), !is_float(x.dtype()) && !is_float(y.dtype()));
  from_doubles(r.data(), y);
  return Ok();
}

}  // namespace smelt
