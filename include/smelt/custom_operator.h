#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "smelt/result.h"
#include "smelt/tensor.h"

namespace smelt {

/// An operator that the caller implements. Derive from it and list an instance in LoadOptions::custom_operators: it
/// runs every node of the model whose operator has this name, also where smelt has an operator of that name built in.
/// All sessions of a model share the instance and may run at the same time, so the const functions must be thread-safe.
/// An exception that they throw becomes an error of the load or the run.
class CustomOperator {
 public:
  /// Type of an operand or result.
  using TensorType = smelt::TensorType;

  virtual ~CustomOperator() = default;

  /// How models name it: the custom_code of TFLite, "domain::Name" in ONNX, "namespace::name.overload" in ExecuTorch.
  virtual std::string name() const = 0;

  /// Called once for each node when a model is loaded, with the node's options as the format stores them (TFLite: the
  /// custom_options, usually a FlexBuffer) and the declared types. The result is passed to infer() and run(). An error
  /// fails the load.
  virtual Result<std::shared_ptr<void>> prepare(std::span<const std::byte> options, std::span<const TensorType> inputs,
                                                std::span<const TensorType> outputs) {
    (void)options, (void)inputs, (void)outputs;
    return std::shared_ptr<void>();
  }

  /// Types of the results. Called at load, when dimensions may be unknown, and at run time with the shapes of the run.
  /// A dimension that depends on the contents of the inputs may stay -1 even then. `declared` holds the types in the
  /// model.
  virtual Result<std::vector<TensorType>> infer(const void* prepared, std::span<const TensorType> inputs,
                                                std::span<const TensorType> declared) const = 0;

  /// Computes the results. outputs[i] is allocated with the inferred type; if infer() left a dimension at -1, it is an
  /// undefined tensor that run() must replace. Absent optional operands are undefined tensors.
  virtual Status run(const void* prepared, std::span<const Tensor> inputs, std::span<Tensor> outputs) const = 0;
};

/// The operators of a shared library, written against smelt/operators.h. The library stays loaded; "NAME.so" without a
/// folder is looked for in the current one. kIo if it cannot be loaded, kInvalidInput if it lists no operators.
SMELT_API Result<std::vector<std::shared_ptr<CustomOperator>>> load_custom_operators(const std::string& library);

}  // namespace smelt
