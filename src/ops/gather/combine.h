#pragma once

#include <vector>

#include "ops/core/op.h"
#include "ops/gather/gather.h"
#include "ops/shape/element_copy.h"

namespace smelt {

/// a combined with update b.
template <class T>
T combined(ScatterAttrs::Reduce r, T a, T b) {
  switch (r) {
    case ScatterAttrs::Reduce::kAdd:
    case ScatterAttrs::Reduce::kMean:
      return a + b;
    case ScatterAttrs::Reduce::kMul:
      return a * b;
    case ScatterAttrs::Reduce::kMin:
      return a != a || b > a ? a : b;
    case ScatterAttrs::Reduce::kMax:
      return a != a || b < a ? a : b;
    default:
      return b;
  }
}

/// Writes updates into a tensor element by element or run by run, replacing or combining by ScatterAttrs::Reduce.
class Combiner {
 public:
  using Reduce = ScatterAttrs::Reduce;
  /// `y` already holds the values to update. Without `include_self` the first update of an element replaces it.
  Combiner(Tensor& y, const Tensor& updates, Reduce reduction, bool include_self);
  /// An error if elements of that type can't be combined that way.
  static Status check(DType dtype, Reduce reduction);
  /// n elements from updates[from] on go to y[to] on.
  void apply(int64_t to, int64_t from, int64_t n);
  /// Divides means. To be called once, at the end.
  void finish();

 private:
  template <class T>
  void combine_complex(int64_t to, int64_t from, int64_t n);
  void combine(int64_t to, int64_t from);

  Tensor& y_;
  const Tensor& updates_;
  Reduce reduction_;
  bool include_self_;
  std::vector<int64_t> counts_;       ///< updates per element (kMean, or without include_self)
  std::vector<double> accumulators_;  ///< kMean
};

}  // namespace smelt
