#include "backends/cpu/core/kernel.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/cpu_case.h"

namespace smelt {
namespace {

TEST(CpuKernels, NamesAreUniqueAndDocumented) {
  std::set<std::string> names;
  for (const KernelInfo& k : all_kernels()) {
    EXPECT_TRUE(names.insert(k.name).second) << k.name;
    EXPECT_NE(std::string(k.doc), "") << k.name;
  }
}

TEST(CpuKernels, LevelsHaveNames) {
  EXPECT_STREQ(to_string(Isa::kBaseline), "baseline");
  EXPECT_STREQ(to_string(Isa::kVnni), "vnni");
  EXPECT_LE(active_isa(), best_isa());
}

TEST(PackCache, PacksOnce) {
  PackCache cache;
  int calls = 0;
  const float x = 0;
  auto pack = [&] {
    ++calls;
    return std::make_shared<const AlignedBuffer>(100);
  };
  const Packed a = cache.get(&x, "k", pack), b = cache.get(&x, "k", pack);
  EXPECT_EQ(a, b);
  EXPECT_EQ(calls, 1);
  cache.get(&x, "other", pack);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(cache.bytes(), 200u);
}

}  // namespace
}  // namespace smelt
