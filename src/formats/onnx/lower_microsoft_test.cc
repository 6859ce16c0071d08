#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "smelt/model.h"
#include "support/onnx_proto_writer.h"

namespace smelt::onnx {
namespace {

using Strings = std::initializer_list<std::string_view>;

ProtoWriter attribute(std::string_view name, float v) { return ProtoWriter().text(1, name).real(2, v).number(20, 1); }
ProtoWriter attribute(std::string_view name, int v) {
  return ProtoWriter().text(1, name).number(3, static_cast<uint64_t>(v)).number(20, 2);
}
ProtoWriter attribute(std::string_view name, std::string_view v) {
  return ProtoWriter().text(1, name).text(4, v).number(20, 3);
}

/// ValueInfoProto of a tensor whose dimensions below 0 are open.
ProtoWriter open_value(std::string_view name, int64_t elem_type, const Shape& shape) {
  ProtoWriter dims, tensor, type, value;
  for (int i = 0; i < shape.rank(); ++i)
    dims.message(1, shape[i] < 0 ? ProtoWriter() : ProtoWriter().number(1, static_cast<uint64_t>(shape[i])));
  tensor.number(1, static_cast<uint64_t>(elem_type)).message(2, dims);
  type.message(1, tensor);
  return value.text(1, name).message(2, type);
}

/// A node of com.microsoft whose inputs are the graph's.
class OneNode {
 public:
  OneNode(std::string_view op, Strings inputs, Strings outputs) : node_(make_node(op, inputs, outputs)) {
    node_.text(7, "com.microsoft");
    graph_.text(2, "g");
    for (const auto o : outputs)
      if (!o.empty()) graph_.message(12, ProtoWriter().text(1, o));
  }
  template <class T>
  OneNode& with(std::string_view name, T v) {
    node_.message(5, attribute(name, v));
    return *this;
  }
  /// An input; `declared` may have open dimensions.
  OneNode& input(std::string_view name, const Shape& shape, const std::vector<float>& v,
                 const Shape* declared = nullptr) {
    graph_.message(11, open_value(name, 1, declared ? *declared : shape));
    values_.emplace_back(Tensor::from<float>(DType::kF32, shape, v));
    return *this;
  }
  OneNode& input(std::string_view name, const Shape& shape, const std::vector<int32_t>& v,
                 const Shape* declared = nullptr) {
    graph_.message(11, open_value(name, 6, declared ? *declared : shape));
    values_.emplace_back(Tensor::from<int32_t>(DType::kI32, shape, v));
    return *this;
  }
  /// The contents of the outputs, equal on both back-ends up to rounding.
  std::vector<std::vector<float>> run() const {
    ProtoWriter graph = graph_, file;
    graph.message(1, node_);
    const auto opset = [](std::string_view domain, uint64_t v) { return ProtoWriter().text(1, domain).number(2, v); };
    file.number(1, 8).message(8, opset("", 17)).message(8, opset("com.microsoft", 1)).message(7, graph);
    const std::string& bytes = file.bytes();
    const auto model =
        Model::load_bytes({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, nullptr, "m");
    if (!model.ok()) {
      ADD_FAILURE() << model.error().message();
      return {};
    }
    std::vector<std::vector<float>> first;
    for (const BackendKind& backend : {BackendKind::kReference, BackendKind::kCpu}) {
      auto session = Session::create(*model, {.backend = backend});
      auto out = session->run(values_);
      if (!out.ok()) {
        ADD_FAILURE() << out.error().message();
        return {};
      }
      std::vector<std::vector<float>> all;
      for (const Datum& d : *out)
        all.emplace_back(d.tensor.data<float>(), d.tensor.data<float>() + d.tensor.elements());
      if (first.empty()) first = all;
      for (size_t k = 0; k < all.size(); ++k)
        for (size_t i = 0; i < all[k].size(); ++i) EXPECT_NEAR(all[k][i], first[k][i], 1e-5) << k << ' ' << i;
    }
    return first;
  }

 private:
  ProtoWriter node_, graph_;
  std::vector<Datum> values_;
};

void expect_near(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << i;
}

std::vector<float> ramp(int64_t n, float from = -1, float step = 0.17f) {
  std::vector<float> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = std::fmod(from + static_cast<float>(i) * step, 1.3f);
  return v;
}

TEST(Microsoft, FusedGemmActivations) {
  const std::vector<float> x{-2, -0.5f, 0.25f, 3};
  const std::pair<std::string_view, std::function<double(double)>> cases[] = {
      {"Elu", [](double v) { return v < 0 ? std::expm1(v) : v; }},
      {"Selu", [](double v) { return 1.0507009873554805 * (v < 0 ? 1.6732632423543772 * std::expm1(v) : v); }},
      {"Softplus", [](double v) { return std::log1p(std::exp(v)); }},
      {"Softsign", [](double v) { return v / (1 + std::fabs(v)); }},
      {"ThresholdedRelu", [](double v) { return v > 1 ? v : 0; }}};
  for (const auto& [name, f] : cases) {
    SCOPED_TRACE(name);
    std::vector<float> expected;
    for (const float v : x) expected.push_back(static_cast<float>(f(v)));
    const auto out = OneNode("FusedGemm", {"a", "b"}, {"y"})
                         .with("activation", name)
                         .input("a", Shape{4, 1}, x)
                         .input("b", Shape{1, 1}, std::vector<float>{1})
                         .run();
    ASSERT_EQ(out.size(), 1u);
    expect_near(out[0], expected);
  }
}

TEST(Microsoft, ScaledSilu) {
  const std::vector<float> x{-2, -0.5f, 0, 3};
  const auto expected = [&](double scale) {
    std::vector<float> y;
    for (const float v : x) y.push_back(static_cast<float>(v * scale / (1 + std::exp(-v * scale))));
    return y;
  };
  expect_near(OneNode("ScaledSiLU", {"x"}, {"y"}).with("alpha", 1.5f).input("x", Shape{4}, x).run().at(0),
              expected(1.5));
  expect_near(OneNode("ScaledSiLU", {"x", "s"}, {"y"})
                  .with("alpha", 7.0f)
                  .input("x", Shape{4}, x)
                  .input("s", Shape{}, std::vector<float>{0.5f})
                  .run()
                  .at(0),
              expected(0.5));
}

TEST(Microsoft, EpsilonsThatAreNotStated) {
  const std::vector<float> x{1e-3f, -1e-3f}, zeros{0, 0}, ones{1, 1};
  expect_near(OneNode("SkipSimplifiedLayerNormalization", {"x", "skip", "w"}, {"y"})
                  .input("x", Shape{1, 1, 2}, x)
                  .input("skip", Shape{1, 1, 2}, zeros)
                  .input("w", Shape{2}, ones)
                  .run()
                  .at(0),
              {0.9999995f, -0.9999995f});
  const float y = 1e-3f / std::sqrt(1e-6f + 1e-5f);
  expect_near(OneNode("BranchwiseRMSNorm", {"x"}, {"y"}).input("x", Shape{1, 1, 2}, x).run().at(0), {y, -y});
  expect_near(OneNode("GatedRMSNorm", {"x", "w", "g"}, {"y"})
                  .with("activation", "sigmoid")
                  .input("x", Shape{1, 2}, x)
                  .input("w", Shape{2}, ones)
                  .input("g", Shape{1, 2}, zeros)
                  .run()
                  .at(0),
              {y / 2, -y / 2});
}

TEST(Microsoft, MultiHeadAttentionGivesMaskedScores) {
  // One head, one query row of two keys: 0.5 * q * k, the second key hidden.
  const auto out = OneNode("MultiHeadAttention", {"q", "k", "v", "", "m"}, {"y", "", "", "qk"})
                       .with("num_heads", 1)
                       .with("scale", 0.5f)
                       .with("mask_filter_value", -100.0f)
                       .input("q", Shape{1, 1, 1}, std::vector<float>{2})
                       .input("k", Shape{1, 2, 1}, std::vector<float>{3, 5})
                       .input("v", Shape{1, 2, 1}, std::vector<float>{7, 9})
                       .input("m", Shape{1, 2}, std::vector<int32_t>{1, 0})
                       .run();
  ASSERT_EQ(out.size(), 2u);
  expect_near(out[0], {7});
  expect_near(out[1], {3, -95});
}

TEST(Microsoft, MultiHeadAttentionBiasOfNarrowValues) {
  // Two heads of width 2, values of width 1, keys and values already in heads: the bias ends in that of the values.
  const auto out = OneNode("MultiHeadAttention", {"q", "k", "v", "b"}, {"y"})
                       .with("num_heads", 2)
                       .input("q", Shape{1, 1, 4}, std::vector<float>{1, 2, 3, 4})
                       .input("k", Shape{1, 2, 1, 2}, std::vector<float>{1, 2, 3, 4})
                       .input("v", Shape{1, 2, 1, 1}, std::vector<float>{5, 6})
                       .input("b", Shape{10}, std::vector<float>{1, 1, 1, 1, 2, 2, 2, 2, 0, 0})
                       .run();
  ASSERT_EQ(out.size(), 1u);
  expect_near(out[0], {5, 6});
}

TEST(Microsoft, DecoderMaskedAttentionGivesMaskedScores) {
  const auto out =
      OneNode("DecoderMaskedMultiHeadAttention", {"q", "k", "v", "", "bias", "pk", "pv"}, {"y", "", "", "qk"})
          .with("num_heads", 1)
          .with("scale", 0.5f)
          .with("output_qk", 1)
          .input("q", Shape{1, 1, 1}, std::vector<float>{2})
          .input("k", Shape{1, 1, 1}, std::vector<float>{3})
          .input("v", Shape{1, 1, 1}, std::vector<float>{7})
          .input("bias", Shape{1, 1, 1, 2}, std::vector<float>{10, 20})
          .input("pk", Shape{1, 1, 1, 1}, std::vector<float>{5})
          .input("pv", Shape{1, 1, 1, 1}, std::vector<float>{9})
          .run();
  ASSERT_EQ(out.size(), 2u);
  expect_near(out[1], {15, 23});
}

TEST(Microsoft, MaskIndexOfAnOpenBatch) {
  // Keys of equal scores: the result is the mean of the values that the mask shows.
  const Shape row{-1, 3, 1}, any{-1};
  const std::vector<float> values{1, 2, 4, 10, 20, 40};
  const auto mean_of = [&](const std::vector<int32_t>& mask, const Shape& declared_row) {
    return OneNode("MultiHeadAttention", {"q", "k", "v", "", "m"}, {"y"})
        .with("num_heads", 1)
        .with("mask_filter_value", -1e30f)
        .input("q", Shape{2, 1, 1}, std::vector<float>{0, 0}, &declared_row)
        .input("k", Shape{2, 3, 1}, ramp(6), &row)
        .input("v", Shape{2, 3, 1}, values, &row)
        .input("m", Shape{static_cast<int64_t>(mask.size())}, mask, &any)
        .run()
        .at(0);
  };
  for (const int64_t batch : {-1, 2}) {
    SCOPED_TRACE(batch);
    const Shape declared{batch, 1, 1};
    expect_near(mean_of({2, 3}, declared), {1.5f, 70.0f / 3});
    expect_near(mean_of({2, 3, 1, 1}, declared), {2, 30});                        // ends, starts
    expect_near(mean_of({2, 3, 0, 1, 2, 0, 3, 6}, declared), {1.5f, 70.0f / 3});  // lengths, then two running sums
  }
}

TEST(Microsoft, GroupQueryAttentionNormalizesHeads) {
  // A query of two heads and a key of one, of width 8; the second form has them packed.
  const std::vector<float> q = ramp(16), k = ramp(8, 0.3f), v = ramp(8, 0.9f), weight = ramp(8, 0.5f, 0.05f);
  const auto normalized = [&](const std::vector<float>& x) {
    std::vector<float> y = x;
    for (size_t h = 0; h < x.size(); h += 8) {
      double sum = 0;
      for (size_t i = 0; i < 8; ++i) sum += static_cast<double>(x[h + i]) * x[h + i];
      for (size_t i = 0; i < 8; ++i) y[h + i] = static_cast<float>(x[h + i] / std::sqrt(sum / 8 + 1e-2)) * weight[i];
    }
    return y;
  };
  std::vector<float> packed = q;
  packed.insert(packed.end(), k.begin(), k.end());
  packed.insert(packed.end(), v.begin(), v.end());
  const std::vector<float> past = ramp(8, -0.4f);
  const auto run = [&](bool in_one, bool by_node) {
    const std::string_view kn = in_one ? "" : "k", vn = in_one ? "" : "v", wn = by_node ? "w" : "";
    OneNode node("GroupQueryAttention", {"q", kn, vn, "pk", "pv", "len", "total", "", "", "", "", "", "", "", wn, wn},
                 {"y", "ok", "ov"});
    node.with("num_heads", 2).with("kv_num_heads", 1).with("qk_norm_epsilon", 1e-2f);
    if (in_one)
      node.input("q", Shape{1, 1, 32}, packed);
    else
      node.input("q", Shape{1, 1, 16}, by_node ? q : normalized(q))
          .input("k", Shape{1, 1, 8}, by_node ? k : normalized(k))
          .input("v", Shape{1, 1, 8}, v);
    node.input("pk", Shape{1, 1, 1, 8}, past).input("pv", Shape{1, 1, 1, 8}, past);
    node.input("len", Shape{1}, std::vector<int32_t>{1}).input("total", Shape{1}, std::vector<int32_t>{2});
    if (by_node) node.input("w", Shape{8}, weight);
    return node.run();
  };
  const auto expected = run(false, false);
  for (const bool in_one : {false, true}) {
    const auto got = run(in_one, true);
    ASSERT_EQ(got.size(), 3u);
    for (size_t i = 0; i < 3; ++i) expect_near(got[i], expected[i]);
  }
}

}  // namespace
}  // namespace smelt::onnx
