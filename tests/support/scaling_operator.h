// For tests: a custom operator.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "smelt/custom_operator.h"

namespace smelt::test {

/// y = x * factor on float32, the factor read from a node's options.
class ScalingOperator final : public CustomOperator {
 public:
  using Factor = std::function<Result<float>(std::span<const std::byte> options)>;
  ScalingOperator(std::string name, Factor factor) : name_(std::move(name)), factor_(std::move(factor)) {}

  std::string name() const override { return name_; }
  Result<std::shared_ptr<void>> prepare(std::span<const std::byte> options, std::span<const TensorType>,
                                        std::span<const TensorType>) override {
    auto factor = factor_(options);
    if (!factor.ok()) return factor.error();
    return std::shared_ptr<void>(std::make_shared<float>(*factor));
  }
  Result<std::vector<TensorType>> infer(const void*, std::span<const TensorType> inputs,
                                        std::span<const TensorType>) const override {
    return std::vector<TensorType>{inputs[0]};
  }
  Status run(const void* prepared, std::span<const Tensor> inputs, std::span<Tensor> outputs) const override {
    for (int64_t i = 0; i < inputs[0].elements(); ++i)
      outputs[0].data<float>()[i] = inputs[0].data<float>()[i] * *static_cast<const float*>(prepared);
    return Ok();
  }

 private:
  std::string name_;
  Factor factor_;
};

}  // namespace smelt::test
