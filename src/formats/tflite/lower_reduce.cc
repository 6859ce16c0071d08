// Reductions, running sums and segments.
#include "formats/tflite/lowering.h"
#include "ops/reduce/reduce.h"

namespace smelt::tflite {
namespace {
using Code = tfl::BuiltinOperator;

Reduction reduction_of(Code code) {
  switch (code) {
    case Code::MEAN:
      return Reduction::kMean;
    case Code::REDUCE_PROD:
    case Code::UNSORTED_SEGMENT_PROD:
      return Reduction::kProd;
    case Code::REDUCE_MAX:
    case Code::UNSORTED_SEGMENT_MAX:
      return Reduction::kMax;
    case Code::REDUCE_MIN:
    case Code::UNSORTED_SEGMENT_MIN:
      return Reduction::kMin;
    case Code::REDUCE_ANY:
      return Reduction::kAny;
    case Code::REDUCE_ALL:
      return Reduction::kAll;
    default:
      return Reduction::kSum;
  }
}
}  // namespace

Status lower_reduce(Lowering& l) {
  ReduceAttrs a;
  a.fn = reduction_of(l.code());
  const auto* o = l.options<tfl::ReducerOptions>();
  a.keep_dims = o && o->keep_dims();
  a.noop_with_empty_axes = true;
  a.rounding = Rounding::kFixedDouble;
  return l.emit(Op::kReduce, make_attrs<ReduceAttrs>(a), {l.in(0), l.in(1)});
}

Status lower_arg_reduce(Lowering& l) {
  ArgReduceAttrs a;
  a.min = l.code() == Code::ARG_MIN;
  a.to = l.out_type(0).dtype;
  return l.emit(Op::kArgReduce, make_attrs<ArgReduceAttrs>(a), {l.in(0), l.in(1)});
}

Status lower_cumsum(Lowering& l) {
  CumulativeAttrs a;
  if (const auto* o = l.options<tfl::CumsumOptions>()) {
    a.exclusive = o->exclusive();
    a.reverse = o->reverse();
  }
  return l.emit(Op::kCumulative, make_attrs<CumulativeAttrs>(a), {l.in(0), l.in(1)});
}

Status lower_segment(Lowering& l) {
  SegmentAttrs a;
  a.fn = reduction_of(l.code());
  a.sorted = l.code() == Code::SEGMENT_SUM;
  return l.emit(Op::kSegment, make_attrs<SegmentAttrs>(a), l.ins());
}

}  // namespace smelt::tflite
