// Operators that pad, and that move space into batch or channels.
#include <algorithm>
#include <numeric>

#include "formats/tflite/writer/op_writer.h"
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

}  // namespace

bool write_pad(OpWriter& w) {
  using Mode = PadAttrs::Mode;
  const auto& a = w.attrs<PadAttrs>();
  SubgraphWriter& s = w.subgraph();
  if (!same_type(w.in_type(0), w.out_type(0))) return false;
  const int rank = w.rank(0);
  auto pads = rank > 0 ? constant_pads(w, rank) : std::nullopt;
  if (!pads) {
    if (!a.pairs || w.has(3) || a.mode == Mode::kEdge || a.mode == Mode::kWrap) return false;
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
  const auto value = w.has(2) ? w.number(2) : std::optional(0.0);
  if (w.has(2) && !(value && *value == 0 && !quant)) {
    int fill = w.in(2);
    if (!same_type(w.in_type(2), w.in_type(0)) && !value) return false;
    if (value && quant == nullptr) fill = w.number_like(x, *value);
    if (s.at(fill).ranked && s.at(fill).shape.rank() > 0) fill = s.reshape(fill, {});
    return finish(s.add(Code::PADV2, {x, widths, fill}, dtype, {}, quant));
  }
  return finish(s.add(Code::PAD, {x, widths}, dtype, {}, quant));
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
