#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "smelt/result.h"
#include "smelt/tensor.h"

namespace smelt {

/// An operator that the caller provides. Derive from it and list an instance in LoadOptions::custom_operators: every
/// node of the model whose custom operator has this name is run by it. A registered operator goes before a built-in
/// one of the same name. Instances are shared by all sessions of a model, which may run side by side: the const
/// functions must be safe to call from several threads. What they throw ends the load or the run as an error.
class CustomOperator {
 public:
  /// Type of an operand or result. dtype kInvalid and ranked false: not known, or an absent optional operand.
  struct TensorType {
    DType dtype = DType::kInvalid;
    bool ranked = false;
    Shape shape = {};  ///< -1: not known before the run
    QuantPtr quant = {};
  };

  virtual ~CustomOperator() = default;

  /// How models name it: the custom_code of TFLite, "domain::Name" in ONNX, "namespace::name.overload" in ExecuTorch.
  virtual std::string name() const = 0;

  /// Called once a node when a model is loaded, with the node's options as the format stores them (TFLite: the
  /// custom_options, most often a FlexBuffer) and the declared types. What it returns is handed to infer() and run();
  /// an error refuses the model.
  virtual Result<std::shared_ptr<void>> prepare(std::span<const std::byte> options, std::span<const TensorType> inputs,
                                                std::span<const TensorType> outputs) {
    (void)options, (void)inputs, (void)outputs;
    return std::shared_ptr<void>();
  }

  /// Types of the results. Called at load, when dimensions may be unknown, and before every run with the shapes of that
  /// run. A dimension may stay -1 even then when it depends on the contents of the inputs. `declared` holds the types
  /// that the model states.
  virtual Result<std::vector<TensorType>> infer(const void* prepared, std::span<const TensorType> inputs,
                                                std::span<const TensorType> declared) const = 0;

  /// Computes the results. outputs[i] is allocated with the inferred type; where a dimension was left at -1 it is
  /// undefined and run() puts a tensor there. Absent optional operands are undefined tensors.
  virtual Status run(const void* prepared, std::span<const Tensor> inputs, std::span<Tensor> outputs) const = 0;
};

}  // namespace smelt
