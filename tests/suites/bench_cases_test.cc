#include <gtest/gtest.h>

#include <set>

#include "bench/kernels/cases.h"
#include "tests/support/kernel_runner.h"

namespace smelt::bench {
namespace {

// A kernel whose level this machine lacks can't be made here.
TEST(BenchCases, EveryCpuKernelHasOne) {
  const Isa all = named_isas().back();
  std::set<std::string> missing;
  for (const KernelInfo& info : all_kernels())
    if (all.contains(info.isa)) missing.insert(info.name);
#if !defined(__x86_64__)
  // Chosen by times that were measured on x86 alone.
  for (const char* name : {"conv_winograd_i8", "conv_winograd_dynamic_quant"}) missing.erase(name);
#endif
  for (const BenchCase& b : all_cases()) {
    test::KernelRunner runner(b.c);
    ASSERT_TRUE(runner.shape_error().ok()) << b.c.label << ": " << runner.shape_error().error().message();
    bool runs = false;
    for (const KernelInfo& info : all_kernels()) {
      const auto runs_at = [&](Isa isa) {
        if (!runner.make(info, isa)) return false;
        missing.erase(info.name);
        return runs = true;
      };
      if (runs_at(best_isa()) || runs_at(all) || !missing.contains(info.name)) continue;
      for (const Isa isa : named_isas())  // kernels give way to those that a further level has
        if (runs_at(isa)) break;
    }
    EXPECT_TRUE(runs) << b.c.label << " is run by no kernel";
  }
  EXPECT_TRUE(missing.empty()) << ::testing::PrintToString(missing);
}

}  // namespace
}  // namespace smelt::bench
