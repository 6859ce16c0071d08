// Every node of the XNNPACK schema without weights in every data type, against formulas in double. A quantized node has
// to come within one step of the formula applied to what its stored inputs mean.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "formats/executorch/xnnpack/testing.h"
#include "smelt/model.h"
#include "tensor/numeric.h"

namespace smelt::executorch::testing {
namespace {

using Reals = std::vector<double>;

enum class Type { kF32, kF16, kBF16, kQInt8, kQUInt8 };
constexpr Type kReal[] = {Type::kF32, Type::kF16};
constexpr Type kAll[] = {Type::kF32, Type::kF16, Type::kQInt8, Type::kQUInt8};
constexpr Type kFloats[] = {Type::kF32, Type::kF16, Type::kBF16};

const char* name_of(Type t) {
  static const char* const names[] = {"f32", "f16", "bf16", "qint8", "quint8"};
  return names[static_cast<int>(t)];
}
XNNDatatype datatype(Type t) {
  static const XNNDatatype types[] = {XNNDatatype::xnn_datatype_fp32, XNNDatatype::xnn_datatype_fp16,
                                      XNNDatatype::xnn_datatype_bf16, XNNDatatype::xnn_datatype_qint8,
                                      XNNDatatype::xnn_datatype_quint8};
  return types[static_cast<int>(t)];
}
DType dtype(Type t) {
  static const DType types[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kI8, DType::kU8};
  return types[static_cast<int>(t)];
}
bool quantized(Type t) { return t == Type::kQInt8 || t == Type::kQUInt8; }

XnnQuant params(Type t, float scale, int zero) {
  if (!quantized(t)) return {};
  return {.scales = {scale}, .zero_point = t == Type::kQUInt8 ? zero + 128 : zero};
}
constexpr float kInputScale = 0.04f;
constexpr int kInputZero = 3;

Shape shape_of(const Dims& dims) {
  Shape s;
  for (uint32_t d : dims) s.push_back(d);
  return s;
}

/// Stored tensor for real numbers, and the numbers that it then means.
Tensor store(const Reals& values, const Dims& dims, Type t, Reals& meant) {
  Tensor out(dtype(t), shape_of(dims));
  meant.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (quantized(t)) {
      const int zero = kInputZero + (t == Type::kQUInt8 ? 128 : 0);
      const double q = std::clamp(std::nearbyint(values[i] / kInputScale) + zero,
                                  static_cast<double>(int_min(dtype(t))), static_cast<double>(int_max(dtype(t))));
      set_int(out, at, static_cast<int64_t>(q));
      meant[i] = static_cast<float>(q - zero) * kInputScale;
    } else {
      set_double(out, at, values[i]);
      meant[i] = get_double(out, at);
    }
  }
  return out;
}

/// Numbers without pattern in [lo, hi].
Reals spread(size_t n, double lo, double hi, int seed) {
  Reals v(n);
  for (size_t i = 0; i < n; ++i) {
    const double s = std::sin(static_cast<double>(i + 1) * 12.9898 + seed * 78.233) * 43758.5453;
    v[i] = lo + (hi - lo) * (s - std::floor(s));
  }
  return v;
}
size_t elements(const Dims& d) {
  size_t n = 1;
  for (uint32_t x : d) n *= x;
  return n;
}

Result<std::vector<Datum>> run_blob(const std::vector<std::byte>& blob, const std::vector<Datum>& inputs,
                                    BackendKind backend = BackendKind::kReference) {
  SMELT_ASSIGN(const Model model, Model::load_bytes(blob, nullptr, "test.xnn"));
  SMELT_ASSIGN(Session session, Session::create(model, {.backend = backend}));
  return session.run(inputs);
}

/// A node kind: how it is written and what it means.
struct Case {
  std::string name;
  std::vector<Dims> inputs;
  Dims output;
  std::function<void(XnnBlob&, const std::vector<uint32_t>& in, uint32_t out)> write;
  std::function<Reals(const std::vector<Reals>&)> formula;
  double lo = -2, hi = 2;                    ///< of the inputs
  float out_scale = 0.05f;                   ///< of a quantized output
  std::optional<XNNDatatype> out_type = {};  ///< where it is not that of the inputs
};

void check(const Case& c, Type t, BackendKind backend) {
  SCOPED_TRACE(c.name + " " + name_of(t) + (backend == BackendKind::kCpu ? " cpu" : " reference"));
  XnnBlob blob;
  std::vector<uint32_t> ids;
  std::vector<Datum> inputs;
  std::vector<Reals> meant;
  for (const Dims& dims : c.inputs) {
    ids.push_back(blob.input(datatype(t), dims, params(t, kInputScale, kInputZero)));
    Reals real;
    inputs.emplace_back(store(spread(elements(dims), c.lo, c.hi, static_cast<int>(ids.size())), dims, t, real));
    meant.push_back(real);
  }
  constexpr int kOutZero = -5;
  // Nodes that move elements need equal parameters on both sides, as XNNPACK does.
  const bool moves = c.out_scale == 0;
  const float scale = moves ? kInputScale : c.out_scale;
  const int zero = moves ? kInputZero : kOutZero;
  const uint32_t out = blob.output(datatype(t), c.output, params(t, scale, zero));
  c.write(blob, ids, out);
  auto results = run_blob(blob.finish(), inputs, backend);
  ASSERT_TRUE(results.ok()) << results.error().message();
  const Tensor& got = results->at(0).tensor;
  EXPECT_EQ(got.dtype(), dtype(t));
  EXPECT_EQ(got.shape().str(), shape_of(c.output).str());
  const Reals want = c.formula(meant);
  ASSERT_EQ(static_cast<size_t>(got.elements()), want.size());
  const int stored_zero = zero + (t == Type::kQUInt8 ? 128 : 0);
  for (size_t i = 0; i < want.size(); ++i) {
    const double g = get_double(got, static_cast<int64_t>(i));
    if (quantized(t)) {
      const double q = std::clamp(std::nearbyint(want[i] / scale) + stored_zero, static_cast<double>(int_min(dtype(t))),
                                  static_cast<double>(int_max(dtype(t))));
      EXPECT_NEAR(g, q, 1) << "element " << i;
    } else {
      const double eps = t == Type::kF32 ? 2e-6 : t == Type::kF16 ? 3e-3 : 2e-2;
      EXPECT_NEAR(g, want[i], eps * (1 + std::fabs(want[i]))) << "element " << i;
    }
  }
}

void check_all(const Case& c, std::span<const Type> types) {
  for (Type t : types)
    for (BackendKind backend : {BackendKind::kReference, BackendKind::kCpu}) check(c, t, backend);
}

const Dims kDims{2, 3, 5};

Case unary(XNodeUnion type, std::string name, double (*f)(double), double lo = -2, double hi = 2) {
  return {std::move(name),
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

TEST(XnnNodes, Unary) {
  const Case cases[] = {
      unary(XNodeUnion::XNNSigmoid, "sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }),
      unary(XNodeUnion::XNNFloor, "floor", [](double x) { return std::floor(x); }),
      unary(XNodeUnion::XNNCeiling, "ceiling", [](double x) { return std::ceil(x); }),
      unary(
          XNodeUnion::XNNSquareRoot, "square_root", [](double x) { return std::sqrt(x); }, 0.1, 4),
      unary(
          XNodeUnion::XNNReciprocalSquareRoot, "rsqrt", [](double x) { return 1 / std::sqrt(x); }, 0.5, 4),
      unary(XNodeUnion::XNNHardswish, "hardswish", hardswish, -4, 4),
      unary(XNodeUnion::XNNNegate, "negate", [](double x) { return -x; }),
      unary(XNodeUnion::XNNSquare, "square", [](double x) { return x * x; }),
      unary(XNodeUnion::XNNAbs, "abs", [](double x) { return std::fabs(x); }),
      unary(
          XNodeUnion::XNNLog, "log", [](double x) { return std::log(x); }, 0.2, 4),
      unary(XNodeUnion::XNNGelu, "gelu", [](double x) { return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0))); }),
      unary(XNodeUnion::XNNTanh, "tanh", [](double x) { return std::tanh(x); }),
      unary(
          XNodeUnion::XNNExp, "exp", [](double x) { return std::exp(x); }, -3, 1),
      unary(XNodeUnion::XNNSin, "sin", [](double x) { return std::sin(x); }),
      unary(XNodeUnion::XNNCos, "cos", [](double x) { return std::cos(x); }),
      unary(XNodeUnion::XNNCopy, "copy", [](double x) { return x; }),
  };
  for (const Case& c : cases) check_all(c, kAll);
  for (const Case& c : cases) check_all(c, kFloats);
}

TEST(XnnNodes, UnaryWithParameters) {
  Case elu = unary(XNodeUnion::XNNELU, "elu", [](double x) { return x > 0 ? x : 1.5 * std::expm1(x); });
  elu.write = [](XnnBlob& b, const auto& in, uint32_t out) {
    b.node(XNodeUnion::XNNELU, fb_xnnpack::CreateXNNELU(b.fbb, 1.5f, in[0], out));
  };
  check_all(elu, kAll);
  Case leaky = unary(XNodeUnion::XNNLeakyReLU, "leaky_relu", [](double x) { return x > 0 ? x : 0.25 * x; });
  leaky.write = [](XnnBlob& b, const auto& in, uint32_t out) {
    b.node(XNodeUnion::XNNLeakyReLU, fb_xnnpack::CreateXNNLeakyReLU(b.fbb, 0.25f, in[0], out));
  };
  check_all(leaky, kAll);
  Case clamp = unary(XNodeUnion::XNNClamp, "clamp", [](double x) { return std::clamp(x, -0.5, 1.2); });
  clamp.write = [](XnnBlob& b, const auto& in, uint32_t out) {
    b.node(XNodeUnion::XNNClamp, fb_xnnpack::Create_XNNNode1x1(b.fbb, in[0], out), std::pair{-0.5f, 1.2f});
  };
  check_all(clamp, kAll);
}

TEST(XnnNodes, Softmax) {
  Case c{"softmax",
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
  check_all(c, kAll);
}

Case binary(XNodeUnion type, std::string name, double (*f)(double, double),
            std::optional<std::pair<float, float>> range, Dims a = kDims, Dims b = kDims) {
  const size_t repeat = elements(a) / elements(b);
  return {std::move(name),
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

TEST(XnnNodes, Binary) {
  const auto add = [](double a, double b) { return a + b; };
  const auto sub = [](double a, double b) { return a - b; };
  const auto mul = [](double a, double b) { return a * b; };
  const auto div = [](double a, double b) { return a / b; };
  const auto min = [](double a, double b) { return std::min(a, b); };
  const auto max = [](double a, double b) { return std::max(a, b); };
  for (const auto& range : {std::optional<std::pair<float, float>>(), std::optional(std::pair(0.5f, 2.0f))}) {
    check_all(binary(XNodeUnion::XNNAdd, "add", add, range), kAll);
    check_all(binary(XNodeUnion::XNNSubtract, "subtract", sub, range), kAll);
    check_all(binary(XNodeUnion::XNNMultiply, "multiply", mul, range), kAll);
    check_all(binary(XNodeUnion::XNNDiv, "divide", div, range), kAll);
  }
  check_all(binary(XNodeUnion::XNNMinimum, "minimum", min, {}), kAll);
  check_all(binary(XNodeUnion::XNNMaximum, "maximum", max, {}), kAll);
  check_all(binary(XNodeUnion::XNNAdd, "add broadcast", add, {}, {4, 3, 5}, {5}), kAll);
  check_all(binary(XNodeUnion::XNNMultiply, "multiply broadcast", mul, {}, {4, 3, 5}, {1, 3, 5}), kAll);
  Case prelu =
      binary(XNodeUnion::XNNPReLU, "prelu", [](double x, double s) { return x > 0 ? x : x * s; }, {}, {4, 3, 5}, {5});
  prelu.lo = -2;
  check_all(prelu, kAll);
}

TEST(XnnNodes, Transpose) {
  Case c{"transpose",
         {{2, 3, 4}},
         {4, 2, 3},
         [](XnnBlob& b, const auto& in, uint32_t out) {
           const Dims perm{2, 0, 1};
           b.node(XNodeUnion::XNNStaticTranspose,
                  fb_xnnpack::CreateXNNStaticTransposeDirect(b.fbb, 3, &perm, in[0], out));
         },
         [](const std::vector<Reals>& x) {
           Reals y;
           for (size_t k = 0; k < 4; ++k)
             for (size_t i = 0; i < 2; ++i)
               for (size_t j = 0; j < 3; ++j) y.push_back(x[0][(i * 3 + j) * 4 + k]);
           return y;
         }};
  c.out_scale = 0;
  check_all(c, kAll);
}

TEST(XnnNodes, Reshape) {
  for (const Dims& shape : {Dims{6, 5}, Dims{0, 5}, Dims{3, 0}}) {
    const Dims out = shape[1] == 0 ? Dims{3, 10} : Dims{6, 5};
    Case c{"reshape",
           {kDims},
           out,
           [shape](XnnBlob& b, const auto& in, uint32_t to) {
             b.node(XNodeUnion::XNNStaticReshape,
                    fb_xnnpack::CreateXNNStaticReshapeDirect(b.fbb, 2, &shape, in[0], to));
           },
           [](const std::vector<Reals>& x) { return x[0]; }};
    c.out_scale = 0;
    check_all(c, kAll);
  }
}

TEST(XnnNodes, Slice) {
  Case c{"slice",
         {{4, 5}},
         {2, 4},
         [](XnnBlob& b, const auto& in, uint32_t out) {
           const Dims offsets{1, 1}, sizes{2, 0};
           b.node(XNodeUnion::XNNStaticSlice,
                  fb_xnnpack::CreateXNNStaticSliceDirect(b.fbb, 2, &offsets, &sizes, in[0], out));
         },
         [](const std::vector<Reals>& x) {
           Reals y;
           for (size_t i = 1; i < 3; ++i)
             for (size_t j = 1; j < 5; ++j) y.push_back(x[0][i * 5 + j]);
           return y;
         }};
  c.out_scale = 0;
  check_all(c, kAll);
}

TEST(XnnNodes, Pad) {
  Case c{"pad",
         {{2, 3}},
         {3, 6},
         [](XnnBlob& b, const auto& in, uint32_t out) {
           const Dims before{1, 1}, after{0, 2};
           b.node(XNodeUnion::XNNStaticConstantPad,
                  fb_xnnpack::CreateXNNStaticConstantPadDirect(b.fbb, &before, &after, 0.52f, in[0], out));
         },
         [](const std::vector<Reals>& x) {
           Reals y(18, 0.52);
           for (size_t i = 0; i < 2; ++i)
             for (size_t j = 0; j < 3; ++j) y[(i + 1) * 6 + j + 1] = x[0][i * 3 + j];
           return y;
         }};
  c.out_scale = 0;
  check_all(c, kAll);
}

TEST(XnnNodes, Concatenate) {
  const XNodeUnion types[] = {XNodeUnion::XNNConcatenate2, XNodeUnion::XNNConcatenate3, XNodeUnion::XNNConcatenate4,
                              XNodeUnion::XNNConcatenate5};
  for (uint32_t n = 2; n <= 5; ++n)
    for (uint32_t axis : {1u, 0xffffffffu}) {
      Case c{"concatenate",
             std::vector<Dims>(n, Dims{2, 3}),
             {2, 3 * n},
             [=](XnnBlob& b, const auto& in, uint32_t out) {
               const auto id = [&](size_t i) { return i < in.size() ? in[i] : 0xffffffffu; };
               b.node(types[n - 2], fb_xnnpack::Create_XNNCat(b.fbb, axis, id(0), id(1), id(2), id(3), out, 0, id(4)));
             },
             [](const std::vector<Reals>& x) {
               Reals y;
               for (size_t r = 0; r < 2; ++r)
                 for (const Reals& part : x) y.insert(y.end(), part.begin() + r * 3, part.begin() + r * 3 + 3);
               return y;
             }};
      c.out_scale = 0;
      check_all(c, kAll);
    }
}

/// A 3 x 3 window over 5 x 5 images of 2 channels.
template <class Fold>
Reals pooled(const Reals& x, int pad, Fold fold) {
  Reals y;
  for (int oy = 0; oy < 2 + pad; ++oy)
    for (int ox = 0; ox < 2 + pad; ++ox)
      for (int ch = 0; ch < 2; ++ch) {
        Reals window;
        for (int ky = 0; ky < 3; ++ky)
          for (int kx = 0; kx < 3; ++kx) {
            const int iy = oy * 2 + ky - pad, ix = ox * 2 + kx - pad;
            if (iy >= 0 && iy < 5 && ix >= 0 && ix < 5)
              window.push_back(x[static_cast<size_t>((iy * 5 + ix) * 2 + ch)]);
          }
        y.push_back(fold(window));
      }
  return y;
}

TEST(XnnNodes, Pooling) {
  const auto mean = [](const Reals& w) {
    double sum = 0;
    for (double v : w) sum += v;
    return sum / static_cast<double>(w.size());
  };
  const auto largest = [](const Reals& w) { return *std::max_element(w.begin(), w.end()); };
  for (uint32_t pad : {0u, 1u})
    for (XNodeUnion type : {XNodeUnion::XNNAvgPooling2d, XNodeUnion::XNNMaxPooling2d}) {
      const bool max = type == XNodeUnion::XNNMaxPooling2d;
      Case c{max ? "max_pooling" : "average_pooling",
             {{1, 5, 5, 2}},
             {1, 2 + pad, 2 + pad, 2},
             [=](XnnBlob& b, const auto& in, uint32_t out) {
               b.node(type,
                      fb_xnnpack::Create_XNNPooling2D(b.fbb, pad, pad, pad, pad, 3, 3, 2, 2, 1, 1, in[0], out, 0x40),
                      std::pair{-0.5f, 1.0f});
             },
             [=](const std::vector<Reals>& x) {
               const int p = static_cast<int>(pad);
               Reals y = max ? pooled(x[0], p, largest) : pooled(x[0], p, mean);
               for (double& v : y) v = std::clamp(v, -0.5, 1.0);
               return y;
             }};
      if (max) c.out_scale = 0;
      check_all(c, kAll);
    }
}

TEST(XnnNodes, GlobalAveragePooling) {
  for (uint32_t flags : {0u, 0x40u}) {
    Case c{"global_average",
           {{2, 3, 2, 4}},
           flags != 0 ? Dims{2, 1, 1, 4} : Dims{2, 4},
           [=](XnnBlob& b, const auto& in, uint32_t out) {
             b.node(XNodeUnion::XNNGlobalAvgPooling2d, fb_xnnpack::Create_XNNNode1x1(b.fbb, in[0], out, flags));
           },
           [](const std::vector<Reals>& x) {
             Reals y(8, 0);
             for (size_t n = 0; n < 2; ++n)
               for (size_t p = 0; p < 6; ++p)
                 for (size_t ch = 0; ch < 4; ++ch) y[n * 4 + ch] += x[0][(n * 6 + p) * 4 + ch] / 6;
             return y;
           }};
    check_all(c, kAll);
  }
}

TEST(XnnNodes, ArgMaxPooling) {
  for (Type t : kReal) {
    XnnBlob b;
    const Dims dims{1, 2, 4, 1};
    const uint32_t x = b.input(datatype(t), dims), y = b.output(datatype(t), {1, 1, 2, 1});
    const uint32_t index = b.output(XNNDatatype::xnn_datatype_int32, {1, 1, 2, 1});
    b.node(XNodeUnion::XNNArgMaxPooling2d, fb_xnnpack::CreateXNNArgMaxPooling2d(b.fbb, 0, 0, 0, 0, 2, 2, x, y, index));
    Reals meant;
    auto results = run_blob(b.finish(), {store({1, 5, 0, 2, 3, 4, 9, 8}, dims, t, meant)});
    ASSERT_TRUE(results.ok()) << results.error().message();
    EXPECT_EQ(get_double(results->at(0).tensor, 0), 5);
    EXPECT_EQ(get_double(results->at(0).tensor, 1), 9);
    // Counted column by column inside the window.
    EXPECT_EQ(get_int(results->at(1).tensor, 0), 2);
    EXPECT_EQ(get_int(results->at(1).tensor, 1), 1);
  }
}

TEST(XnnNodes, ResizeBilinear) {
  constexpr uint32_t kLegacy = 4, kAlign = 8;
  for (uint32_t flags : {0u, kLegacy, kAlign}) {
    Case c{"resize",
           {{1, 2, 3, 2}},
           {1, 4, 5, 2},
           [=](XnnBlob& b, const auto& in, uint32_t out) {
             b.node(XNodeUnion::XNNStaticResizeBilinear2D,
                    fb_xnnpack::CreateXNNStaticResizeBilinear2D(b.fbb, 4, 5, in[0], out, flags));
           },
           [=](const std::vector<Reals>& x) {
             const auto source = [&](int o, int in, int out) {
               const double s = static_cast<double>(in) / out;
               const double at = flags == kAlign    ? static_cast<double>(o) * (in - 1) / (out - 1)
                                 : flags == kLegacy ? o * s
                                                    : (o + 0.5) * s - 0.5;
               return std::clamp(at, 0.0, in - 1.0);
             };
             Reals y;
             for (int oy = 0; oy < 4; ++oy)
               for (int ox = 0; ox < 5; ++ox)
                 for (int ch = 0; ch < 2; ++ch) {
                   const double sy = source(oy, 2, 4), sx = source(ox, 3, 5);
                   const int y0 = static_cast<int>(sy), x0 = static_cast<int>(sx);
                   const int y1 = std::min(y0 + 1, 1), x1 = std::min(x0 + 1, 2);
                   const auto at = [&](int iy, int ix) { return x[0][static_cast<size_t>((iy * 3 + ix) * 2 + ch)]; };
                   const double top = at(y0, x0) + (at(y0, x1) - at(y0, x0)) * (sx - x0);
                   const double bottom = at(y1, x0) + (at(y1, x1) - at(y1, x0)) * (sx - x0);
                   y.push_back(top + (bottom - top) * (sy - y0));
                 }
             return y;
           }};
    c.out_scale = 0;
    check_all(c, kAll);
  }
}

TEST(XnnNodes, ConvertBetweenAllTypes) {
  const Type types[] = {Type::kF32, Type::kF16, Type::kBF16, Type::kQInt8, Type::kQUInt8};
  for (Type from : types)
    for (Type to : types) {
      SCOPED_TRACE(std::string(name_of(from)) + " to " + name_of(to));
      XnnBlob b;
      const uint32_t x = b.input(datatype(from), kDims, params(from, kInputScale, kInputZero));
      const uint32_t y = b.output(datatype(to), kDims, params(to, 0.03f, -7));
      b.node(XNodeUnion::XNNConvert, fb_xnnpack::Create_XNNNode1x1(b.fbb, x, y));
      Reals meant;
      auto results = run_blob(b.finish(), {store(spread(30, -2, 2, 1), kDims, from, meant)});
      ASSERT_TRUE(results.ok()) << results.error().message();
      const Tensor& got = results->at(0).tensor;
      ASSERT_EQ(got.dtype(), dtype(to));
      for (int64_t i = 0; i < 30; ++i) {
        const double want = meant[static_cast<size_t>(i)], zero = to == Type::kQUInt8 ? 121 : -7;
        if (quantized(to))
          EXPECT_NEAR(get_double(got, i), std::nearbyint(want / 0.03) + zero, 1);
        else
          EXPECT_NEAR(get_double(got, i), want, to == Type::kBF16 ? 0.02 : 2e-3);
      }
    }
}

}  // namespace
}  // namespace smelt::executorch::testing
