#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/common/lowering_context.h"
#include "formats/executorch/aten/aten.h"
#include "ops/core/all_attrs.h"
#include "ops/core/op.h"

namespace smelt::aten {

/// Operand of an element-wise operator: a tensor, or a number of Python's kinds.
struct Operand {
  ValueId id = kNoValue;  ///< tensor or symbol
  bool number = false;
  bool wrapped = false;  ///< a number, constant or not: of low priority in promotion
  DType kind = DType::kInvalid;
  double d = 0;
  int64_t i = 0;
};

/// One call of an ATen-style operator while it is lowered: arguments by their position in the schema, results in
/// `lowered`. A missing trailing argument is None.
class CallContext : public LoweringContext {
 public:
  CallContext(Builder& builder, const Call& c) : LoweringContext(builder), call(c) {}
  const Call& call;
  Lowered lowered;

  // Arguments.
  size_t count() const { return call.args.size(); }
  const Arg& arg(size_t i) const;
  bool none(size_t i) const { return arg(i).kind == Arg::Kind::kNone; }
  bool is_tensor(size_t i) const { return arg(i).kind == Arg::Kind::kTensor; }
  ValueId t(size_t i);    ///< tensor; a number becomes a scalar tensor
  ValueId opt(size_t i);  ///< tensor or kNoValue
  int64_t i(size_t at, std::optional<int64_t> otherwise = {});
  double d(size_t at, std::optional<double> otherwise = {});
  bool flag(size_t at, bool otherwise = false) { return i(at, otherwise) != 0; }
  std::string text(size_t at, const std::string& otherwise = "");
  std::vector<int64_t> ints(size_t at);                                 ///< constants; None: empty
  std::vector<double> doubles(size_t at);                               ///< constants; None: empty
  std::vector<ValueId> tensors(size_t at);                              ///< TensorList; kNoValue inside where optional
  ValueId int_value(size_t at, std::optional<int64_t> otherwise = {});  ///< int64 scalar tensor, constant or not
  ValueId int_vector(size_t at);                                        ///< 1-D int64 tensor, constant or not
  ValueId int_vector(const std::vector<Int>& items);
  /// The other operand of an addition of two numbers of which one is `addend`; kNoValue where `sum` is none that
  /// was lowered not long ago.
  ValueId other_addend(ValueId sum, ValueId addend);
  ValueId float_input(size_t at);  ///< tensor; integers and bools become float32

  // Types.
  int rank(ValueId v);                                             ///< an error when unknown
  int64_t axis(int64_t a, int rank);                               ///< wrapped and checked
  std::vector<int64_t> axes(std::vector<int64_t> list, int rank);  ///< wrapped and checked; empty stays empty
  size_t outputs() const { return call.outputs.size(); }
  DType out_dtype(size_t k = 0) const { return k < outputs() ? call.outputs[k].dtype : DType::kInvalid; }
  int out_rank(size_t k = 0) const {
    return k < outputs() && call.outputs[k].ranked ? call.outputs[k].shape.rank() : -1;
  }

  // Nodes with PyTorch's semantics.
  ValueId cast(ValueId v, DType to);  ///< out of range wraps; kInvalid: v itself
  ValueId where(ValueId condition, ValueId a, ValueId b);
  ValueId reduce(Reduction fn, ValueId v, const std::vector<int64_t>& axes, bool keep_dims, double correction = 0);
  ValueId shape_of(ValueId v);  ///< a constant where the shape is static
  ValueId identity(ValueId v) { return unary(Unary::kIdentity, v); }
  ValueId number(DType dtype, double value);    ///< scalar constant
  ValueId integer(DType dtype, int64_t value);  ///< scalar constant
  ValueId filled(ValueId shape, DType dtype, double value) { return fill(shape, number(dtype, value)); }
  /// Entries of `width` elements, one an index, in the indices' shape: [..., width].
  ValueId like_indices(ValueId entries, ValueId indices, int64_t width);

  // Scalars and promotion.
  Operand operand(size_t at);
  Operand operand_of(ValueId v) { return {.id = v, .kind = dtype(v)}; }
  DType result_type(std::span<const Operand> operands);
  /// The operand as a tensor of the given type.
  ValueId as(const Operand& o, DType dtype);
  /// The type in which an element-wise operator computes: half types with numbers go through float32.
  DType compute_type(DType result, std::span<const Operand> operands) const;

  // Results.
  void result(ValueId v) { lowered.outputs.push_back(v); }
  void results(const std::vector<ValueId>& list) {
    lowered.outputs.insert(lowered.outputs.end(), list.begin(), list.end());
  }
  /// Adds a node whose output is the next result.
  void emit(Op op, IntList inputs) { result(add(op, inputs)); }
  template <std::derived_from<Attrs> A>
  void emit(Op op, A attrs, IntList inputs) {
    result(add(op, std::move(attrs), inputs));
  }
};

using LowerFn = void (*)(CallContext&);
/// An entry of the operator table.
struct OpEntry {
  const char* name;  ///< with namespace, without overload
  LowerFn lower;
};

std::span<const OpEntry> elementwise_entries();
std::span<const OpEntry> reduce_entries();
std::span<const OpEntry> shape_entries();
std::span<const OpEntry> index_entries();
std::span<const OpEntry> create_entries();
std::span<const OpEntry> nn_entries();
std::span<const OpEntry> norm_entries();
std::span<const OpEntry> quant_entries();
std::span<const OpEntry> prim_entries();
std::span<const OpEntry> llama_entries();
std::span<const OpEntry> cortex_m_entries();
std::span<const OpEntry> vulkan_entries();
std::span<const OpEntry> vulkan_quantized_entries();
std::span<const OpEntry> vulkan_training_entries();

}  // namespace smelt::aten
