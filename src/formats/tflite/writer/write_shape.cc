// Operators that reshape, join and split.
#include <algorithm>
#include <numeric>

#include "formats/tflite/writer/op_writer.h"
#include "formats/tflite/writer/scores.h"
#include "ops/shape/channels_perm.h"
#include "ops/shape/shape.h"
#include "tensor/quant_params.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

/// A RESHAPE of input 0 to the shape of output 0, if at most one dimension is unknown; `shape` else.
bool reshape_to_output(OpWriter& w, int shape) {
  SubgraphWriter& s = w.subgraph();
  const ValueType& y = w.out_type(0);
  const int x = s.same_elements(w.id(0));
  if (y.ranked && std::ranges::count(y.shape.dims(), -1) < 2) {
    const std::vector<int64_t> dims(y.shape.begin(), y.shape.end());
    if (std::ranges::count(dims, 0) == 0 || std::ranges::count(dims, -1) == 0) {
      w.out(0, s.reshape(x, dims));
      return true;
    }
  }
  if (shape < 0) return false;
  return w.emit(Code::RESHAPE, {w.in(0), shape});
}

}  // namespace

bool write_reshape(OpWriter& w) {
  if (!same_type(w.in_type(0), w.out_type(0))) return false;
  const auto& a = w.attrs<ReshapeAttrs>();
  SubgraphWriter& s = w.subgraph();
  // A 0 that copies a dimension has no word in TFLite: the shape is then taken apart.
  const auto given = w.ints(1);
  if (!given) return reshape_to_output(w, w.in_i32(1));
  std::vector<int64_t> dims = *given;
  const bool copies = !a.allow_zero && std::ranges::count(dims, 0) > 0;
  if (!copies && std::ranges::count(dims, 0) == 0) {
    w.out(0, s.reshape(s.same_elements(w.id(0)), dims));
    return true;
  }
  if (reshape_to_output(w, -1)) return true;
  if (!copies) return reshape_to_output(w, w.in_i32(1));
  std::vector<int> parts;
  const int shape = dims_of(s, w.in(0));
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] != 0) {
      parts.push_back(s.i32({dims[d]}));
      continue;
    }
    const int begin = s.i32({static_cast<int64_t>(d)}), one = s.i32({1});
    parts.push_back(s.add(Code::SLICE, {shape, begin, one}, DType::kI32));
  }
  return w.emit(Code::RESHAPE, {w.in(0), s.add(Code::CONCATENATION, parts, DType::kI32, concat_options(0))});
}

bool write_squeeze(OpWriter& w) {
  if (reshape_to_output(w, -1)) return true;
  const auto axes = w.has(1) ? w.ints(1) : std::optional(std::vector<int64_t>{});
  if (!axes) return false;
  const auto dims = as_i32(*axes);
  return w.emit(Code::SQUEEZE, {w.in(0)},
                options_of<tfl::SqueezeOptions>([=](auto& b) { return tfl::CreateSqueezeOptionsDirect(b, &dims); }));
}

bool write_unsqueeze(OpWriter& w) {
  if (reshape_to_output(w, -1)) return true;
  auto axes = w.ints(1);
  if (!axes || !w.in_type(0).ranked) return false;
  SubgraphWriter& s = w.subgraph();
  const int rank = w.rank(0) + static_cast<int>(axes->size());
  for (int64_t& a : *axes) a = wrapped_axis(a, rank);
  std::ranges::sort(*axes);
  int y = w.in(0);
  const auto [dtype, quant] = s.file_type(w.out_type(0));
  for (const int64_t a : *axes) y = s.add(Code::EXPAND_DIMS, {y, s.i32_scalar(a)}, dtype, {}, quant);
  w.out(0, y);
  return true;
}

bool write_flatten(OpWriter& w) {
  if (reshape_to_output(w, -1)) return true;
  const int64_t axis = w.attrs<AxisAttrs>().axis;
  if (!w.in_type(0).ranked) return false;
  SubgraphWriter& s = w.subgraph();
  const int rank = w.rank(0);
  const int64_t at = wrapped_axis(axis, rank);
  // [product before, -1]: one of the two products is the constant -1, the other is computed from the dimensions.
  if (at == 0) return w.emit(Code::RESHAPE, {w.in(0), s.i32({1, -1})});
  const int shape = dims_of(s, w.in(0));
  const int front = s.add(Code::SLICE, {shape, s.i32({0}), s.i32({at})}, DType::kI32);
  const int product = w.reduce(Code::REDUCE_PROD, front, {0}, true);
  return w.emit(Code::RESHAPE,
                {w.in(0), s.add(Code::CONCATENATION, {product, s.i32({-1})}, DType::kI32, concat_options(0))});
}

bool write_transpose(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  if (!same_type(w.in_type(0), w.out_type(0)) && w.out_type(0).quant && is_per_tensor(w.out_type(0).quant))
    return false;
  std::vector<int64_t> perm = w.attrs<TransposeAttrs>().perm;
  if (w.has(1)) {
    const auto given = w.ints(1);
    if (!given) return w.emit(Code::TRANSPOSE, {w.in(0), w.in_i32(1)});
    perm = *given;
  }
  const int rank = perm.empty() ? w.rank(0) : static_cast<int>(perm.size());
  if (rank < 0) return false;
  if (perm.empty())
    for (int d = rank - 1; d >= 0; --d) perm.push_back(d);
  for (int64_t& p : perm) p = wrapped_axis(p, rank);
  if (s.is_channels_last(w.id(0))) {
    // The value's dimension d lies at place order^-1(d).
    const auto order = channels_last_perm(rank);
    std::vector<int64_t> from;
    for (const int64_t p : perm) from.push_back(std::ranges::find(order, p) - order.begin());
    w.out(0, s.transpose(w.in_last(0), from));
    return true;
  }
  // What a graph with channels first makes of a value with channels last is that value.
  std::vector<int64_t> to_first{0, rank - 1};
  for (int d = 1; d + 1 < rank; ++d) to_first.push_back(d);
  if (rank >= 3 && perm == to_first && !w.constant(0)) {
    w.out_last(0, w.in(0));
    return true;
  }
  w.out(0, s.transpose(w.in(0), perm));
  return true;
}

bool write_expand(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  if (!same_type(w.in_type(0), w.out_type(0))) return false;
  const ValueType& y = w.out_type(0);
  const auto shape = w.ints(1);
  const auto options = options_of<tfl::BroadcastToOptions>([](auto& b) { return tfl::CreateBroadcastToOptions(b); });
  if (y.is_static() && y.shape.rank() <= 8)
    return w.emit(Code::BROADCAST_TO, {w.in(0), s.i32({y.shape.begin(), y.shape.end()})}, options);
  // BROADCAST_TO never shrinks what it is given: x's own dimensions count where the shape has 1.
  const int target = w.in_i32(1);
  const int dims = s.add(Code::BROADCAST_ARGS, {dims_of(s, w.in(0)), target}, DType::kI32);
  return w.emit(Code::BROADCAST_TO, {w.in(0), dims}, options);
}

bool write_tile(OpWriter& w) {
  if (!same_type(w.in_type(0), w.out_type(0))) return false;
  SubgraphWriter& s = w.subgraph();
  const ValueType& repeats = w.in_type(1);
  const int rank = w.rank(0);
  if (rank < 0 || !repeats.ranked || repeats.shape.rank() != 1 || repeats.shape[0] < 0) return false;
  int x = w.in(0);
  if (repeats.shape[0] == rank) return w.emit(Code::TILE, {x, w.in_i32(1)});
  const auto given = w.ints(1);
  if (!given) return false;
  std::vector<int64_t> all = *given;
  if (static_cast<int>(all.size()) < rank) {
    all.insert(all.begin(), static_cast<size_t>(rank) - all.size(), 1);
  } else {
    if (!w.in_type(0).is_static()) return false;
    std::vector<int64_t> shape(all.size() - static_cast<size_t>(rank), 1);
    shape.insert(shape.end(), w.in_type(0).shape.begin(), w.in_type(0).shape.end());
    x = s.reshape(x, shape);
  }
  return w.emit(Code::TILE, {x, s.i32(all)});
}

bool write_concat(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  int64_t axis = w.attrs<AxisAttrs>().axis;
  const int rank = w.out_type(0).ranked ? w.out_type(0).shape.rank() : w.rank(0);
  bool last = false, parts_last = rank >= 3;
  for (int i = 0; i < w.inputs(); ++i) {
    last |= s.is_channels_last(w.id(i));
    parts_last &= w.rank(i) == rank;
  }
  last &= parts_last;
  if (last) axis = channels_last_axis(axis, rank);
  std::vector<int> in;
  bool same = true;
  for (int i = 0; i < w.inputs(); ++i) {
    in.push_back(last ? w.in_last(i) : w.in(i));
    same &= same_type(w.in_type(i), w.out_type(0));
  }
  // LiteRT's int8 and int16 kernels want one scale for all.
  if (!same && s.file().prefer_int8) {
    const auto [dtype, quant] = s.file_type(w.out_type(0));
    for (int& x : in) x = quant ? s.quantize(x, dtype, quant) : s.dequantize(x);
  }
  const auto options = concat_options(axis);
  return last ? w.emit_last(Code::CONCATENATION, in, options) : w.emit(Code::CONCATENATION, in, options);
}

bool write_stack(OpWriter& w) {
  const auto axis = static_cast<int32_t>(w.attrs<AxisAttrs>().axis);
  for (int i = 0; i < w.inputs(); ++i)
    if (!same_type(w.in_type(i), w.out_type(0))) return false;
  const int count = w.inputs();
  return w.emit(Code::PACK, w.all(),
                options_of<tfl::PackOptions>([=](auto& b) { return tfl::CreatePackOptions(b, count, axis); }));
}

bool write_unstack(OpWriter& w) {
  const auto axis = static_cast<int32_t>(w.attrs<AxisAttrs>().axis);
  const int count = w.outputs();
  if (w.in_type(0).dtype == DType::kI64) {
    // LiteRT has no UNPACK of these.
    SubgraphWriter& s = w.subgraph();
    for (int i = 0; i < count; ++i)
      if (w.wants(i))
        s.bind(w.out_id(i), s.add(Code::GATHER, {w.in(0), s.i32_scalar(i)}, DType::kI64, gather_options(axis)));
    return true;
  }
  return w.emit_all(Code::UNPACK, {w.in(0)},
                    options_of<tfl::UnpackOptions>([=](auto& b) { return tfl::CreateUnpackOptions(b, count, axis); }));
}

bool write_split(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  const auto& a = w.attrs<SplitAttrs>();
  if (w.has(2) && !w.constant(2)) {
    if (w.has(1))
      return w.emit_all(
          Code::SPLIT_V, {w.in(0), w.in_i32(1), w.in_i32(2)},
          options_of<tfl::SplitVOptions>([n = w.outputs()](auto& b) { return tfl::CreateSplitVOptions(b, n); }));
    return w.emit_all(Code::SPLIT, {w.in_i32(2), w.in(0)}, options_of<tfl::SplitOptions>([n = w.outputs()](auto& b) {
                        return tfl::CreateSplitOptions(b, n);
                      }));
  }
  const int64_t axis = w.has(2) ? w.ints(2)->front() : a.axis;
  const int count = w.outputs();
  const bool last = keeps_last(w);
  const int64_t at = last ? channels_last_axis(axis, w.rank(0)) : axis;
  const int x = last ? w.in_last(0) : w.in(0);
  const int64_t n = w.in_type(0).ranked ? w.in_type(0).shape[static_cast<int>(wrapped_axis(axis, w.rank(0)))] : -1;
  std::vector<int> outs;
  for (int i = 0; i < count; ++i) {
    const auto [dtype, quant] = w.wants(i) ? s.file_type(w.out_type(i)) : s.file_type(w.in_type(0));
    outs.push_back(s.add_tensor({.dtype = dtype, .quant = quant}));
    if (w.wants(i)) last ? s.bind_channels_last(w.out_id(i), outs.back()) : s.bind(w.out_id(i), outs.back());
  }
  if (!w.has(1) && (n < 0 || n % count == 0)) {
    s.add_to(Code::SPLIT, {s.i32_scalar(at), x}, outs,
             options_of<tfl::SplitOptions>([=](auto& b) { return tfl::CreateSplitOptions(b, count); }));
    return true;
  }
  int sizes = -1;
  if (w.has(1)) {
    sizes = w.in_i32(1);
  } else {
    std::vector<int64_t> all;
    const int64_t each = (n + count - 1) / count;
    for (int64_t from = 0; static_cast<int>(all.size()) < count; from += each)
      all.push_back(std::clamp<int64_t>(n - from, 0, each));
    sizes = s.i32(all);
  }
  s.add_to(Code::SPLIT_V, {x, sizes, s.i32_scalar(at)}, outs,
           options_of<tfl::SplitVOptions>([=](auto& b) { return tfl::CreateSplitVOptions(b, count); }));
  return true;
}

bool write_shape_of(OpWriter& w) {
  const auto& a = w.attrs<ShapeOfAttrs>();
  SubgraphWriter& s = w.subgraph();
  const tfl::TensorType type = tensor_type(a.to);
  if (a.to != DType::kI32 && a.to != DType::kI64) return false;
  const bool whole = a.start == 0 && a.end == INT64_MAX;
  if (!whole && !w.in_type(0).ranked) return false;
  const int dims = s.add(Code::SHAPE, {w.in(0)}, a.to,
                         options_of<tfl::ShapeOptions>([=](auto& b) { return tfl::CreateShapeOptions(b, type); }));
  if (whole) {
    w.out(0, dims);
    return true;
  }
  const int rank = w.rank(0);
  const int64_t begin = std::clamp<int64_t>(wrapped_axis(a.start, rank), 0, rank);
  const int64_t end = std::clamp<int64_t>(wrapped_axis(a.end, rank), begin, rank);
  return w.emit(Code::SLICE, {dims, s.i32({begin}), s.i32({end - begin})});
}

bool write_size_of(OpWriter& w) {
  const DType to = w.out_type(0).dtype;
  SubgraphWriter& s = w.subgraph();
  const int dims = dims_of(s, w.in(0));
  w.out(0, s.cast(w.reduce(Code::REDUCE_PROD, dims, {0}, false), to));
  return true;
}

bool write_rank_of(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  const int rank = s.add(Code::RANK, {w.in(0)}, DType::kI32);
  w.out(0, s.cast(rank, w.out_type(0).dtype));
  return true;
}

bool write_fill(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  int value = w.in(1);
  if (w.rank(1) != 0) value = s.reshape(value, {});
  return w.emit(Code::FILL, {w.in_i32(0), value});
}

bool write_range(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  std::vector<int> in;
  for (int i = 0; i < 3; ++i) in.push_back(w.rank(i) == 0 ? w.in(i) : s.reshape(w.in(i), {}));
  return w.emit(Code::RANGE, in);
}

bool write_reverse(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  if (!same_type(w.in_type(0), w.out_type(0))) return false;
  const auto axes = w.ints(1);
  if (!axes || !w.in_type(0).ranked) return w.emit(Code::REVERSE_V2, {w.in(0), w.in_i32(1)});
  // LiteRT reverses adjoining dimensions together, in any order; one operator for each is always right.
  int y = w.in(0);
  for (const int64_t a : *axes) {
    const auto [dtype, quant] = s.file_type(w.out_type(0));
    y = s.add(Code::REVERSE_V2, {y, s.i32({wrapped_axis(a, w.rank(0))})}, dtype, {}, quant);
  }
  w.out(0, y);
  return true;
}

bool write_reverse_sequence(OpWriter& w) {
  const auto& a = w.attrs<DiagonalAttrs>();
  const auto time = static_cast<int32_t>(a.axis1), batch = static_cast<int32_t>(a.axis2);
  return w.emit(Code::REVERSE_SEQUENCE, {w.in(0), w.in(1)}, options_of<tfl::ReverseSequenceOptions>([=](auto& b) {
                  return tfl::CreateReverseSequenceOptions(b, time, batch);
                }));
}

bool write_matrix_diag(OpWriter& w) { return w.emit(Code::MATRIX_DIAG, {w.in(0)}); }
bool write_matrix_set_diag(OpWriter& w) { return w.emit(Code::MATRIX_SET_DIAG, {w.in(0), w.in(1)}); }
bool write_broadcast_shape(OpWriter& w) { return w.emit(Code::BROADCAST_ARGS, {w.in(0), w.in(1)}); }

}  // namespace smelt::tflite
