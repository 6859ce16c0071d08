#pragma once

#include <memory>
#include <span>

#include "graph/graph.h"
#include "smelt/tensor.h"

namespace smelt::onnx {

/// One value of ONNX's test data (TensorProto, SequenceProto or OptionalProto, as `type` says).
Result<Datum> read_test_value(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner,
                              const ValueType& type);

}  // namespace smelt::onnx
