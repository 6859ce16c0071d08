#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/core/builder.h"

namespace smelt::aten {

/// An integer of an argument list: a number, or a value of the graph (int64 scalar tensor) when `id` is set.
struct Int {
  int64_t value = 0;
  ValueId id = kNoValue;
  bool symbolic() const { return id != kNoValue; }
};

/// One argument of an ATen-style call.
struct Arg {
  enum class Kind : uint8_t {
    kNone,
    kTensor,   ///< id
    kInt,      ///< i; also dtypes, layouts and memory formats
    kDouble,   ///< d
    kBool,     ///< i (0 or 1)
    kSymbol,   ///< id of a scalar tensor: int64, double or bool, known at run time only
    kString,   ///< text
    kInts,     ///< ints
    kDoubles,  ///< doubles
    kBools,    ///< ints with values 0 or 1
    kTensors,  ///< ids; kNone where an optional tensor is absent
  };
  Kind kind = Kind::kNone;
  ValueId id = kNoValue;
  int64_t i = 0;
  double d = 0;
  std::string text;
  std::vector<Int> ints;
  std::vector<double> doubles;
  std::vector<ValueId> ids;

  static Arg none() { return {}; }
  static Arg tensor(ValueId id) { return {.kind = Kind::kTensor, .id = id}; }
  static Arg integer(int64_t v) { return {.kind = Kind::kInt, .i = v}; }
  static Arg real(double v) { return {.kind = Kind::kDouble, .d = v}; }
  static Arg boolean(bool v) { return {.kind = Kind::kBool, .i = v}; }
  static Arg symbol(ValueId id) { return {.kind = Kind::kSymbol, .id = id}; }
  static Arg string(std::string v) { return {.kind = Kind::kString, .text = std::move(v)}; }
  static Arg int_list(std::vector<Int> v) { return {.kind = Kind::kInts, .ints = std::move(v)}; }
  static Arg double_list(std::vector<double> v) { return {.kind = Kind::kDoubles, .doubles = std::move(v)}; }
  static Arg bool_list(std::vector<Int> v) { return {.kind = Kind::kBools, .ints = std::move(v)}; }
  static Arg tensor_list(std::vector<ValueId> v) { return {.kind = Kind::kTensors, .ids = std::move(v)}; }
};

/// A call as its program states it, outputs apart.
struct Call {
  std::string_view name;      ///< with namespace: "aten::add", "dim_order_ops::_to_dim_order_copy"
  std::string_view overload;  ///< "Tensor", "Tensor_out", "out", "default", ""
  std::span<const Arg> args;  ///< in the schema's order, keyword arguments included; trailing defaults may be missing
  /// Types that the program declares for the outputs: the element type decides what results are cast to and what
  /// factories make (dtype kInvalid: what PyTorch would give); shapes are hints of rank only.
  std::span<const ValueType> outputs;
  /// True if the arguments follow the schema of the out variant, which has no dtype, layout, device and pin_memory
  /// arguments ("aten::full.out"), or that of the functional form (Vulkan graphs).
  bool out_variant = true;
};

/// What a call became.
struct Lowered {
  std::vector<ValueId> outputs;                     ///< tensors, or scalar tensors for integer results
  std::vector<std::pair<size_t, ValueId>> mutated;  ///< arguments that the call changes in place: index, new contents
};

/// True if the operator is known, with or without the overload's name.
bool is_known(std::string_view name);

/// kUnsupported where PyTorch defines the operator, but no overload of this name; "" and "default" are one.
Status check_overload(std::string_view name, std::string_view overload);

/// Adds the call to the builder's graph with PyTorch's semantics. The builder's origin and location are set already.
Result<Lowered> lower(Builder& builder, const Call& call);

/// Splits "aten.add.Tensor", "aten::add.Tensor" and "sym_size.int" into name with namespace ("aten" when none is
/// written) and overload.
std::pair<std::string, std::string> split_name(std::string_view text);

/// Element type of a torch ScalarType number; kInvalid when there is none.
DType scalar_type(int64_t number);
/// The number of an element type, -1 when torch has none.
int64_t scalar_type_number(DType dtype);

/// PyTorch's promotion of two element types (of equal priority).
DType promote(DType a, DType b);

}  // namespace smelt::aten
