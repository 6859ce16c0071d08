#pragma once

#include <cstdint>
#include <optional>
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

/// Facts about an operator that hold for all its attributes; a bit set.
enum OpFlags : uint32_t {
  kNoFlags = 0,
  // How it runs.
  /// The kernel moves elements and never looks at their values: a quantized tensor is moved as its integers.
  kDataMovement = 1 << 0,
  /// The reference kernel itself handles quantized inputs and outputs. Without kDataMovement and kQuantized, the
  /// runtime dequantizes quantized inputs to float32 and quantizes the outputs around the kernel.
  kQuantized = 1 << 1,
  /// Has effects beyond its outputs (state, random stream): never removed, merged or reordered.
  kEffect = 1 << 2,
  /// Output shapes depend on input values in a way that shape inference can't give: the kernel allocates its outputs.
  kDynamic = 1 << 3,
  /// Runs other graphs of the module.
  kControl = 1 << 4,
  /// Works on sequences, optionals or maps.
  kContainer = 1 << 5,
  // What passes and back-ends may do with it.
  /// Output 0 holds the elements of input 0 in the same order: it can share the input's memory under another shape.
  kView = 1 << 6,
  /// Output 0 is input 0 but for what the kernel writes over it, in any order: the reference kernel also takes one
  /// storage for both.
  kUpdate = 1 << 13,
  /// Computes the same on permuted dimensions of input 0 once its `layout` or `axis` attribute, if it has one, is
  /// adapted (OpInfo::channels_last). Further inputs don't follow the layout.
  kAnyLayout = 1 << 7,
  /// Commutes with quantization: on quantized integers it gives what it gives on their real values, if the output has
  /// the quantization parameters of input 0.
  kQuantTransparent = 1 << 8,
  /// Multiplies input 0 with weights (input 1), accumulates, and adds an optional bias (input 2).
  kWeighted = 1 << 9,
  /// Takes an activation in its attributes (OpInfo::with_activation) in place of a node behind it.
  kActivation = 1 << 10,
  /// A back-end may compute it in float32 where its element types are narrower floats or quantized.
  kWidensToFloat = 1 << 11,
  /// A back-end may compute it in int32 or int64 where its element types are narrower integers.
  kWidensToInt = 1 << 12,
};

/// One node: its attributes and which operands it has.
class NodeView {
 public:
  const Node& node() const { return *node_; }
  template <class A>
  const A& attrs() const {
    return static_cast<const A&>(*node_->attrs);
  }
  int inputs() const { return static_cast<int>(node_->inputs.size()); }
  int outputs() const { return static_cast<int>(node_->outputs.size()); }
  /// True if somebody reads output i.
  bool wants(int i) const { return i < outputs() && node_->outputs[static_cast<size_t>(i)] != kNoValue; }

 protected:
  ~NodeView() = default;
  bool names_input(int i) const { return i < inputs() && node_->inputs[static_cast<size_t>(i)] != kNoValue; }
  const Node* node_ = nullptr;
};

/// What shape inference sees of one node. The same rule runs at load, when dimensions may be unknown, and at run time,
/// when all are known and `constant` also gives the contents of inputs that other nodes have computed.
class InferContext : public NodeView {
 public:
  virtual ~InferContext() = default;
  bool has(int i) const { return names_input(i); }
  virtual const ValueType& input(int i) const = 0;  ///< precondition: has(i)
  /// Contents of input i if known now, else nullptr.
  virtual const Tensor* constant(int i) const = 0;
  virtual const Module& module() const = 0;
  /// Declares the type of output i. Ignored when nobody wants that output.
  virtual void set(int i, ValueType type) = 0;
  /// The type declared for output i by the model (its dtype and quantization guide operators such as Quantize);
  /// dtype kInvalid when nothing was declared.
  virtual const ValueType& declared(int i) const = 0;

  /// Contents of a small integer input as int64 (any integer dtype, also scalars); nullopt when unknown or absent.
  std::optional<std::vector<int64_t>> ints(int i) const;
};

/// What a kernel sees of one node at run time. Quantized tensors carry their parameters (Tensor::quant).
class KernelContext : public NodeView {
 public:
  virtual ~KernelContext() = default;
  virtual bool has(int i) const { return names_input(i) && !datum(i).none(); }
  const Tensor& input(int i) const { return datum(i).tensor; }  ///< precondition: has(i), a tensor
  virtual const Datum& datum(int i) const = 0;
  /// Output i, already allocated with the inferred dtype, shape and quantization. Never overlaps an input. Reference
  /// kernels find it zeroed; a back-end's kernels find it undefined.
  /// Precondition: wants(i), the operator is not kDynamic.
  virtual Tensor& output(int i) = 0;
  /// For kDynamic operators: allocates output i within the memory limit. The tensor is a dummy when nobody wants the
  /// output.
  virtual Result<Tensor*> allocate(int i, DType dtype, const Shape& shape) = 0;
  /// For containers and control flow: sets output i.
  virtual void set_output(int i, Datum value) = 0;
  /// Uninitialised scratch memory, 64-byte aligned, valid until the kernel returns. nullptr when the memory limit is
  /// reached.
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
  /// Quantization that the graph declares for output i; nullptr: not quantized.
  virtual QuantPtr output_quant(int i) const = 0;
};

using InferFn = Status (*)(InferContext&);
using ReferenceFn = Status (*)(KernelContext&);

struct Activation;

/// One row of the operator table. The functions below `reference` follow from the attribute struct: a member of that
/// name, or a field that they name. They are given attributes of the operator's own struct.
struct OpInfo {
  const char* name;
  const char* family;  ///< folder below src/ops
  const char* doc;
  int min_inputs, max_inputs, min_outputs, max_outputs;
  uint32_t flags;  ///< OpFlags
  InferFn infer;
  ReferenceFn reference;
  /// True if `attrs` is the struct that the operator takes.
  bool (*attrs_fit)(const Attrs* attrs);
  /// Graphs that the node runs; empty without kControl.
  std::vector<int> (*graphs)(const Attrs& attrs);
  /// Number of multiply-adds for operands of these types, all dimensions known; 0: the operator is of another kind.
  double (*multiply_adds)(const Attrs& attrs, std::span<const ValueType> inputs, const ValueType& output);
  /// The attributes for an input 0 of `rank` dimensions that is channels-last instead of channels-first: `layout` is
  /// switched, `axis` is mapped. nullptr when the attributes ask for channels-last already.
  AttrsPtr (*channels_last)(const AttrsPtr& attrs, int rank);
  /// The attributes with an activation behind the operator. nullptr when they have one already, when the operator can't
  /// take one, or when `quantized` and a fixed-point rounding rule would round the activation's bounds its own way.
  AttrsPtr (*with_activation)(const Attrs& attrs, const Activation& act, bool quantized);
};

const OpInfo& op_info(Op op);
inline const char* to_string(Op op) { return op_info(op).name; }
std::span<const OpInfo> all_ops();

#define SMELT_OP(name, attrs, min_in, max_in, min_out, max_out, flags, doc) \
  [[gnu::cold]] Status infer_##name(InferContext&);                         \
  Status reference_##name(KernelContext&);
#include "ops/core/all_ops.inc"
#undef SMELT_OP

}  // namespace smelt
