#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "runtime/compiled.h"
#include "runtime/planned_environment.h"
#include "tests/support/op_case.h"

namespace smelt::test {

/// What `see` makes of the first output of a module's first graph and of its plan for the CPU; a default value, and a
/// failure of the test, if it does not run.
template <class See>
auto run_planned(const std::shared_ptr<const Module>& module, const std::vector<Datum>& in, Isa isa, int threads,
                 ValueTap* tap, const See& see) -> decltype(see(Tensor(), std::declval<const Plan&>())) {
  const SessionOptions options{.threads = threads, .isa = to_string(isa)};
  auto backends = open_backends(options);
  EXPECT_TRUE(backends.ok());
  PlannedEnvironment env(module, options, Compiled(module).models(*backends));
  std::vector<Datum> out;
  env.tap = tap;
  env.control.begin(options, env.size, in);
  const Status s = env.run(0, in, {}, out);
  EXPECT_TRUE(s.ok()) << s.error().message();
  if (!s.ok()) return {};
  return see(out[0].tensor.clone(), *env.latest(0));
}

/// Counts the outputs of convolutions that a run shows.
struct ConvCount final : ValueTap {
  Status made(const Node& node, ValueId /*id*/, Datum& value, bool /*shared*/) override {
    convs += node.op == Op::kConv && value.is_tensor();
    return Ok();
  }
  int convs = 0;
};

}  // namespace smelt::test
