#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "runtime/model_access.h"
#include "smelt/model.h"

namespace smelt::test {

/// The first output of a module of one input, by the reference kernels.
inline Tensor run_on_reference(std::shared_ptr<const Module> module, const Tensor& x) {
  auto session = Session::create(ModelAccess::make(std::move(module)), {.backend = BackendKind::kReference});
  EXPECT_TRUE(session.ok());
  auto result = session->run(std::vector<Datum>{x});
  EXPECT_TRUE(result.ok()) << result.error().message();
  return result->front().tensor;
}

}  // namespace smelt::test
