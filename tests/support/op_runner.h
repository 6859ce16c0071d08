#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "tensor/numeric.h"
#include "tests/support/coverage.h"

namespace smelt::test {

/// One operator as a model of one node.
///   auto out = OpRunner(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kRelu)).input(x).run();
class OpRunner {
 public:
  OpRunner(Op op, AttrsPtr attrs) : op_(op), attrs_(std::move(attrs)) {}
  /// An input that is fed at run time; its shape is known at load unless unknown_shapes() is called.
  OpRunner& input(Datum value) {
    inputs_.push_back({std::move(value), Kind::kFed});
    return *this;
  }
  OpRunner& constant(Tensor value) {
    inputs_.push_back({std::move(value), Kind::kConstant});
    return *this;
  }
  OpRunner& absent() {
    inputs_.push_back({{}, Kind::kAbsent});
    return *this;
  }
  /// Declares the types of all outputs, as file formats do. Without it there is one output of inferred type.
  OpRunner& outputs(std::vector<ValueType> types) {
    outputs_ = std::move(types);
    return *this;
  }
  /// `n` outputs of inferred types.
  OpRunner& outputs(int n) { return outputs(std::vector<ValueType>(static_cast<size_t>(n))); }
  /// Loads with every dimension of the fed inputs unknown.
  OpRunner& unknown_shapes() {
    unknown_ = true;
    return *this;
  }
  OpRunner& backend(BackendKind kind) {
    options_.backend = kind;
    return *this;
  }
  /// Runs on the Vulkan device with values in that storage, results in that form.
  OpRunner& device(DeviceStorage storage, const StorageHint& result = {}, bool fp16 = false) {
    options_.backend = BackendKind::kVulkan;
    options_.device_storage = storage;
    options_.fp16 = fp16;
    options_.profile = true;
    form_ = result;
    return *this;
  }
  /// The kernels of the last run, if on a device.
  const std::vector<std::string>& kernels() const { return kernels_; }

  Result<std::vector<Datum>> run_all() const {
    auto module = std::make_shared<Module>();
    module->format = "test";
    module->graphs.resize(1);
    module->methods.push_back({"main", 0});
    Builder b(*module, 0);
    std::vector<ValueId> in, out;
    std::vector<Datum> fed;
    for (const Input& i : inputs_) {
      if (i.kind == Kind::kAbsent) {
        in.push_back(kNoValue);
      } else if (i.kind == Kind::kConstant) {
        in.push_back(b.constant("", i.value.tensor));
      } else {
        ValueType type;
        if (i.value.is_tensor()) {
          const Tensor& t = i.value.tensor;
          type = ValueType::tensor(t.dtype(), unknown_ ? Shape::of_rank(t.rank(), -1) : t.shape(), t.quant());
        }
        in.push_back(b.input("x", type));
        fed.push_back(i.value);
      }
    }
    for (const ValueType& type : outputs_) out.push_back(b.value("y", type));
    SMELT_TRY(b.node_to(op_, attrs_, in, out));
    b.graph().outputs = out;
    for (ValueId id : out) b.graph().value(id).storage = form_;
    SMELT_TRY(verify(*module));
    SMELT_ASSIGN(Session session, Session::create(ModelAccess::make(module), options_));
    auto result = session.run(fed);
    kernels_.clear();
    for (const ProfileEntry& e : session.profile()) kernels_.push_back(e.kernel);
    if (options_.backend == BackendKind::kVulkan) note_shaders();
    return result;
  }
  /// The first output; fails the test and returns an undefined tensor when the run fails.
  Tensor run() const {
    auto r = run_all();
    if (!r.ok()) {
      ADD_FAILURE() << r.error().message();
      return {};
    }
    return r->front().tensor;
  }
  /// The error's message; fails the test when the run succeeds.
  std::string error() const {
    auto r = run_all();
    EXPECT_FALSE(r.ok());
    return r.ok() ? "" : r.error().message();
  }

 private:
  enum class Kind { kFed, kConstant, kAbsent };
  struct Input {
    Datum value;
    Kind kind;
  };
  Op op_;
  AttrsPtr attrs_;
  std::vector<Input> inputs_;
  std::vector<ValueType> outputs_{ValueType{}};
  bool unknown_ = false;
  SessionOptions options_{.backend = BackendKind::kReference};
  StorageHint form_;
  mutable std::vector<std::string> kernels_;
};

/// A tensor of any real element type from values.
inline Tensor tensor(DType dtype, const Shape& shape, const std::vector<double>& values) {
  Tensor t(dtype, shape);
  for (size_t i = 0; i < values.size(); ++i)
    if (is_float(dtype) || is_complex(dtype))
      set_double(t, static_cast<int64_t>(i), values[i]);
    else
      set_int(t, static_cast<int64_t>(i), static_cast<int64_t>(values[i]));
  return t;
}
inline Tensor floats(const Shape& shape, const std::vector<double>& values) {
  return tensor(DType::kF32, shape, values);
}
inline QuantPtr per_tensor(float scale, int32_t zero_point, Rounding rounding = Rounding::kFloatHalfEven) {
  return std::make_shared<const Quantization>(
      Quantization{.scales = {scale}, .zero_points = {zero_point}, .rounding = rounding});
}
/// A tensor of stored integers with per-tensor quantization.
inline Tensor quantized(DType dtype, const Shape& shape, const std::vector<double>& stored, float scale,
                        int32_t zero_point, Rounding rounding = Rounding::kFloatHalfEven) {
  Tensor t = tensor(dtype, shape, stored);
  t.set_quant(per_tensor(scale, zero_point, rounding));
  return t;
}
/// Elements as doubles (stored integers of quantized tensors).
inline std::vector<double> values(const Tensor& t) {
  std::vector<double> v(static_cast<size_t>(t.elements()));
  if (t.defined()) to_doubles(t, v.data());
  return v;
}

inline void expect_near(const Tensor& got, const std::vector<double>& want, double atol = 1e-5, double rtol = 1e-5) {
  const auto v = values(got);
  ASSERT_EQ(v.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (want[i] != want[i]) {
      EXPECT_TRUE(v[i] != v[i]) << "element " << i << " is " << v[i] << ", NaN expected";
    } else if (v[i] != want[i]) {
      EXPECT_NEAR(v[i], want[i], atol + rtol * std::abs(want[i])) << "element " << i;
    }
  }
}
inline void expect_equal(const Tensor& got, const std::vector<double>& want) { EXPECT_EQ(values(got), want); }

}  // namespace smelt::test
