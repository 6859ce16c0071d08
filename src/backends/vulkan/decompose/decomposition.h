#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/vulkan/core/kernel.h"
#include "ops/core/builder.h"
#include "ops/elementwise/elementwise.h"

namespace smelt::vulkan {

/// Decomposes a node into a small graph of other operators, each run by a kernel of the list, and makes one kernel of
/// them. Views (Reshape and the like) cost nothing.
class Decomposition {
 public:
  /// A constant that the host computes from constant operand `operand`; `name` identifies the computation.
  struct Derived {
    size_t operand;
    std::string name;
  };
  explicit Decomposition(const KernelSpec& spec);
  /// Input i of the node; kNoValue if absent.
  ValueId input(size_t i) const { return inputs_[i]; }
  ValueId i64(const std::vector<int64_t>& values) { return builder_.i64(values); }
  ValueId constant(Tensor t) { return builder_.constant("", std::move(t)); }
  ValueId scalar(DType dtype, double value) { return builder_.scalar(dtype, value); }
  DType dtype(ValueId id) const { return builder_.type(id).dtype; }
  const Shape& shape(ValueId id) const { return builder_.type(id).shape; }
  /// Adds a node and returns its output; kNoValue if an input is kNoValue or the types do not fit, so that calls chain
  /// without checks. `absent`: a kNoValue input is an optional one that is left out.
  ValueId add(Op op, AttrsPtr attrs, std::vector<ValueId> inputs, bool absent = false);
  /// Adds a node whose output has the given type, quantization included. Input i may be absent if the node's input i
  /// is.
  ValueId add_as(Op op, AttrsPtr attrs, std::vector<ValueId> inputs, const ValueType& type);
  /// A constant computed from constant operand i; see Derived. Its packed forms are shared with other plans.
  ValueId derived(size_t i, const Tensor& content, std::string name);
  ValueId binary(Binary fn, ValueId x, ValueId y);
  ValueId where(ValueId condition, ValueId x, ValueId y);
  ValueId cast(ValueId x, DType to);
  /// x broadcast to `shape`.
  ValueId expand(ValueId x, const Shape& shape);
  ValueId reshape(ValueId x, const std::vector<int64_t>& dims);
  ValueId transpose(ValueId x, const std::vector<int64_t>& perm);
  /// The kernel whose outputs are `results`. Null if a result is kNoValue, is an input or constant, or has another type
  /// than the node's output, or if a node has no kernel. `fault`: the text of Kernel::fault(), null for the default.
  std::unique_ptr<Kernel> kernel(const std::vector<ValueId>& results, const char* fault = nullptr);

 private:
  const KernelSpec& spec_;
  std::shared_ptr<Module> module_;
  Builder builder_;
  std::vector<ValueId> inputs_;
  std::map<ValueId, Derived> derived_;
};

}  // namespace smelt::vulkan
