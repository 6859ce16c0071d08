// Rows for elementwise nodes, softmax and conversions.
#include "support/xnn_cases.h"

namespace smelt::executorch::testing {
namespace {

const Dims kDims{2, 3, 5};

Case unary(XNodeUnion type, double (*f)(double), double lo = -2, double hi = 2) {
  return {type,
          "",
          {kDims},
          kDims,
          [type](XnnBlob& b, const auto& in, uint32_t out) {
            b.node(type, fb_xnnpack::Create_XNNNode1x1(b.fbb, in[0], out));
          },
          [f](const std::vector<Reals>& x) {
            Reals y(x[0].size());
            std::transform(x[0].begin(), x[0].end(), y.begin(), f);
            return y;
          },
          lo,
          hi};
}

double hardswish(double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; }

void add_unary(Rows& rows) {
  const Case real[] = {
      unary(XNodeUnion::XNNSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }),
      unary(XNodeUnion::XNNFloor, [](double x) { return std::floor(x); }),
      unary(XNodeUnion::XNNCeiling, [](double x) { return std::ceil(x); }),
      unary(
          XNodeUnion::XNNSquareRoot, [](double x) { return std::sqrt(x); }, 0.1, 4),
      unary(
          XNodeUnion::XNNReciprocalSquareRoot, [](double x) { return 1 / std::sqrt(x); }, 0.5, 4),
      unary(XNodeUnion::XNNHardswish, hardswish, -4, 4),
      unary(
          XNodeUnion::XNNLog, [](double x) { return std::log(x); }, 0.2, 4),
      unary(XNodeUnion::XNNGelu, [](double x) { return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0))); }),
      unary(XNodeUnion::XNNTanh, [](double x) { return std::tanh(x); }),
      unary(
          XNodeUnion::XNNExp, [](double x) { return std::exp(x); }, -3, 1),
      unary(XNodeUnion::XNNSin, [](double x) { return std::sin(x); }),
      unary(XNodeUnion::XNNCos, [](double x) { return std::cos(x); }),
  };
  for (const Case& c : real) add(rows, c, kReal);
  Case any[] = {
      unary(XNodeUnion::XNNNegate, [](double x) { return -x; }),
      unary(XNodeUnion::XNNSquare, [](double x) { return x * x; }),
      unary(XNodeUnion::XNNAbs, [](double x) { return std::fabs(x); }),
      unary(XNodeUnion::XNNCopy, [](double x) { return x; }),
  };
  for (Case& c : any) {
    add(rows, c, kReal);
    c.lo = -300, c.hi = 300;
    add(rows, c, kInteger);
  }
}

void add_unary_with_parameters(Rows& rows) {
  Case elu = unary(XNodeUnion::XNNELU, [](double x) { return x > 0 ? x : 1.5 * std::expm1(x); });
  elu.write = [](XnnBlob& b, const auto& in, uint32_t out) {
    b.node(XNodeUnion::XNNELU, fb_xnnpack::CreateXNNELU(b.fbb, 1.5f, in[0], out));
  };
  add(rows, elu, kReal);
  Case leaky = unary(XNodeUnion::XNNLeakyReLU, [](double x) { return x > 0 ? x : 0.25 * x; });
  leaky.write = [](XnnBlob& b, const auto& in, uint32_t out) {
    b.node(XNodeUnion::XNNLeakyReLU, fb_xnnpack::CreateXNNLeakyReLU(b.fbb, 0.25f, in[0], out));
  };
  add(rows, leaky, kReal);
  Case clamp = unary(XNodeUnion::XNNClamp, [](double x) { return std::clamp(x, -0.5, 1.2); });
  clamp.write = [](XnnBlob& b, const auto& in, uint32_t out) {
    b.node(XNodeUnion::XNNClamp, fb_xnnpack::Create_XNNNode1x1(b.fbb, in[0], out), std::pair{-0.5f, 1.2f});
  };
  add(rows, clamp, kReal);
  clamp = unary(
      XNodeUnion::XNNClamp, [](double x) { return std::clamp(x, -7.0, 11.0); }, -30, 30);
  clamp.write = [](XnnBlob& b, const auto& in, uint32_t out) {
    b.node(XNodeUnion::XNNClamp, fb_xnnpack::Create_XNNNode1x1(b.fbb, in[0], out), std::pair{-7.f, 11.f});
  };
  add(rows, clamp, kInteger);
}

void add_softmax(Rows& rows) {
  Case c{XNodeUnion::XNNSoftmax,
         "",
         {{3, 6}},
         {3, 6},
         [](XnnBlob& b, const auto& in, uint32_t out) {
           b.node(XNodeUnion::XNNSoftmax, fb_xnnpack::Create_XNNNode1x1(b.fbb, in[0], out));
         },
         [](const std::vector<Reals>& x) {
           Reals y(x[0].size());
           for (size_t r = 0; r < 3; ++r) {
             double sum = 0;
             for (size_t i = 0; i < 6; ++i) sum += y[r * 6 + i] = std::exp(x[0][r * 6 + i]);
             for (size_t i = 0; i < 6; ++i) y[r * 6 + i] /= sum;
           }
           return y;
         }};
  c.out_scale = 1.0f / 256;
  add(rows, c, kReal);
}

Case binary(XNodeUnion type, std::string name, double (*f)(double, double),
            std::optional<std::pair<float, float>> range, Dims a = kDims, Dims b = kDims) {
  const size_t repeat = elements(a) / elements(b);
  return {type,
          std::move(name),
          {a, b},
          a,
          [type, range](XnnBlob& blob, const auto& in, uint32_t out) {
            blob.node(type, fb_xnnpack::Create_XNNNode2x1(blob.fbb, in[0], in[1], out), range);
          },
          [f, range, repeat](const std::vector<Reals>& x) {
            Reals y(x[0].size());
            for (size_t i = 0; i < y.size(); ++i) {
              y[i] = f(x[0][i], x[1][repeat == 1 ? i : i % x[1].size()]);
              if (range) y[i] = std::clamp(y[i], static_cast<double>(range->first), static_cast<double>(range->second));
            }
            return y;
          },
          0.4,
          2};
}

void add_binary(Rows& rows) {
  using Range = std::optional<std::pair<float, float>>;
  const auto add_to = [](double a, double b) { return a + b; };
  const auto sub = [](double a, double b) { return a - b; };
  const auto mul = [](double a, double b) { return a * b; };
  const auto div = [](double a, double b) { return a / b; };
  const auto min = [](double a, double b) { return std::min(a, b); };
  const auto max = [](double a, double b) { return std::max(a, b); };
  // The remainder is never negative; what is divided by zero is zero.
  const auto whole_div = [](double a, double b) {
    return b == 0 ? 0 : b > 0 ? std::floor(a / b) : -std::floor(a / -b);
  };
  const auto integers = [&rows](Case c) {
    c.lo = -20, c.hi = 20;
    add(rows, c, kInteger);
  };
  for (const bool clamps : {false, true}) {
    const Range real = clamps ? Range({0.5f, 2.0f}) : Range(), whole = clamps ? Range({-3.f, 15.f}) : Range();
    const std::string name = clamps ? "clamped" : "";
    add(rows, binary(XNodeUnion::XNNAdd, name, add_to, real), kReal);
    add(rows, binary(XNodeUnion::XNNSubtract, name, sub, real), kReal);
    add(rows, binary(XNodeUnion::XNNMultiply, name, mul, real), kReal);
    add(rows, binary(XNodeUnion::XNNDiv, name, div, real), kReal);
    integers(binary(XNodeUnion::XNNAdd, name, add_to, whole));
    integers(binary(XNodeUnion::XNNSubtract, name, sub, whole));
    integers(binary(XNodeUnion::XNNMultiply, name, mul, whole));
    integers(binary(XNodeUnion::XNNDiv, name, whole_div, whole));
  }
  add(rows, binary(XNodeUnion::XNNMinimum, "", min, {}), kReal);
  add(rows, binary(XNodeUnion::XNNMaximum, "", max, {}), kReal);
  integers(binary(XNodeUnion::XNNMinimum, "", min, {}));
  integers(binary(XNodeUnion::XNNMaximum, "", max, {}));
  add(rows, binary(XNodeUnion::XNNAdd, "broadcast", add_to, {}, {4, 3, 5}, {5}), kReal);
  add(rows, binary(XNodeUnion::XNNMultiply, "broadcast", mul, {}, {4, 3, 5}, {1, 3, 5}), kReal);
  Case prelu =
      binary(XNodeUnion::XNNPReLU, "", [](double x, double s) { return x > 0 ? x : x * s; }, {}, {4, 3, 5}, {5});
  prelu.lo = -2;
  add(rows, prelu, kReal);
}

void check_convert(XNNDatatype from, XNNDatatype to, BackendKind backend) {
  constexpr float kScale = 0.03f;
  constexpr int kZero = -7;
  XnnBlob b;
  const uint32_t x = b.input(from, kDims, params(from, kInputScale, kInputZero));
  const uint32_t y = b.output(to, kDims, params(to, kScale, kZero));
  b.node(XNodeUnion::XNNConvert, fb_xnnpack::Create_XNNNode1x1(b.fbb, x, y));
  Reals meant;
  const double reach = to == kI32 ? 100 : 2;
  auto results = run_blob(b.finish(), {store(spread(30, -reach, reach, 1), kDims, from, meant)}, backend);
  ASSERT_TRUE(results.ok()) << results.error().message();
  const Tensor& got = results->at(0).tensor;
  const DType dtype = element_type(to);
  ASSERT_EQ(got.dtype(), dtype);
  for (int64_t i = 0; i < 30; ++i) {
    const double want = meant[static_cast<size_t>(i)];
    if (quantized(to)) {
      const double q = std::nearbyint(want / kScale) + kZero + (to == kQU8 ? 128 : 0);
      EXPECT_NEAR(get_double(got, i),
                  std::clamp(q, static_cast<double>(int_min(dtype)), static_cast<double>(int_max(dtype))), 1);
    } else if (to == kI32) {
      EXPECT_EQ(get_double(got, i), std::nearbyint(want)) << want;
    } else {
      EXPECT_NEAR(get_double(got, i), want, to == kBF16 ? 0.02 : 2e-3);
    }
  }
}

/// Rows quantized at run time, seen through the numbers that they mean: a converted value has to be within half a step
/// of its row's range.
void check_dynamic_convert(XNNDatatype from, XNNDatatype to, BackendKind backend) {
  XnnBlob b;
  const Dims dims{3, 10};
  const uint32_t x = b.input(from, dims),
                 q = b.internal(to, dims, to == kPF32 ? XnnQuant{} : XnnQuant{.nonbatch_dims = 1});
  std::vector<float> unit(100, 0);
  for (size_t i = 0; i < 10; ++i) unit[i * 11] = 1;
  const uint32_t w = b.constant(kF32, {10, 10}, unit), y = b.output(kF32, dims);
  b.node(XNodeUnion::XNNConvert, fb_xnnpack::Create_XNNNode1x1(b.fbb, x, q));
  b.node(XNodeUnion::XNNFullyConnected, fb_xnnpack::CreateXNNFullyConnected(b.fbb, q, w, 0xffffffffu, y));
  Reals meant;
  auto results = run_blob(b.finish(), {store(spread(30, -2, 2, 1), dims, from, meant)}, backend);
  ASSERT_TRUE(results.ok()) << results.error().message();
  for (size_t r = 0; r < 3; ++r) {
    const auto row = std::span(meant).subspan(r * 10, 10);
    const double step = (std::max(0.0, *std::max_element(row.begin(), row.end())) -
                         std::min(0.0, *std::min_element(row.begin(), row.end()))) /
                        255;
    bool exact = true;
    for (size_t i = 0; i < 10; ++i) {
      const double got = get_double(results->at(0).tensor, static_cast<int64_t>(r * 10 + i));
      EXPECT_NEAR(got, row[i], to == kPF32 ? 1e-6 : 0.51 * step);
      exact &= std::fabs(got - row[i]) < 1e-6;
    }
    EXPECT_EQ(exact, to == kPF32);
  }
}

void add_convert(Rows& rows) {
  const auto row = [&](XNNDatatype from, XNNDatatype to, auto check) {
    rows.push_back({XNodeUnion::XNNConvert,
                    short_name(from) + " to " + short_name(to),
                    {{Slot::kInput, from}, {Slot::kOutput, to}},
                    [=](BackendKind backend) { check(from, to, backend); }});
  };
  for (XNNDatatype from : kReals32)
    for (XNNDatatype to : kReals32) row(from, to, check_convert);
  for (XNNDatatype from : {kF32, kF16}) row(from, kQD8, check_dynamic_convert);
  row(kF32, kQP8, check_dynamic_convert);
  row(kF32, kPF32, check_dynamic_convert);
}

}  // namespace

std::vector<Row> elementwise_rows() {
  Rows rows;
  for (auto* add_to : {add_unary, add_unary_with_parameters, add_softmax, add_binary, add_convert}) add_to(rows);
  return rows;
}

}  // namespace smelt::executorch::testing
