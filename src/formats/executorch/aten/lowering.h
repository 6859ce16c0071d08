#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/executorch/aten/aten.h"
#include "ops/core/all_attrs.h"
#include "ops/core/op.h"

namespace smelt::aten {

/// One call being lowered. The first error sticks: after it every method does nothing and returns kNoValue or a
/// default, so that lowering functions read as straight formulas; lower() reports it at the end.
class L {
 public:
  L(Builder& builder, const Call& call) : b(builder), c(call) {}
  Builder& b;
  const Call& c;

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  void fail(Error error) {
    if (ok()) status_ = std::move(error);
  }

  // Arguments. A missing trailing argument is None.
  size_t count() const { return c.args.size(); }
  const Arg& arg(size_t i) const;
  bool none(size_t i) const { return arg(i).kind == Arg::Kind::kNone; }
  bool is_tensor(size_t i) const { return arg(i).kind == Arg::Kind::kTensor; }
  ValueId t(size_t i);    ///< tensor; a number becomes a scalar tensor
  ValueId opt(size_t i);  ///< tensor or kNoValue
  int64_t i(size_t at, std::optional<int64_t> otherwise = {});
  double d(size_t at, std::optional<double> otherwise = {});
  bool flag(size_t at, bool otherwise = false) { return i(at, otherwise) != 0; }
  std::string text(size_t at, const std::string& otherwise = "");
  std::vector<int64_t> ints(size_t at);                                 ///< known numbers; None: empty
  std::vector<double> doubles(size_t at);                               ///< None: empty
  std::vector<ValueId> tensors(size_t at);                              ///< TensorList; kNoValue inside where optional
  ValueId int_value(size_t at, std::optional<int64_t> otherwise = {});  ///< int64 scalar tensor, known or not
  ValueId int_vector(size_t at);                                        ///< 1-D int64 tensor, known or not
  ValueId int_vector(const std::vector<Int>& items);

  // Types.
  const ValueType& type(ValueId v) const;
  DType dtype(ValueId v) const { return type(v).dtype; }
  int rank(ValueId v);                                             ///< fails when it is not known
  int64_t dim(ValueId v, int64_t axis) const;                      ///< -1 when not known
  int64_t axis(int64_t a, int rank);                               ///< wrapped and checked
  std::vector<int64_t> axes(std::vector<int64_t> list, int rank);  ///< wrapped and checked; empty stays empty
  size_t outputs() const { return c.outputs.size(); }
  DType out_dtype(size_t k = 0) const { return k < c.outputs.size() ? c.outputs[k].dtype : DType::kInvalid; }
  int out_rank(size_t k = 0) const {
    return k < c.outputs.size() && c.outputs[k].ranked ? c.outputs[k].shape.rank() : -1;
  }

  // Nodes.
  ValueId op(Op op, AttrsPtr attrs, std::vector<ValueId> inputs);
  std::vector<ValueId> ops(Op op, AttrsPtr attrs, std::vector<ValueId> inputs, int outputs);
  ValueId cast(ValueId v, DType to);
  ValueId unary(Unary fn, ValueId v, double a = 0, double b = 0, double c = 0);
  ValueId binary(Binary fn, ValueId a, ValueId b, double alpha = 1);
  ValueId reduce(Reduction fn, ValueId v, const std::vector<int64_t>& axes, bool keep_dims, double correction = 0);
  ValueId reshape(ValueId v, const std::vector<int64_t>& shape);  ///< -1: inferred
  ValueId transpose(ValueId v, std::vector<int64_t> perm);
  ValueId slice(ValueId v, int64_t axis, int64_t start, int64_t end, int64_t step = 1);
  ValueId squeeze(ValueId v, std::vector<int64_t> axes);
  ValueId unsqueeze(ValueId v, std::vector<int64_t> axes);
  ValueId shape_of(ValueId v);
  /// Rows of `width` elements, one an index, in the indices' shape: [..., width].
  ValueId like_indices(ValueId rows, ValueId indices, int64_t width);
  ValueId where(ValueId condition, ValueId a, ValueId b);
  ValueId number(DType dtype, double value);
  ValueId integer(DType dtype, int64_t value);
  ValueId ints_const(const std::vector<int64_t>& v) { return b.i64(v); }
  ValueId fill(ValueId shape, DType dtype, double value);
  ValueId float_input(size_t at);  ///< tensor; integers and bools become float32

  // Scalars and promotion.
  /// Operand of an element-wise operator: a tensor, or a number of Python's kinds.
  struct Operand {
    ValueId id = kNoValue;  ///< tensor or symbol
    bool number = false;
    bool wrapped = false;  ///< a number known or not: of low priority in promotion
    DType kind = DType::kInvalid;
    double d = 0;
    int64_t i = 0;
  };
  Operand operand(size_t at);
  Operand operand_of(ValueId v);
  DType result_type(std::span<const Operand> operands);
  /// The operand as a tensor of the given type.
  ValueId as(const Operand& o, DType dtype);
  /// The type in which an element-wise operator computes: half types with numbers go through float32.
  DType compute_type(DType result, std::span<const Operand> operands) const;

  // Results.
  void result(ValueId v) { lowered.outputs.push_back(v); }
  Lowered lowered;

 private:
  Status status_;
};

using Lowering = void (*)(L&);
struct Entry {
  const char* name;  ///< with namespace, without overload
  Lowering lower;
};

std::span<const Entry> elementwise_entries();
std::span<const Entry> reduce_entries();
std::span<const Entry> shape_entries();
std::span<const Entry> index_entries();
std::span<const Entry> create_entries();
std::span<const Entry> nn_entries();
std::span<const Entry> norm_entries();
std::span<const Entry> quant_entries();
std::span<const Entry> prim_entries();
std::span<const Entry> llama_entries();
std::span<const Entry> vulkan_entries();
std::span<const Entry> vulkan_quantized_entries();
std::span<const Entry> vulkan_training_entries();

}  // namespace smelt::aten
