#include "ops/gather/combine.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include "base/error.h"
#include "tensor/numeric.h"

namespace smelt {

Combiner::Combiner(Tensor& y, const Tensor& updates, Reduce reduction, bool include_self)
    : y_(y), updates_(updates), reduction_(reduction), include_self_(include_self) {
  if (reduction == Reduce::kNone) return;
  if (reduction == Reduce::kMean || !include_self) counts_.assign(static_cast<size_t>(y.elements()), 0);
  if (reduction == Reduce::kMean) {
    accumulators_.resize(static_cast<size_t>(y.elements()));
    to_doubles(y, accumulators_.data());
  }
}

Status Combiner::check(DType dtype, Reduce reduction) {
  if (reduction == Reduce::kNone) return Ok();
  if (dtype == DType::kString || dtype == DType::kInvalid ||
      (is_complex(dtype) && reduction != Reduce::kAdd && reduction != Reduce::kMul))
    return Unsupported("elements of ", to_string(dtype), " cannot be combined by ", to_string(reduction));
  return Ok();
}

namespace {

/// Integers wrap.
int64_t combined_ints(ScatterAttrs::Reduce r, int64_t a, int64_t b, bool is_unsigned) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  if (r == ScatterAttrs::Reduce::kMin || r == ScatterAttrs::Reduce::kMax)
    return is_unsigned ? static_cast<int64_t>(combined<uint64_t>(r, ua, ub)) : combined<int64_t>(r, a, b);
  return static_cast<int64_t>(combined<uint64_t>(r, ua, ub));
}

}  // namespace

void Combiner::combine(int64_t to, int64_t from) {
  const auto at = static_cast<size_t>(to);
  const bool replace = !counts_.empty() && counts_[at]++ == 0 && !include_self_;
  if (reduction_ == Reduce::kMean) {
    accumulators_[at] = replace ? get_double(updates_, from) : accumulators_[at] + get_double(updates_, from);
  } else if (is_float(y_.dtype())) {
    const double u = get_double(updates_, from);
    set_double(y_, to, replace ? u : combined<double>(reduction_, get_double(y_, to), u));
  } else if (y_.dtype() == DType::kBool) {
    const bool a = get_int(y_, to) != 0, b = get_int(updates_, from) != 0;
    const bool any = reduction_ == Reduce::kAdd || reduction_ == Reduce::kMax;
    set_int(y_, to, replace ? b : (any ? a || b : a && b));
  } else {
    const int64_t u = get_int(updates_, from);
    const int64_t v = combined_ints(reduction_, get_int(y_, to), u, y_.dtype() == DType::kU64);
    set_int(y_, to, replace ? u : v);
  }
}

template <class T>
void Combiner::combine_complex(int64_t to, int64_t from, int64_t n) {
  auto* y = reinterpret_cast<std::complex<T>*>(y_.raw());
  const auto* u = reinterpret_cast<const std::complex<T>*>(updates_.raw());
  for (int64_t i = 0; i < n; ++i) {
    const bool replace = !counts_.empty() && counts_[static_cast<size_t>(to + i)]++ == 0 && !include_self_;
    if (replace)
      y[to + i] = u[from + i];
    else
      y[to + i] = reduction_ == Reduce::kAdd ? y[to + i] + u[from + i] : y[to + i] * u[from + i];
  }
}

void Combiner::apply(int64_t to, int64_t from, int64_t n) {
  if (reduction_ == Reduce::kNone) {
    const int bits = bit_width(y_.dtype());
    if (bits == 0) {
      std::copy_n(updates_.data<std::string>() + from, n, y_.data<std::string>() + to);
    } else if (bits >= 8) {
      const int64_t unit = bits / 8;
      if (n > 0)
        std::memcpy(y_.data<char>() + to * unit, updates_.data<char>() + from * unit, static_cast<size_t>(n * unit));
    } else {
      for (int64_t i = 0; i < n; ++i) {
        if (is_float(y_.dtype()))
          set_double(y_, to + i, get_double(updates_, from + i));
        else
          set_int(y_, to + i, get_int(updates_, from + i));
      }
    }
    return;
  }
  if (y_.dtype() == DType::kC64) return combine_complex<float>(to, from, n);
  if (y_.dtype() == DType::kC128) return combine_complex<double>(to, from, n);
  if (y_.dtype() == DType::kF32 && reduction_ == Reduce::kAdd && counts_.empty()) {
    for (int64_t i = 0; i < n; ++i) y_.data<float>()[to + i] += updates_.data<float>()[from + i];
    return;
  }
  for (int64_t i = 0; i < n; ++i) combine(to + i, from + i);
}

void Combiner::finish() {
  if (reduction_ != Reduce::kMean) return;
  for (int64_t i = 0; i < y_.elements(); ++i) {
    const int64_t n = counts_[static_cast<size_t>(i)];
    if (n == 0) continue;
    const double mean = accumulators_[static_cast<size_t>(i)] / static_cast<double>(n + (include_self_ ? 1 : 0));
    if (is_float(y_.dtype()))
      set_double(y_, i, mean);
    else
      set_int(y_, i, static_cast<int64_t>(std::floor(mean)));
  }
}

}  // namespace smelt
