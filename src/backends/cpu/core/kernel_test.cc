#include "backends/cpu/core/kernel.h"

#include <gtest/gtest.h>

#include <set>

#include "ops/softmax/softmax.h"
#include "tests/support/kernel_runner.h"

namespace smelt {
namespace {

TEST(CpuKernels, NamesAreUniqueInAnOperatorAndDocumented) {
  std::set<std::pair<Op, std::string>> names;
  for (const KernelInfo& k : all_kernels()) {
    EXPECT_TRUE(names.emplace(k.op, k.name).second) << k.name;
    EXPECT_NE(std::string(k.doc), "") << k.name;
  }
}

TEST(CpuKernels, LevelsHaveNames) {
  EXPECT_STREQ(to_string(Isa::kBaseline), "baseline");
  EXPECT_STREQ(to_string(Isa::kVnni), "vnni");
  EXPECT_STREQ(to_string(Isa::kAmx), "amx");
  EXPECT_TRUE(named_isas().back().contains(active_isa()));
  EXPECT_FALSE(best_isa().has(IsaFeature::kBf16)) << "it changes results: where it is named only";
}

TEST(CpuKernels, AnUnknownLevelIsAnErrorThatListsTheLevels) {
  for (const Isa isa : named_isas()) ASSERT_EQ(*isa_named(to_string(isa)), isa);
  EXPECT_EQ(*isa_named(nullptr), best_isa());
  const auto wrong = isa_named("avx1024");
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message().find("baseline"), std::string::npos) << wrong.error().message();
  EXPECT_NE(wrong.error().message().find(to_string(best_isa())), std::string::npos) << wrong.error().message();
}

TEST(CpuKernels, ARefusalSaysWhatEachKernelMisses) {
  const test::OpCase c{
      "", Op::kSoftmax, make_attrs<SoftmaxAttrs>(), {test::random_tensor(DType::kF64, {2, 3}, 0, 1, 1)}};
  test::KernelRunner runner(c);
  const std::string why = runner.refusal(best_isa());
  EXPECT_NE(why.find("softmax_f32: input 0 is float64, float32 expected"), std::string::npos) << why;
}

struct TestKey {
  const void* data;
  int form;
  auto operator<=>(const TestKey&) const = default;
};
struct OtherKey {
  const void* data;
  int form;
  auto operator<=>(const OtherKey&) const = default;
};

TEST(PackCache, PacksOnce) {
  PackCache cache;
  int calls = 0;
  const float x = 0;
  auto pack = [&] {
    ++calls;
    return std::make_shared<const AlignedBuffer>(100);
  };
  const Packed a = cache.get(TestKey{&x, 1}, pack), b = cache.get(TestKey{&x, 1}, pack);
  EXPECT_EQ(a, b);
  EXPECT_EQ(calls, 1);
  cache.get(TestKey{&x, 2}, pack);
  cache.get(OtherKey{&x, 1}, pack);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(cache.bytes(), 300u);
}

}  // namespace
}  // namespace smelt
