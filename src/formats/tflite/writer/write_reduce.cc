// Reductions, running sums and segments.
#include <numeric>

#include "formats/tflite/writer/op_writer.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/channels_perm.h"
#include "tensor/quant_params.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

std::optional<Code> reduce_code(Reduction fn) {
  switch (fn) {
    case Reduction::kSum:
      return Code::SUM;
    case Reduction::kMean:
      return Code::MEAN;
    case Reduction::kMax:
      return Code::REDUCE_MAX;
    case Reduction::kMin:
      return Code::REDUCE_MIN;
    case Reduction::kProd:
      return Code::REDUCE_PROD;
    case Reduction::kAny:
      return Code::REDUCE_ANY;
    case Reduction::kAll:
      return Code::REDUCE_ALL;
    default:
      return std::nullopt;
  }
}

/// Reductions of float32 values that are several operators.
std::optional<int> reduce_formula(OpWriter& w, const ReduceAttrs& a, int x, const std::vector<int64_t>& axes,
                                  const Shape& shape) {
  SubgraphWriter& s = w.subgraph();
  const auto total = [&](Code code, int v, bool keep) { return w.reduce(code, v, axes, keep); };
  switch (a.fn) {
    case Reduction::kL1:
      return total(Code::SUM, w.call(Code::ABS, {x}), a.keep_dims);
    case Reduction::kSumSquare:
      return total(Code::SUM, w.mul(x, x), a.keep_dims);
    case Reduction::kL2:
      return w.call(Code::SQRT, {total(Code::SUM, w.mul(x, x), a.keep_dims)});
    case Reduction::kLogSum:
      return w.call(Code::LOG, {total(Code::SUM, x, a.keep_dims)});
    case Reduction::kLogSumExp: {
      const int top = total(Code::REDUCE_MAX, x, true);
      const int sum = total(Code::SUM, w.call(Code::EXP, {w.sub(x, top)}), a.keep_dims);
      return w.add({w.call(Code::LOG, {sum}), a.keep_dims ? top : total(Code::REDUCE_MAX, x, false)});
    }
    case Reduction::kVar:
    case Reduction::kStd: {
      double n = 1;
      for (const int64_t d : axes) {
        if (shape[static_cast<int>(d)] < 0) return std::nullopt;
        n *= static_cast<double>(shape[static_cast<int>(d)]);
      }
      const int d = w.sub(x, total(Code::MEAN, x, true));
      const int sum = total(Code::SUM, w.mul(d, d), a.keep_dims);
      const int y = w.mul(sum, s.f32(1 / (n - a.correction)));
      return a.fn == Reduction::kStd ? w.call(Code::SQRT, {y}) : y;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

bool write_reduce(OpWriter& w) {
  const auto& a = w.attrs<ReduceAttrs>();
  SubgraphWriter& s = w.subgraph();
  const ValueType& from = w.in_type(0);
  if (a.accumulate != DType::kInvalid && from.quant) return false;
  const int rank = w.rank(0);
  std::optional<std::vector<int64_t>> axes = w.has(1) ? w.ints(1) : std::optional(std::vector<int64_t>{});
  const auto code = reduce_code(a.fn);
  const auto [dtype, quant] = s.file_type(w.out_type(0));
  const bool keep = a.keep_dims;
  const auto options = options_of<tfl::ReducerOptions>([=](auto& b) { return tfl::CreateReducerOptions(b, keep); });
  if (!axes) {
    if (!code || !a.noop_with_empty_axes || !same_type(from, w.out_type(0))) return false;
    return w.emit(*code, {w.in(0), w.in_i32(1)}, options);
  }
  if (rank < 0) return false;
  for (int64_t& d : *axes) d = d < 0 ? d + rank : d;
  if (axes->empty() && !a.noop_with_empty_axes) {
    axes->resize(static_cast<size_t>(rank));
    std::iota(axes->begin(), axes->end(), 0);
  }
  bool last = s.is_channels_last(w.id(0));
  Shape shape = from.shape;
  if (last) {
    std::vector<int64_t> moved;
    const auto perm = channels_last_perm(rank);
    for (size_t i = 0; i < perm.size(); ++i) shape[static_cast<int>(i)] = from.shape[static_cast<int>(perm[i])];
    for (const int64_t d : *axes) moved.push_back(channels_last_axis(d, rank));
    // Without kept dimensions, what is left must have the graph's order.
    const bool in_order = [&] {
      int64_t before = -1;
      for (size_t i = 0; i < perm.size(); ++i) {
        if (std::ranges::count(moved, static_cast<int64_t>(i)) > 0) continue;
        if (perm[i] < before) return false;
        before = perm[i];
      }
      return true;
    }();
    if (a.keep_dims || in_order)
      axes = moved;
    else
      last = false;
    if (!last) shape = from.shape;
  }
  int x = last ? w.in_last(0) : w.in(0);
  const auto finish = [&](int y) {
    last&& a.keep_dims ? w.out_last(0, y) : w.out(0, y);
    return true;
  };
  const bool extreme = a.fn == Reduction::kMax || a.fn == Reduction::kMin;
  const bool integers = from.quant && quant && (!extreme || same_quant_params(from.quant, w.out_type(0).quant)) &&
                        a.fn != Reduction::kProd;
  if (code && integers) return finish(s.add(*code, {x, s.i32(*axes)}, dtype, options, quant));
  x = s.dequantize(x);
  if (a.accumulate != DType::kInvalid) x = s.cast(x, dtype);
  const bool logical = a.fn == Reduction::kAny || a.fn == Reduction::kAll;
  if (logical) x = s.cast(x, DType::kBool);
  const DType work = s.at(x).dtype;
  // TFLite's integer means round toward zero as the graph's do; narrow integers are widened.
  const bool widen = s.file().prefer_int8 && bit_width(work) < 32 && is_integer(work);
  if (widen) x = s.cast(x, DType::kI32);
  if (code)
    return finish(s.cast(s.add(*code, {x, s.i32(*axes)}, s.at(x).dtype, options), quant ? s.at(x).dtype : dtype));
  if (!is_float(s.at(x).dtype)) x = s.cast(x, DType::kF32);
  const auto y = reduce_formula(w, a, x, *axes, shape);
  if (!y) return false;
  return finish(quant ? *y : s.cast(*y, dtype));
}

bool write_arg_reduce(OpWriter& w) {
  const auto& a = w.attrs<ArgReduceAttrs>();
  SubgraphWriter& s = w.subgraph();
  if (a.to != DType::kI32 && a.to != DType::kI64) return false;
  const tfl::TensorType type = tensor_type(a.to);
  int x = w.in(0), axis = -1;
  if (a.flatten) x = s.reshape(x, {-1});
  if (w.has(1)) {
    axis = w.in_i32(1);
  } else {
    axis = s.i32_scalar(a.flatten ? 0 : a.axis < 0 && w.rank(0) > 0 ? a.axis + w.rank(0) : a.axis);
  }
  const auto options = a.min
                           ? options_of<tfl::ArgMinOptions>([=](auto& b) { return tfl::CreateArgMinOptions(b, type); })
                           : options_of<tfl::ArgMaxOptions>([=](auto& b) { return tfl::CreateArgMaxOptions(b, type); });
  if (a.select_last) {
    // The first one from the end.
    if (w.has(1)) return false;
    const FileTensor from = s.at(x);
    x = s.add(Code::REVERSE_V2, {x, s.reshape(axis, {1})}, from.dtype, {}, from.quant);
  }
  int y = s.add(a.min ? Code::ARG_MIN : Code::ARG_MAX, {x, axis}, a.to, options);
  if (a.select_last) {
    const int n = s.add(Code::GATHER, {dims_of(s, x), axis}, DType::kI32,
                        options_of<tfl::GatherOptions>([](auto& b) { return tfl::CreateGatherOptions(b, 0); }));
    y = w.sub(s.cast(w.sub(n, s.i32_scalar(1)), a.to), y);
  }
  if (a.keep_dims) {
    if (a.flatten || w.has(1)) {
      const ValueType& t = w.out_type(0);
      if (!t.ranked || std::ranges::count(t.shape.dims(), -1) > 1) return false;
      y = s.reshape(y, {t.shape.begin(), t.shape.end()});
    } else {
      y = s.add(Code::EXPAND_DIMS, {y, axis}, a.to);
    }
  }
  w.out(0, y);
  return true;
}

bool write_cumulative(OpWriter& w) {
  const auto& a = w.attrs<CumulativeAttrs>();
  if (a.fn != CumulativeAttrs::Fn::kSum || !w.unquantized()) return false;
  SubgraphWriter& s = w.subgraph();
  int axis = w.in_i32(1);
  if (w.rank(1) != 0) axis = s.reshape(axis, {});
  return w.emit(Code::CUMSUM, {w.in(0), axis}, options_of<tfl::CumsumOptions>([=](auto& b) {
                  return tfl::CreateCumsumOptions(b, a.exclusive, a.reverse);
                }));
}

bool write_segment(OpWriter& w) {
  const auto& a = w.attrs<SegmentAttrs>();
  if (a.sorted) return a.fn == Reduction::kSum && w.emit(Code::SEGMENT_SUM, w.all());
  const Code code = a.fn == Reduction::kProd  ? Code::UNSORTED_SEGMENT_PROD
                    : a.fn == Reduction::kMax ? Code::UNSORTED_SEGMENT_MAX
                    : a.fn == Reduction::kMin ? Code::UNSORTED_SEGMENT_MIN
                                              : Code::UNSORTED_SEGMENT_SUM;
  return w.emit(code, w.all());
}

}  // namespace smelt::tflite
