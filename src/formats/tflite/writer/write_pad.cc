// Operators that pad, and that move space into batch or channels.
#include <algorithm>
#include <numeric>

#include "formats/tflite/writer/op_writer.h"
#include "ops/shape/channels_perm.h"
#include "ops/shape/shape.h"
#include "tensor/quant_params.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

/// Constant pads as (before, after) of each dimension; nothing if they are dynamic.
std::optional<std::vector<std::pair<int64_t, int64_t>>> constant_pads(OpWriter& w, int rank) {
  const auto pads = w.ints(1);
  auto axes = w.has(3) ? w.ints(3) : std::nullopt;
  if (!pads || (w.has(3) && !axes)) return std::nullopt;
  if (!axes) {
    axes.emplace(pads->size() / 2);
    std::iota(axes->begin(), axes->end(), 0);
  }
  const size_t count = axes->size();
  if (pads->size() != 2 * count) return std::nullopt;
  std::vector<std::pair<int64_t, int64_t>> out(static_cast<size_t>(rank));
  const bool pairs = w.attrs<PadAttrs>().pairs;
  for (size_t i = 0; i < count; ++i) {
    const int64_t d = wrapped_axis((*axes)[i], rank);
    if (d < 0 || d >= rank) return std::nullopt;
    out[static_cast<size_t>(d)] =
        pairs ? std::pair{(*pads)[2 * i], (*pads)[2 * i + 1]} : std::pair{(*pads)[i], (*pads)[count + i]};
  }
  return out;
}

/// Borders that repeat the outermost elements, or go around: slices joined in front and behind.
std::optional<int> padded_by_slices(OpWriter& w, int x, int d, int64_t n, int rank, std::pair<int64_t, int64_t> pad) {
  SubgraphWriter& s = w.subgraph();
  const bool wrap = w.attrs<PadAttrs>().mode == PadAttrs::Mode::kWrap;
  if (n < 1 || (wrap && (pad.first > n || pad.second > n))) return std::nullopt;
  const DType dtype = s.at(x).dtype;
  const QuantPtr quant = s.at(x).quant;
  const auto part = [&](int64_t begin, int64_t size) {
    std::vector<int64_t> begins(static_cast<size_t>(rank), 0), sizes(static_cast<size_t>(rank), -1);
    begins[static_cast<size_t>(d)] = begin;
    sizes[static_cast<size_t>(d)] = size;
    return s.add(Code::SLICE, {x, s.i32(begins), s.i32(sizes)}, dtype, {}, quant);
  };
  std::vector<int> parts;
  const auto border = [&](int64_t count, bool front) {
    if (count <= 0) return;
    if (wrap) {
      parts.push_back(part(front ? n - count : 0, count));
      return;
    }
    std::vector<int64_t> repeats(static_cast<size_t>(rank), 1);
    repeats[static_cast<size_t>(d)] = count;
    parts.push_back(s.add(Code::TILE, {part(front ? 0 : n - 1, 1), s.i32(repeats)}, dtype, {}, quant));
  };
  border(pad.first, true);
  parts.push_back(x);
  border(pad.second, false);
  return s.add(Code::CONCATENATION, parts, dtype, concat_options(d), quant);
}

/// What a constant border of x holds, a scalar; -1: zeros. Nothing if its type is not that of x.
std::optional<int> pad_value(OpWriter& w, int x) {
  SubgraphWriter& s = w.subgraph();
  const auto value = w.has(2) ? w.number(2) : std::optional(0.0);
  const bool quantized = s.at(x).quant != nullptr;
  if (!w.has(2) || (value && *value == 0 && !quantized)) return -1;
  int fill = w.in(2);
  if (!same_type(w.in_type(2), w.in_type(0)) && !value) return std::nullopt;
  if (value && !quantized) fill = w.number_like(x, *value);
  return s.at(fill).ranked && s.at(fill).shape.rank() > 0 ? s.reshape(fill, {}) : fill;
}

/// The places that a dimension of n elements is read at between -before and n + after, all int32 scalars.
int mirrored_places(OpWriter& w, PadAttrs::Mode mode, int n, int before, int after) {
  using Mode = PadAttrs::Mode;
  SubgraphWriter& s = w.subgraph();
  const int zero = s.i32_scalar(0), one = s.i32_scalar(1);
  const int at = s.add(Code::RANGE, {w.sub(zero, before), w.add(n, after), one}, DType::kI32);
  const auto around = [&](int period) { return w.binary(Code::FLOOR_MOD, at, w.binary(Code::MAXIMUM, period, one)); };
  if (mode == Mode::kEdge) return w.binary(Code::MINIMUM, {w.binary(Code::MAXIMUM, at, zero), w.sub(n, one)});
  if (mode == Mode::kWrap) return around(n);
  // There and back again: reflection leaves the outermost elements out on the way back.
  const int last = w.sub({w.add(n, n), mode == Mode::kReflect ? s.i32_scalar(2) : one});
  const int there = around(mode == Mode::kReflect ? last : w.add(n, n));
  return w.binary(Code::MINIMUM, there, w.sub(last, there));
}

/// Pads that are known at run time only; negative ones crop.
bool write_dynamic_pad(OpWriter& w) {
  const auto& a = w.attrs<PadAttrs>();
  SubgraphWriter& s = w.subgraph();
  const int rank = w.rank(0);
  if (rank < 1 || a.pairs) return false;
  const auto [dtype, quant] = s.file_type(w.out_type(0));
  const int rows = s.reshape(w.in_i32(1), {2, -1});
  const auto border = [&](int64_t row) {
    const int one = s.reshape(s.add(Code::SLICE, {rows, s.i32({row, 0}), s.i32({1, -1})}, DType::kI32), {-1});
    return w.has(3) ? spread(w, one, w.in_i32(3), rank, 0) : one;
  };
  const int before = border(0), after = border(1), zero = s.i32_scalar(0);
  int x = w.in(0);
  const int dims = dims_of(s, x);
  if (a.mode != PadAttrs::Mode::kConstant) {
    const auto entry = [&](int list, int d) {
      return s.reshape(s.add(Code::SLICE, {list, s.i32({d}), s.i32({1})}, DType::kI32), {});
    };
    for (int d = 0; d < rank; ++d) {
      const int n = entry(dims, d), front = entry(before, d),
                at = mirrored_places(w, a.mode, n, front, entry(after, d));
      x = s.add(Code::GATHER, {x, at}, dtype,
                options_of<tfl::GatherOptions>([=](auto& b) { return tfl::CreateGatherOptions(b, d); }), quant);
    }
    w.out(0, x);
    return true;
  }
  const int front = w.binary(Code::MAXIMUM, w.sub(zero, before), zero);
  const int back = w.binary(Code::MAXIMUM, w.sub(zero, after), zero);
  x = s.add(Code::SLICE, {x, front, w.sub(w.sub(dims, front), back)}, dtype, {}, quant);
  const int widths =
      s.add(Code::PACK, {w.binary(Code::MAXIMUM, before, zero), w.binary(Code::MAXIMUM, after, zero)}, DType::kI32,
            options_of<tfl::PackOptions>([](auto& b) { return tfl::CreatePackOptions(b, 2, 1); }));
  const auto fill = pad_value(w, x);
  if (!fill) return false;
  w.out(0, *fill < 0 ? s.add(Code::PAD, {x, widths}, dtype, {}, quant)
                     : s.add(Code::PADV2, {x, widths, *fill}, dtype, {}, quant));
  return true;
}

}  // namespace

bool write_pad(OpWriter& w) {
  using Mode = PadAttrs::Mode;
  const auto& a = w.attrs<PadAttrs>();
  SubgraphWriter& s = w.subgraph();
  if (!same_type(w.in_type(0), w.out_type(0))) return false;
  const int rank = w.rank(0);
  auto pads = rank > 0 ? constant_pads(w, rank) : std::nullopt;
  if (!pads) {
    if (!a.pairs || w.has(3) || a.mode == Mode::kEdge || a.mode == Mode::kWrap) return write_dynamic_pad(w);
    pads.emplace();
  }
  const bool dynamic = pads->empty();
  const bool last = !dynamic && keeps_last(w);
  int x = last ? w.in_last(0) : w.in(0);
  std::vector<int64_t> order(pads->size());
  std::iota(order.begin(), order.end(), 0);
  if (last) order = channels_last_perm(rank);
  // Negative pads crop first.
  std::vector<int64_t> begins, sizes, extents;
  bool crops = false;
  Tensor rows(DType::kI32, Shape{static_cast<int64_t>(pads->size()), 2});
  for (size_t i = 0; i < order.size(); ++i) {
    auto& [before, after] = (*pads)[static_cast<size_t>(order[i])];
    const int64_t n = w.in_type(0).shape[static_cast<int>(order[i])];
    const int64_t front = std::max<int64_t>(-before, 0), back = std::max<int64_t>(-after, 0);
    crops |= front > 0 || back > 0;
    if (back > 0 && n < 0) return false;
    begins.push_back(front);
    sizes.push_back(back > 0 ? n - front - back : -1);
    extents.push_back(n < 0 ? n : n - front - back);
    before = std::max<int64_t>(before, 0);
    after = std::max<int64_t>(after, 0);
    rows.data<int32_t>()[2 * i] = static_cast<int32_t>(before);
    rows.data<int32_t>()[2 * i + 1] = static_cast<int32_t>(after);
  }
  const auto [dtype, quant] = s.file_type(w.out_type(0));
  if (crops) x = s.add(Code::SLICE, {x, s.i32(begins), s.i32(sizes)}, dtype, {}, quant);
  const auto finish = [&](int y) {
    last ? w.out_last(0, y) : w.out(0, y);
    return true;
  };
  if (a.mode == Mode::kEdge || a.mode == Mode::kWrap) {
    for (size_t i = 0; i < order.size(); ++i) {
      const auto& pad = (*pads)[static_cast<size_t>(order[i])];
      if (pad.first == 0 && pad.second == 0) continue;
      const auto y = padded_by_slices(w, x, static_cast<int>(i), extents[i], rank, pad);
      if (!y) return false;
      x = *y;
    }
    return finish(x);
  }
  const int widths = dynamic ? w.in_i32(1) : s.constant(std::move(rows));
  if (a.mode != Mode::kConstant) {
    const auto mode = a.mode == Mode::kSymmetric ? tfl::MirrorPadMode::SYMMETRIC : tfl::MirrorPadMode::REFLECT;
    return finish(
        s.add(Code::MIRROR_PAD, {x, widths}, dtype,
              options_of<tfl::MirrorPadOptions>([=](auto& b) { return tfl::CreateMirrorPadOptions(b, mode); }), quant));
  }
  const auto fill = pad_value(w, x);
  if (!fill) return false;
  if (*fill < 0) return finish(s.add(Code::PAD, {x, widths}, dtype, {}, quant));
  return finish(s.add(Code::PADV2, {x, widths, *fill}, dtype, {}, quant));
}

bool write_depth_space(OpWriter& w) {
  const auto& a = w.attrs<BlockAttrs>();
  SubgraphWriter& s = w.subgraph();
  if (!same_type(w.in_type(0), w.out_type(0)) || w.rank(0) != 4) return false;
  const bool first = a.layout == Layout::kChannelsFirst;
  int x = first ? w.in_last(0) : w.in(0);
  const auto block = static_cast<int32_t>(a.block);
  const auto [dtype, quant] = s.file_type(w.out_type(0));
  // Order of channels CRD: the block's place is the fast index of the depth, where TFLite's is the slow one.
  const int64_t depth = (a.to_depth ? w.out_type(0) : w.in_type(0)).shape[first ? 1 : 3], r2 = a.block * a.block;
  const bool reorder = a.channel_first_order && a.block > 1;
  if (reorder && (depth < 1 || depth % r2 != 0)) return false;
  const auto reordered_channels = [&, &type = dtype, &params = quant](int v) {
    std::vector<int64_t> from(static_cast<size_t>(depth));
    for (int64_t k = 0; k < r2; ++k)
      for (int64_t c = 0; c < depth / r2; ++c) {
        const int64_t slow = k * (depth / r2) + c, fast = c * r2 + k;
        from[static_cast<size_t>(a.to_depth ? fast : slow)] = a.to_depth ? slow : fast;
      }
    return s.add(Code::GATHER, {v, s.i32(from)}, type,
                 options_of<tfl::GatherOptions>([](auto& b) { return tfl::CreateGatherOptions(b, 3); }), params);
  };
  if (reorder && !a.to_depth) x = reordered_channels(x);
  int y = a.to_depth ? s.add(Code::SPACE_TO_DEPTH, {x}, dtype, options_of<tfl::SpaceToDepthOptions>([=](auto& b) {
                               return tfl::CreateSpaceToDepthOptions(b, block);
                             }),
                             quant)
                     : s.add(Code::DEPTH_TO_SPACE, {x}, dtype, options_of<tfl::DepthToSpaceOptions>([=](auto& b) {
                               return tfl::CreateDepthToSpaceOptions(b, block);
                             }),
                             quant);
  if (reorder && a.to_depth) y = reordered_channels(y);
  first ? w.out_last(0, y) : w.out(0, y);
  return true;
}

bool write_space_to_batch(OpWriter& w) { return w.emit(Code::SPACE_TO_BATCH_ND, {w.in(0), w.in_i32(1), w.in_i32(2)}); }
bool write_batch_to_space(OpWriter& w) { return w.emit(Code::BATCH_TO_SPACE_ND, {w.in(0), w.in_i32(1), w.in_i32(2)}); }

}  // namespace smelt::tflite
