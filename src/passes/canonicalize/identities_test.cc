#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/exporter_forms.h"

namespace smelt {
namespace {
using test::check_fused;
using test::Forms;

ValueId cast(Forms& f, ValueId x, DType to) { return f.op(Op::kCast, make_attrs<CastAttrs>(to), {x}); }
ValueId expand(Forms& f, ValueId x, std::initializer_list<int64_t> shape) {
  return f.op(Op::kExpand, make_attrs<NoAttrs>(), {x, f.b.i64(shape)});
}

TEST(RemoveIdentities, CastsAndExpandsThatChangeNothing) {
  check_fused({2, 1, 4},
              [](Forms& f, ValueId x) {
                const ValueId same = expand(f, cast(f, f.unary(Unary::kTanh, x), DType::kF32), {1, 4});
                return f.mul(cast(f, same, DType::kF32), same);
              },
              {"Unary", "Binary"});
}

TEST(RemoveIdentities, ConcatenationsOfOneValue) {
  check_fused({2, 1, 4},
              [](Forms& f, ValueId x) {
                const auto join = [&](std::vector<ValueId> parts) {
                  return f.op(Op::kConcat, make_attrs<AxisAttrs>(int64_t{1}), std::move(parts));
                };
                const ValueId one = join({x});
                return f.unary(Unary::kTanh, join({one, one}));
              },
              {"Concat", "Unary"});
}

TEST(RemoveIdentities, Copies) {
  check_fused({2, 1, 4},
              [](Forms& f, ValueId x) {
                const auto copy = [&](ValueId v) { return f.unary(Unary::kIdentity, v); };
                return f.unary(Unary::kTanh, copy(copy(f.unary(Unary::kExp, x))));
              },
              {"Unary", "Unary"});
}

TEST(RemoveIdentities, IntegersThatBecomeWhatTheyWere) {
  check_fused({2, 1, 4},
              [](Forms& f, ValueId x) {
                const QuantPtr quant = test::per_tensor(0.05F, 3);
                const auto convert = [&](Op op, ValueId v, DType type, const QuantPtr& q) {
                  auto made = f.b.op_as(op, op == Op::kBitCast ? make_attrs<CastAttrs>(type) : make_attrs<NoAttrs>(),
                                        {v}, ValueType::tensor(type, Shape{2, 1, 4}, q));
                  EXPECT_TRUE(made.ok()) << made.error().message();
                  return made.ok() ? *made : 0;
                };
                const ValueId integers = convert(Op::kQuantize, x, DType::kI8, quant);
                const ValueId real = convert(Op::kDequantize, integers, DType::kF32, nullptr);
                const ValueId again = convert(Op::kQuantize, real, DType::kI8, quant);
                const ValueId raw = convert(Op::kBitCast, again, DType::kI8, nullptr);
                return convert(Op::kDequantize, convert(Op::kBitCast, raw, DType::kI8, quant), DType::kF32, nullptr);
              },
              {"Quantize", "Dequantize"});
}

TEST(RemoveIdentities, OthersStay) {
  check_fused({2, 1, 4},
              [](Forms& f, ValueId x) {
                const ValueId wide = expand(f, f.unary(Unary::kTanh, x), {2, 3, 4});
                const ValueId whole = cast(f, cast(f, f.mul(wide, 9.0), DType::kI32), DType::kF32);
                return f.mul(whole, 0.25);
              },
              {"Unary", "Expand", "Binary", "Cast", "Cast", "Binary"});
}

/// A node gives an output of the graph itself; a copy of an input stays.
TEST(RemoveIdentities, OutputsThatAreCopies) {
  check_fused({2, 1, 4},
              [](Forms& f, ValueId x) {
                const ValueId y = f.unary(Unary::kTanh, x);
                f.unary(Unary::kExp, y);
                return f.unary(Unary::kIdentity, y);
              },
              {"Unary"});
  check_fused({2, 1, 4}, [](Forms& f, ValueId x) { return f.unary(Unary::kIdentity, x); }, {"Unary"});
}

}  // namespace
}  // namespace smelt
