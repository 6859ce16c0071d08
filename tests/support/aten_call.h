#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "formats/executorch/aten/aten.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "tensor/numeric.h"

namespace smelt::aten {

/// A tensor argument whose contents the program holds.
struct Constant {
  Tensor tensor;
};

/// One call: tensors are fed at run time. Its results are the outputs, then the new contents of changed arguments.
class AtenCall {
 public:
  AtenCall(std::string name, std::vector<std::variant<Tensor, Constant, Arg>> args, std::vector<ValueType> outputs)
      : name_(std::move(name)), args_(std::move(args)), outputs_(std::move(outputs)) {}

  Result<std::vector<Datum>> run(BackendKind backend) const {
    auto module = std::make_shared<Module>();
    module->format = "test";
    module->graphs.emplace_back();
    module->methods.push_back({"forward", 0});
    Builder b(*module, 0);
    std::vector<Arg> args;
    std::vector<Datum> fed;
    for (const auto& a : args_) {
      if (const auto* t = std::get_if<Tensor>(&a)) {
        args.push_back(Arg::tensor(b.input(Cat("in", fed.size()), ValueType::tensor(t->dtype(), t->shape()))));
        fed.emplace_back(*t);
      } else if (const auto* constant = std::get_if<Constant>(&a)) {
        args.push_back(Arg::tensor(b.constant("", constant->tensor)));
      } else {
        args.push_back(std::get<Arg>(a));
      }
    }
    SMELT_ASSIGN(const Lowered lowered,
                 lower(b, {.name = name_, .overload = "out", .args = args, .outputs = outputs_}));
    std::vector<ValueId> results = lowered.outputs;
    for (const auto& [argument, contents] : lowered.mutated) results.push_back(contents);
    for (size_t i = 0; i < results.size(); ++i) b.graph().value(results[i]).name = Cat("out", i);
    b.graph().outputs = results;
    SMELT_ASSIGN(Session session, Session::create(ModelAccess::make(std::move(module)), {.backend = backend}));
    return session.run(fed);
  }

  /// All results as numbers, the same on both back-ends.
  std::vector<std::vector<double>> numbers() const {
    std::vector<std::vector<double>> first;
    for (const BackendKind& backend : {BackendKind::kReference, BackendKind::kCpu}) {
      auto got = run(backend);
      EXPECT_TRUE(got.ok()) << got.error().message();
      if (!got.ok()) return {};
      std::vector<std::vector<double>> all;
      for (const Datum& d : *got) {
        std::vector<double>& v = all.emplace_back(static_cast<size_t>(d.tensor.elements()));
        to_doubles(d.tensor, v.data());
      }
      if (first.empty()) first = all;
      for (size_t i = 0; i < all.size(); ++i)
        for (size_t k = 0; k < all[i].size(); ++k) EXPECT_NEAR(all[i][k], first[i][k], 1e-5) << i << " " << k;
    }
    return first;
  }

 private:
  std::string name_;
  std::vector<std::variant<Tensor, Constant, Arg>> args_;
  std::vector<ValueType> outputs_;
};

inline void expect(const std::vector<double>& got, const std::vector<double>& want, double eps = 1e-5) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], eps) << i;
}

}  // namespace smelt::aten
