#pragma once

// Rows of nodes without weights: a formula in double for the numbers that a node's stored inputs mean. A quantized
// result has to come within one step of the formula. Included by tests only.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "support/xnn_row_quant.h"

namespace smelt::executorch::testing {

using Rows = std::vector<Row>;

inline constexpr XNNDatatype kReal[] = {kF32, kF16, kBF16, kQ8, kQU8};
inline constexpr XNNDatatype kReals32[] = {kF32, kF16, kBF16, kQ8, kQU8, kI32};
inline constexpr XNNDatatype kInteger[] = {kI32};

inline bool quantized(XNNDatatype t) { return t == kQ8 || t == kQU8; }

inline XnnQuant params(XNNDatatype t, float scale, int zero) {
  if (!quantized(t)) return {};
  return {.scales = {scale}, .zero_point = t == kQU8 ? zero + 128 : zero};
}
inline constexpr float kInputScale = 0.04f;
inline constexpr int kInputZero = 3;

/// Stored tensor for real numbers, and the numbers that it then means.
inline Tensor store(const Reals& values, const Dims& dims, XNNDatatype t, Reals& meant) {
  const DType dtype = element_type(t);
  Tensor out(dtype, shape_of(dims));
  meant.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (quantized(t)) {
      const int zero = kInputZero + (t == kQU8 ? 128 : 0);
      const double q = std::clamp(std::nearbyint(values[i] / kInputScale) + zero, static_cast<double>(int_min(dtype)),
                                  static_cast<double>(int_max(dtype)));
      set_int(out, at, static_cast<int64_t>(q));
      meant[i] = static_cast<float>(q - zero) * kInputScale;
    } else {
      set_double(out, at, t == kI32 ? std::nearbyint(values[i]) : values[i]);
      meant[i] = get_double(out, at);
    }
  }
  return out;
}

inline Result<std::vector<Datum>> run_blob(const std::vector<std::byte>& blob, const std::vector<Datum>& inputs,
                                           BackendKind backend) {
  SMELT_ASSIGN(const Model model, Model::load_bytes(blob, nullptr, "test.xnn"));
  SMELT_ASSIGN(Session session, Session::create(model, {.backend = backend}));
  return session.run(inputs);
}

/// A node kind: how it is written and what it means.
struct Case {
  XNodeUnion node;
  std::string name;
  std::vector<Dims> inputs;
  Dims output;
  std::function<void(XnnBlob&, const std::vector<uint32_t>& in, uint32_t out)> write;
  std::function<Reals(const std::vector<Reals>&)> formula;
  double lo = -2, hi = 2;   ///< of the inputs
  float out_scale = 0.05f;  ///< of a quantized output; 0: parameters as the inputs have them
};

inline void check(const Case& c, XNNDatatype t, BackendKind backend) {
  const DType dtype = element_type(t);
  XnnBlob blob;
  std::vector<uint32_t> ids;
  std::vector<Datum> inputs;
  std::vector<Reals> meant;
  for (const Dims& dims : c.inputs) {
    ids.push_back(blob.input(t, dims, params(t, kInputScale, kInputZero)));
    Reals real;
    inputs.emplace_back(store(spread(elements(dims), c.lo, c.hi, static_cast<int>(ids.size())), dims, t, real));
    meant.push_back(real);
  }
  constexpr int kOutZero = -5;
  // Nodes that move elements need equal parameters on both sides, as XNNPACK does.
  const bool moves = c.out_scale == 0;
  const float scale = moves ? kInputScale : c.out_scale;
  const int zero = moves ? kInputZero : kOutZero;
  const uint32_t out = blob.output(t, c.output, params(t, scale, zero));
  c.write(blob, ids, out);
  auto results = run_blob(blob.finish(), inputs, backend);
  ASSERT_TRUE(results.ok()) << results.error().message();
  const Tensor& got = results->at(0).tensor;
  EXPECT_EQ(got.dtype(), dtype);
  EXPECT_EQ(got.shape().str(), shape_of(c.output).str());
  const Reals want = c.formula(meant);
  ASSERT_EQ(static_cast<size_t>(got.elements()), want.size());
  const int quantized_zero = zero + (t == kQU8 ? 128 : 0);
  for (size_t i = 0; i < want.size(); ++i) {
    const double g = get_double(got, static_cast<int64_t>(i));
    if (quantized(t)) {
      const double q = std::clamp(std::nearbyint(want[i] / scale) + quantized_zero, static_cast<double>(int_min(dtype)),
                                  static_cast<double>(int_max(dtype)));
      EXPECT_NEAR(g, q, 1) << "element " << i;
    } else {
      const double eps = t == kF32 ? 2e-6 : t == kF16 ? 3e-3 : t == kBF16 ? 2e-2 : 0;
      EXPECT_NEAR(g, want[i], eps * (1 + std::fabs(want[i]))) << "element " << i;
    }
  }
}

inline void add(Rows& rows, const Case& c, std::span<const XNNDatatype> types) {
  for (XNNDatatype t : types)
    rows.push_back({c.node,
                    c.name + (c.name.empty() ? "" : " ") + short_name(t),
                    {{Slot::kInput, t}, {Slot::kOutput, t}},
                    [c, t](BackendKind backend) { check(c, t, backend); }});
}

}  // namespace smelt::executorch::testing
