#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "tests/support/compare.h"
#include "tests/support/coverage.h"
#include "tests/support/module.h"

namespace smelt::test {

/// One operator as a model of one node.
///   auto out = OpRunner(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kRelu)).input(x).run();
class OpRunner {
 public:
  OpRunner(Op op, AttrsPtr attrs) : op_(op), attrs_(std::move(attrs)) {}
  explicit OpRunner(const OpCase& c) : op_(c.op), attrs_(c.attrs), outputs_(c.outputs) {
    for (size_t i = 0; i < c.inputs.size(); ++i)
      inputs_.push_back({c.inputs[i], !c.inputs[i].defined() ? Kind::kAbsent
                                      : c.is_constant(i)     ? Kind::kConstant
                                                             : Kind::kFed});
  }
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
    form_ = result;
    return *this;
  }
  /// The steps of the last run.
  const std::vector<ProfileEntry>& profile() const { return profile_; }
  /// The kernels of these steps.
  std::vector<std::string> kernels() const {
    std::vector<std::string> names;
    for (const ProfileEntry& e : profile_) names.push_back(e.kernel);
    return names;
  }

  /// The module of the one operator; what a run feeds it goes to `fed`.
  Result<std::shared_ptr<Module>> module(std::vector<Datum>* fed = nullptr) const {
    auto module = test::module_of_one_graph();
    Builder b(*module, 0);
    std::vector<ValueId> in, out;
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
        if (fed) fed->push_back(i.value);
      }
    }
    for (const ValueType& type : outputs_) out.push_back(b.value("y", type));
    SMELT_TRY(b.node_to(op_, attrs_, in, out));
    b.graph().outputs = out;
    for (ValueId id : out) b.graph().value(id).storage = form_;
    SMELT_TRY(verify(*module));
    return module;
  }

  Result<std::vector<Datum>> run_all() const {
    std::vector<Datum> fed;
    SMELT_ASSIGN(auto made, module(&fed));
    SMELT_ASSIGN(Session session, Session::create(ModelAccess::make(made), options_));
    auto result = session.run(fed);
    profile_ = session.profile();
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
  SessionOptions options_{.backend = BackendKind::kReference, .profile = true};
  StorageHint form_;
  mutable std::vector<ProfileEntry> profile_;
};

}  // namespace smelt::test
