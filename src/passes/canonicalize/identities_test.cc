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

TEST(RemoveIdentities, OthersStay) {
  check_fused({2, 1, 4},
              [](Forms& f, ValueId x) {
                const ValueId wide = expand(f, f.unary(Unary::kTanh, x), {2, 3, 4});
                const ValueId whole = cast(f, cast(f, f.mul(wide, 9.0), DType::kI32), DType::kF32);
                return cast(f, f.mul(whole, 0.25), DType::kF32);  // an output of the graph
              },
              {"Unary", "Expand", "Binary", "Cast", "Cast", "Binary", "Cast"});
}

}  // namespace
}  // namespace smelt
