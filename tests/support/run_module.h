#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "runtime/model_access.h"
#include "smelt/model.h"

namespace smelt::test {

/// All outputs of a model on a back-end; none, and a failure of the test, if it does not run.
inline std::vector<Datum> run_on(BackendKind backend, const Model& model, const std::vector<Datum>& fed) {
  auto session = Session::create(model, {.backend = backend});
  EXPECT_TRUE(session.ok()) << (session.ok() ? "" : session.error().message());
  if (!session.ok()) return {};
  auto result = session->run(fed);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message());
  return result.ok() ? *result : std::vector<Datum>{};
}

inline std::vector<Datum> run_on_reference(const Model& model, const std::vector<Datum>& fed) {
  return run_on(BackendKind::kReference, model, fed);
}

/// The first output of a module of one input; undefined if it does not run.
inline Tensor run_on_reference(std::shared_ptr<const Module> module, const Tensor& x) {
  const auto outputs = run_on_reference(ModelAccess::make(std::move(module)), {x});
  return outputs.empty() ? Tensor() : outputs[0].tensor;
}

}  // namespace smelt::test
