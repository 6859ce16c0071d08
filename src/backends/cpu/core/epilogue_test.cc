// Kernels that compute the node behind them on the blocks of their output: plans with and without give the same bits.
#include "backends/cpu/core/epilogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/cat.h"
#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/normalization/normalization.h"
#include "ops/shape/shape.h"
#include "tests/support/op_case.h"
#include "tests/support/planned_run.h"
#include "tests/support/tested_levels.h"

namespace smelt {
namespace {
using namespace smelt::test;

enum class Head : uint8_t {
  kPointwise,
  kPointwiseStrassen,
  kLines,
  kPatches,
  kSegments,
  kGroups,
  kStretches,
  kFewFilters,
  kDynamicQuant,
  kDynamicPointwise,
  kDepthwise,
  kGroupNorm,
  kMatMul,
  kMatMulStrassen,
  kMatMulDynamic,
  kMatMulRow,
  kMatMulDynamicRow,
  kMatMulNarrow,
  kMatMulNarrowReal,
  kTransposed,
};
constexpr Head kHeads[] = {
    Head::kPointwise, Head::kPointwiseStrassen, Head::kLines,        Head::kPatches,          Head::kSegments,
    Head::kGroups,    Head::kStretches,         Head::kFewFilters,   Head::kDynamicQuant,     Head::kDynamicPointwise,
    Head::kDepthwise, Head::kGroupNorm,         Head::kMatMul,       Head::kMatMulStrassen,   Head::kMatMulDynamic,
    Head::kMatMulRow, Head::kMatMulDynamicRow,  Head::kMatMulNarrow, Head::kMatMulNarrowReal, Head::kTransposed};
enum class Tail : uint8_t {
  kAdd,
  kAddFirst,
  kSub,
  kSubFirst,
  kMulLast,
  kPRelu,
  kPReluLast,
  kDiv,
  kAddBehindView,
  kSilu,
  kElu,
  kGeluBehindView,
};
constexpr Tail kTails[] = {Tail::kAdd,           Tail::kAddFirst, Tail::kSub,       Tail::kSubFirst,
                           Tail::kMulLast,       Tail::kPRelu,    Tail::kPReluLast, Tail::kDiv,
                           Tail::kAddBehindView, Tail::kSilu,     Tail::kElu,       Tail::kGeluBehindView};

bool is_epilogue(Tail t) { return t != Tail::kSubFirst && t != Tail::kDiv; }

/// Parameters of a convolution of images of one line of `width` pixels.
struct Line {
  int64_t width, c_in, c_out, kernel, dilation, groups, images = 2;
};
Line line_of(Head h) {
  switch (h) {
    case Head::kPointwise:
    case Head::kDynamicPointwise:
    case Head::kMatMul:
    case Head::kMatMulDynamic:
    case Head::kMatMulNarrow:
    case Head::kMatMulNarrowReal:
      return {31, 16, 37, 1, 1, 1};
    case Head::kMatMulRow:
    case Head::kMatMulDynamicRow:
      return {1, 48, 200, 1, 1, 1, 1};
    case Head::kPointwiseStrassen:
      return {90, 256, 260, 1, 1, 1};
    case Head::kMatMulStrassen:
      return {45, 256, 260, 1, 1, 1};
    case Head::kPatches:
      return {3, 400, 40, 3, 1, 1};
    case Head::kSegments:
      return {40, 12, 20, 3, 30, 1};
    case Head::kGroups:
      return {21, 12, 18, 3, 1, 3};
    case Head::kDepthwise:
      return {21, 37, 37, 3, 1, 37};
    case Head::kStretches:
      return {2101, 96, 12, 3, 1, 1};
    case Head::kFewFilters:
      return {600, 40, 3, 5, 1, 1};
    default:
      return {50, 40, 64, 3, 2, 1};
  }
}

ValueId head_of(Builder& b, Head h, ValueId x, const Line& l) {
  const auto floats_of = [&](const Shape& shape, uint32_t seed) {
    return b.constant("weights", random_tensor(DType::kF32, shape, -1, 1, seed));
  };
  if (h == Head::kGroupNorm) {
    GroupNormAttrs a;
    a.groups = 4;
    a.layout = Layout::kChannelsLast;
    a.act.kind = ActKind::kRelu;
    return b.op(Op::kGroupNorm, make_attrs<GroupNormAttrs>(a), {x, floats_of({l.c_in}, 2), floats_of({l.c_in}, 3)})
        .value();
  }
  const bool dynamic = h == Head::kDynamicQuant || h == Head::kDynamicPointwise || h == Head::kMatMulDynamic ||
                       h == Head::kMatMulDynamicRow || h == Head::kMatMulNarrow;
  const bool narrow = h == Head::kMatMulNarrow || h == Head::kMatMulNarrowReal;
  const auto filter_of = [&](const Shape& shape) {
    const double most = narrow ? 7 : dynamic ? 127 : 1;
    const DType type = narrow ? DType::kI4 : dynamic ? DType::kI8 : DType::kF32;
    Tensor filter = random_tensor(type, shape, -most, most, 2);
    if (narrow || dynamic) filter.set_quant(per_tensor(0.01f, 0));
    return b.constant("filter", filter);
  };
  if (h == Head::kMatMul || h == Head::kMatMulStrassen || h == Head::kMatMulDynamic || h == Head::kMatMulRow ||
      h == Head::kMatMulDynamicRow || narrow) {
    MatMulAttrs a;
    a.transpose_b = true;
    a.dynamic_quant = dynamic;
    return b.op(Op::kMatMul, make_attrs<MatMulAttrs>(a), {x, filter_of({l.c_out, l.c_in}), floats_of({l.c_out}, 3)})
        .value();
  }
  if (h == Head::kTransposed) {
    ConvTransposeAttrs a;
    a.strides = {1};
    a.dilations = {l.dilation};
    a.pads = {l.dilation, l.dilation};
    a.layout = Layout::kChannelsLast;
    a.filter = FilterLayout::kIOS;
    return b
        .op(Op::kConvTranspose, make_attrs<ConvTransposeAttrs>(a),
            {x, filter_of({l.c_in, l.c_out, l.kernel}), floats_of({l.c_out}, 3)})
        .value();
  }
  ConvAttrs a;
  a.strides = {1};
  a.dilations = {l.dilation};
  const int64_t pad = l.dilation * (l.kernel / 2);
  a.pads = {pad, pad};
  a.groups = l.groups;
  a.layout = Layout::kChannelsLast;
  a.filter = FilterLayout::kOSI;
  a.act.kind = ActKind::kRelu6;
  a.dynamic_quant = dynamic;
  return b
      .op(Op::kConv, make_attrs<ConvAttrs>(a),
          {x, filter_of({l.c_out, l.kernel, l.c_in / l.groups}), floats_of({l.c_out}, 3)})
      .value();
}

ValueId tail_of(Builder& b, Tail t, ValueId made, ValueId other, int64_t c_out) {
  if (t == Tail::kSilu || t == Tail::kElu || t == Tail::kGeluBehindView) {
    UnaryAttrs a;
    a.fn = t == Tail::kSilu ? Unary::kSilu : t == Tail::kElu ? Unary::kElu : Unary::kGelu;
    if (t == Tail::kElu) a.a = 0.75;
    return b.op(Op::kUnary, make_attrs<UnaryAttrs>(a), {made}).value();
  }
  const auto constant = [&](const Shape& shape) {
    return b.constant("other", random_tensor(DType::kF32, shape, -1, 1, 5));
  };
  BinaryAttrs a;
  a.fn = t == Tail::kAdd || t == Tail::kAddFirst || t == Tail::kAddBehindView ? Binary::kAdd
         : t == Tail::kSub || t == Tail::kSubFirst                            ? Binary::kSub
         : t == Tail::kMulLast                                                ? Binary::kMul
         : t == Tail::kDiv                                                    ? Binary::kDiv
                                                                              : Binary::kPRelu;
  if (t == Tail::kAdd) a.act.kind = ActKind::kRelu;
  const ValueId operand = t == Tail::kPRelu                              ? constant({1, 1})
                          : t == Tail::kPReluLast || t == Tail::kMulLast ? constant({1, c_out})
                                                                         : other;
  const bool first = t == Tail::kAddFirst || t == Tail::kSubFirst;
  return b.op(Op::kBinary, make_attrs<BinaryAttrs>(a), {first ? operand : made, first ? made : operand}).value();
}

/// x, other -> the head of x, then the tail. With the head's own value as a second output it is no epilogue.
std::shared_ptr<Module> module_of(Head h, Tail t, bool both, Shape* image, Shape* result) {
  auto module = std::make_shared<Module>();
  module->graphs.resize(1);
  module->methods = {{"main", 0}};
  Builder b(*module, 0);
  const Line l = line_of(h);
  const int64_t c_out = h == Head::kGroupNorm ? l.c_in : l.c_out;
  *image = Shape{l.images, l.width, l.c_in};
  const bool view = t == Tail::kAddBehindView || t == Tail::kGeluBehindView;
  *result = view ? Shape{l.images, 1, l.width, c_out} : Shape{l.images, l.width, c_out};
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, *image));
  const ValueId other = b.input("other", ValueType::tensor(DType::kF32, *result));
  const ValueId of_head = head_of(b, h, x, l);
  const ValueId made =
      view ? b.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {of_head, b.i64({l.images, 1, l.width, c_out})}).value()
           : of_head;
  const ValueId y = tail_of(b, t, made, other, c_out);
  b.graph().outputs = {y};
  if (both) b.graph().outputs.push_back(of_head);
  EXPECT_TRUE(verify(*module).ok());
  return module;
}

struct Ran {
  Tensor y;
  bool epilogue = false;
};
Ran ran(Head h, Tail t, bool both, Isa isa, int threads, ValueTap* tap = nullptr) {
  Shape image, result;
  const auto module = module_of(h, t, both, &image, &result);
  const std::vector<Datum> in{random_tensor(DType::kF32, image, -1, 1, 8),
                              random_tensor(DType::kF32, result, -1, 1, 9)};
  return run_planned(module, in, isa, threads, tap, [](Tensor y, const Plan& plan) {
    const auto by_epilogue = [](const Step& step) { return std::string(step.kernel_name()) == "epilogue"; };
    return Ran{std::move(y), std::any_of(plan.steps().begin(), plan.steps().end(), by_epilogue)};
  });
}

TEST(Epilogue, GivesTheBitsOfANodeOfItsOwn) {
  for (const Isa isa : tested_isas())
    for (const Head h : kHeads)
      for (const Tail t : kTails)
        for (const int threads : {1, 3}) {
          if (threads > 1 && (isa != best_isa() || best_level_only())) continue;
          SCOPED_TRACE(
              Cat(to_string(isa), " head ", static_cast<int>(h), " tail ", static_cast<int>(t), " threads ", threads));
          const Ran joined = ran(h, t, false, isa, threads), apart = ran(h, t, true, isa, threads);
          EXPECT_EQ(joined.epilogue, is_epilogue(t));
          EXPECT_FALSE(apart.epilogue);
          ASSERT_EQ(joined.y.shape(), apart.y.shape());
          EXPECT_EQ(std::memcmp(joined.y.raw(), apart.y.raw(), apart.y.bytes()), 0);
        }
}

TEST(Epilogue, ATapSeesTheValueBefore) {
  ConvCount count;
  EXPECT_FALSE(ran(Head::kLines, Tail::kAdd, false, best_isa(), 1, &count).epilogue);
  EXPECT_EQ(count.convs, 1);
}

}  // namespace
}  // namespace smelt
