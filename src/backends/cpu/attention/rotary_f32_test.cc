#include <numeric>

#include "base/cat.h"
#include "ops/attention/attention.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

OpCase rotary_case(const Shape& x, const Shape& table, const RotaryAttrs& a) {
  OpCase c{Cat(x.str(), " table ", table.str()),
           Op::kRotary,
           make_attrs<RotaryAttrs>(a),
           {f32(x), random_tensor(DType::kF32, table, -1, 1, 2), random_tensor(DType::kF32, table, -1, 1, 3)}};
  c.threaded = true;
  return c;
}

TEST(RotaryF32, LayoutsAndTables) {
  for (const bool interleaved : {false, true})
    for (const bool batch_seq_heads : {false, true}) {
      RotaryAttrs a;
      a.interleaved = interleaved;
      a.batch_seq_heads = batch_seq_heads;
      check_on_cpu(rotary_case({2, 5, 7, 38}, {batch_seq_heads ? 5 : 7, 19}, a), "rotary_f32");
      check_on_cpu(rotary_case({2, 5, 7, 38}, {2, batch_seq_heads ? 5 : 7, 19}, a), "rotary_f32");
      a.rotary_dim = 20;
      check_on_cpu(rotary_case({1, 5, 7, 38}, {batch_seq_heads ? 5 : 7, 10}, a), "rotary_f32");
      a.num_heads = 3;
      check_on_cpu(rotary_case({2, 9, 96}, {9, 10}, a), "rotary_f32");
      a.scale = 2;
      check_on_cpu(rotary_case({2, 9, 96}, {9, 10}, a), "");
    }
}

TEST(RotaryF32, TablesOfFourDimensions) {
  for (const bool batch_seq_heads : {false, true}) {
    RotaryAttrs a;
    a.batch_seq_heads = batch_seq_heads;
    const Shape x = batch_seq_heads ? Shape{2, 2, 5, 38} : Shape{2, 5, 2, 38};
    for (const Shape& table : {Shape{2, 1, 2, 19}, Shape{1, 1, 2, 19}, Shape{2, 2, 1, 19}, Shape{2, 1, 1, 19}})
      check_on_cpu(rotary_case(x, table, a), "rotary_f32");
  }
}

TEST(RotaryF32, Positions) {
  RotaryAttrs a;
  a.num_heads = 2;
  for (const Shape& ids : {Shape{2, 5}, Shape{5}, Shape{1}, Shape{2}}) {
    OpCase c = rotary_case({2, 5, 64}, {30, 16}, a);
    Tensor at(DType::kI64, ids);
    std::iota(at.data<int64_t>(), at.data<int64_t>() + at.elements(), 11);
    c.inputs.push_back(at);
    check_on_cpu(c, "rotary_f32");
    c.inputs[3].data<int64_t>()[0] = 30;
    check_fails(c);
  }
}

}  // namespace
}  // namespace smelt
