#pragma once

#include <span>
#include <string>
#include <vector>

#include "ops/core/op.h"

namespace smelt {

// What operators that run other graphs share.

/// A type that holds values of both: what the two agree on.
ValueType common_type(const ValueType& a, const ValueType& b);
/// The type that graph `graph` declares for its output i; nothing known when there is no such graph or output yet.
ValueType body_output(const Module& module, int graph, int64_t i);
/// The graph's number of outputs, when it exists already.
std::optional<int64_t> body_outputs(const Module& module, int graph);

/// The truth of one bool.
Result<bool> condition_of(const Datum& d);
/// A scalar argument of a body: int64 or bool, of shape [1] where the body declares rank 1.
Datum scalar_argument(const Module& module, int graph, int input, DType dtype, int64_t value);
/// By graph of the module: how many nodes run it. A node counts once for each of its bodies.
std::vector<int> count_callers(const Module& module);
/// An error that names the graph, unless it gave so many results as are expected, or more.
Status check_results(const Module& module, int graph, size_t given, size_t expected);
/// Runs a body and checks that it gave `outputs` results.
Result<std::vector<Datum>> run_body(KernelContext& ctx, int graph, std::span<const Datum> arguments, size_t outputs);

/// The slices that the iterations of a body give for one stacked output. Counts what it keeps against the memory limit.
class Stacked {
 public:
  Status add(KernelContext& ctx, Datum slice);
  size_t size() const { return slices_.size(); }
  const std::vector<Tensor>& slices() const { return slices_; }
  /// All slices as one tensor along a new `axis`, the last one first when `reversed`. Without slices: no entries of
  /// `declared`, the type of one slice.
  Result<Datum> join(int64_t axis, bool reversed, const ValueType& declared) const;

 private:
  std::vector<Tensor> slices_;
  size_t kept_ = 0, checked_ = size_t{16} << 20;
};

/// Slice `index` of x along `axis`, that dimension removed.
Result<Tensor> select_slice(const Tensor& x, int axis, int64_t index);

}  // namespace smelt
