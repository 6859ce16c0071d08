// A TFLite model whose custom operator "ClippedScale" is implemented here: y = min(scale * x, limit).
// The options of the operator are two little-endian floats, scale and limit.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "smelt/custom_operator.h"
#include "smelt/model.h"

namespace {

class ClippedScale final : public smelt::CustomOperator {
 public:
  std::string name() const override { return "ClippedScale"; }

  smelt::Result<std::shared_ptr<void>> prepare(std::span<const std::byte> options, std::span<const TensorType> inputs,
                                               std::span<const TensorType>) override {
    auto parameters = std::make_shared<Parameters>();
    if (options.size() != sizeof(Parameters) || inputs.size() != 1 || inputs[0].dtype != smelt::DType::kF32)
      return smelt::Error(smelt::ErrorCode::kInvalidModel, "8 bytes of options and one float32 input expected");
    std::memcpy(parameters.get(), options.data(), sizeof(Parameters));
    return std::shared_ptr<void>(std::move(parameters));
  }

  smelt::Result<std::vector<TensorType>> infer(const void*, std::span<const TensorType> inputs,
                                               std::span<const TensorType>) const override {
    return std::vector<TensorType>{inputs[0]};
  }

  smelt::Status run(const void* prepared, std::span<const smelt::Tensor> inputs,
                    std::span<smelt::Tensor> outputs) const override {
    const auto* p = static_cast<const Parameters*>(prepared);
    const float* x = inputs[0].data<float>();
    float* y = outputs[0].data<float>();
    for (int64_t i = 0; i < inputs[0].elements(); ++i) y[i] = std::min(p->scale * x[i], p->limit);
    return smelt::Ok();
  }

 private:
  struct Parameters {
    float scale, limit;
  };
};

int fail(const smelt::Error& error) {
  std::fprintf(stderr, "%s\n", error.message().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: custom_operator MODEL\n");
    return 2;
  }
  smelt::LoadOptions options;
  options.custom_operators.push_back(std::make_shared<ClippedScale>());
  auto model = smelt::Model::load(argv[1], options);
  if (!model.ok()) return fail(model.error());
  auto session = smelt::Session::create(*model);
  if (!session.ok()) return fail(session.error());
  const std::vector<float> values{-1, 0, 1, 2, 3, 4};
  const smelt::Datum x(
      smelt::Tensor::from<float>(smelt::DType::kF32, smelt::Shape{2, 3}, std::span<const float>(values)));
  auto result = session->run(std::span<const smelt::Datum>(&x, 1));
  if (!result.ok()) return fail(result.error());
  const smelt::Tensor& y = result->front().tensor;
  for (int64_t i = 0; i < y.elements(); ++i) std::printf("%g ", y.data<float>()[i]);
  std::printf("\n");
  return 0;
}
