#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <span>

#include "backends/cpu/conv/winograd_variable.h"
#include "ops/conv/conv.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

struct WinogradRow {
  int64_t batch, c_in, h, w, c_out, pad;
  ActKind act = ActKind::kNone;
  bool bias = true;
  int64_t dilation = 1, groups = 1;
};

/// make(shape, seed): the image (seed 1), the filter (2) and the bias (3).
template <class Make>
OpCase winograd_case(const WinogradRow& r, FilterLayout filter, Make make) {
  auto attrs = std::make_shared<ConvAttrs>();
  attrs->strides = {1, 1};
  attrs->dilations = {r.dilation, r.dilation};
  attrs->pads = {r.pad, r.pad, r.pad, r.pad};
  attrs->layout = Layout::kChannelsLast;
  attrs->groups = r.groups;
  attrs->filter = filter;
  attrs->act.kind = r.act;
  OpCase c;
  c.op = Op::kConv;
  c.attrs = attrs;
  const Shape x{r.batch, r.h, r.w, r.c_in};
  const Shape w =
      filter == FilterLayout::kOSI ? Shape{r.c_out, 3, 3, r.c_in / r.groups} : Shape{r.c_out, r.c_in / r.groups, 3, 3};
  c.label = "x " + x.str() + " filter " + w.str() + " dilation " + std::to_string(r.dilation);
  c.inputs = {make(x, 1), make(w, 2), r.bias ? make(Shape{r.c_out}, 3) : Tensor()};
  c.constants = {1, 2};
  c.threaded = true;
  return c;
}

OpCase winograd_case(const WinogradRow& r, FilterLayout filter = FilterLayout::kOSI) {
  return winograd_case(
      r, filter, [](const Shape& shape, uint32_t seed) { return random_tensor(DType::kF32, shape, -1, 1, seed); });
}

const WinogradRow kWinogradRows[] = {
    {1, 32, 12, 11, 32, 1, ActKind::kRelu},
    {2, 37, 13, 12, 50, 0, ActKind::kTanh},
    {1, 48, 30, 41, 33, 2, ActKind::kNone, false},
    {1, 70, 7, 8, 50, 1, ActKind::kRelu},  // four tiles of 4x4
    {3, 451, 7, 7, 40, 1},
    {2, 3, 5, 3, 1, 1},   // narrower than a tile
    {1, 5, 3, 3, 17, 0},  // one pixel
    {2, 24, 17, 15, 40, 2, ActKind::kRelu, true, 2},
    // Phases of a dilation with fewer pixels than others, and more phases than pixels.
    {1, 33, 13, 26, 20, 3, ActKind::kTanh, false, 5},
    {2, 16, 6, 4, 20, 9, ActKind::kNone, true, 9},
    // Groups of one panel, of several, of parts of a vector.
    {1, 128, 12, 11, 128, 1, ActKind::kRelu, true, 1, 2},
    {2, 72, 9, 7, 120, 1, ActKind::kTanh, false, 1, 3},
    {1, 160, 7, 8, 160, 1, ActKind::kNone, true, 1, 2},  // four tiles of 4x4
    {1, 48, 13, 10, 12, 2, ActKind::kNone, true, 2, 4},
};

constexpr struct {
  const char *variable, *kernel;
  int tile;
  double error;  ///< E of conv_winograd_f32.cc
} kWinogradKernels[] = {{"always2", "conv_winograd_2x2_f32", 2, 16}, {"always4", "conv_winograd_4x4_f32", 4, 205}};

constexpr Tolerance kWinogradSums{4e-4, 1e-5};

const KernelInfo& kernel_named(const char* name) {
  return *std::ranges::find_if(all_kernels(), [&](const KernelInfo& k) { return std::strcmp(k.name, name) == 0; });
}

TEST(ConvWinogradF32, Shapes) {
  for (const auto& kernel : kWinogradKernels) {
    const WinogradVariable variable(kernel.variable);
    for (const WinogradRow& r : kWinogradRows) check_on_cpu(winograd_case(r), kernel.kernel, kWinogradSums);
    check_on_cpu(winograd_case(kWinogradRows[1], FilterLayout::kOIS), kernel.kernel, kWinogradSums);
  }
}

// Infinities, NaN and what overflows in the transforms only come out as the definition has them.
TEST(ConvWinogradF32, NumbersThatAreNotFinite) {
  const float values[] = {INFINITY, -INFINITY, NAN, 3e38f};
  for (const auto& kernel : kWinogradKernels) {
    const WinogradVariable variable(kernel.variable);
    for (const size_t row : {0, 1, 2, 3, 4, 7}) {
      OpCase c = winograd_case(kWinogradRows[row]);
      auto* x = c.inputs[0].data<float>();
      const int64_t n = c.inputs[0].elements(), places[] = {0, n / 4, n / 2, n - 1};
      for (size_t i = 0; i < 4; ++i) {
        const float value = values[(row + i) % 4];
        // Sums of neighbours of 3e38 depend on their order.
        x[places[i]] = row > 4 && std::isfinite(value) ? NAN : value;
      }
      check_on_cpu(c, kernel.kernel, kWinogradSums);
    }
  }
}

/// Exact results of a convolution without bias or padding, and S of conv_winograd_f32.cc, with the largest number of
/// an image's channel instead of a tile's.
struct ExactConv {
  std::vector<double> y, bound;

  ExactConv(const WinogradRow& r, const Tensor& image, const Tensor& filter) {
    const auto *x = image.data<float>(), *w = filter.data<float>();
    std::vector<double> largest(static_cast<size_t>(r.c_in));
    for (int64_t i = 0; i < image.elements(); ++i) {
      double& l = largest[static_cast<size_t>(i % r.c_in)];
      l = std::max(l, std::fabs(double{x[i]}));
    }
    for (int64_t p = 0; p < (r.h - 2) * (r.w - 2); ++p)
      for (int64_t o = 0; o < r.c_out; ++o) {
        double sum = 0, size = 0;
        for (int64_t t = 0; t < 9; ++t)
          for (int64_t i = 0; i < r.c_in; ++i) {
            const double tap = w[(o * 9 + t) * r.c_in + i];
            sum += tap * x[((p / (r.w - 2) + t / 3) * r.w + p % (r.w - 2) + t % 3) * r.c_in + i];
            size += std::fabs(tap) * largest[static_cast<size_t>(i)];
          }
        y.push_back(sum);
        bound.push_back(size);
      }
  }
  /// The largest error relative to the bound, and the sum of squared errors.
  std::pair<double, double> errors(const Tensor& got) const {
    double largest = 0, squares = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      const double error = std::fabs(got.data<float>()[i] - y[i]);
      largest = std::max(largest, error / bound[i]);
      squares += error * error;
    }
    return {largest, squares};
  }
};

/// Kinds of numbers; each makes the image (seed 1) and the filter (seed 2).
constexpr struct {
  const char* name;
  double lo, hi;
  bool constant = false, rectified = false;
} kNumbers[] = {
    {"random", -1, 1},
    {"large", -1e17, 1e17},
    {"tiny", -1e-17, 1e-17},
    {"constant", 0.7, 0.7, true},
    {"rectified", -1, 1, false, true},
    {"positive", 100, 101},
    {"one sign", 1e-9, 1e-8},
};

Tensor numbers(const Shape& shape, uint32_t seed, size_t kind) {
  Tensor t = random_tensor(DType::kF32, shape, kNumbers[kind].lo, kNumbers[kind].hi, seed);
  auto* x = t.data<float>();
  if (kNumbers[kind].constant) std::fill_n(x, t.elements(), static_cast<float>(kNumbers[kind].hi));
  if (kNumbers[kind].rectified && seed == 1)
    for (int64_t i = 0; i < t.elements(); ++i) x[i] = std::max(x[i], 0.0f);
  return t;
}

// The header of conv_winograd_f32.cc states the bound.
TEST(ConvWinogradF32, ErrorIsBounded) {
  const WinogradRow shape{1, 40, 14, 14, 24, 0, ActKind::kNone, false};
  for (size_t kind = 0; kind < std::size(kNumbers); ++kind) {
    const OpCase c =
        winograd_case(shape, FilterLayout::kOSI, [&](const Shape& s, uint32_t seed) { return numbers(s, seed, kind); });
    const ExactConv exact(shape, c.inputs[0], c.inputs[1]);
    KernelRunner runner(c);
    for (const Isa isa : tested_isas()) {
      const auto errors = [&](const char* name) {
        const auto kernel = runner.make(kernel_named(name), isa);
        EXPECT_TRUE(kernel) << name;
        if (!kernel) return std::pair<double, double>();
        const auto got = runner.run(*kernel);
        EXPECT_TRUE(got.ok());
        return exact.errors((*got)[0]);
      };
      const auto direct = errors("conv_nhwc_f32");
      for (const auto& k : kWinogradKernels) {
        SCOPED_TRACE(std::string(k.kernel) + " " + kNumbers[kind].name + " " + to_string(isa));
        const WinogradVariable variable(k.variable);
        const auto [largest, squares] = errors(k.kernel);
        EXPECT_LE(largest, k.error * static_cast<double>(shape.c_in + 32) * 0x1p-24);
        if (!kNumbers[kind].constant) {
          EXPECT_GT(squares, 0);  // it is not the direct convolution
          if (kind == 0 || kNumbers[kind].rectified) {
            EXPECT_LE(std::sqrt(squares), 4 * std::sqrt(direct.second));
          }
        }
      }
    }
  }
}

/// The case's three images are equal.
void expect_equal_bits(OpCase c, const char* name, Isa isa) {
  auto* x = c.inputs[0].data<float>();
  const int64_t image = c.inputs[0].elements() / 3;
  std::copy_n(x, image, x + image);
  std::copy_n(x, image, x + 2 * image);
  KernelRunner runner(c);
  std::vector<float> first;
  for (const int threads : {1, 2, 3, 5}) {
    const auto kernel = runner.make(kernel_named(name), isa.with(IsaFeature::kOneOrder), threads);
    ASSERT_TRUE(kernel);
    const auto got = runner.run(*kernel, threads);
    ASSERT_TRUE(got.ok());
    const Tensor& y = (*got)[0];
    const auto n = static_cast<size_t>(y.elements() / 3);
    if (first.empty()) first.assign(y.data<float>(), y.data<float>() + n);
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(std::memcmp(first.data(), y.data<float>() + i * n, n * sizeof(float)), 0) << name << threads;
  }
}

TEST(ConvWinogradF32, EqualBitsForAnyThreadsAndPositionInABatch) {
  for (const auto& k : kWinogradKernels) {
    const WinogradVariable variable(k.variable);
    expect_equal_bits(winograd_case({3, 33, 9, 10, 20, 1}), k.kernel, best_isa());
  }
}

TEST(ConvWinogradF32, VariableChooses) {
  const OpCase c = winograd_case({1, 64, 28, 28, 64, 1});
  KernelRunner runner(c);
  const auto chosen = [&] { return std::string(runner.choose(best_isa(), PackCache::Mode::kDry)->name); };
  EXPECT_EQ(chosen(), "conv_winograd_4x4_f32");
  for (const auto& [value, name] : {std::pair("0", "conv_nhwc_f32"), std::pair("2", "conv_winograd_2x2_f32"),
                                    std::pair("4", "conv_winograd_4x4_f32")}) {
    const WinogradVariable variable(value);
    EXPECT_EQ(chosen(), name);
  }
}

constexpr const char* kBf16 = "conv_winograd_2x2_bf16";

const WinogradRow kBf16Rows[] = {
    {1, 32, 12, 11, 32, 1, ActKind::kRelu},
    {2, 48, 13, 12, 50, 0, ActKind::kTanh},
    {1, 800, 7, 7, 40, 1},  // two chunks of channels
    {2, 16, 5, 3, 1, 1},
    {1, 64, 30, 41, 33, 2, ActKind::kNone, false},
    {2, 16, 17, 15, 40, 2, ActKind::kRelu, true, 2},
};

/// Integers that bfloat16 holds, also transformed.
OpCase case_of_integers(const WinogradRow& row, FilterLayout filter = FilterLayout::kOSI) {
  return winograd_case(row, filter, [](const Shape& shape, uint32_t seed) {
    Tensor t = random_tensor(DType::kF32, shape, -3, 3, seed);
    auto* x = t.data<float>();
    for (int64_t i = 0; i < t.elements(); ++i) x[i] = std::round(x[i]) * (seed == 2 ? 4.0f : 1.0f);
    return t;
  });
}

TEST(ConvWinogradBf16, ExactOperands) {
  if (!machine_has(Isa::kBf16)) GTEST_SKIP() << "this machine has no AVX-512 BF16";
  const WinogradVariable variable("always2");
  for (const WinogradRow& r : kBf16Rows) check_named(case_of_integers(r), kBf16, Isa::kBf16, kWinogradSums);
  check_named(case_of_integers(kBf16Rows[1], FilterLayout::kOIS), kBf16, Isa::kBf16, kWinogradSums);
}

TEST(ConvWinogradBf16, NumbersThatAreNotFinite) {
  if (!machine_has(Isa::kBf16)) GTEST_SKIP() << "this machine has no AVX-512 BF16";
  const WinogradVariable variable("always2");
  for (const float value : {INFINITY, -INFINITY, NAN, 3e38f}) {
    OpCase c = case_of_integers(kBf16Rows[0]);
    c.inputs[0].data<float>()[c.inputs[0].elements() / 2] = value;
    check_named(c, kBf16, Isa::kBf16, kWinogradSums);
  }
}

// The header of conv_winograd_f32.cc states the bound.
TEST(ConvWinogradBf16, ErrorIsBounded) {
  if (!machine_has(Isa::kBf16)) GTEST_SKIP() << "this machine has no AVX-512 BF16";
  const WinogradVariable variable("always2");
  const WinogradRow shape{1, 48, 14, 14, 24, 0, ActKind::kNone, false};
  for (size_t kind = 0; kind < std::size(kNumbers); ++kind) {
    SCOPED_TRACE(kNumbers[kind].name);
    const OpCase c =
        winograd_case(shape, FilterLayout::kOSI, [&](const Shape& s, uint32_t seed) { return numbers(s, seed, kind); });
    const ExactConv exact(shape, c.inputs[0], c.inputs[1]);
    KernelRunner runner(c);
    const auto errors = [&](const char* name) {
      const auto kernel = runner.make(kernel_named(name), Isa::kBf16);
      EXPECT_TRUE(kernel) << name;
      const auto got = runner.run(*kernel);
      EXPECT_TRUE(got.ok());
      return exact.errors((*got)[0]);
    };
    const auto [largest, squares] = errors(kBf16);
    EXPECT_LE(largest, 16 * (0x1p-7 + static_cast<double>(shape.c_in + 32) * 0x1p-22));
    EXPECT_GT(squares, 0);
    if (kind == 0 || kNumbers[kind].rectified) {
      EXPECT_LE(std::sqrt(squares), 2 * std::sqrt(errors("conv_nhwc_bf16").second));
    }
  }
}

TEST(ConvWinogradBf16, EqualBitsForAnyThreadsAndPositionInABatch) {
  if (!machine_has(Isa::kBf16)) GTEST_SKIP() << "this machine has no AVX-512 BF16";
  const WinogradVariable variable("always2");
  expect_equal_bits(winograd_case({3, 48, 9, 10, 20, 1}), kBf16, Isa::kBf16);
}

TEST(ConvWinogradBf16, IsChosenWhereItTakesLessTime) {
  if (!machine_has(Isa::kBf16)) GTEST_SKIP() << "this machine has no AVX-512 BF16";
  const auto chosen = [](const WinogradRow& row) {
    const OpCase c = winograd_case(row);
    return std::string(KernelRunner(c).choose(Isa::kBf16, PackCache::Mode::kDry)->name);
  };
  EXPECT_EQ(chosen({1, 64, 28, 28, 64, 1}), kBf16);
  EXPECT_EQ(chosen({1, 16, 14, 14, 16, 1}), "conv_nhwc_bf16");
  const WinogradVariable variable("0");
  EXPECT_EQ(chosen({1, 64, 28, 28, 64, 1}), "conv_nhwc_bf16");
}

}  // namespace
}  // namespace smelt
