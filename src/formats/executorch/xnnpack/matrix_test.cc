// Every node type of the XNNPACK schema with every data type: either it has a row that computes and compares, or the
// reader refuses it by name.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "backends/vulkan/device/backend.h"
#include "formats/executorch/xnnpack/values.h"
#include "support/xnn_row_quant.h"

namespace smelt::executorch::testing {

Reals spread(size_t n, double lo, double hi, int seed) {
  Reals v(n);
  for (size_t i = 0; i < n; ++i) {
    const double s = std::sin(static_cast<double>(i + 1) * 12.9898 + seed * 78.233) * 43758.5453;
    v[i] = lo + (hi - lo) * (s - std::floor(s));
  }
  return v;
}

size_t elements(const Dims& dims) {
  size_t n = 1;
  for (uint32_t d : dims) n *= d;
  return n;
}

Shape shape_of(const Dims& dims) {
  Shape s;
  for (uint32_t d : dims) s.push_back(d);
  return s;
}

DType element_type(XNNDatatype type) { return storage_type(type); }

size_t coordinate(size_t i, const Dims& dims, int dim) {
  size_t stride = 1;
  for (size_t k = static_cast<size_t>(dim) + 1; k < dims.size(); ++k) stride *= dims[k];
  return i / stride % dims[static_cast<size_t>(dim)];
}

void quantize_row(double* row, size_t n) {
  const double lo = std::min(0.0, *std::min_element(row, row + n)), hi = std::max(0.0, *std::max_element(row, row + n));
  const double s = lo == hi ? 1 : 255 / (hi - lo);
  double zero = (-128 + lo * s) + (127 + hi * s) > 0 ? -128 - lo * s : 127 - hi * s;
  zero = std::nearbyint(std::clamp(zero, -128.0, 127.0));
  for (size_t i = 0; i < n; ++i) row[i] = (std::clamp(std::nearbyint(row[i] * s + zero), -128.0, 127.0) - zero) / s;
}

std::string short_name(XNNDatatype type) {
  const std::string name = fb_xnnpack::EnumNameXNNDatatype(type);
  return name.substr(name.rfind('_') + 1);
}

namespace {

const std::vector<Row>& rows() {
  static const auto* const all = [] {
    auto* list = new std::vector<Row>;
    for (auto* part : {elementwise_rows, shape_rows, weight_rows})
      for (Row& row : part()) list->push_back(std::move(row));
    return list;
  }();
  return *all;
}

std::string test_name(const Row& row) {
  std::string name = std::string(fb_xnnpack::EnumNameXNodeUnion(row.node)) + "_" + row.name;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

class XnnMatrix : public ::testing::TestWithParam<size_t> {};

TEST_P(XnnMatrix, Computes) {
  for (const BackendKind& backend : {BackendKind::kReference, BackendKind::kCpu}) {
    SCOPED_TRACE(backend == BackendKind::kCpu ? "cpu" : "reference");
    rows()[GetParam()].check(backend);
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, XnnMatrix, ::testing::Range<size_t>(0, rows().size()),
                         [](const auto& info) { return test_name(rows()[info.param]); });

// All rows in one test: the device stays open.
TEST(XnnMatrixOnDevice, Computes) {
  const auto device = vulkan::open_device(-1);
  if (!device.ok()) GTEST_SKIP() << device.error().message();
  for (const Row& row : rows()) {
    SCOPED_TRACE(test_name(row));
    row.check(BackendKind::kVulkan);
  }
}

std::vector<Slot> slots_of(XNodeUnion node) {
  switch (node) {
    case XNodeUnion::XNNConv2d:
    case XNodeUnion::XNNDepthwiseConv2d:
    case XNodeUnion::XNNConvTranspose2d:
    case XNodeUnion::XNNFullyConnected:
      return {Slot::kInput, Slot::kFilter, Slot::kBias, Slot::kOutput};
    case XNodeUnion::XNNBatchMatrixMultiply:
      return {Slot::kInput, Slot::kFilter, Slot::kOutput};
    case XNodeUnion::XNNArgMaxPooling2d:
      return {Slot::kInput, Slot::kOutput, Slot::kIndex};
    default:
      return {Slot::kInput, Slot::kOutput};
  }
}

/// Quantization parameters that fit a value of this data type.
XnnQuant some_quant(XNNDatatype type, const Dims& dims) {
  const int last = static_cast<int>(dims.size()) - 1;
  switch (type) {
    case kQ8:
    case kQU8:
    case kQ32:
      return {.scales = {0.5f}};
    case kQC8:
    case kQC32:
    case kQC4:
      return {.scales = std::vector<float>(dims.empty() ? 1 : dims.back(), 0.5f), .channel_dim = last};
    case kQB4:
      return {.scales = std::vector<float>(elements(dims), 0.5f), .channel_dim = 0, .group_size = 1};
    case kQD8:
    case kQP8:
      return {.nonbatch_dims = 1};
    default:
      return {};
  }
}

/// A graph of one node: all values fp32 but those of `slot`.
class OneNode {
 public:
  OneNode(XNodeUnion node, Slot slot, XNNDatatype type) : node_(node), slot_(slot), type_(type) {}

  std::vector<std::byte> blob() {
    write();
    return b_.finish();
  }

 private:
  XNNDatatype type_of(Slot slot) const { return slot == slot_ ? type_ : slot == Slot::kIndex ? kI32 : kF32; }
  uint32_t input(Slot slot, const Dims& dims) { return b_.input(type_of(slot), dims, some_quant(type_of(slot), dims)); }
  uint32_t output(const Dims& dims, Slot slot = Slot::kOutput) {
    return b_.output(type_of(slot), dims, some_quant(type_of(slot), dims));
  }

  void convolution() {
    const bool depthwise = node_ == XNodeUnion::XNNDepthwiseConv2d;
    const uint32_t x = input(Slot::kInput, kImage), w = input(Slot::kFilter, {depthwise ? 1u : 2u, 1, 1, 2});
    const uint32_t bias = input(Slot::kBias, {2}), y = output(kImage), group = depthwise ? 1 : 2;
    b_.node(node_, fb_xnnpack::Create_XNNNodeConv(b_.fbb, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, group, group, 2 / group, 0, 0,
                                                  x, w, bias, y));
  }
  void concat(size_t n) {
    std::vector<uint32_t> in(5, 0xffffffffu);
    for (size_t i = 0; i < n; ++i) in[i] = input(Slot::kInput, kMatrix);
    const uint32_t y = output({2 * static_cast<uint32_t>(n), 4});
    b_.node(node_, fb_xnnpack::Create_XNNCat(b_.fbb, 0, in[0], in[1], in[2], in[3], y, 0, in[4]));
  }
  void two_to_one(const Dims& dims, const Dims& second, Slot slot) {
    const uint32_t a = input(Slot::kInput, dims), b = input(slot, second);
    b_.node(node_, fb_xnnpack::Create_XNNNode2x1(b_.fbb, a, b, output(dims)));
  }
  void pooling() {
    const uint32_t x = input(Slot::kInput, kImage), y = output(kImage);
    b_.node(node_, fb_xnnpack::Create_XNNPooling2D(b_.fbb, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, x, y));
  }
  void attention() {
    std::vector<uint32_t> in;
    for (int i = 0; i < 3; ++i) in.push_back(input(Slot::kInput, {1, 1, 2, 4}));
    in.push_back(input(Slot::kInput, {4}));
    in.push_back(input(Slot::kInput, {2, 2}));
    const uint32_t y = output({1, 1, 2, 4});
    b_.node(node_, fb_xnnpack::CreateXNNScaledDotProductAttention(b_.fbb, in[0], in[1], in[2], in[3], in[4], y));
  }
  template <class Make>
  void one_to_one(Make make, const Dims& in = kMatrix, const Dims& out = kMatrix) {
    const uint32_t x = input(Slot::kInput, in), y = output(out);
    b_.node(node_, make(x, y));
  }

  void write() {
    const Dims sizes{2, 4}, zeros{0, 0}, swap{0, 1};
    auto& fbb = b_.fbb;
    switch (node_) {
      case XNodeUnion::XNNConv2d:
      case XNodeUnion::XNNDepthwiseConv2d:
      case XNodeUnion::XNNConvTranspose2d:
        return convolution();
      case XNodeUnion::XNNFullyConnected: {
        const uint32_t x = input(Slot::kInput, {2, 4}), w = input(Slot::kFilter, {4, 4});
        const uint32_t bias = input(Slot::kBias, {4}), y = output(kMatrix);
        return b_.node(node_, fb_xnnpack::CreateXNNFullyConnected(fbb, x, w, bias, y));
      }
      case XNodeUnion::XNNBatchMatrixMultiply:
        return two_to_one(kMatrix, {4, 4}, Slot::kFilter);
      case XNodeUnion::XNNAdd:
      case XNodeUnion::XNNSubtract:
      case XNodeUnion::XNNMultiply:
      case XNodeUnion::XNNDiv:
      case XNodeUnion::XNNMinimum:
      case XNodeUnion::XNNMaximum:
      case XNodeUnion::XNNPReLU:
        return two_to_one(kMatrix, kMatrix, Slot::kInput);
      case XNodeUnion::XNNConcatenate2:
        return concat(2);
      case XNodeUnion::XNNConcatenate3:
        return concat(3);
      case XNodeUnion::XNNConcatenate4:
        return concat(4);
      case XNodeUnion::XNNConcatenate5:
        return concat(5);
      case XNodeUnion::XNNAvgPooling2d:
      case XNodeUnion::XNNMaxPooling2d:
        return pooling();
      case XNodeUnion::XNNScaledDotProductAttention:
        return attention();
      case XNodeUnion::XNNArgMaxPooling2d: {
        const uint32_t x = input(Slot::kInput, kImage), y = output(kImage), index = output(kImage, Slot::kIndex);
        return b_.node(node_, fb_xnnpack::CreateXNNArgMaxPooling2d(fbb, 0, 0, 0, 0, 1, 1, x, y, index));
      }
      case XNodeUnion::XNNGlobalAvgPooling2d:
        return one_to_one([&](auto x, auto y) { return fb_xnnpack::Create_XNNNode1x1(fbb, x, y, 0x40); }, kImage,
                          {1, 1, 1, 2});
      case XNodeUnion::XNNStaticResizeBilinear2D:
        return one_to_one(
            [&](auto x, auto y) { return fb_xnnpack::CreateXNNStaticResizeBilinear2D(fbb, 2, 2, x, y, 0); }, kImage,
            kImage);
      case XNodeUnion::XNNStaticTranspose:
        return one_to_one(
            [&](auto x, auto y) { return fb_xnnpack::CreateXNNStaticTransposeDirect(fbb, 2, &swap, x, y); });
      case XNodeUnion::XNNStaticReshape:
        return one_to_one(
            [&](auto x, auto y) { return fb_xnnpack::CreateXNNStaticReshapeDirect(fbb, 2, &sizes, x, y); });
      case XNodeUnion::XNNStaticSlice:
        return one_to_one(
            [&](auto x, auto y) { return fb_xnnpack::CreateXNNStaticSliceDirect(fbb, 2, &zeros, &sizes, x, y); });
      case XNodeUnion::XNNStaticConstantPad:
        return one_to_one(
            [&](auto x, auto y) { return fb_xnnpack::CreateXNNStaticConstantPadDirect(fbb, &zeros, &zeros, 0, x, y); });
      case XNodeUnion::XNNLeakyReLU:
        return one_to_one([&](auto x, auto y) { return fb_xnnpack::CreateXNNLeakyReLU(fbb, 0.5f, x, y); });
      case XNodeUnion::XNNELU:
        return one_to_one([&](auto x, auto y) { return fb_xnnpack::CreateXNNELU(fbb, 1, x, y); });
      default:
        return one_to_one([&](auto x, auto y) { return fb_xnnpack::Create_XNNNode1x1(fbb, x, y); });
    }
  }

  inline static const Dims kImage{1, 2, 2, 2}, kMatrix{2, 4};
  XnnBlob b_;
  XNodeUnion node_;
  Slot slot_;
  XNNDatatype type_;
};

Status load(const std::vector<std::byte>& blob) {
  SMELT_ASSIGN(const Model model, Model::load_bytes(blob, nullptr, "test.xnn"));
  return Ok();
}

TEST(XnnMatrixIsFull, EveryNodeLoadsInFloat) {
  for (XNodeUnion node : fb_xnnpack::EnumValuesXNodeUnion()) {
    if (node == XNodeUnion::NONE) continue;
    const Status s = load(OneNode(node, Slot::kInput, kF32).blob());
    EXPECT_TRUE(s.ok()) << fb_xnnpack::EnumNameXNodeUnion(node) << ": " << s.error().message();
  }
}

TEST(XnnMatrixIsFull, EveryDatatypeHasARowOrIsRefusedByName) {
  std::set<std::tuple<XNodeUnion, Slot, XNNDatatype>> covered;
  for (const Row& row : rows())
    for (const auto& [slot, type] : row.operands) covered.emplace(row.node, slot, type);
  for (XNodeUnion node : fb_xnnpack::EnumValuesXNodeUnion()) {
    if (node == XNodeUnion::NONE) continue;
    for (Slot slot : slots_of(node))
      for (XNNDatatype type : fb_xnnpack::EnumValuesXNNDatatype()) {
        if (type == XNNDatatype::xnn_datatype_invalid) continue;
        const std::string label = std::string(fb_xnnpack::EnumNameXNodeUnion(node)) + " with " + short_name(type) +
                                  " in slot " + std::to_string(static_cast<int>(slot));
        if (covered.contains({node, slot, type})) continue;
        const Status s = load(OneNode(node, slot, type).blob());
        ASSERT_FALSE(s.ok()) << label << " is read but no row tests it";
        const std::string& why = s.error().message();
        // Blocks of channels are refused before a node is looked at where a value is no matrix.
        if (type == kQB4 && why.find("blockwise") != std::string::npos) continue;
        EXPECT_NE(why.find(fb_xnnpack::EnumNameXNodeUnion(node)), std::string::npos) << label << ": " << why;
        EXPECT_NE(why.find(fb_xnnpack::EnumNameXNNDatatype(type)), std::string::npos) << label << ": " << why;
      }
  }
}

TEST(XnnMatrixIsFull, IntegersAndRealNumbersDoNotMix) {
  for (XNodeUnion node : {XNodeUnion::XNNAdd, XNodeUnion::XNNAbs, XNodeUnion::XNNConcatenate2})
    for (Slot slot : {Slot::kInput, Slot::kOutput}) {
      const Status s = load(OneNode(node, slot, kI32).blob());
      ASSERT_FALSE(s.ok());
      EXPECT_NE(s.error().message().find("expected"), std::string::npos) << s.error().message();
    }
}

}  // namespace
}  // namespace smelt::executorch::testing
