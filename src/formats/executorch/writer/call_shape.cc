// Operators that reshape, slice, join and look up as ATen calls. Quantized values are moved as their integers.
#include <algorithm>
#include <numeric>

#include "formats/executorch/writer/call_writer.h"
#include "ops/shape/shape.h"
#include "ops/shape/slice_end.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::executorch {
namespace {

/// x[begin:end:step] with a step of either sign; `begin` is the first element taken.
int strided(CallWriter& w, int x, int64_t axis, int64_t begin, int64_t end, int64_t step) {
  if (step > 0) return sliced(w, x, axis, begin, std::max(begin, end), step);
  const int64_t n = w.shape(x)[static_cast<int>(axis)];
  const int64_t b = n - 1 - begin, e = n - 1 - end;
  return sliced(w, flipped(w, x, {axis}), axis, b, std::max(b, e), -step);
}

}  // namespace

bool call_view(CallWriter& w) { return moves_integers(w) && w.out(0, w.plan().reshape(w.in(0), w.out_type(0).shape)); }

bool call_transpose(CallWriter& w) {
  std::vector<int64_t> perm = w.attrs<TransposeAttrs>().perm;
  if (w.has(1)) {
    const auto given = w.ints(1);
    if (!given) return false;
    perm = *given;
  }
  const int rank = w.rank(0);
  if (perm.empty())
    for (int d = rank - 1; d >= 0; --d) perm.push_back(d);
  for (int64_t& p : perm) p = axis_of(p, rank);
  if (!w.out_type(0).quant == !w.in_type(0).quant) {
    w.plan().bind(w.out_id(0), w.plan().permute(w.in(0), perm));
    return true;
  }
  return false;
}

bool call_expand(CallWriter& w) {
  if (!moves_integers(w)) return false;
  const Shape& s = w.out_type(0).shape;
  const int size = w.plan().integers({s.begin(), s.end()}), implicit = w.plan().boolean(false);
  return w.move("aten::expand_copy", {w.in(0), size, implicit});
}

bool call_tile(CallWriter& w) {
  auto repeats = w.ints(1);
  if (!repeats || !moves_integers(w)) return false;
  while (static_cast<int>(repeats->size()) < w.rank(0)) repeats->insert(repeats->begin(), 1);
  return w.move("aten::repeat", {w.in(0), w.plan().integers(*repeats)});
}

bool call_slice(CallWriter& w) {
  if (!moves_integers(w)) return false;
  const int rank = w.rank(0);
  const auto starts = w.ints(1), ends = w.ints(2), steps = w.has(4) ? w.ints(4) : std::nullopt;
  auto axes = w.has(3) ? w.axes(3, rank) : std::nullopt;
  if (!starts || !ends || (w.has(3) && !axes) || (w.has(4) && !steps)) return false;
  if (!axes) {
    axes.emplace(starts->size());
    std::iota(axes->begin(), axes->end(), 0);
  }
  int y = w.in(0);
  for (size_t i = 0; i < axes->size(); ++i) {
    const int64_t d = (*axes)[i], n = w.in_type(0).shape[static_cast<int>(d)], step = steps ? (*steps)[i] : 1;
    int64_t b = (*starts)[i], e = slice_end((*ends)[i], step);
    b = std::clamp<int64_t>(b < 0 ? b + n : b, 0, step > 0 ? n : n - 1);
    e = std::clamp<int64_t>(e < 0 ? e + n : e, step > 0 ? 0 : -1, n);
    y = strided(w, y, d, b, e, step);
  }
  return w.out(0, y);
}

bool call_slice_size(CallWriter& w) {
  const auto begin = w.ints(1), size = w.ints(2);
  if (!begin || !size || !moves_integers(w)) return false;
  int y = w.in(0);
  for (int d = 0; d < w.rank(0); ++d) {
    const int64_t n = w.in_type(0).shape[d], b = (*begin)[static_cast<size_t>(d)], s = (*size)[static_cast<size_t>(d)];
    y = sliced(w, y, d, b, s < 0 ? n : b + s, 1);
  }
  return w.out(0, y);
}

/// STRIDED_SLICE without an ellipsis and new axes.
bool call_strided_slice(CallWriter& w) {
  const auto& a = w.attrs<StridedSliceAttrs>();
  const auto begin = w.ints(1), end = w.ints(2), stride = w.ints(3);
  if (!begin || !end || !stride || a.ellipsis_mask || a.new_axis_mask || !moves_integers(w)) return false;
  int y = w.in(0);
  for (size_t i = 0; i < begin->size(); ++i) {
    const int64_t n = w.in_type(0).shape[static_cast<int>(i)], step = (*stride)[i];
    int64_t b = (*begin)[i], e = a.offset ? b + (*end)[i] : (*end)[i];
    b = std::clamp<int64_t>(b < 0 ? b + n : b, 0, step > 0 ? n : n - 1);
    if (a.begin_mask >> i & 1) b = step > 0 ? 0 : n - 1;
    e = std::clamp<int64_t>(e < 0 ? e + n : e, step > 0 ? 0 : -1, n);
    if (a.end_mask >> i & 1) e = step > 0 ? n : -1;
    if (a.shrink_axis_mask >> i & 1) e = b + (step > 0 ? 1 : -1);
    y = strided(w, y, static_cast<int64_t>(i), b, e, step);
  }
  return w.out(0, w.plan().reshape(y, w.out_type(0).shape));
}

bool call_concat(CallWriter& w) {
  std::vector<int> parts;
  bool same = true;
  for (int i = 0; i < w.inputs(); ++i) same &= moves_integers(w, i);
  for (int i = 0; i < w.inputs(); ++i) parts.push_back(same ? w.in(i) : w.real(i));
  return w.out(0, concatenated(w, parts, axis_of(w.attrs<AxisAttrs>().axis, w.rank(0))));
}

bool call_stack(CallWriter& w) {
  std::vector<int> parts;
  for (int i = 0; i < w.inputs(); ++i) {
    if (!moves_integers(w, i)) return false;
    parts.push_back(w.in(i));
  }
  const int list = w.plan().list(parts);
  return w.move("aten::stack", {list, w.plan().integer(axis_of(w.attrs<AxisAttrs>().axis, w.rank(0) + 1))});
}

bool call_unstack(CallWriter& w) {
  const int64_t axis = axis_of(w.attrs<AxisAttrs>().axis, w.rank(0));
  Shape s = w.in_type(0).shape;
  s.erase(static_cast<int>(axis));
  const int x = w.in(0);
  for (int i = 0; i < w.outputs(); ++i)
    if (w.wants(i)) w.plan().bind(w.out_id(i), w.plan().reshape(sliced(w, x, axis, i, i + 1, 1), s));
  return true;
}

bool call_split(CallWriter& w) {
  const auto& a = w.attrs<SplitAttrs>();
  if (w.has(2) && !w.constant(2)) return false;
  const int64_t axis = axis_of(w.has(2) ? w.ints(2)->front() : a.axis, w.rank(0));
  const int64_t n = w.in_type(0).shape[static_cast<int>(axis)], each = (n + w.outputs() - 1) / w.outputs();
  const auto sizes = w.has(1) ? w.ints(1) : std::nullopt;
  if (w.has(1) && !sizes) return false;
  std::vector<int64_t> lengths(static_cast<size_t>(w.outputs()));
  for (int64_t i = 0, at = 0; i < w.outputs(); at += lengths[static_cast<size_t>(i++)])
    lengths[static_cast<size_t>(i)] = sizes ? (*sizes)[static_cast<size_t>(i)] : std::min(each, n - at);
  PlanWriter& p = w.plan();
  const int x = w.in(0);
  const bool all = w.outputs() > 1 && p.at(x).constant < 0 && !p.has_bounds();
  std::vector<int> parts;
  for (int64_t i = 0, at = 0; i < w.outputs(); at += lengths[static_cast<size_t>(i++)]) {
    const int64_t length = lengths[static_cast<size_t>(i)];
    Shape part = w.shape(x);
    part[static_cast<int>(axis)] = length;
    if (all) parts.push_back(p.add_tensor(w.dtype(x), part));
    if (!w.wants(static_cast<int>(i))) continue;
    p.bind(w.out_id(static_cast<int>(i)), all ? parts.back() : sliced(w, x, axis, at, at + length, 1));
  }
  if (all) p.call_to("aten::split_with_sizes_copy", "out", {x, p.integers(lengths), p.integer(axis)}, parts, true);
  return true;
}

bool call_pad(CallWriter& w) {
  using Mode = PadAttrs::Mode;
  const auto& a = w.attrs<PadAttrs>();
  const int rank = w.rank(0);
  const auto pads = w.ints(1);
  auto axes = w.has(3) ? w.axes(3, rank) : std::nullopt;
  if (!pads || (w.has(3) && !axes) || !moves_integers(w)) return false;
  if (!axes) {
    axes.emplace(pads->size() / 2);
    std::iota(axes->begin(), axes->end(), 0);
  }
  // PyTorch's list begins with the last dimension.
  std::vector<int64_t> list(static_cast<size_t>(rank) * 2, 0);
  const size_t count = axes->size();
  for (size_t i = 0; i < count; ++i) {
    const auto back = static_cast<size_t>(rank - 1 - (*axes)[i]);
    list[2 * back] = a.pairs ? (*pads)[2 * i] : (*pads)[i];
    list[2 * back + 1] = a.pairs ? (*pads)[2 * i + 1] : (*pads)[count + i];
  }
  if (a.mode == Mode::kConstant) {
    const auto value = w.has(2) ? w.number(2) : std::optional(0.0);
    if (!value) return false;
    const int x = w.real(0);
    const int fill = is_float(w.dtype(x)) ? w.plan().real(*value) : w.plan().integer(static_cast<int64_t>(*value));
    return w.emit("aten::constant_pad_nd", {x, w.plan().integers(list), fill});
  }
  if (a.mode != Mode::kReflect && a.mode != Mode::kEdge) return false;
  // Reflection and replication pad one to three last dimensions of 2-D to 5-D values.
  size_t dims = 0;
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i] != 0) dims = i / 2 + 1;
  if (dims == 0) return w.out(0, w.in(0));
  if (dims > 3 || static_cast<size_t>(rank) < dims) return false;
  list.resize(2 * dims);
  int x = w.in(0);
  const Shape whole = w.shape(x);
  // The kernels take exactly one or two dimensions more than they pad.
  const bool fits = static_cast<size_t>(rank) == dims + 1 || static_cast<size_t>(rank) == dims + 2;
  Shape result = w.out_type(0).shape;
  if (!fits) {
    Shape flat{1}, out{1};
    const int keep = rank - static_cast<int>(dims);
    for (int d = 0; d < keep; ++d) flat[0] *= whole[d];
    out[0] = flat[0];
    for (int d = keep; d < rank; ++d) {
      flat.push_back(whole[d]);
      out.push_back(result[d]);
    }
    x = w.plan().reshape(x, flat);
    result = out;
  }
  const std::string name =
      (a.mode == Mode::kReflect ? "aten::reflection_pad" : "aten::replication_pad") + std::to_string(dims) + "d";
  const int padded = w.plan().call(name, "out", {x, w.plan().integers(list)}, w.dtype(x), result);
  w.plan().bind(w.out_id(0), w.plan().reshape(padded, w.out_type(0).shape));
  return true;
}

bool call_depth_space(CallWriter& w) {
  const auto& a = w.attrs<BlockAttrs>();
  if (w.rank(0) != 4 || !moves_integers(w)) return false;
  const bool first = a.layout == Layout::kChannelsFirst;
  const Shape &x = w.in_type(0).shape, &y = w.out_type(0).shape;
  PlanWriter& p = w.plan();
  const int64_t r = a.block, n = x[0];
  const int64_t c = std::min(x[first ? 1 : 3], y[first ? 1 : 3]);
  const int64_t h = std::min(x[first ? 2 : 1], y[first ? 2 : 1]), wide = std::min(x[first ? 3 : 2], y[first ? 3 : 2]);
  int v = w.in(0);
  if (!first) v = p.permute(v, {0, 3, 1, 2});
  if (a.channel_first_order) {
    const Shape made = a.to_depth ? Shape{n, c * r * r, h, wide} : Shape{n, c, h * r, wide * r};
    const int block = p.integer(r);
    v = p.call(a.to_depth ? "aten::pixel_unshuffle" : "aten::pixel_shuffle", "out", {v, block}, w.dtype(v), made);
  } else if (a.to_depth) {
    const int six = p.reshape(v, Shape{n, c, h, r, wide, r});
    v = p.permute(six, {0, 3, 5, 1, 2, 4});
    v = p.reshape(v, Shape{n, c * r * r, h, wide});
  } else {
    const int six = p.reshape(v, Shape{n, r, r, c, h, wide});
    v = p.permute(six, {0, 3, 4, 1, 5, 2});
    v = p.reshape(v, Shape{n, c, h * r, wide * r});
  }
  if (!first) v = p.permute(v, {0, 2, 3, 1});
  return w.out(0, v);
}

bool call_fill(CallWriter& w) {
  const Shape& s = w.out_type(0).shape;
  const int value = w.plan().reshape(w.in(1), Shape{});
  const int size = w.plan().integers({s.begin(), s.end()}), implicit = w.plan().boolean(false);
  return w.move("aten::expand_copy", {value, size, implicit});
}

bool call_range(CallWriter& w) {
  const auto start = w.number(0), step = w.number(2);
  if (!start || !step) return false;
  Tensor t(w.out_type(0).dtype, w.out_type(0).shape);
  for (int64_t i = 0; i < t.elements(); ++i) set_double(t, i, *start + static_cast<double>(i) * *step);
  return w.out(0, w.plan().constant(t));
}

bool call_reverse(CallWriter& w) {
  const auto axes = w.axes(1, w.rank(0));
  return axes && moves_integers(w) && w.out(0, flipped(w, w.in(0), *axes));
}

bool call_triangle(CallWriter& w) {
  const auto k = w.has(1) ? w.number(1) : std::optional(0.0);
  if (!k) return false;
  const auto diagonal = static_cast<int64_t>(*k);
  const ValueType& x = w.in_type(0);
  if (!w.attrs<TriangleAttrs>().upper && !x.quant && moves_integers(w))
    return w.move("aten::tril", {w.in(0), w.plan().integer(diagonal)});
  // ExecuTorch has no triu, and tril fills with integers of 0.
  const int64_t rows = x.shape[w.rank(0) - 2], columns = x.shape[w.rank(0) - 1];
  if (rows < 0 || columns < 0) return false;
  Tensor kept(DType::kBool, Shape{rows, columns});
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      kept.data<uint8_t>()[i * columns + j] = w.attrs<TriangleAttrs>().upper ? j - i >= diagonal : j - i <= diagonal;
  const int real = w.real(0);
  return w.out(0, w.select({w.plan().constant(kept), real, w.number_like(real, 0)}));
}

bool call_roll(CallWriter& w) {
  const auto shifts = w.ints(1), axes = w.ints(2);
  if (!shifts || !axes || !moves_integers(w)) return false;
  const int by = w.plan().integers(*shifts), along = w.plan().integers(*axes);
  return w.move("aten::roll", {w.in(0), by, along});
}

}  // namespace smelt::executorch
