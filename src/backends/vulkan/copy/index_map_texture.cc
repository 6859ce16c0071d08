// Elements moved from texture to texture: operators that kernels/places.cc knows.
#include <algorithm>

#include "backends/vulkan/copy/index_map.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

/// What becomes of the elements of y that a dispatch has no source for (kRest of index_map_texture.comp).
enum class Rest : uint32_t { kAnything, kKept, kValue };

/// Push constants of index_map_texture.comp, by the way in which sources are found.
struct BlockPush {
  GpuSize x{}, y{};
  GpuSize block{1, 1, 1, 1}, to{}, at{}, step{1, 1, 1, 1};
  uint32_t axes = 0b11100100;  ///< each its own
  uint32_t n = 0;
  float rest = 0;
};
struct WalkPush {
  static constexpr uint32_t kMaxRank = 6;
  GpuSize x{}, y{};
  uint32_t n = 0;
  float rest = 0;
  uint32_t rank = 0;
  int32_t x_offset = 0, y_offset = 0;
  uint32_t size[kMaxRank] = {};
  int32_t x_stride[kMaxRank] = {}, y_stride[kMaxRank] = {};
};
struct TablePush {
  GpuSize x, y;
  uint32_t n;
  float rest;
};

/// One dispatch: what an output has from one source.
struct Piece {
  enum class Way : uint32_t { kBlock, kWalk, kTable };
  size_t in = 0, out = 0;
  Way way = Way::kBlock;
  bool whole = false;  ///< texels move as they are
  bool all = false;    ///< all texels of y are looked at, else those of the block
  Rest rest = Rest::kAnything;
  BlockPush block;
  WalkPush walk;
  std::vector<int32_t> table;  ///< by element of y; -1: none
};

GpuSize coordinates(int32_t order, const GpuSize& size) {
  GpuSize c{};
  for (size_t d = 0; d < 4; ++d) {
    c[d] = d == 3 ? order : order % size[d];
    order /= size[d];
  }
  return c;
}
int32_t order_of(const GpuSize& c, const GpuSize& size) {
  return ((c[3] * size[2] + c[2]) * size[1] + c[1]) * size[0] + c[0];
}

/// Whether the block takes from x exactly what the places say.
bool matches(const BlockPush& b, const std::vector<Place>& places) {
  GpuSize stride{1, b.x[0], b.x[0] * b.x[1], b.x[0] * b.x[1] * b.x[2]}, low = b.at, high = b.at, jump{};
  for (size_t d = 0; d < 4; ++d) {
    const size_t axis = b.axes >> 2 * d & 3;
    (b.step[d] < 0 ? low : high)[axis] += b.step[d] * (b.block[d] - 1);
    jump[d] = b.step[d] * stride[axis];
  }
  for (size_t d = 0; d < 4; ++d)
    if (low[d] < 0 || high[d] >= b.x[d]) return false;
  const int32_t first = order_of(b.at, b.x);
  size_t k = 0;
  GpuSize i{};
  for (i[3] = 0; i[3] < b.block[3]; ++i[3])
    for (i[2] = 0; i[2] < b.block[2]; ++i[2])
      for (i[1] = 0; i[1] < b.block[1]; ++i[1]) {
        const GpuSize row{b.to[0], b.to[1] + i[1], b.to[2] + i[2], b.to[3] + i[3]};
        const int32_t to = order_of(row, b.y), from = first + i[1] * jump[1] + i[2] * jump[2] + i[3] * jump[3];
        for (int32_t w = 0; w < b.block[0]; ++w, ++k)
          if (places[k].to != to + w || places[k].from != from + w * jump[0]) return false;
      }
  return true;
}

/// The places as a block of y, each of whose dimensions runs along one of x.
std::optional<BlockPush> as_block(const std::vector<Place>& places, const GpuSize& x, const GpuSize& y) {
  BlockPush b{x, y};
  b.to = coordinates(places.front().to, y);
  b.at = coordinates(places.front().from, x);
  const GpuSize last = coordinates(places.back().to, y);
  size_t count = 1;  // of the dimensions before d
  for (size_t d = 0; d < 4; ++d) {
    b.block[d] = last[d] - b.to[d] + 1;
    if (b.block[d] < 1) return std::nullopt;
    if (b.block[d] > 1) {
      if (count >= places.size()) return std::nullopt;
      const GpuSize next = coordinates(places[count].from, x);
      b.step[d] = 0;
      for (size_t k = 0; k < 4; ++k) {
        if (next[k] == b.at[k]) continue;
        if (b.step[d] != 0) return std::nullopt;
        b.step[d] = next[k] - b.at[k];
        b.axes = (b.axes & ~(3u << 2 * d)) | static_cast<uint32_t>(k) << 2 * d;
      }
    }
    count *= static_cast<size_t>(b.block[d]);
  }
  return count == places.size() && matches(b, places) ? std::optional(b) : std::nullopt;
}

/// Whether whole texels of x, packed along dimension q, become whole texels of the block, packed along dimension p.
bool moves_texels(const BlockPush& b, size_t q, size_t p) {
  if (b.to[p] % 4 != 0 || b.at[q] % 4 != 0) return false;
  for (size_t d = 0; d < 4; ++d) {
    if (b.block[d] == 1) continue;
    const bool along = (b.axes >> 2 * d & 3) == q;
    if (d == p ? !along || b.step[d] != 1 : along && b.step[d] % 4 != 0) return false;
  }
  return true;
}

std::optional<WalkPush> as_walk_push(const std::vector<Place>& places, const GpuSize& x, const GpuSize& y) {
  const auto m = as_walk(places);
  if (!m || m->walk.rank > WalkPush::kMaxRank) return std::nullopt;
  WalkPush push{x, y, 0, 0, m->walk.rank, m->x_offset, m->y_offset};
  for (uint32_t d = 0; d < m->walk.rank; ++d) {
    push.size[d] = m->walk.size[d];
    push.x_stride[d] = m->walk.stride[0][d];
    push.y_stride[d] = m->walk.stride[1][d];
  }
  return push;
}

Piece make_piece(const std::vector<Place>& places, const ImageLayout& x, const ImageLayout& y) {
  Piece piece;
  const auto p = static_cast<size_t>(y.packed());
  if (const auto block = as_block(places, x.size, y.size)) {
    piece.block = *block;
    piece.whole = moves_texels(*block, static_cast<size_t>(x.packed()), p);
    const int32_t end = block->to[p] + block->block[p];
    piece.rest = block->to[p] % 4 == 0 && (end % 4 == 0 || end == y.size[p]) ? Rest::kAnything : Rest::kKept;
    return piece;
  }
  piece.all = true;
  piece.rest = Rest::kKept;
  if (const auto walk = as_walk_push(places, x.size, y.size)) {
    piece.way = Piece::Way::kWalk;
    piece.walk = *walk;
    return piece;
  }
  piece.way = Piece::Way::kTable;
  piece.table.assign(static_cast<size_t>(int64_t{y.size[0]} * y.size[1] * y.size[2] * y.size[3]), -1);
  for (const Place& place : places) piece.table[static_cast<size_t>(place.to)] = place.from;
  return piece;
}

class PlacesTexture final : public TextureKernel {
 public:
  PlacesTexture(const TextureForm& form, Images inputs, Images outputs, std::vector<Piece> pieces)
      : TextureKernel(form, std::move(inputs), std::move(outputs)), pieces_(std::move(pieces)) {}
  bool reads(size_t i) const override { return input_image(i) != nullptr; }
  Status record(KernelRecorder& r) const override {
    for (const Piece& piece : pieces_) SMELT_TRY(record(r, piece));
    return Ok();
  }

 private:
  Status record(KernelRecorder& r, const Piece& piece) const {
    SMELT_ASSIGN(const Binding x, r.input(piece.in));
    const Binding y = r.output(piece.out);
    Binding before = x;
    if (piece.rest == Rest::kKept) {
      before = y;
      before.written = false;
    }
    const std::vector<uint32_t> constants{packed(), static_cast<uint32_t>(piece.rest), piece.all ? 1u : 0u,
                                          piece.whole ? 1u : 0u,
                                          static_cast<uint32_t>(input_image(piece.in)->packed())};
    if (piece.way == Piece::Way::kWalk)
      return dispatch(r, "move_walk", constants, {x, before, y}, piece.walk.n, piece.walk);
    if (piece.way == Piece::Way::kBlock)
      return dispatch(r, "move", constants, {x, before, y}, piece.block.n, piece.block);
    const size_t bytes = piece.table.size() * sizeof(int32_t);
    SMELT_ASSIGN(const Binding table, r.table(Cat("places ", reinterpret_cast<uintptr_t>(&piece)), bytes,
                                              [&](void* to) { std::memcpy(to, piece.table.data(), bytes); }));
    return dispatch(r, "move_table", constants, {x, before, y, table}, piece.block.n,
                    TablePush{piece.block.x, piece.block.y, piece.block.n, piece.block.rest});
  }

  std::vector<Piece> pieces_;
};

/// The value of a source that is one: the fill value, or a constant of one element.
std::optional<float> single_value(const KernelSpec& spec, size_t in) {
  if (in == Move::kFill) return 0.0f;
  const Tensor* t = spec.constant(in);
  return t && t->elements() == 1 ? std::optional(static_cast<float>(get_double(*t, 0))) : std::nullopt;
}

/// How many texels of y a piece looks at.
uint32_t texels(const Piece& piece, const ImageLayout& y) {
  if (piece.all) return static_cast<uint32_t>(y.count());
  ImageLayout part = y;
  part.size = piece.block.block;
  part.size[static_cast<size_t>(y.packed())] += piece.block.to[static_cast<size_t>(y.packed())] % 4;
  return static_cast<uint32_t>(part.count());
}

}  // namespace

std::unique_ptr<Kernel> make_places_texture(const KernelSpec& spec) {
  TextureKernel::Images inputs(spec.inputs.size()), outputs;
  for (size_t o = 0; o < spec.outputs.size(); ++o) {
    outputs.push_back(wanted(spec, o) ? image_of(spec, spec.outputs[o]) : std::nullopt);
    if (wanted(spec, o) && !outputs.back()) return nullptr;
  }
  if (outputs.empty() || !spec.has(0) || spec.inputs[0].quant || (spec.inputs[0].shape.rank() > 4)) return nullptr;
  uint64_t fill = 0;
  const auto lists = find_places(spec, fill);
  if (!lists || fill != 0) return nullptr;
  std::vector<Piece> pieces;
  for (size_t first = 0, end; first < lists->size(); first = end) {
    const size_t o = (*lists)[first].out;
    std::optional<float> rest;
    bool alone = true;  // the first piece
    for (end = first; end < lists->size() && (*lists)[end].out == o; ++end)
      if (const auto value = single_value(spec, (*lists)[end].in)) {
        if (rest) return nullptr;
        rest = value;
      }
    for (size_t k = first; k < end; ++k) {
      const PlaceList& l = (*lists)[k];
      if (single_value(spec, l.in)) continue;
      if (!spec.has(l.in) || spec.inputs[l.in].dtype != spec.outputs[o].dtype) return nullptr;
      inputs[l.in] = image_as_it_lies(spec, l.in);
      if (!inputs[l.in]) return nullptr;
      Piece piece = make_piece(l.places, *inputs[l.in], *outputs[o]);
      piece.in = l.in;
      piece.out = o;
      if (alone && rest) piece.all = true;
      if (alone && (rest || piece.all)) piece.rest = rest ? Rest::kValue : Rest::kAnything;
      alone = false;
      BlockPush& b = piece.block;
      b.x = inputs[l.in]->size;
      b.y = outputs[o]->size;
      b.n = piece.walk.n = texels(piece, *outputs[o]);
      b.rest = piece.walk.rest = rest.value_or(0.0f);
      pieces.push_back(std::move(piece));
    }
    if (alone) return nullptr;  // nothing but a value
  }
  if (pieces.empty()) return nullptr;
  return std::make_unique<PlacesTexture>(spec.form, std::move(inputs), std::move(outputs), std::move(pieces));
}

}  // namespace smelt::vulkan
