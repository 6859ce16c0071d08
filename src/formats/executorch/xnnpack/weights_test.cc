// Rows for nodes with weights in every combination of data types that XNNPACK has kernels for, against sums in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/xnn_row_quant.h"

namespace smelt::executorch::testing {
namespace {

using Rows = std::vector<Row>;

/// Data types of input, filter, bias (absent: no bias) and output.
struct Types {
  XNNDatatype input, filter;
  std::optional<XNNDatatype> bias;
  XNNDatatype output;

  std::string name() const {
    return short_name(input) + " " + short_name(filter) + " " + (bias ? short_name(*bias) : "none") + " to " +
           short_name(output);
  }
  std::vector<std::pair<Slot, XNNDatatype>> operands() const {
    std::vector<std::pair<Slot, XNNDatatype>> all{
        {Slot::kInput, input}, {Slot::kFilter, filter}, {Slot::kOutput, output}};
    if (bias) all.emplace_back(Slot::kBias, *bias);
    return all;
  }
};

constexpr Types kConvolutions[] = {
    {kF32, kF32, kF32, kF32}, {kF32, kF32, {}, kF32},   {kF32, kF16, kF16, kF32}, {kF32, kF16, kF32, kF32},
    {kF32, kF16, {}, kF32},   {kF16, kF32, kF32, kF16}, {kF16, kF32, {}, kF16},   {kF16, kF16, kF16, kF16},
    {kF16, kF16, kF32, kF16}, {kF16, kF16, {}, kF16},   {kQ8, kQ8, kQ32, kQ8},    {kQ8, kQ8, {}, kQ8},
    {kQ8, kQC8, kQC32, kQ8},  {kQ8, kQC8, {}, kQ8},     {kQU8, kQU8, kQ32, kQU8}, {kQU8, kQU8, {}, kQU8},
    {kF32, kQC8, kF32, kF32},
};
constexpr Types kDynamicConvolutions[] = {
    {kQD8, kQC8, kF32, kF32},
    {kQD8, kQC8, {}, kF32},
    {kQD8, kQC8, kF32, kF16},
    {kQD8, kQC8, {}, kF16},
};
constexpr Types kProducts[] = {
    {kF32, kQC4, kF32, kF32},    {kF32, kQB4, kF32, kF32},    {kQD8, kQC4, kF32, kF32}, {kQD8, kQC4, kF32, kF16},
    {kQD8, kQB4, kF32, kF32},    {kQD8, kQB4, {}, kF16},      {kQD8, kQB4, {}, kBF16},  {kBF16, kBF16, kF32, kF32},
    {kBF16, kBF16, kF32, kBF16}, {kBF16, kBF16, kBF16, kF32}, {kQP8, kQC8, kF32, kF32}, {kQP8, kQC4, kF32, kF32},
    {kQP8, kQB4, kF32, kF32},    {kPF32, kF32, kF32, kF32},   {kPF32, kF16, {}, kF32},  {kQ8, kQC4, kQC32, kQ8},
};
constexpr Types kBatched[] = {
    {kF32, kF32, {}, kF32}, {kF16, kF16, {}, kF16},  {kBF16, kBF16, {}, kF32}, {kBF16, kBF16, {}, kBF16},
    {kQ8, kQ8, {}, kQ8},    {kQU8, kQU8, {}, kQU8},  {kF32, kQC8, {}, kF32},   {kQD8, kQC8, {}, kF32},
    {kQP8, kQC8, {}, kF32}, {kPF32, kF32, {}, kF32},
};

constexpr float kInputScale = 0.05f, kFilterScale = 0.02f, kOutScale = 0.06f;
constexpr int kInputZero = 7, kOutZero = -4, kBlock = 4;

bool is_unsigned(XNNDatatype t) { return t == kQU8; }

class NodeTest {
 public:
  XnnBlob blob;
  std::vector<Datum> inputs;

  /// The node's input; dynamic and packed ones pass a convert. `row` is the number of trailing dimensions of one row.
  uint32_t input(XNNDatatype t, const Dims& dims, int row, Reals& meant) {
    const bool dynamic = t == kQD8 || t == kQP8, quantized = t == kQ8 || t == kQU8;
    const XNNDatatype outside = dynamic || t == kPF32 ? kF32 : t;
    const int zero = kInputZero + (is_unsigned(t) ? 128 : 0);
    const uint32_t x =
        blob.input(outside, dims, quantized ? XnnQuant{.scales = {kInputScale}, .zero_point = zero} : XnnQuant{});
    Tensor data(element_type(outside), shape_of(dims));
    meant = spread(elements(dims), -2, 2, 1);
    for (size_t i = 0; i < meant.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      if (quantized) {
        set_int(data, at, static_cast<int64_t>(std::nearbyint(meant[i] / kInputScale)) + zero);
        meant[i] = static_cast<double>(get_int(data, at) - zero) * kInputScale;
      } else {
        set_double(data, at, meant[i]);
        meant[i] = get_double(data, at);
      }
    }
    inputs.emplace_back(data);
    if (t == outside) return x;
    const uint32_t q = blob.internal(t, dims, dynamic ? XnnQuant{.nonbatch_dims = row} : XnnQuant{});
    blob.node(XNodeUnion::XNNConvert, fb_xnnpack::Create_XNNNode1x1(blob.fbb, x, q));
    if (!dynamic) return q;
    size_t length = 1;
    for (int i = 0; i < row; ++i) length *= dims[dims.size() - 1 - static_cast<size_t>(i)];
    for (size_t r = 0; r < meant.size(); r += length) quantize_row(&meant[r], length);
    return q;
  }

  /// Constant weights with channels along `dim`.
  uint32_t filter(XNNDatatype t, const Dims& dims, int dim, Reals& meant) {
    const size_t n = elements(dims);
    meant = spread(n, -1, 1, 5);
    if (t == kF32) return floats(meant, dims);
    if (t == kF16 || t == kBF16) return float16s(t, meant, dims);
    if (t == kQC4 || t == kQB4) return nibbles(t, meant, dims);
    const bool channels = t == kQC8;
    const int zero = t == kQU8 ? 120 : 0;
    XnnQuant q{.scales = {kFilterScale}, .zero_point = zero};
    if (channels) {
      q.channel_dim = dim;
      q.scales.clear();
      for (uint32_t c = 0; c < dims[static_cast<size_t>(dim)]; ++c)
        q.scales.push_back(kFilterScale * (1 + 0.1f * static_cast<float>(c)));
    }
    filter_scales_ = q.scales;
    std::vector<uint8_t> bytes(n);
    for (size_t i = 0; i < n; ++i) {
      const float s = q.scales[channels ? coordinate(i, dims, dim) : 0];
      const int v = std::clamp(static_cast<int>(std::nearbyint(meant[i] / s)), -100, 100);
      bytes[i] = static_cast<uint8_t>(v + zero);
      meant[i] = static_cast<double>(v) * s;
    }
    return blob.constant(t, dims, bytes, q);
  }

  uint32_t bias(const Types& t, uint32_t channels, Reals& meant) {
    if (!t.bias) {
      meant.assign(channels, 0);
      return 0xffffffffu;
    }
    meant = spread(channels, -1, 1, 9);
    const Dims dims{channels};
    if (*t.bias == kF32) return floats(meant, dims);
    if (*t.bias == kF16 || *t.bias == kBF16) return float16s(*t.bias, meant, dims);
    XnnQuant q;
    std::vector<int32_t> values(channels);
    for (uint32_t c = 0; c < channels; ++c) {
      const float s = kInputScale * filter_scales_[filter_scales_.size() == 1 ? 0 : c];
      values[c] = static_cast<int32_t>(std::nearbyint(meant[c] / s));
      meant[c] = static_cast<double>(values[c]) * s;
      if (q.scales.empty() || *t.bias == kQC32) q.scales.push_back(s);
    }
    if (*t.bias == kQC32) q.channel_dim = 0;
    return blob.constant(*t.bias, dims, values, q);
  }

  uint32_t output(XNNDatatype t, const Dims& dims) {
    const bool quantized = t == kQ8 || t == kQU8;
    return blob.output(
        t, dims,
        quantized ? XnnQuant{.scales = {kOutScale}, .zero_point = kOutZero + (is_unsigned(t) ? 128 : 0)} : XnnQuant{});
  }

  void expect(const Types& t, const Dims& dims, const Reals& want, BackendKind backend) {
    const std::vector<std::byte> bytes = blob.finish();
    auto model = Model::load_bytes(bytes, nullptr, "test.xnn");
    ASSERT_TRUE(model.ok()) << model.error().message();
    auto session = Session::create(*model, {.backend = backend});
    ASSERT_TRUE(session.ok()) << session.error().message();
    auto results = session->run(inputs);
    ASSERT_TRUE(results.ok()) << results.error().message();
    compare(results->at(0).tensor, t, dims, want);
  }

 private:
  static void compare(const Tensor& got, const Types& t, const Dims& dims, const Reals& want) {
    ASSERT_EQ(got.shape().str(), shape_of(dims).str());
    ASSERT_EQ(got.dtype(), element_type(t.output));
    for (size_t i = 0; i < want.size(); ++i) {
      const double g = get_double(got, static_cast<int64_t>(i));
      if (t.output == kQ8 || t.output == kQU8) {
        const DType d = element_type(t.output);
        const double q = std::nearbyint(want[i] / kOutScale) + kOutZero + (is_unsigned(t.output) ? 128 : 0);
        EXPECT_NEAR(g, std::clamp(q, static_cast<double>(int_min(d)), static_cast<double>(int_max(d))), 1) << i;
      } else {
        const double eps = t.output == kF32 && t.input != kF16 ? 2e-5 : t.output == kBF16 ? 2e-2 : 6e-3;
        EXPECT_NEAR(g, want[i], eps * (1 + std::fabs(want[i]))) << i;
      }
    }
  }

  uint32_t floats(const Reals& values, const Dims& dims) {
    std::vector<float> data(values.begin(), values.end());
    return blob.constant(kF32, dims, data);
  }
  uint32_t float16s(XNNDatatype t, Reals& values, const Dims& dims) {
    std::vector<uint16_t> data;
    for (double& v : values) {
      data.push_back(t == kF16 ? f64_to_f16(v) : f32_to_bf16(static_cast<float>(v)));
      v = t == kF16 ? f16_to_f32(data.back()) : bf16_to_f32(data.back());
    }
    return blob.constant(t, dims, data);
  }
  /// Rows of 4-bit values plus 8; a row ends on a byte.
  uint32_t nibbles(XNNDatatype t, Reals& values, const Dims& dims) {
    const uint32_t rows = dims[0], columns = dims[1], stride = (columns + 1) / 2;
    XnnQuant q{.channel_dim = 0, .group_size = t == kQB4 ? kBlock : 0};
    const uint32_t per_row = t == kQB4 ? columns / kBlock : 1;
    // Exact in bf16.
    for (uint32_t i = 0; i < rows * per_row; ++i) q.scales.push_back(0.125f * static_cast<float>(1 + i % 3));
    std::vector<uint8_t> bytes(rows * stride, 0);
    for (uint32_t r = 0; r < rows; ++r)
      for (uint32_t c = 0; c < columns; ++c) {
        const float s = q.scales[r * per_row + (t == kQB4 ? c / kBlock : 0)];
        double& v = values[r * columns + c];
        const int stored = std::clamp(static_cast<int>(std::nearbyint(v / s)), -8, 7);
        bytes[r * stride + c / 2] |= static_cast<uint8_t>((stored + 8) << (c % 2 == 0 ? 0 : 4));
        v = stored * s;
      }
    filter_scales_ = q.scales;
    return blob.constant(t, dims, bytes, q);
  }
  std::vector<float> filter_scales_;
};

Reals clamped(Reals v, std::optional<std::pair<float, float>> range) {
  if (range)
    for (double& x : v) x = std::clamp<double>(x, range->first, range->second);
  return v;
}

using Range = std::optional<std::pair<float, float>>;
constexpr std::pair<float, float> kRange{-0.5f, 1.5f};

void check_fully_connected(const Types& t, bool transposed, uint32_t in, const Range& range, BackendKind backend) {
  constexpr uint32_t kRows = 3, kOut = 5;
  NodeTest test;
  Reals x, w, b;
  const uint32_t x_id = test.input(t.input, {2, kRows, in}, 1, x);
  const uint32_t w_id = test.filter(t.filter, transposed ? Dims{in, kOut} : Dims{kOut, in}, transposed ? 1 : 0, w);
  const uint32_t b_id = test.bias(t, kOut, b);
  const Dims out{2, kRows, kOut};
  const uint32_t y_id = test.output(t.output, out);
  test.blob.node(XNodeUnion::XNNFullyConnected,
                 fb_xnnpack::CreateXNNFullyConnected(test.blob.fbb, x_id, w_id, b_id, y_id, transposed ? 1 : 0), range);
  Reals want;
  for (size_t r = 0; r < 2 * kRows; ++r)
    for (size_t o = 0; o < kOut; ++o) {
      double sum = b[o];
      for (size_t i = 0; i < in; ++i) sum += x[r * in + i] * w[transposed ? i * kOut + o : o * in + i];
      want.push_back(sum);
    }
  test.expect(t, out, clamped(want, range), backend);
}

void add_fully_connected(Rows& rows) {
  const auto add = [&](const Types& t, const std::string& name, bool transposed, uint32_t in, const Range& range) {
    rows.push_back({XNodeUnion::XNNFullyConnected, t.name() + name, t.operands(),
                    [=](BackendKind backend) { check_fully_connected(t, transposed, in, range, backend); }});
  };
  const auto all = [&](const auto& table) {
    for (const Types& t : table) {
      add(t, "", false, 8, {});
      add(t, " clamped", false, 8, kRange);
      if (t.filter == kQC4) add(t, " odd", false, 7, {});
      if (t.filter != kQC4 && t.filter != kQB4) add(t, " transposed", true, 8, {});
    }
  };
  all(kConvolutions);
  all(kDynamicConvolutions);
  all(kProducts);
}

struct Geometry {
  int pad = 1, stride = 1, dilation = 1, groups = 1, adjust = 0;
  int in = 4, out = 6, height = 5, width = 6, kernel = 3;  ///< channels of one group
};

/// `multiply(oy, ox, channel of the output, value of its weight, index of x)` runs over all products.
Reals convolve(const Geometry& g, const Reals& x, const Reals& w, const Reals& b, bool depthwise, int oh, int ow) {
  const int in = g.groups * (depthwise ? 1 : g.in), out = g.groups * g.out;
  Reals y;
  for (int oy = 0; oy < oh; ++oy)
    for (int ox = 0; ox < ow; ++ox)
      for (int o = 0; o < out; ++o) {
        double sum = b[static_cast<size_t>(o)];
        for (int ky = 0; ky < g.kernel; ++ky)
          for (int kx = 0; kx < g.kernel; ++kx) {
            const int iy = oy * g.stride + ky * g.dilation - g.pad, ix = ox * g.stride + kx * g.dilation - g.pad;
            if (iy < 0 || iy >= g.height || ix < 0 || ix >= g.width) continue;
            for (int i = 0; i < (depthwise ? 1 : g.in); ++i) {
              const int channel = depthwise ? o / g.out : o / g.out * g.in + i;
              const int at =
                  depthwise ? (ky * g.kernel + kx) * out + o : ((o * g.kernel + ky) * g.kernel + kx) * g.in + i;
              sum += x[static_cast<size_t>((iy * g.width + ix) * in + channel)] * w[static_cast<size_t>(at)];
            }
          }
        y.push_back(sum);
      }
  return y;
}

void check_convolution(const Types& t, const Geometry& g, bool depthwise, const Range& range, BackendKind backend) {
  const auto u = [](int v) { return static_cast<uint32_t>(v); };
  const int oh = (g.height + 2 * g.pad - g.dilation * (g.kernel - 1) - 1) / g.stride + 1;
  const int ow = (g.width + 2 * g.pad - g.dilation * (g.kernel - 1) - 1) / g.stride + 1;
  const int in = g.groups * (depthwise ? 1 : g.in), out = g.groups * g.out;
  NodeTest test;
  Reals x, w, b;
  const uint32_t x_id = test.input(t.input, {1, u(g.height), u(g.width), u(in)}, 3, x);
  const Dims filter =
      depthwise ? Dims{1, u(g.kernel), u(g.kernel), u(out)} : Dims{u(out), u(g.kernel), u(g.kernel), u(g.in)};
  const uint32_t w_id = test.filter(t.filter, filter, depthwise ? 3 : 0, w);
  const uint32_t b_id = test.bias(t, u(out), b);
  const Dims dims{1, u(oh), u(ow), u(out)};
  const uint32_t y_id = test.output(t.output, dims);
  test.blob.node(
      depthwise ? XNodeUnion::XNNDepthwiseConv2d : XNodeUnion::XNNConv2d,
      fb_xnnpack::Create_XNNNodeConv(test.blob.fbb, u(g.pad), u(g.pad), u(g.pad), u(g.pad), u(g.kernel), u(g.kernel),
                                     u(g.stride), u(g.stride), u(g.dilation), u(g.dilation), depthwise ? 1 : u(g.in),
                                     u(g.out), u(g.groups), 0, 0, x_id, w_id, b_id, y_id),
      range);
  test.expect(t, dims, clamped(convolve(g, x, w, b, depthwise, oh, ow), range), backend);
}

void add_convolutions(Rows& rows) {
  const auto add = [&](const Types& t, const std::string& name, const Geometry& g, bool depthwise, const Range& range) {
    rows.push_back({depthwise ? XNodeUnion::XNNDepthwiseConv2d : XNodeUnion::XNNConv2d, t.name() + name, t.operands(),
                    [=](BackendKind backend) { check_convolution(t, g, depthwise, range, backend); }});
  };
  const auto all = [&](const auto& table) {
    for (const Types& t : table) {
      add(t, "", {}, false, {});
      add(t, " groups", {.pad = 0, .stride = 2, .groups = 2, .in = 2, .out = 3}, false, kRange);
      add(t, " dilated", {.pad = 2, .dilation = 2}, false, {});
    }
  };
  all(kConvolutions);
  all(kDynamicConvolutions);
  for (const Types& t : kConvolutions) {
    add(t, "", {.groups = 4, .in = 1, .out = 1}, true, {});
    add(t, " multiplier", {.stride = 2, .groups = 3, .in = 1, .out = 2}, true, kRange);
  }
}

void check_transposed(const Types& t, const Geometry& g, BackendKind backend) {
  const auto u = [](int v) { return static_cast<uint32_t>(v); };
  const int oh = (g.height - 1) * g.stride + g.dilation * (g.kernel - 1) + 1 - 2 * g.pad + g.adjust;
  const int ow = (g.width - 1) * g.stride + g.dilation * (g.kernel - 1) + 1 - 2 * g.pad + g.adjust;
  const int in = g.groups * g.in, out = g.groups * g.out;
  NodeTest test;
  Reals x, w, b;
  const uint32_t x_id = test.input(t.input, {1, u(g.height), u(g.width), u(in)}, 3, x);
  const uint32_t w_id = test.filter(t.filter, {u(out), u(g.kernel), u(g.kernel), u(g.in)}, 0, w);
  const uint32_t b_id = test.bias(t, u(out), b);
  const Dims dims{1, u(oh), u(ow), u(out)};
  const uint32_t y_id = test.output(t.output, dims);
  test.blob.node(
      XNodeUnion::XNNConvTranspose2d,
      fb_xnnpack::Create_XNNNodeConv(test.blob.fbb, u(g.pad), u(g.pad), u(g.pad), u(g.pad), u(g.kernel), u(g.kernel),
                                     u(g.stride), u(g.stride), u(g.dilation), u(g.dilation), u(g.in), u(g.out),
                                     u(g.groups), u(g.adjust), u(g.adjust), x_id, w_id, b_id, y_id));
  Reals want;
  for (int i = 0; i < oh * ow; ++i) want.insert(want.end(), b.begin(), b.end());
  for (int iy = 0; iy < g.height; ++iy)
    for (int ix = 0; ix < g.width; ++ix)
      for (int o = 0; o < out; ++o)
        for (int ky = 0; ky < g.kernel; ++ky)
          for (int kx = 0; kx < g.kernel; ++kx) {
            const int oy = iy * g.stride + ky * g.dilation - g.pad, ox = ix * g.stride + kx * g.dilation - g.pad;
            if (oy < 0 || oy >= oh || ox < 0 || ox >= ow) continue;
            for (int i = 0; i < g.in; ++i)
              want[static_cast<size_t>((oy * ow + ox) * out + o)] +=
                  x[static_cast<size_t>((iy * g.width + ix) * in + o / g.out * g.in + i)] *
                  w[static_cast<size_t>(((o * g.kernel + ky) * g.kernel + kx) * g.in + i)];
          }
  test.expect(t, dims, want, backend);
}

void add_transposed(Rows& rows) {
  const auto add = [&](const Types& t, const std::string& name, const Geometry& g) {
    rows.push_back({XNodeUnion::XNNConvTranspose2d, t.name() + name, t.operands(),
                    [=](BackendKind backend) { check_transposed(t, g, backend); }});
  };
  const auto all = [&](const auto& table) {
    for (const Types& t : table) {
      add(t, "", {.pad = 1, .stride = 2, .adjust = 1, .height = 3, .width = 4});
      add(t, " groups", {.pad = 0, .stride = 1, .groups = 2, .in = 2, .out = 3, .height = 3, .width = 4});
    }
  };
  all(kConvolutions);
  all(kDynamicConvolutions);
}

void check_batched(const Types& t, bool transposed, BackendKind backend) {
  NodeTest test;
  Reals a, b;
  // Channels with scales of their own are those of one matrix.
  const bool channels = t.filter == kQC8;
  const uint32_t batch = channels ? 1 : 2;
  const Dims second = transposed ? Dims{batch, 5, 4} : Dims{batch, 4, 5};
  const uint32_t a_id = test.input(t.input, {batch, 3, 4}, 1, a);
  const uint32_t b_id =
      channels ? test.filter(t.filter, second, transposed ? 1 : 2, b) : test.input(t.filter, second, 1, b);
  const uint32_t y_id = test.output(t.output, {batch, 3, 5});
  test.blob.node(XNodeUnion::XNNBatchMatrixMultiply,
                 fb_xnnpack::Create_XNNNode2x1(test.blob.fbb, a_id, b_id, y_id, transposed ? 1 : 0));
  Reals want;
  for (size_t n = 0; n < batch; ++n)
    for (size_t i = 0; i < 3; ++i)
      for (size_t j = 0; j < 5; ++j) {
        double sum = 0;
        for (size_t k = 0; k < 4; ++k) sum += a[(n * 3 + i) * 4 + k] * b[n * 20 + (transposed ? j * 4 + k : k * 5 + j)];
        want.push_back(sum);
      }
  test.expect(t, {batch, 3, 5}, want, backend);
}

void add_batched(Rows& rows) {
  for (const Types& t : kBatched)
    for (bool transposed : {false, true})
      rows.push_back({XNodeUnion::XNNBatchMatrixMultiply, t.name() + (transposed ? " transposed" : ""), t.operands(),
                      [=](BackendKind backend) { check_batched(t, transposed, backend); }});
}

/// Attention of 2 batches and 2 heads; `heads` of keys and values: 2, 1, or 0 for none of that dimension.
void check_attention(XNNDatatype type, uint32_t heads, BackendKind backend) {
  const Types t{type, type, {}, type};
  NodeTest test;
  Reals q, k, v, scale, mask;
  const auto keys = [&](uint32_t width) { return heads ? Dims{2, heads, 5, width} : Dims{2, 5, width}; };
  const uint32_t q_id = test.input(type, {2, 2, 3, 4}, 1, q), k_id = test.input(type, keys(4), 1, k);
  const uint32_t v_id = test.input(type, keys(6), 1, v), s_id = test.input(type, {4}, 1, scale);
  const uint32_t m_id = test.input(type, {3, 5}, 1, mask), y_id = test.output(type, {2, 2, 3, 6});
  test.blob.node(XNodeUnion::XNNScaledDotProductAttention,
                 fb_xnnpack::CreateXNNScaledDotProductAttention(test.blob.fbb, q_id, k_id, v_id, s_id, m_id, y_id));
  Reals want;
  for (size_t h = 0; h < 4; ++h)
    for (size_t i = 0; i < 3; ++i) {
      const size_t kv = heads == 2 ? h : h / 2;
      Reals weights(5);
      double total = 0;
      for (size_t j = 0; j < 5; ++j) {
        double dot = mask[i * 5 + j];
        for (size_t d = 0; d < 4; ++d) dot += q[(h * 3 + i) * 4 + d] * scale[d] * k[(kv * 5 + j) * 4 + d];
        total += weights[j] = std::exp(dot);
      }
      for (size_t d = 0; d < 6; ++d) {
        double sum = 0;
        for (size_t j = 0; j < 5; ++j) sum += weights[j] / total * v[(kv * 5 + j) * 6 + d];
        want.push_back(sum);
      }
    }
  test.expect(t, {2, 2, 3, 6}, want, backend);
}

void add_attention(Rows& rows) {
  for (XNNDatatype type : {kF32, kF16, kBF16})
    for (uint32_t heads : {0u, 1u, 2u})
      rows.push_back({XNodeUnion::XNNScaledDotProductAttention,
                      short_name(type) + (heads == 0   ? " multi-query"
                                          : heads == 1 ? " shared keys"
                                                       : ""),
                      {{Slot::kInput, type}, {Slot::kOutput, type}},
                      [=](BackendKind backend) { check_attention(type, heads, backend); }});
}

// A clamp behind a quantized product is part of it: the value between, whose quantization parameters may be others, is
// never rounded.
TEST(XnnWeights, ClampBehindQuantizedProduct) {
  for (float scale : {kOutScale, 0.5f * kOutScale}) {
    NodeTest test;
    Reals x, w;
    const uint32_t x_id = test.input(kQ8, {3, 8}, 1, x), w_id = test.filter(kQ8, {5, 8}, 0, w);
    const uint32_t middle = test.blob.internal(kQ8, {3, 5}, {.scales = {kOutScale}, .zero_point = kOutZero});
    const uint32_t y = test.blob.output(kQ8, {3, 5}, {.scales = {scale}, .zero_point = kOutZero});
    test.blob.node(XNodeUnion::XNNFullyConnected,
                   fb_xnnpack::CreateXNNFullyConnected(test.blob.fbb, x_id, w_id, 0xffffffffu, middle));
    test.blob.node(XNodeUnion::XNNClamp, fb_xnnpack::Create_XNNNode1x1(test.blob.fbb, middle, y),
                   std::pair{-0.7f, 1.1f});
    const std::vector<std::byte> bytes = test.blob.finish();
    auto model = Model::load_bytes(bytes, nullptr, "test.xnn");
    ASSERT_TRUE(model.ok()) << model.error().message();
    std::vector<std::vector<int8_t>> results;
    for (const BackendKind& backend : {BackendKind::kReference, BackendKind::kCpu}) {
      auto session = Session::create(*model, {.backend = backend});
      ASSERT_TRUE(session.ok()) << session.error().message();
      auto out = session->run(test.inputs);
      ASSERT_TRUE(out.ok()) << out.error().message();
      const Tensor& got = out->at(0).tensor;
      results.emplace_back(got.data<int8_t>(), got.data<int8_t>() + got.elements());
      for (size_t i = 0; i < 15; ++i) {
        double want = 0;
        for (size_t k = 0; k < 8; ++k) want += x[i / 5 * 8 + k] * w[i % 5 * 8 + k];
        EXPECT_NEAR((results.back()[i] - kOutZero) * scale, std::clamp(want, -0.7, 1.1), 0.501 * scale) << i;
      }
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

}  // namespace

std::vector<Row> weight_rows() {
  Rows rows;
  for (auto* add : {add_fully_connected, add_convolutions, add_transposed, add_batched, add_attention}) add(rows);
  return rows;
}

}  // namespace smelt::executorch::testing
