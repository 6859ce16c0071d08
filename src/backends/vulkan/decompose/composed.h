#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/vulkan/core/kernel.h"
#include "ops/core/builder.h"
#include "ops/elementwise/elementwise.h"

namespace smelt::vulkan {

/// An operator said in others: the nodes that a kernel is composed of, each run by a kernel of the list. Views (Reshape
/// and the like) cost nothing.
class Composition {
 public:
  struct Derived {
    size_t operand;
    std::string name;
  };
  explicit Composition(const KernelSpec& spec);
  /// Operand i of the node.
  ValueId input(size_t i) const { return inputs_[i]; }
  ValueId i64(const std::vector<int64_t>& values) { return builder_.i64(values); }
  ValueId constant(Tensor t) { return builder_.constant("", std::move(t)); }
  ValueId scalar(DType dtype, double value) { return builder_.scalar(dtype, value); }
  DType dtype(ValueId id) const { return builder_.type(id).dtype; }
  const Shape& shape(ValueId id) const { return builder_.type(id).shape; }
  /// The value of a node; kNoValue when it can't be, or an operand can't (`absent`: kNoValue stands for one that is
  /// left out).
  ValueId add(Op op, AttrsPtr attrs, std::vector<ValueId> inputs, bool absent = false);
  /// The same with the type of the value, its quantization included. An input may be absent if the operand is.
  ValueId add_as(Op op, AttrsPtr attrs, std::vector<ValueId> inputs, const ValueType& type);
  /// A constant that is made of constant operand i; `name` says how.
  ValueId derived(size_t i, const Tensor& content, std::string name);
  ValueId binary(Binary fn, ValueId x, ValueId y);
  ValueId where(ValueId condition, ValueId x, ValueId y);
  ValueId cast(ValueId x, DType to);
  /// x broadcast to a shape.
  ValueId expand(ValueId x, const Shape& shape);
  ValueId reshape(ValueId x, const std::vector<int64_t>& dims);
  ValueId transpose(ValueId x, const std::vector<int64_t>& perm);
  /// The kernel whose outputs are these values; null when one of them is kNoValue, no computed value, or of another
  /// type than the node's output, or when a node of the composition has no kernel. `fault`: what Kernel::fault() says;
  /// null: an index.
  std::unique_ptr<Kernel> kernel(const std::vector<ValueId>& results, const char* fault = nullptr);

 private:
  const KernelSpec& spec_;
  std::shared_ptr<Module> module_;
  Builder builder_;
  std::vector<ValueId> inputs_;
  std::map<ValueId, Derived> derived_;
};

}  // namespace smelt::vulkan
