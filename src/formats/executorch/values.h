#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "formats/executorch/aten/aten.h"
#include "formats/executorch/file.h"
#include "smelt/tensor.h"

namespace smelt::executorch {

/// One value of an execution plan, checked and decoded.
struct PlanValue {
  enum class Kind : uint8_t {
    kNull,
    kInt,
    kDouble,
    kBool,
    kString,
    kTensor,
    kIntList,  ///< indices of values
    kDoubleList,
    kBoolList,
    kTensorList,  ///< indices of values; -1 where an optional tensor is absent
  };
  Kind kind = Kind::kNull;
  int64_t i = 0;
  double d = 0;
  std::string text;
  std::vector<int64_t> items;  ///< indices of values, or bools
  std::vector<double> doubles;

  // kTensor
  DType dtype = DType::kInvalid;
  Shape shape;  ///< upper bound when `dynamic`
  bool dynamic = false;
  bool bounded = false;        ///< dynamic, and memory is planned for `shape`
  std::vector<int> dim_order;  ///< of the memory, outermost first; empty: row-major
  bool planned = false;        ///< lies in planned memory
  uint32_t memory_id = 0;
  uint64_t offset = 0;
  std::string qualified_name;
  std::shared_ptr<const Tensor> data;  ///< contents: of a constant, or initial ones when `planned`; nullptr: none

  bool copied = false;  ///< `data` are no view of the file

  bool constant() const { return kind == Kind::kTensor && data && !planned; }
  /// The type that the program declares: dimensions of a dynamic tensor are unknown.
  ValueType type() const;
};

/// All values of a plan. Errors name the value.
Result<std::vector<PlanValue>> read_values(const ProgramFile& file, const fb::et::ExecutionPlan& plan);

/// A tensor of the given logical shape whose bytes lie in memory in the order of dimensions `order` (outermost first;
/// empty: row-major). Views `bytes` where it can.
Result<Tensor> tensor_from(DType dtype, const Shape& shape, std::span<const uint8_t> order, Bytes bytes,
                           const std::shared_ptr<const void>& owner);

/// Dimensions and their order in memory, checked.
Result<Shape> read_shape(const flatbuffers::Vector<int32_t>* sizes);
Result<std::vector<uint8_t>> read_dim_order(const flatbuffers::Vector<uint8_t>* order, int rank);

}  // namespace smelt::executorch
