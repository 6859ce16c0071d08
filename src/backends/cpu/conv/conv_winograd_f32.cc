// Winograd's convolutions F(2x2, 3x3) and F(4x4, 3x3) of channels-last images: 2x2 output pixels from 4x4 input pixels
// by 16 products instead of 36, or 4x4 from 6x6 by 36 products instead of 144.
//
// Error: with u = 2^-24, a result is within E (c_in + 32) u S of the exact one, S the sum over the input channels of
// (sum |g|) (max |d|), plus |bias|, where nothing becomes subnormal. E = 16 for F(2x2, 3x3) and 205 for F(4x4, 3x3):
// the square of the largest sum over the points of |a| (sum |b|) (max |g|), their elements of A', B' and G. A tile with
// a result that is not finite is computed anew by its definition: infinities and NaN come out where the direct
// convolution has them, also where only the transforms overflow.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/conv/winograd_choice.h"
#include "backends/cpu/conv/winograd_f32.h"
#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/gemm/gemm_f32.h"
#include "base/mapped_file.h"

namespace smelt {
namespace {

struct ConvWinogradKey {
  FilterKey filter;
  const GemmF32* gemm;
  int tile;
  auto operator<=>(const ConvWinogradKey&) const = default;
};

class ConvWinogradF32 final : public Kernel {
 public:
  ConvWinogradF32(const ConvShape& g, const WinogradTransforms& transforms, const KernelSpec& spec)
      : g_(g),
        gemm_(gemm_f32(spec.isa)),
        transforms_(transforms),
        act_(spec.attrs<ConvAttrs>().act),
        threads_(std::max(spec.threads, 1)),
        rows_(ceil_div(g.out[1], transforms.tile)),
        columns_(ceil_div(g.out[2], transforms.tile)) {
    const Tensor* bias = spec.has(2) ? spec.constant(2) : nullptr;
    filter_ = spec.constant(1)->unaligned_bytes();
    const ConvWinogradKey key{{g, *spec.constant(1), bias}, &gemm_, transforms.tile};
    packed_ = spec.packs.get(
        key, [&] { return pack(bias ? bias->data<float>() : nullptr); },
        [&] { return spec.contents("conv_winograd_f32", key.filter.numbers(), {key.tile}); });
    // Transformed tiles and their products stay in the level-2 cache; the filters are read once a block, which pays
    // off for several tiles of the product.
    constexpr int64_t kFloats = 160 * 1024, kLeastTiles = 3;
    const int64_t all = g.batch * rows_ * columns_;
    int64_t block = std::max(kFloats / (positions() * (g.c_in + g.c_out)) / gemm_.mr, kLeastTiles) * gemm_.mr;
    blocks_ = std::max(ceil_div(all, block), std::min(threads_, all));
    block_ = ceil_div(all, blocks_);
    v_row_ = padded_floats(g.c_in);  // rows that do not meet in the same lines of the nearest cache
    m_row_ = padded_floats(g.c_out);
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(std::min(threads_, blocks_) * slot_floats()) * sizeof(float);
  }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<float*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for the tiles of a convolution");
    const float* x = ctx.input(0).data<float>();
    float* y = ctx.output(0).data<float>();
    const int64_t slots = std::min(threads_, blocks_), all = g_.batch * rows_ * columns_;
    ctx.threads().parallel_for(slots, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot)
        for (int64_t b = blocks_ * slot / slots; b < blocks_ * (slot + 1) / slots; ++b)
          block(x, y, all * b / blocks_, all * (b + 1) / blocks_, scratch + slot * slot_floats());
    });
    return Ok();
  }

 private:
  struct Tile {
    int64_t image, row, column;
  };
  Tile at(int64_t index) const { return {index / (rows_ * columns_), index / columns_ % rows_, index % columns_}; }
  int64_t positions() const { return transforms_.positions(); }
  /// Floats from one position to the next of all tiles of a block: an odd number of cache lines, so that a tile's
  /// positions do not meet in the same lines of the nearest cache.
  int64_t v_step() const { return block_ * v_row_ | 16; }
  int64_t m_step() const { return block_ * m_row_ | 16; }
  int64_t slot_floats() const { return positions() * (v_step() + m_step()) + padded_floats(g_.c_in); }
  /// Of a position's packed filters.
  int64_t filter_floats() const { return gemm_.packed_size(g_.c_in, g_.c_out); }
  const float* bias() const { return packed_->data<float>() + positions() * filter_floats(); }

  /// Weight `tap` of input channel i and output channel o. The constant is read where it lies, aligned or not: no copy
  /// stands beside the packed form.
  float weight(int64_t o, int64_t i, int64_t tap) const {
    float w;
    std::memcpy(&w, filter_ + (o * g_.filter_o + i * g_.filter_i + tap * g_.filter_s) * int64_t{sizeof w}, sizeof w);
    return w;
  }
  /// The pages of the filters of output channels [first, last) go back to their file.
  void release(int64_t first, int64_t last) const {
    if (g_.filter_o < g_.k()) return;  // they lie between others
    release_pages(filter_ + first * g_.filter_o * int64_t{sizeof(float)},
                  static_cast<size_t>((last - first) * g_.filter_o) * sizeof(float));
  }
  /// The transformed filters of each position, then the bias (zeros if there is none).
  Packed pack(const float* bias) const {
    const int64_t size = filter_floats(), nr = gemm_.nr();
    auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(positions() * size + g_.c_out) * sizeof(float));
    std::vector<float> taps(static_cast<size_t>(9 * g_.c_in)), u(static_cast<size_t>(positions() * nr * g_.c_in));
    for (int64_t panel = 0; panel < gemm_.panels(g_.c_out); ++panel) {
      const int64_t first = panel * nr, used = std::min(nr, g_.c_out - first);
      for (int64_t o = 0; o < used; ++o) {
        for (int64_t t = 0; t < 9; ++t)
          for (int64_t i = 0; i < g_.c_in; ++i) taps[static_cast<size_t>(t * g_.c_in + i)] = weight(first + o, i, t);
        transforms_.filter(taps.data(), g_.c_in, u.data() + o * g_.c_in, nr * g_.c_in);
      }
      for (int64_t p = 0; p < positions(); ++p)
        gemm_.pack(u.data() + p * nr * g_.c_in, 1, g_.c_in, g_.c_in, used, nullptr,
                   packed->data<float>() + p * size + gemm_.panel_offset(g_.c_in, panel));
      release(first, first + used);
    }
    float* const addends = packed->data<float>() + positions() * size;
    bias ? std::copy_n(bias, g_.c_out, addends) : std::fill_n(addends, g_.c_out, 0.0f);
    release(0, g_.c_out);
    return packed;
  }
  /// Address of input pixel [row, column] of an image; nullptr: in the padding.
  const float* pixel(const float* x, int64_t image, int64_t row, int64_t column) const {
    const bool inside = row >= 0 && row < g_.in[1] && column >= 0 && column < g_.in[2];
    return inside ? x + ((image * g_.in[1] + row) * g_.in[2] + column) * g_.c_in : nullptr;
  }
  /// The tiles [first, last) of all images.
  void block(const float* x, float* y, int64_t first, int64_t last, float* v) const {
    float *const m = v + positions() * v_step(), *const outside = m + positions() * m_step();
    std::fill_n(outside, g_.c_in, 0.0f);
    const int64_t count = last - first, side = transforms_.side();
    for (int64_t t = 0; t < count; ++t) {
      const Tile tile = at(first + t);
      const float* d[kMaxWinogradPositions];
      const float** next = d;
      for (int64_t i = 0; i < side; ++i)
        for (int64_t j = 0; j < side; ++j) {
          const float* from = pixel(x, tile.image, tile.row * transforms_.tile - g_.pad[1] + i,
                                    tile.column * transforms_.tile - g_.pad[2] + j);
          *next++ = from ? from : outside;
        }
      transforms_.input(d, g_.c_in, v + t * v_row_, v_step());
    }
    const Bounds all = activation_bounds({}), bounds = activation_bounds(act_);
    for (int64_t p = 0; p < positions(); ++p)
      gemm_.run(count, g_.c_out, g_.c_in, v + p * v_step(), v_row_, packed_->data<float>() + p * filter_floats(), 0,
                gemm_.panels(g_.c_out), m + p * m_step(), m_row_, nullptr, all.lo, all.hi);
    for (int64_t t = 0; t < count; ++t) results(x, y, at(first + t), m + t * m_row_, bounds, outside);
  }
  /// The output pixels of a tile from its products m. `taps`: workspace for c_in numbers.
  void results(const float* x, float* y, const Tile& tile, const float* m, const Bounds& bounds, float* taps) const {
    const int64_t n = transforms_.tile;
    float* to[kMaxWinogradTile * kMaxWinogradTile];
    float** next = to;
    for (int64_t row = tile.row * n; row < (tile.row + 1) * n; ++row)
      for (int64_t column = tile.column * n; column < (tile.column + 1) * n; ++column) {
        const bool inside = row < g_.out[1] && column < g_.out[2];
        *next++ = inside ? y + ((tile.image * g_.out[1] + row) * g_.out[2] + column) * g_.c_out : nullptr;
      }
    if (!transforms_.output(m, m_step(), bias(), g_.c_out, bounds.lo, bounds.hi, to))
      compute_directly(x, tile, bounds, taps, to);
    for (int64_t q = 0; q < n * n; ++q)
      if (to[q]) apply_activation(act_, to[q], 1, g_.c_out, g_.c_out);
  }
  /// The output pixels of a tile by the definition. `taps`: workspace for c_in numbers.
  void compute_directly(const float* x, const Tile& tile, const Bounds& bounds, float* taps, float* const* to) const {
    const int64_t n = transforms_.tile;
    for (int64_t o = 0; o < g_.c_out; ++o) {
      float sums[kMaxWinogradTile * kMaxWinogradTile];
      std::fill_n(sums, n * n, bias()[o]);
      for (int64_t t = 0; t < 9; ++t) {
        for (int64_t i = 0; i < g_.c_in; ++i) taps[i] = weight(o, i, t);
        for (int64_t q = 0; q < n * n; ++q) {
          const float* from = pixel(x, tile.image, tile.row * n - g_.pad[1] + q / n + t / 3,
                                    tile.column * n - g_.pad[2] + q % n + t % 3);
          if (to[q] && from) sums[q] += transforms_.dot(from, taps, g_.c_in);
        }
      }
      for (int64_t q = 0; q < n * n; ++q)
        if (to[q]) to[q][o] = sums[q] < bounds.lo ? bounds.lo : sums[q] > bounds.hi ? bounds.hi : sums[q];
    }
    std::fill_n(taps, g_.c_in, 0.0f);
  }

  ConvShape g_;
  const GemmF32& gemm_;
  const WinogradTransforms& transforms_;
  Activation act_;
  const std::byte* filter_ = nullptr;  ///< floats of the constant, which outlives the kernel; aligned or not
  int64_t threads_, rows_, columns_;   ///< of tiles of an image
  int64_t blocks_ = 1, block_ = 1;     ///< blocks of all images, tiles of a block at most
  int64_t v_row_ = 0, m_row_ = 0;      ///< floats from tile to tile
  Packed packed_;
};

bool applies(const ConvShape& g) {
  return g.planar() && g.groups == 1 && g.kernel[1] == 3 && g.kernel[2] == 3 && g.stride[1] == 1 && g.stride[2] == 1 &&
         g.dilation[1] == 1 && g.dilation[2] == 1;
}

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_winograd(const KernelSpec& spec, const WinogradTransforms& transforms) {
  const auto g = ConvShape::make(spec);
  if (!g || spec.outputs[0].shape.elements() == 0 || !applies(*g)) return nullptr;
  // conv_nhwc_bf16 takes 0.51 to 0.60 of the time of conv_nhwc_f32: the nodes of EDSR, ResNet-18, ResNet-50 and
  // GoogLeNet, `smelt bench --profile` with and without --bf16 on an AMD EPYC (Zen 5), one core, 2026-11-23.
  // By AMX, an estimate: products run at 14 times the peak of float32, what they read and write does not.
  const double direct_share = !spec.isa.has(IsaFeature::kBf16) ? 1 : spec.isa.has(IsaFeature::kAmx) ? 0.15 : 0.55;
  const auto setting = winograd_setting();
  if (!setting.ok() || winograd_tile(*g, *setting, direct_share) != transforms.tile)
    return spec.refuse("another way to convolve takes less time, or SMELT_CPU_WINOGRAD forbids this one");
  return std::make_unique<ConvWinogradF32>(*g, transforms, spec);
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_winograd_2x2_f32(const KernelSpec& spec) {
  return make_conv_winograd(spec, winograd_2x2_f32(spec.isa));
}

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_winograd_4x4_f32(const KernelSpec& spec) {
  return make_conv_winograd(spec, winograd_4x4_f32(spec.isa));
}

}  // namespace smelt
