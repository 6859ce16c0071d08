// Convolutions that run by bands of rows: plans with and without give the same bits.
#include "backends/cpu/conv/row_chain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/conv/row_stage.h"
#include "base/cat.h"
#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "tests/support/op_case.h"
#include "tests/support/planned_run.h"
#include "tests/support/tested_levels.h"

namespace smelt {
namespace {
using namespace smelt::test;

/// What stands behind a convolution.
enum class Tail : uint8_t { kNone, kSwish, kScaled, kTanh };
/// A convolution of `kernel` taps a side with `channels` filters; channels 0: depthwise.
struct Stage {
  int64_t channels = 0, kernel = 1, stride = 1;
  std::vector<int64_t> pads = {0, 0, 0, 0};  ///< top, left, bottom, right
  int64_t dilation = 1;
  Tail tail = Tail::kNone;
};
struct Chain {
  const char* label;
  Shape image;
  std::vector<Stage> stages;
  int joined;             ///< convolutions that run in the segment of another one
  bool residual = false;  ///< the image is added to the result
};

Stage pointwise(int64_t channels, Tail tail = Tail::kNone) { return {.channels = channels, .tail = tail}; }
Stage depthwise(int64_t kernel, int64_t stride, std::vector<int64_t> pads, int64_t dilation = 1,
                Tail tail = Tail::kNone) {
  return {.kernel = kernel, .stride = stride, .pads = std::move(pads), .dilation = dilation, .tail = tail};
}

const std::vector<Chain>& chains() {
  static const std::vector<Chain> all = {
      {"inverted residual", {2, 61, 47, 24}, {pointwise(144), depthwise(3, 1, {1, 1, 1, 1}), pointwise(24)}, 2, true},
      {"stride 2, pad behind", {1, 62, 94, 16}, {pointwise(40), depthwise(3, 2, {0, 0, 1, 1}), pointwise(24)}, 1},
      {"5x5", {1, 61, 53, 8}, {pointwise(75, Tail::kSwish), depthwise(5, 1, {2, 2, 2, 2}), pointwise(37)}, 2},
      {"5x5, stride 2", {3, 46, 47, 8}, {pointwise(72), depthwise(5, 2, {2, 1, 1, 2}, 1, Tail::kSwish)}, 1},
      {"7x7", {1, 55, 57, 8}, {pointwise(80, Tail::kScaled), depthwise(7, 1, {3, 3, 3, 3}), pointwise(16)}, 2},
      {"dilated", {1, 55, 57, 8}, {pointwise(80), depthwise(3, 1, {2, 2, 2, 2}, 2), pointwise(16, Tail::kTanh)}, 2},
      {"dilated more, uneven pads", {1, 59, 57, 8}, {pointwise(80), depthwise(3, 1, {5, 0, 1, 7}, 3)}, 1},
      {"stride 3 leaves rows out", {1, 59, 57, 8}, {pointwise(80), depthwise(2, 3, {0, 1, 1, 0})}, 1},
      {"the whole window is padding", {1, 57, 59, 8}, {pointwise(80), depthwise(3, 1, {4, 1, 5, 1})}, 1},
      {"convolution first",
       {1, 121, 97, 3},
       {{.channels = 72, .kernel = 3, .stride = 2, .pads = {1, 1, 1, 1}}, depthwise(3, 1, {1, 1, 1, 1}), pointwise(40)},
       2},
      {"depthwise first", {1, 61, 53, 77}, {depthwise(3, 1, {1, 1, 1, 1}, 1, Tail::kTanh), pointwise(48)}, 1},
      {"long",
       {1, 64, 64, 48},
       {depthwise(3, 1, {1, 1, 1, 1}), pointwise(64), depthwise(3, 1, {1, 1, 1, 1}), pointwise(64, Tail::kSwish),
        depthwise(3, 2, {1, 1, 1, 1}), pointwise(96)},
       4},
      {"rows of sevens", {1, 61, 49, 24}, {pointwise(96), depthwise(3, 1, {1, 1, 1, 1}), pointwise(24)}, 2},
      {"rows of fives", {1, 61, 50, 24}, {pointwise(96), depthwise(3, 1, {1, 1, 1, 1}), pointwise(24)}, 2},
      {"small", {1, 20, 20, 24}, {pointwise(48), depthwise(3, 1, {1, 1, 1, 1}), pointwise(24)}, 0},
      {"short rows", {1, 700, 12, 8}, {pointwise(96), depthwise(3, 1, {1, 1, 1, 1})}, 0},
  };
  return all;
}

ValueId tail_of(Builder& b, Tail tail, ValueId x, int64_t channels) {
  if (tail == Tail::kSwish) {
    UnaryAttrs a;
    a.fn = Unary::kHardSwish;
    return b.op(Op::kUnary, make_attrs<UnaryAttrs>(a), {x}).value();
  }
  if (tail == Tail::kScaled) {
    BinaryAttrs a;
    a.fn = Binary::kMul;
    return b
        .op(Op::kBinary, make_attrs<BinaryAttrs>(a),
            {x, b.constant("scales", random_tensor(DType::kF32, {channels}, -1, 1, 6))})
        .value();
  }
  return x;
}

/// Integers of all values of a chain of bytes: how they are quantized.
struct Bytes {
  DType dtype;
  int32_t zero;
  Rounding rounding;
  QuantPtr quant(float scale) const { return per_tensor(scale, zero, rounding); }
};

Tensor image_of(const Chain& chain, const Bytes* bytes) {
  if (!bytes) return random_tensor(DType::kF32, chain.image, -1, 1, 8);
  const double least = bytes->dtype == DType::kI8 ? -128 : 0;
  Tensor t = random_tensor(bytes->dtype, chain.image, least, least + 255, 8);
  t.set_quant(bytes->quant(0.02f));
  return t;
}

ValueId conv_of(Builder& b, const ConvAttrs& a, ValueId x, const Shape& filter, const Bytes* bytes) {
  const int64_t filters = filter[0];
  if (!bytes)
    return b
        .op(Op::kConv, make_attrs<ConvAttrs>(a),
            {x, b.constant("filter", random_tensor(DType::kF32, filter, -1, 1, 2)),
             b.constant("bias", random_tensor(DType::kF32, {filters}, -1, 1, 3))})
        .value();
  Tensor weights = random_tensor(DType::kI8, filter, -128, 127, 2);
  std::vector<float> scales;
  for (int64_t o = 0; o < filters; ++o) scales.push_back(0.003f + 0.0007f * static_cast<float>(o % 7));
  weights.set_quant(per_axis(scales, 0));
  const float terms = static_cast<float>(filter.elements() / filters);
  ValueType y = ValueType::tensor(bytes->dtype, Shape{-1, -1, -1, -1});
  y.quant = bytes->quant(0.02f * 0.005f * 74 * std::sqrt(terms));
  ConvAttrs of_bytes = a;
  of_bytes.rounding = bytes->rounding;
  return b
      .op_as(
          Op::kConv, make_attrs<ConvAttrs>(of_bytes),
          {x, b.constant("filter", weights), b.constant("bias", random_tensor(DType::kI32, {filters}, -5000, 5000, 3))},
          y)
      .value();
}

/// apart: every value is an output, so that each must be made. bytes: null for float32.
std::shared_ptr<Module> module_of(const Chain& chain, bool apart, const Bytes* bytes) {
  auto module = std::make_shared<Module>();
  module->graphs.resize(1);
  module->methods = {{"main", 0}};
  Builder b(*module, 0);
  ValueType type = ValueType::tensor(bytes ? bytes->dtype : DType::kF32, chain.image);
  if (bytes) type.quant = bytes->quant(0.02f);
  const ValueId image = b.input("image", type);
  ValueId x = image;
  int64_t channels = chain.image[3];
  std::vector<ValueId> made;
  for (const Stage& s : chain.stages) {
    const int64_t filters = s.channels > 0 ? s.channels : channels;
    ConvAttrs a;
    a.strides = {s.stride, s.stride};
    a.dilations = {s.dilation, s.dilation};
    a.pads = s.pads;
    a.groups = s.channels > 0 ? 1 : channels;
    a.layout = Layout::kChannelsLast;
    a.filter = FilterLayout::kOSI;
    a.act.kind = s.tail == Tail::kNone ? ActKind::kRelu6 : s.tail == Tail::kTanh ? ActKind::kTanh : ActKind::kNone;
    x = conv_of(b, a, x, {filters, s.kernel, s.kernel, channels / a.groups}, bytes);
    made.push_back(x);
    channels = filters;
    x = tail_of(b, s.tail, x, channels);
  }
  if (chain.residual) {
    BinaryAttrs a;
    a.fn = Binary::kAdd;
    x = b.op(Op::kBinary, make_attrs<BinaryAttrs>(a), {x, image}).value();
  }
  b.graph().outputs = {x};
  if (apart) b.graph().outputs.insert(b.graph().outputs.end(), made.begin(), made.end());
  EXPECT_TRUE(verify(*module).ok());
  return module;
}

struct Ran {
  Tensor y;
  int joined = 0;
  size_t arena = 0;  ///< without scratch memory
};
Ran ran(const Chain& chain, bool apart, Isa isa, int threads, const Bytes* bytes = nullptr, ValueTap* tap = nullptr) {
  const std::vector<Datum> in{image_of(chain, bytes)};
  return run_planned(module_of(chain, apart, bytes), in, isa, threads, tap, [](Tensor y, const Plan& plan) {
    Ran result{std::move(y), 0, plan.arena_bytes()};
    size_t scratch = 0;
    for (const Step& step : plan.steps()) {
      result.joined += step.node->op == Op::kConv && step.joined >= 0;
      scratch = std::max(scratch, step.scratch.size());
    }
    result.arena -= scratch;
    return result;
  });
}

TEST(RowChain, GivesTheBitsOfTheConvolutionsOneByOne) {
  for (const Isa isa : best_level_only() ? tested_isas() : named_isas())
    for (const Chain& chain : chains())
      for (const int threads : {1, 3}) {
        if (threads > 1 && (isa != best_isa() || best_level_only())) continue;
        SCOPED_TRACE(Cat(to_string(isa), ", ", chain.label, ", threads ", threads));
        const Ran joined = ran(chain, false, isa, threads), apart = ran(chain, true, isa, threads);
        if (threads == 1) {
          EXPECT_EQ(joined.joined, chain.joined);
        }
        EXPECT_EQ(apart.joined, 0);
        ASSERT_EQ(joined.y.shape(), apart.y.shape());
        EXPECT_EQ(std::memcmp(joined.y.raw(), apart.y.raw(), apart.y.bytes()), 0);
        if (joined.joined > 0) {
          EXPECT_LT(joined.arena, apart.arena);
        }
      }
}

const std::vector<Chain>& chains_of_bytes() {
  static const std::vector<Chain> all = {
      {"inverted residual", {2, 61, 94, 24}, {pointwise(144), depthwise(3, 1, {1, 1, 1, 1}), pointwise(24)}, 2},
      {"stride 2, pad behind", {1, 62, 94, 16}, {pointwise(80), depthwise(3, 2, {0, 0, 1, 1}), pointwise(24)}, 1},
      {"5x5", {1, 71, 53, 8}, {pointwise(75), depthwise(5, 1, {2, 2, 2, 2}), pointwise(37)}, 1},
      {"5x5, stride 2", {3, 56, 57, 8}, {pointwise(72), depthwise(5, 2, {2, 1, 1, 2})}, 1},
      {"dilated", {1, 75, 57, 8}, {pointwise(80), depthwise(3, 1, {2, 2, 2, 2}, 2), pointwise(16)}, 2},
      {"dilated more, uneven pads", {1, 69, 57, 8}, {pointwise(80), depthwise(3, 1, {5, 0, 1, 7}, 3)}, 1},
      {"dilated, bands of a row", {1, 20, 400, 8}, {pointwise(72), depthwise(2, 1, {1, 1, 1, 1}, 2)}, 1},
      {"stride 3 leaves rows out", {1, 69, 57, 8}, {pointwise(80), depthwise(2, 3, {0, 1, 1, 0})}, 1},
      {"the whole window is padding", {1, 67, 59, 8}, {pointwise(80), depthwise(3, 1, {4, 1, 5, 1})}, 1},
      {"convolution first",
       {2, 161, 137, 3},
       {{.channels = 72, .kernel = 3, .stride = 2, .pads = {1, 1, 1, 1}}, depthwise(3, 1, {1, 1, 1, 1}), pointwise(40)},
       2},
      {"depthwise first", {1, 71, 53, 80}, {depthwise(3, 1, {1, 1, 1, 1}), pointwise(48)}, 1},
      {"long",
       {1, 80, 80, 48},
       {depthwise(3, 1, {1, 1, 1, 1}), pointwise(64), depthwise(3, 1, {1, 1, 1, 1}), pointwise(64),
        depthwise(3, 2, {1, 1, 1, 1}), pointwise(96)},
       4},
      {"small", {1, 40, 40, 24}, {pointwise(48), depthwise(3, 1, {1, 1, 1, 1}), pointwise(24)}, 0},
      {"channels that do not fill groups of 4", {1, 70, 60, 75}, {pointwise(75), pointwise(32)}, 0},
  };
  return all;
}

TEST(RowChain, OfBytesGivesTheBytesOfTheConvolutionsOneByOne) {
  const Bytes quantized[] = {{DType::kI8, 5, Rounding::kFixedDouble},
                             {DType::kI8, -128, Rounding::kFloatHalfEven},
                             {DType::kU8, 120, Rounding::kFloatHalfEven}};
  for (const Isa isa : best_level_only() ? tested_isas() : named_isas())
    for (const Chain& chain : chains_of_bytes())
      for (const Bytes& bytes : quantized)
        for (const int threads : {1, 3}) {
          if (threads > 1 && (isa != best_isa() || best_level_only())) continue;
          SCOPED_TRACE(Cat(to_string(isa), ", ", chain.label, ", zero point ", bytes.zero, ", threads ", threads));
          const Ran joined = ran(chain, false, isa, threads, &bytes), apart = ran(chain, true, isa, threads, &bytes);
          if (threads == 1 && isa.has(IsaFeature::kVnni)) {
            EXPECT_EQ(joined.joined, chain.joined);
          }
          EXPECT_EQ(apart.joined, 0);
          ASSERT_EQ(joined.y.shape(), apart.y.shape());
          EXPECT_EQ(std::memcmp(joined.y.raw(), apart.y.raw(), apart.y.bytes()), 0);
        }
}

TEST(RowChain, ATapSeesTheValuesBetween) {
  ConvCount count;
  EXPECT_EQ(ran(chains()[0], false, best_isa(), 1, nullptr, &count).joined, 0);
  EXPECT_EQ(count.convs, 3);
}

}  // namespace
}  // namespace smelt
