// Reductions, running sums and segments.
#include "formats/tflite/lowering.h"
#include "ops/reduce/reduce.h"

namespace smelt::tflite {
namespace {
using Code = tfl::BuiltinOperator;

Reduction reduction_of(Code code) {
  using enum tfl::BuiltinOperator;
  static constexpr std::pair<Code, Reduction> kFunctions[] = {
      {MEAN, Reduction::kMean},      {REDUCE_PROD, Reduction::kProd}, {UNSORTED_SEGMENT_PROD, Reduction::kProd},
      {REDUCE_MAX, Reduction::kMax}, {REDUCE_MIN, Reduction::kMin},   {UNSORTED_SEGMENT_MAX, Reduction::kMax},
      {REDUCE_ANY, Reduction::kAny}, {REDUCE_ALL, Reduction::kAll},   {UNSORTED_SEGMENT_MIN, Reduction::kMin}};
  for (const auto& [known, fn] : kFunctions)
    if (known == code) return fn;
  return Reduction::kSum;
}
}  // namespace

Status lower_reduce(OperatorContext& c) {
  ReduceAttrs a;
  a.fn = reduction_of(c.code());
  const auto* o = c.options<tfl::ReducerOptions>();
  a.keep_dims = o && o->keep_dims();
  a.noop_with_empty_axes = true;
  a.rounding = Rounding::kFixedDouble;
  return c.emit(Op::kReduce, a, {c.in(0), c.in(1)});
}

Status lower_arg_reduce(OperatorContext& c) {
  ArgReduceAttrs a;
  a.min = c.code() == Code::ARG_MIN;
  a.to = c.out_type(0).dtype;
  return c.emit(Op::kArgReduce, a, {c.in(0), c.in(1)});
}

Status lower_cumsum(OperatorContext& c) {
  CumulativeAttrs a;
  if (const auto* o = c.options<tfl::CumsumOptions>()) {
    a.exclusive = o->exclusive();
    a.reverse = o->reverse();
  }
  return c.emit(Op::kCumulative, a, {c.in(0), c.in(1)});
}

Status lower_segment(OperatorContext& c) {
  SegmentAttrs a;
  a.fn = reduction_of(c.code());
  a.sorted = c.code() == Code::SEGMENT_SUM;
  return c.emit(Op::kSegment, a, c.ins());
}

}  // namespace smelt::tflite
