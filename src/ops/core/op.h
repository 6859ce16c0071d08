#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "graph/graph.h"
#include "smelt/tensor.h"

namespace smelt {

#define SMELT_OP(name, attrs, min_in, max_in, min_out, max_out, flags, doc) k##name,
enum class Op : uint16_t {
#include "ops/core/all_ops.inc"
  kCount
};
#undef SMELT_OP

/// max_in / max_out of variadic operators.
inline constexpr int kMany = 1 << 20;

enum OpFlags : uint32_t {
  kNoFlags = 0,
  /// The kernel moves stored elements and never looks at their values: quantized tensors pass as they are.
  kDataMovement = 1,
  /// The reference kernel itself handles quantized inputs and outputs. Without kDataMovement and kQuantized, the
  /// runtime dequantizes quantized inputs to float32 and quantizes the outputs around the kernel.
  kQuantized = 2,
  /// Has effects beyond its outputs (state, random stream): never removed, merged or reordered.
  kEffect = 4,
  /// Output shapes depend on the values of inputs in a way that inference can't give: the kernel allocates its outputs.
  kDynamic = 8,
  /// Runs other graphs of the module.
  kControl = 16,
  /// Works on sequences, optionals or maps.
  kContainer = 32,
};

/// What shape inference sees of one node. The same function runs at load (dimensions may be unknown) and at run time
/// (all known; `constant` then also gives the contents of inputs that are computed).
class InferContext {
 public:
  virtual ~InferContext() = default;
  const Node& node() const { return *node_; }
  template <class A>
  const A& attrs() const {
    return static_cast<const A&>(*node_->attrs);
  }
  int inputs() const { return static_cast<int>(node_->inputs.size()); }
  int outputs() const { return static_cast<int>(node_->outputs.size()); }
  bool has(int i) const { return i < inputs() && node_->inputs[static_cast<size_t>(i)] != kNoValue; }
  bool wants(int i) const { return i < outputs() && node_->outputs[static_cast<size_t>(i)] != kNoValue; }
  virtual const ValueType& input(int i) const = 0;  ///< precondition: has(i)
  /// Contents of input i if known now, else null.
  virtual const Tensor* constant(int i) const = 0;
  virtual const Module& module() const = 0;
  /// Declares output i. Ignored when nobody wants it.
  virtual void set(int i, ValueType type) = 0;
  /// The type declared for output i by the model (its dtype and quantization guide operators such as Quantize);
  /// dtype kInvalid when nothing was declared.
  virtual const ValueType& declared(int i) const = 0;

  /// Contents of a small integer input as int64 (any integer dtype, also scalars); nullopt when unknown or absent.
  std::optional<std::vector<int64_t>> ints(int i) const;

 protected:
  const Node* node_ = nullptr;
};

/// What a kernel sees of one node at run time. Quantized tensors carry their parameters (Tensor::quant).
class KernelContext {
 public:
  virtual ~KernelContext() = default;
  const Node& node() const { return *node_; }
  template <class A>
  const A& attrs() const {
    return static_cast<const A&>(*node_->attrs);
  }
  int inputs() const { return static_cast<int>(node_->inputs.size()); }
  int outputs() const { return static_cast<int>(node_->outputs.size()); }
  virtual bool has(int i) const {
    return i < inputs() && node_->inputs[static_cast<size_t>(i)] != kNoValue && !datum(i).none();
  }
  bool wants(int i) const { return i < outputs() && node_->outputs[static_cast<size_t>(i)] != kNoValue; }
  const Tensor& input(int i) const { return datum(i).tensor; }  ///< precondition: has(i), a tensor
  virtual const Datum& datum(int i) const = 0;
  /// Output i, already allocated with the inferred dtype, shape and quantization. Never overlaps an input. Reference
  /// kernels find it zeroed; a back-end's kernels find it undefined.
  /// Precondition: wants(i), the operator is not kDynamic.
  virtual Tensor& output(int i) = 0;
  /// For kDynamic operators: allocates output i. Checks the memory limit. The result may be a dummy when nobody wants
  /// it.
  virtual Result<Tensor*> allocate(int i, DType dtype, const Shape& shape) = 0;
  /// For containers and control flow: hands over output i.
  virtual void set_output(int i, Datum value) = 0;
  /// Uninitialised scratch memory, 64-byte aligned, until the kernel returns. Null when the limit is reached.
  virtual void* scratch(size_t bytes) = 0;
  virtual ThreadPool& threads() = 0;
  /// Runs another graph of the module (control flow).
  virtual Result<std::vector<Datum>> call(int graph, std::span<const Datum> inputs) = 0;
  /// Variable `index` of the module (state operators).
  virtual Datum& state(int index) = 0;
  /// Counts work against the limits; fails when cancelled or over time. Loops call it once an iteration.
  virtual Status tick() = 0;
  /// Next 64 bits of the session's random stream.
  virtual uint64_t random() = 0;
  virtual const Module& module() const = 0;
  /// Quantization wanted for output i (null: plain).
  virtual QuantPtr output_quant(int i) const = 0;

 protected:
  const Node* node_ = nullptr;
};

using InferFn = Status (*)(InferContext&);
using ReferenceFn = Status (*)(KernelContext&);

/// One row of the operator table.
struct OpInfo {
  const char* name;
  const char* family;  ///< folder below src/ops
  const char* doc;
  int min_inputs, max_inputs, min_outputs, max_outputs;
  uint32_t flags;
  InferFn infer;
  ReferenceFn reference;
  /// Whether `attrs` is the struct that the operator takes.
  bool (*attrs_fit)(const Attrs*);
};

const OpInfo& op_info(Op op);
inline const char* to_string(Op op) { return op_info(op).name; }
std::span<const OpInfo> all_ops();

#define SMELT_OP(name, attrs, min_in, max_in, min_out, max_out, flags, doc) \
  Status infer_##name(InferContext&);                                       \
  Status reference_##name(KernelContext&);
#include "ops/core/all_ops.inc"
#undef SMELT_OP

}  // namespace smelt
