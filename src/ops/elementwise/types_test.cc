// Every function meets every element type: it runs, or says why not.
#include <algorithm>
#include <string>

#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/reduce/reduce.h"
#include "ops/softmax/softmax.h"
#include "support/op_runner.h"

namespace smelt::test {
namespace {

std::vector<DType> all_types() {
  std::vector<DType> types;
  for (int i = static_cast<int>(DType::kF32); i <= static_cast<int>(DType::kC128); ++i)
    types.push_back(static_cast<DType>(i));
  return types;
}

Tensor sample(DType dtype) {
  Tensor t(dtype, {2, 3});
  if (dtype == DType::kString) {
    for (int i = 0; i < 6; ++i) t.data<std::string>()[i] = std::string(static_cast<size_t>(i + 1), 'x');
    return t;
  }
  const double values[] = {0, 1, 2, 1, 0, 1};
  for (int i = 0; i < 6; ++i) set_double(t, i, values[i]);
  return t;
}

void expect_runs_or_explains(const OpRunner& runner, bool must_run) {
  const auto r = runner.run_all();
  if (!r.ok()) {
    EXPECT_FALSE(must_run) << r.error().message();
    EXPECT_FALSE(r.error().message().empty());
    EXPECT_NE(r.error().code(), ErrorCode::kInternal) << r.error().message();
  }
}

TEST(AllTypes, Unary) {
  for (int f = 0; f < static_cast<int>(Unary::kCount); ++f)
    for (DType dtype : all_types()) {
      const auto fn = static_cast<Unary>(f);
      SCOPED_TRACE(std::string(to_string(fn)) + " " + to_string(dtype));
      const bool real = dtype != DType::kString && !is_complex(dtype);
      expect_runs_or_explains(OpRunner(Op::kUnary, make_attrs<UnaryAttrs>(fn, 0.5, 0.25, 1)).input(sample(dtype)),
                              real);
    }
}

TEST(AllTypes, Binary) {
  for (int f = 0; f < static_cast<int>(Binary::kCount); ++f)
    for (DType dtype : all_types()) {
      const auto fn = static_cast<Binary>(f);
      SCOPED_TRACE(std::string(to_string(fn)) + " " + to_string(dtype));
      const bool bits = fn >= Binary::kBitAnd && fn <= Binary::kShiftRightLogical;
      const bool must = is_integer(dtype) || (is_float(dtype) && !bits);
      expect_runs_or_explains(
          OpRunner(Op::kBinary, make_attrs<BinaryAttrs>(fn)).input(sample(dtype)).input(sample(dtype)), must);
      expect_runs_or_explains(
          OpRunner(Op::kBinary, make_attrs<BinaryAttrs>(fn)).input(sample(dtype)).input(sample(DType::kF32)), false);
    }
}

TEST(AllTypes, Casts) {
  for (DType from : all_types())
    for (DType to : all_types()) {
      SCOPED_TRACE(std::string(to_string(from)) + " to " + to_string(to));
      expect_runs_or_explains(OpRunner(Op::kCast, make_attrs<CastAttrs>(to)).input(sample(from)),
                              from != DType::kString || to == DType::kString);
      expect_runs_or_explains(OpRunner(Op::kBitCast, make_attrs<CastAttrs>(to)).input(sample(from)), false);
    }
}

TEST(AllTypes, ReductionsAndSoftmax) {
  for (DType dtype : all_types()) {
    for (int f = 0; f <= static_cast<int>(Reduction::kStd); ++f) {
      ReduceAttrs attrs;
      attrs.fn = static_cast<Reduction>(f);
      SCOPED_TRACE(std::string(to_string(attrs.fn)) + " " + to_string(dtype));
      expect_runs_or_explains(OpRunner(Op::kReduce, make_attrs<ReduceAttrs>(attrs)).input(sample(dtype)),
                              is_float(dtype) || is_integer(dtype));
    }
    expect_runs_or_explains(OpRunner(Op::kSoftmax, make_attrs<SoftmaxAttrs>()).input(sample(dtype)), is_float(dtype));
    expect_runs_or_explains(OpRunner(Op::kArgReduce, make_attrs<ArgReduceAttrs>()).input(sample(dtype)),
                            is_float(dtype));
    expect_runs_or_explains(OpRunner(Op::kCumulative, make_attrs<CumulativeAttrs>())
                                .input(sample(dtype))
                                .input(tensor(DType::kI64, {}, {1})),
                            is_float(dtype));
    expect_runs_or_explains(OpRunner(Op::kWhere, make_attrs<NoAttrs>())
                                .input(tensor(DType::kBool, {2, 3}, {0, 1, 1, 0, 1, 0}))
                                .input(sample(dtype))
                                .input(sample(dtype)),
                            true);
    expect_runs_or_explains(OpRunner(Op::kClamp, make_attrs<NoAttrs>()).input(sample(dtype)).input(sample(dtype)),
                            is_float(dtype));
  }
}

/// Outputs that a hostile model declares with types that no kernel writes.
TEST(AllTypes, DeclaredOutputs) {
  for (DType in : {DType::kF32, DType::kI8, DType::kI32})
    for (DType out : all_types())
      for (bool quantized_in : {false, true}) {
        Tensor x = sample(in);
        if (quantized_in && in != DType::kF32) x.set_quant(per_tensor(0.5f, 0));
        const auto type = ValueType::tensor(out, {2, 3}, per_tensor(0.5f, 0, Rounding::kFixedDouble));
        SCOPED_TRACE(std::string(to_string(in)) + " " + to_string(out));
        for (Rounding rounding : {Rounding::kFloatHalfEven, Rounding::kFixedDouble}) {
          for (Unary fn : {Unary::kRelu, Unary::kTanh, Unary::kSqrt, Unary::kIsNan}) {
            UnaryAttrs attrs(fn);
            attrs.rounding = rounding;
            expect_runs_or_explains(OpRunner(Op::kUnary, make_attrs<UnaryAttrs>(attrs)).input(x).outputs({type}),
                                    false);
          }
          for (Binary fn : {Binary::kAdd, Binary::kMul, Binary::kDiv, Binary::kLess, Binary::kMax}) {
            BinaryAttrs attrs(fn);
            attrs.rounding = rounding;
            expect_runs_or_explains(
                OpRunner(Op::kBinary, make_attrs<BinaryAttrs>(attrs)).input(x).input(x).outputs({type}), false);
          }
          SoftmaxAttrs softmax;
          softmax.rounding = rounding;
          expect_runs_or_explains(OpRunner(Op::kSoftmax, make_attrs<SoftmaxAttrs>(softmax)).input(x).outputs({type}),
                                  false);
          ReduceAttrs reduce;
          reduce.rounding = rounding;
          reduce.keep_dims = true;
          expect_runs_or_explains(OpRunner(Op::kReduce, make_attrs<ReduceAttrs>(reduce)).input(x).outputs({type}),
                                  false);
        }
        expect_runs_or_explains(OpRunner(Op::kQuantize, make_attrs<NoAttrs>()).input(x).outputs({type}), false);
        expect_runs_or_explains(OpRunner(Op::kDequantize, make_attrs<NoAttrs>()).input(x).outputs({type}), false);
        expect_runs_or_explains(OpRunner(Op::kClamp, make_attrs<NoAttrs>()).input(x).outputs({type}), false);
      }
}

}  // namespace
}  // namespace smelt::test
