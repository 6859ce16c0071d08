// Bundles around a program that gives back what it takes: whatever the values are, right expectations match, one wrong
// element is found, and nothing passes that was not compared.
#include "cli/verify_bundle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "base/error.h"
#include "formats/bundle/bundle.h"
#include "support/program_writer.h"
#include "support/temporary_folder.h"
#include "tensor/numeric.h"

namespace smelt::cli {
namespace {

using Kind = bundle::TestValue::Kind;
using Verdict = SetResult::Verdict;
using fb::et::ScalarType;

constexpr std::pair<ScalarType, DType> kTypes[] = {
    {ScalarType::FLOAT, DType::kF32},     {ScalarType::DOUBLE, DType::kF64}, {ScalarType::HALF, DType::kF16},
    {ScalarType::BFLOAT16, DType::kBF16}, {ScalarType::LONG, DType::kI64},   {ScalarType::INT, DType::kI32},
    {ScalarType::SHORT, DType::kI16},     {ScalarType::CHAR, DType::kI8},    {ScalarType::BYTE, DType::kU8},
    {ScalarType::BOOL, DType::kBool},
};

Tensor random_tensor(DType dtype, const Shape& shape, std::mt19937& rng) {
  Tensor t(dtype, shape);
  for (int64_t i = 0; i < t.elements(); ++i) {
    const auto draw = static_cast<int64_t>(rng() % 100);
    if (!is_float(dtype))
      set_int(t, i, dtype == DType::kBool ? draw % 2 : draw);
    else if (draw < 3)
      set_double(t, i, std::numeric_limits<double>::quiet_NaN());
    else
      set_double(t, i, draw < 6 ? std::numeric_limits<double>::infinity() : static_cast<double>(draw) / 7 - 5);
  }
  return t;
}

Tensor copy_of(const Tensor& t) {
  Tensor out(t.dtype(), t.shape());
  std::memcpy(out.raw(), t.raw(), t.bytes());
  return out;
}

/// The same numbers but for one, which is another one by more than any default tolerance.
Tensor spoilt(const Tensor& t, int64_t at) {
  Tensor out = copy_of(t);
  if (t.dtype() == DType::kBool)
    set_int(out, at, 1 - get_int(t, at));
  else if (!is_float(t.dtype()))
    set_int(out, at, get_int(t, at) + 1);
  else
    set_double(out, at, std::isfinite(get_double(t, at)) ? get_double(t, at) * 1.01 + 0.05 : 1);
  return out;
}

/// A program of values of all kinds, its inputs its outputs, and one test set for it.
struct Echo {
  std::vector<uint8_t> program;
  bundle::TestSet set;

  explicit Echo(std::mt19937& rng) {
    ProgramWriter w;
    std::vector<int32_t> values;
    uint32_t offset = 0;
    const size_t tensors = 1 + rng() % 3;
    for (size_t i = 0; i < tensors; ++i) {
      const auto& [type, dtype] = kTypes[rng() % std::size(kTypes)];
      Shape shape;
      std::vector<int32_t> sizes;
      for (size_t d = rng() % 4; d > 0; --d) sizes.push_back(static_cast<int32_t>(1 + rng() % 4));
      for (int32_t s : sizes) shape.push_back(s);
      values.push_back(w.tensor(sizes, offset, type));
      offset += 1024;
      add(Kind::kTensor, random_tensor(dtype, shape, rng));
    }
    // Numbers must be those that the program was exported with.
    if (rng() % 2) values.push_back(scalar(Kind::kInt, w.integer(5), DType::kI64, 5));
    if (rng() % 2) values.push_back(scalar(Kind::kBool, w.boolean(true), DType::kBool, 1));
    if (rng() % 2) values.push_back(scalar(Kind::kDouble, w.real(2.5), DType::kF64, 2.5));
    program = w.finish(values, values);
  }

 private:
  void add(Kind kind, Tensor t) {
    set.inputs.push_back({kind, Datum(t)});
    set.expected.push_back({kind, Datum(t)});
  }
  int scalar(Kind kind, int value, DType dtype, double number) {
    Tensor t(dtype, Shape{});
    set_double(t, 0, number);
    add(kind, std::move(t));
    return value;
  }
};

class VerifyBundle : public ::testing::TestWithParam<bundle::Version> {
 protected:
  std::vector<SetResult> verify(const Echo& echo, const std::vector<bundle::TestSet>& sets,
                                const MatchRule& rule = {}) {
    bundle::Bundle b;
    b.version = GetParam();
    b.program = std::as_bytes(std::span(echo.program));
    bundle::MethodTests tests;
    tests.method = "forward";
    tests.sets = sets;
    b.tests.push_back(std::move(tests));
    const auto bytes = bundle::write(b, 1);
    EXPECT_TRUE(bytes.ok()) << (bytes.ok() ? "" : bytes.error().message());
    if (!bytes.ok()) return {};
    const TemporaryFolder folder;
    const auto path = folder.path() / "tests.bpte";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes->data()), static_cast<std::streamsize>(bytes->size()));
    auto results = verify_bundle(path.string(), {}, {.backend = BackendKind::kCpu}, rule);
    EXPECT_TRUE(results.ok()) << (results.ok() ? "" : results.error().message());
    return results.ok() ? std::move(results).value() : std::vector<SetResult>{};
  }
};

INSTANTIATE_TEST_SUITE_P(Layouts, VerifyBundle, ::testing::Values(bundle::Version::kBp04, bundle::Version::kBp08),
                         [](const auto& info) { return std::string(bundle::to_string(info.param)); });

TEST_P(VerifyBundle, OneWrongElementIsFoundWhereverItIs) {
  std::mt19937 rng(7);
  for (int round = 0; round < 60; ++round) {
    const Echo echo(rng);
    std::vector<bundle::TestSet> sets{echo.set};
    std::vector<std::string> places;
    for (size_t v = 0; v < echo.set.expected.size(); ++v) {
      const Tensor& t = echo.set.expected[v].datum.tensor;
      bundle::TestSet wrong = echo.set;
      wrong.expected[v].datum = Datum(spoilt(t, static_cast<int64_t>(rng() % static_cast<uint64_t>(t.elements()))));
      sets.push_back(wrong);
      places.push_back(Cat("output ", v, ": "));
    }
    const auto results = verify(echo, sets);
    ASSERT_EQ(results.size(), sets.size());
    EXPECT_EQ(results[0].verdict, Verdict::kPassed) << results[0].text;
    for (size_t i = 1; i < sets.size(); ++i) {
      EXPECT_EQ(results[i].verdict, Verdict::kFailed) << round << " " << i << " " << results[i].text;
      EXPECT_EQ(results[i].text.rfind(places[i - 1], 0), 0u) << results[i].text;
    }
  }
}

TEST_P(VerifyBundle, OtherTypesShapesKindsAndNumbersOfOutputsAreWrong) {
  std::mt19937 rng(11);
  for (int round = 0; round < 30; ++round) {
    const Echo echo(rng);
    const Tensor& t = echo.set.expected[0].datum.tensor;
    bundle::TestSet type = echo.set, shape = echo.set, kind = echo.set, fewer = echo.set, more = echo.set;
    const DType other = t.dtype() == DType::kI32 ? DType::kF32 : DType::kI32;
    Tensor converted(other, t.shape());
    for (int64_t i = 0; i < t.elements(); ++i) set_int(converted, i, 1);
    type.expected[0].datum = Datum(converted);
    Shape longer = t.shape();
    longer.push_back(1);
    Tensor reshaped(t.dtype(), longer);
    std::memcpy(reshaped.raw(), t.raw(), t.bytes());
    shape.expected[0].datum = Datum(reshaped);
    kind.expected[0] = {Kind::kInt, Datum(Tensor::from<int64_t>(DType::kI64, {}, std::vector<int64_t>{1}))};
    fewer.expected.pop_back();
    more.expected.push_back(more.expected.back());
    std::vector<bundle::TestSet> sets{type, shape, kind, more};
    if (!fewer.expected.empty()) sets.push_back(fewer);
    for (const SetResult& r : verify(echo, sets)) EXPECT_EQ(r.verdict, Verdict::kFailed) << r.name << " " << r.text;
  }
}

TEST_P(VerifyBundle, NothingPassesThatWasNotCompared) {
  std::mt19937 rng(13);
  for (int round = 0; round < 20; ++round) {
    const Echo echo(rng);
    bundle::TestSet bare = echo.set, unfed = echo.set;
    bare.expected.clear();
    unfed.inputs.pop_back();
    const auto results = verify(echo, {bare, echo.set, unfed});
    ASSERT_EQ(results.size(), 3u);
    EXPECT_EQ(results[0].verdict, Verdict::kSkipped);
    EXPECT_EQ(results[0].text, "no expected outputs");
    EXPECT_EQ(results[1].verdict, Verdict::kPassed) << results[1].text;
    EXPECT_EQ(results[2].verdict, Verdict::kBroken) << results[2].text;
  }
}

TEST_P(VerifyBundle, TolerancesAreThoseAskedFor) {
  std::mt19937 rng(17);
  ProgramWriter w;
  const int x = w.tensor({3}, 0);
  Echo echo(rng);
  echo.program = w.finish({x}, {x});
  const Tensor t = Tensor::from<float>(DType::kF32, {3}, std::vector<float>{1, -20, 300});
  Tensor near = copy_of(t);
  near.data<float>()[2] = 300.002f;
  echo.set.inputs = {{Kind::kTensor, Datum(t)}};
  echo.set.expected = {{Kind::kTensor, Datum(near)}};
  EXPECT_EQ(verify(echo, {echo.set}).at(0).verdict, Verdict::kPassed);
  EXPECT_EQ(verify(echo, {echo.set}, {.rtol = 1e-6, .atol = 0, .given = true}).at(0).verdict, Verdict::kFailed);
  EXPECT_EQ(verify(echo, {echo.set}, {.rtol = 0, .atol = 0.01, .given = true}).at(0).verdict, Verdict::kPassed);
}

}  // namespace
}  // namespace smelt::cli
