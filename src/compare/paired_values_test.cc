#include "compare/paired_values.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "compare/compare.h"
#include "compare/discrepancy.h"

namespace smelt {
namespace {

QuantPtr per_tensor(float scale, int32_t zero_point) {
  return std::make_shared<const Quantization>(Quantization{.scales = {scale}, .zero_points = {zero_point}});
}

Tensor filled(DType dtype, const Shape& shape, const QuantPtr& quant, int step) {
  Tensor t(dtype, shape);
  t.set_quant(quant);
  std::vector<float> values(static_cast<size_t>(t.elements()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<int64_t>(i * static_cast<size_t>(step) % 211) - 100) / 2;
  write_reals(values, t);
  return t;
}

struct PairedCase {
  const char* name;
  DType first, second;
  QuantPtr first_quant, second_quant;
  Shape first_shape, second_shape;
  ElementOrder layout;
};
std::ostream& operator<<(std::ostream& out, const PairedCase& c) { return out << c.name; }

class PairedElements : public ::testing::TestWithParam<PairedCase> {};

/// Parts, one behind the other in any order of tiles, tell the same as the values as a whole, and replace them alike.
TEST_P(PairedElements, PartsAreAsTheWhole) {
  const PairedCase& c = GetParam();
  const Tensor first = filled(c.first, c.first_shape, c.first_quant, 7);
  Tensor second = filled(c.second, c.second_shape, c.second_quant, 5);
  auto recording = Recording::create();
  ASSERT_TRUE(recording.ok());
  ASSERT_TRUE(recording->add(3, Datum(filled(DType::kF32, {5}, nullptr, 1))).ok());
  ASSERT_TRUE(recording->add(4, Datum(first)).ok());
  const Pair pair{4, c.layout, Evidence::kName};

  const std::vector<float> want = laid_out(reals(first), c.first_shape, c.layout), have = reals(second);
  const Discrepancy whole = discrepancy(want, have);
  Tensor expected = second.clone();
  if (want.size() == have.size()) write_reals(want, expected);

  int parts = 0;
  DiscrepancySum sum;
  const PairedValues values(*recording, pair, second);
  const auto add = [&](std::span<const float> a, std::span<const float> b) {
    ++parts;
    sum.add(a, b);
  };
  ASSERT_TRUE(values.visit(add).ok());
  const Discrepancy d = sum.result();
  EXPECT_EQ(d.comparable, whole.comparable);
  EXPECT_EQ(d.count, whole.count);
  EXPECT_DOUBLE_EQ(d.max_abs, whole.max_abs);
  EXPECT_NEAR(d.rms, whole.rms, 1e-9);
  EXPECT_NEAR(d.signal, whole.signal, 1e-9);
  EXPECT_NEAR(d.mean, whole.mean, 1e-9);
  EXPECT_EQ(parts > 1, second.elements() > 40'000 && whole.comparable);
  EXPECT_EQ(reals(second), have) << "visit() writes nothing";

  ASSERT_TRUE(values.replace(add).ok());
  EXPECT_EQ(std::memcmp(second.raw(), expected.raw(), expected.bytes()), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, PairedElements,
    ::testing::Values(
        PairedCase{
            "same", DType::kF32, DType::kF32, nullptr, nullptr, {3, 1, 40'001}, {3, 40'001}, ElementOrder::kSame},
        PairedCase{"small", DType::kF32, DType::kF16, nullptr, nullptr, {7}, {1, 7}, ElementOrder::kSame},
        PairedCase{"half", DType::kF16, DType::kF32, nullptr, nullptr, {2, 33'000}, {2, 33'000}, ElementOrder::kSame},
        PairedCase{"quantized",
                   DType::kI8,
                   DType::kU8,
                   per_tensor(0.5F, 3),
                   per_tensor(0.5F, 131),
                   {1, 90'000},
                   {90'000},
                   ElementOrder::kSame},
        PairedCase{"last",
                   DType::kF32,
                   DType::kF32,
                   nullptr,
                   nullptr,
                   {2, 3, 170, 190},
                   {2, 170, 190, 3},
                   ElementOrder::kChannelsLast},
        PairedCase{"last_deep",
                   DType::kF32,
                   DType::kI8,
                   nullptr,
                   per_tensor(0.5F, -4),
                   {1, 5000, 7, 3},
                   {1, 7, 3, 5000},
                   ElementOrder::kChannelsLast},
        PairedCase{"first",
                   DType::kI8,
                   DType::kF32,
                   per_tensor(0.25F, 5),
                   nullptr,
                   {2, 170, 190, 3},
                   {2, 3, 170, 190},
                   ElementOrder::kChannelsFirst},
        PairedCase{"other_sizes", DType::kF32, DType::kF32, nullptr, nullptr, {50'000}, {50'001}, ElementOrder::kSame}),
    [](const ::testing::TestParamInfo<PairedCase>& info) { return std::string(info.param.name); });

TEST(VisitReals, ShowsEveryElementOnce) {
  for (const DType dtype : {DType::kF32, DType::kI8, DType::kI4}) {
    const Tensor t = filled(dtype, {3, 30'001}, nullptr, 1);
    const std::vector<float> all = reals(t);
    std::vector<float> seen;
    visit_reals(t, [&](int64_t at, std::span<const float> values) {
      EXPECT_EQ(at, static_cast<int64_t>(seen.size()));
      seen.insert(seen.end(), values.begin(), values.end());
    });
    EXPECT_EQ(seen, all);
  }
}

TEST(Histogram, CountsInParts) {
  const std::vector<float> values{-1, 0, 1, 3, std::numeric_limits<float>::infinity()};
  Extent range;
  range.add(std::span(values).first(2));
  range.add(std::span(values).subspan(2));
  Histogram h = range.bins(4);
  EXPECT_EQ(h.low, -1);
  EXPECT_EQ(h.high, 3);
  h.count(std::span(values).first(3));
  h.count(std::span(values).subspan(3));
  EXPECT_EQ(h.counts, (std::vector<int64_t>{1, 1, 1, 1}));
}

}  // namespace
}  // namespace smelt
