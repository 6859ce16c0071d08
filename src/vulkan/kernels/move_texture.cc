// Elements moved from texture to texture.
#include "ops/common/index.h"
#include "ops/shape/shape.h"
#include "vulkan/kernels/texture.h"

namespace smelt::vulkan {
namespace {

/// The layout of shaders/move_texture.comp.
struct MovePush {
  GpuSize x, y;
  GpuSize block, to{}, at{}, step{1, 1, 1, 1};
  uint32_t axes = 0b11100100;  ///< each its own
  uint32_t n = 0;
};

class MoveTexture final : public TextureKernel {
 public:
  /// A block from each input.
  MoveTexture(std::vector<ImageLayout> inputs, const ImageLayout& y, std::vector<MovePush> blocks, bool whole)
      : TextureKernel(std::move(inputs), y), blocks_(std::move(blocks)), whole_(whole) {
    for (MovePush& b : blocks_) {
      ImageLayout block = y;
      block.size = b.block;
      b.n = static_cast<uint32_t>(block.count());
    }
  }
  bool reads(size_t i) const override { return i < blocks_.size(); }
  Status record(KernelRecorder& r) const override {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      SMELT_ASSIGN(const Binding x, r.input(i));
      SMELT_TRY(dispatch(r, "move", {packed(), whole_ ? 1u : 0u}, {x, r.output(0)}, blocks_[i].n, blocks_[i]));
    }
    return Ok();
  }

 private:
  std::vector<MovePush> blocks_;
  bool whole_;  ///< texels move as they are
};

}  // namespace

std::unique_ptr<Kernel> make_transpose_texture(const KernelSpec& spec) {
  const auto& perm = spec.attrs<TransposeAttrs>().perm;
  const int rank = spec.outputs[0].shape.rank();
  if (spec.has(1) || !plain_reals(spec, {0}, {0}) || spec.constant(0)) return nullptr;
  const auto x = image_of(spec, spec.inputs[0]), y = image_of(spec, spec.outputs[0]);
  if (!x || !y) return nullptr;
  MovePush push{x->size, y->size, y->size};
  push.axes = 0;
  for (int d = 0; d < 4; ++d) {
    int from = d;
    if (d < rank) {
      const int own = rank - 1 - d;
      int64_t p = perm.empty() ? d : perm[static_cast<size_t>(own)];
      if (p < 0) p += rank;
      from = rank - 1 - static_cast<int>(p);
    }
    push.axes |= static_cast<uint32_t>(from) << (2 * d);
  }
  const auto packed = static_cast<uint32_t>(y->packed());
  const bool whole = (push.axes >> (2 * packed) & 3) == packed;
  return std::make_unique<MoveTexture>(std::vector{*x}, *y, std::vector{push}, whole);
}

std::unique_ptr<Kernel> make_concat_texture(const KernelSpec& spec) {
  const auto y = image_of(spec, spec.outputs[0]);
  const int rank = spec.outputs[0].shape.rank();
  const auto axis = normalize_axis(spec.attrs<AxisAttrs>().axis, rank);
  if (!y || !axis.ok()) return nullptr;
  const auto d = static_cast<size_t>(rank - 1 - *axis);
  std::vector<ImageLayout> inputs;
  std::vector<MovePush> blocks;
  int32_t at = 0;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    if (!plain_reals(spec, {i}, {0}) || spec.constant(i)) return nullptr;
    const auto x = image_of(spec, spec.inputs[i]);
    if (!x || (static_cast<int>(d) == y->packed() && at % 4 != 0)) return nullptr;
    MovePush push{x->size, y->size, x->size};
    push.to[d] = at;
    at += x->size[d];
    inputs.push_back(*x);
    blocks.push_back(push);
  }
  return at == y->size[d] ? std::make_unique<MoveTexture>(std::move(inputs), *y, std::move(blocks), true) : nullptr;
}

}  // namespace smelt::vulkan
