// Winograd's convolutions F(2x2, 3x3) and F(4x4, 3x3) of channels-last images: 2x2 output pixels from 4x4 input pixels
// by 16 products instead of 36, or 4x4 from 6x6 by 36 products instead of 144. Of a dilated convolution the pixels that
// lie a dilation apart are an image of their own; groups are convolutions of their own, one behind the other.
//
// Error: with u = 2^-24, a result is within E (c_in + 32) u S of the exact one, S the sum over the input channels of
// (sum |g|) (max |d|), plus |bias|, where nothing becomes subnormal. E = 16 for F(2x2, 3x3) and 205 for F(4x4, 3x3):
// the square of the largest sum over the points of |a| (sum |b|) (max |g|), their elements of A', B' and G. A tile with
// a result that is not finite is computed anew by its definition: infinities and NaN come out where the direct
// convolution has them, also where only the transforms overflow.
//
// In bfloat16, F(2x2, 3x3) only: within 16 (2^-7 + (c_in + 32) 2^-22) S, since transformed pixels and filters are
// rounded by at most 2^-8 each. On random numbers that is 1.6 times the error of the direct convolution in bfloat16.
#include "backends/cpu/conv/conv_winograd_f32.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "backends/cpu/conv/packed_filter.h"
#include "backends/cpu/conv/winograd_choice.h"
#include "backends/cpu/conv/winograd_f32.h"
#include "backends/cpu/conv/winograd_filter_bf16.h"
#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/gemm/gemm_f32.h"

namespace smelt {
namespace {

/// In float32 it keeps the packed filters of the direct convolution. A run transforms them, some input channels of a
/// panel at a time, for as many tiles as there are, up to a block: where the tiles are too few to hide that time,
/// reading 36 numbers in place of 9 from memory would not take less. In bfloat16 it keeps the transformed filters: 16
/// numbers of half the size in place of 9.
class ConvWinogradF32 final : public Kernel {
 public:
  ConvWinogradF32(const ConvShape& g, const GemmF32& gemm, const WinogradTransforms& transforms, const KernelSpec& spec)
      : g_(g),
        gemm_(gemm),
        transforms_(transforms),
        act_(spec.attrs<ConvAttrs>().act),
        threads_(std::max(spec.threads, 1)),
        rows_(winograd_tiles(g, 1, transforms.tile)),
        columns_(winograd_tiles(g, 2, transforms.tile)),
        panels_(gemm.panels(g.c_out)),
        first_pixels_{first_pixels(1, rows_), first_pixels(2, columns_)},
        filter_(*spec.constant(1)) {
    constexpr int64_t kDepth = 256;  // so many channels of transformed filters stay in the level-2 cache, or most
    const int64_t all = tiles();
    // Threads that share panels transform a filter once; those that share tiles do so each.
    by_panels_ = threads_ > 1 && ceil_div(panels_, threads_) * threads_ * 8 <= panels_ * 9;
    few_ = transforms.few && all == kFewTiles && (threads_ == 1 || by_panels_);
    const int64_t depth = transformed() ? gemm_.depth * gemm_.word : std::min(kDepth, gemm_.depth);
    chunk_ = few_ ? kFewChannels : ceil_div(g.c_in, ceil_div(g.c_in, depth));
    if (transformed()) chunk_ = round_up(chunk_, 16);
    chunks_ = ceil_div(g.c_in, chunk_);
    // The products of a panel stay there, too; a transformed block in the level-3 cache.
    constexpr int64_t kLeast = 56, kMost = 200, kFloats = 50 * 1024;
    blocks_ = ceil_div(all, std::clamp(kFloats / g.c_in, kLeast, kMost));
    packed_ =
        transformed() ? winograd_filter_bf16(g, gemm, transforms, chunk_, spec) : packed_filter_f32(g, gemm, spec);
    if (!by_panels_) blocks_ = round_up(blocks_, std::min(threads_, all));
    blocks_ = std::min(blocks_, all);
    block_ = ceil_div(all, blocks_);
    slots_ = std::min(threads_, by_panels_ ? panels_ : blocks_);
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(zeros_floats() + (by_panels_ ? v_floats() : 0) + slots_ * slot_floats()) * sizeof(float);
  }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<float*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for the tiles of a convolution");
    std::fill_n(scratch, zeros_floats(), 0.0f);
    for (int64_t group = 0; group < g_.groups; ++group)
      run_group(ctx.threads(), {ctx.input(0).data<float>() + group * g_.c_in, ctx.output(0).data<float>(), scratch},
                group * panels_, scratch + zeros_floats());
    return Ok();
  }

 private:
  struct Run {
    const float* x;  ///< from the first channel of a group on
    float* y;
    const float* zeros;  ///< of a pixel in the padding, or a row of a panel
  };
  /// Its first output pixel; the others lie a dilation apart.
  struct Tile {
    int64_t image, row, column;
  };
  /// The tiles of all images one after the other, line by line.
  class Walk {
   public:
    Walk(const ConvWinogradF32& conv, int64_t index)
        : conv_(conv),
          image_(index / (conv.rows_ * conv.columns_)),
          row_(index / conv.columns_ % conv.rows_),
          column_(index % conv.columns_) {}
    Tile tile() const {
      return {image_, conv_.first_pixels_[0][static_cast<size_t>(row_)],
              conv_.first_pixels_[1][static_cast<size_t>(column_)]};
    }
    void next() {
      if (++column_ < conv_.columns_) return;
      column_ = 0;
      if (++row_ < conv_.rows_) return;
      row_ = 0;
      ++image_;
    }

   private:
    const ConvWinogradF32& conv_;
    int64_t image_, row_, column_;
  };
  /// The filters of a group, whose panels begin with `first_panel`.
  void run_group(ThreadPool& threads, const Run& run, int64_t first_panel, float* scratch) const {
    const int64_t all = tiles();
    if (!by_panels_) {
      in_slots(threads, slots_, blocks_, [&](int64_t b, int64_t slot) {
        const int64_t first = all * b / blocks_, count = all * (b + 1) / blocks_ - first;
        float *const v = scratch + slot * slot_floats(), *const workspace = v + v_floats();
        inputs(run, first, 0, count, v);
        for (int64_t p = 0; p < panels_; ++p) panel(run, first, count, first_panel + p, v, workspace);
      });
      return;
    }
    float *const v = scratch, *const workspaces = scratch + v_floats();
    for (int64_t b = 0; b < blocks_; ++b) {
      const int64_t first = all * b / blocks_, count = all * (b + 1) / blocks_ - first;
      threads.parallel_for(count, ceil_div(count, slots_),
                           [&](int64_t begin, int64_t end) { inputs(run, first, begin, end, v); });
      in_slots(threads, slots_, panels_, [&](int64_t p, int64_t slot) {
        panel(run, first, count, first_panel + p, v, workspaces + slot * slot_floats());
      });
    }
  }
  /// Of each tile along a dimension: those of the pixels 0, d, 2d, ... come first, then those of 1, d + 1, ...
  std::vector<int64_t> first_pixels(int d, int64_t tiles) const {
    const int64_t of_phase = tiles / winograd_phases(g_, d);
    std::vector<int64_t> pixels;
    for (int64_t tile = 0; tile < tiles; ++tile)
      pixels.push_back(tile / of_phase + tile % of_phase * transforms_.tile * g_.dilation[d]);
    return pixels;
  }
  int64_t tiles() const { return g_.batch * rows_ * columns_; }
  int64_t positions() const { return transforms_.positions(); }
  /// True if packed_ has transformed filters.
  bool transformed() const { return gemm_.word > 1; }
  /// Floats from a position to the next, of the chunk of a panel, of the tiles of a block for a chunk, of their
  /// products: an odd number of cache lines, so that positions do not meet in the same lines of the nearest cache.
  int64_t u_step() const { return transformed() ? 0 : chunk_ * gemm_.nr() | 16; }
  int64_t v_step() const { return few_ ? kFewTiles * kFewChannels : block_ * v_row() | 16; }
  int64_t m_step() const { return block_ * gemm_.nr() | 16; }
  int64_t v_row() const { return round_up(gemm_.words(chunk_), 16); }
  int64_t zeros_floats() const { return padded_floats(std::max(g_.c_in, gemm_.nr())); }
  int64_t v_floats() const { return chunks_ * positions() * v_step(); }
  int64_t slot_floats() const {
    return (by_panels_ ? 0 : v_floats()) + positions() * (m_step() + u_step()) + padded_floats(g_.c_in);
  }
  /// Channels of a chunk.
  int64_t channels(int64_t chunk) const { return std::min(chunk_, g_.c_in - chunk * chunk_); }
  /// A panel of packed filters, which count over all groups: the bias, then rows (tap, channel), or those of
  /// winograd_filter_bf16().
  const float* taps(int64_t panel) const {
    const int64_t rows = transformed() ? positions() * gemm_.words(g_.c_in) : g_.k();
    const float* const group = packed_->data<float>() + panel / panels_ * gemm_.packed_size(rows, g_.c_out);
    return group + gemm_.panel_offset(rows, panel % panels_);
  }
  /// Its first filter in the group.
  int64_t column(int64_t panel) const { return panel % panels_ * gemm_.nr(); }
  /// Its first filter of all.
  int64_t first_filter(int64_t panel) const { return panel / panels_ * g_.c_out + column(panel); }
  /// Its filters.
  int64_t filters(int64_t panel) const { return std::min(gemm_.nr(), g_.c_out - column(panel)); }
  int64_t width(int64_t panel) const { return gemm_.width(g_.c_out, panel % panels_); }
  void filter(int64_t panel, int64_t chunk, float* u) const {
    const int64_t w = width(panel);
    transforms_.filter(taps(panel) + (1 + chunk * chunk_) * w, g_.c_in * w, channels(chunk) * w, u, u_step());
  }
  /// Part `part` of `parts`, a multiple of 9, of the taps that are transformed behind a chunk of a panel.
  GemmAhead next_taps(int64_t panel, int64_t chunk, int64_t part, int64_t parts) const {
    if (++chunk == chunks_) {
      chunk = 0;
      if (++panel == g_.groups * panels_) return {nullptr, 0};
    }
    const int64_t w = width(panel), tap = channels(chunk) * w, at = 9 * tap * part / parts;
    return {taps(panel) + (1 + chunk * chunk_ + at / tap * g_.c_in) * w + at % tap, 9 * tap / parts};
  }
  /// Address of input pixel [row, column] of an image; nullptr: in the padding.
  const float* pixel(const float* x, int64_t image, int64_t row, int64_t column) const {
    const bool inside = row >= 0 && row < g_.in[1] && column >= 0 && column < g_.in[2];
    return inside ? x + ((image * g_.in[1] + row) * g_.in[2] + column) * g_.all_in() : nullptr;
  }
  /// Transforms tiles [begin, end) of a block whose first one is `first`.
  void inputs(const Run& run, int64_t first, int64_t begin, int64_t end, float* v) const {
    Walk walk(*this, first + begin);
    for (int64_t t = begin; t < end; ++t, walk.next()) input(run, walk.tile(), v + t * v_row());
  }
  /// Transforms a tile of input pixels.
  void input(const Run& run, const Tile& tile, float* v) const {
    const int64_t side = transforms_.side();
    const float* d[kMaxWinogradPositions];
    const float** next = d;
    for (int64_t i = 0; i < side; ++i)
      for (int64_t j = 0; j < side; ++j) {
        const float* from = pixel(run.x, tile.image, tile.row - g_.pad[1] + i * g_.dilation[1],
                                  tile.column - g_.pad[2] + j * g_.dilation[2]);
        *next++ = from ? from : run.zeros;
      }
    for (int64_t c = 0; c < chunks_; ++c) {
      transforms_.input(d, channels(c), v + c * positions() * v_step(), v_step());
      for (const float** p = d; p < next; ++p) *p += chunk_;
    }
  }
  /// The output channels of a panel in the tiles [first, first + count), whose input v has.
  void panel(const Run& run, int64_t first, int64_t count, int64_t panel, const float* v, float* workspace) const {
    float *const m = workspace, *const u = m + positions() * m_step(), *const direct = u + positions() * u_step();
    const int64_t w = width(panel);
    // The products ask for what follows: the next taps, then the next position of the tiles.
    const int64_t of_taps = positions() / 12 * 9;
    for (int64_t c = 0; c < chunks_; ++c) {
      if (few_) {
        transforms_.few(taps(panel) + (1 + c * chunk_) * w, g_.c_in * w, channels(c), w, v, c == 0, m, m_step(),
                        next_taps(panel, c, 0, 9).begin);
        v += positions() * v_step();
        continue;
      }
      if (transformed()) {
        transformed_products(run, panel, c, count, v, m);
        v += positions() * v_step();
        continue;
      }
      filter(panel, c, u);
      for (int64_t p = 0; p < positions(); ++p, v += v_step())
        gemm_.panel_product(count, v, v_row(), {u + p * u_step(), channels(c), w, column(panel)},
                            c == 0 ? run.zeros : nullptr, m + p * m_step(),
                            p < of_taps ? next_taps(panel, c, p, of_taps) : GemmAhead{v + v_step(), count * v_row()});
    }
    const Bounds bounds = activation_bounds(act_);
    Walk walk(*this, first);
    for (int64_t t = 0; t < count; ++t, walk.next()) results(run, walk.tile(), panel, m + t * w, bounds, direct);
  }
  /// The products of a chunk of a panel. They ask for the filters of the next position.
  void transformed_products(const Run& run, int64_t panel, int64_t chunk, int64_t count, const float* v,
                            float* m) const {
    const int64_t w = width(panel), rows = gemm_.words(channels(chunk));
    const float* u = taps(panel) + (1 + positions() * gemm_.words(chunk * chunk_)) * w;
    for (int64_t p = 0; p < positions(); ++p, v += v_step(), u += rows * w)
      gemm_.panel_product(count, v, v_row(), {u, rows, w, column(panel)}, chunk == 0 ? run.zeros : nullptr,
                          m + p * m_step(), {u + rows * w, rows * w});
  }
  /// The output pixels of a tile from its products m. `workspace`: for c_in numbers.
  void results(const Run& run, const Tile& tile, int64_t panel, const float* m, const Bounds& bounds,
               float* workspace) const {
    const int64_t n = transforms_.tile, first = first_filter(panel), used = filters(panel);
    float* to[kMaxWinogradTile * kMaxWinogradTile];
    float** next = to;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const int64_t row = tile.row + i * g_.dilation[1], column = tile.column + j * g_.dilation[2];
        const bool inside = row < g_.out[1] && column < g_.out[2];
        *next++ =
            inside ? run.y + ((tile.image * g_.out[1] + row) * g_.out[2] + column) * g_.all_out() + first : nullptr;
      }
    if (!transforms_.output(m, m_step(), taps(panel), used, bounds.lo, bounds.hi, to))
      compute_directly(run.x, tile, panel, bounds, workspace, to);
    for (int64_t q = 0; q < n * n; ++q)
      if (to[q]) apply_activation(act_, to[q], 1, used, used);
  }
  /// The output pixels of a tile by the definition. `workspace`: for c_in numbers.
  void compute_directly(const float* x, const Tile& tile, int64_t panel, const Bounds& bounds, float* workspace,
                        float* const* to) const {
    const int64_t n = transforms_.tile, first = first_filter(panel), used = filters(panel);
    const std::byte* const filter = filter_.unaligned_bytes();
    for (int64_t o = 0; o < used; ++o) {
      float sums[kMaxWinogradTile * kMaxWinogradTile];
      std::fill_n(sums, n * n, taps(panel)[o]);
      for (int64_t t = 0; t < 9; ++t) {
        for (int64_t i = 0; i < g_.c_in; ++i) {
          const int64_t at = (first + o) * g_.filter_o + t * g_.filter_s + i * g_.filter_i;
          std::memcpy(workspace + i, filter + at * int64_t{sizeof(float)}, sizeof(float));
        }
        for (int64_t q = 0; q < n * n; ++q) {
          const float* from = pixel(x, tile.image, tile.row - g_.pad[1] + (q / n + t / 3) * g_.dilation[1],
                                    tile.column - g_.pad[2] + (q % n + t % 3) * g_.dilation[2]);
          if (to[q] && from) sums[q] += transforms_.dot(from, workspace, g_.c_in);
        }
      }
      for (int64_t q = 0; q < n * n; ++q)
        if (to[q]) to[q][o] = sums[q] < bounds.lo ? bounds.lo : sums[q] > bounds.hi ? bounds.hi : sums[q];
    }
  }

  ConvShape g_;
  const GemmF32& gemm_;
  const WinogradTransforms& transforms_;
  Activation act_;
  int64_t threads_, rows_, columns_;      ///< of tiles of an image, of all phases of a dilation
  int64_t panels_;                        ///< of a group
  std::vector<int64_t> first_pixels_[2];  ///< of those rows and columns
  Tensor filter_;                         ///< input 1
  Packed packed_;
  bool few_ = false;                ///< tiles, whose transformed filters are not stored
  int64_t chunk_ = 1, chunks_ = 1;  ///< of input channels
  bool by_panels_ = false;          ///< threads share panels and see all tiles; else they share tiles
  int64_t blocks_ = 1, block_ = 1;  ///< blocks of all images, tiles of a block at most
  int64_t slots_ = 1;               ///< threads that work at once
};

}  // namespace

std::unique_ptr<Kernel> make_conv_winograd_by(const ConvShape& g, const GemmF32& gemm,
                                              const WinogradTransforms& transforms, const KernelSpec& spec) {
  return std::make_unique<ConvWinogradF32>(g, gemm, transforms, spec);
}

namespace {

[[gnu::cold]] std::unique_ptr<Kernel> make_winograd_f32(const KernelSpec& spec, const WinogradTransforms& transforms) {
  const auto g = ConvShape::in_lines(spec);
  if (!g || spec.outputs[0].shape.elements() == 0 || !has_dilated_winograd_form(*g)) return nullptr;
  // conv_nhwc_bf16 takes 0.51 to 0.60 of the time of conv_nhwc_f32: the nodes of EDSR, ResNet-18, ResNet-50 and
  // GoogLeNet, `smelt bench --profile` with and without --bf16 on an AMD EPYC (Zen 5), one core, 2026-11-23.
  // By AMX, an estimate: products run at 14 times the peak of float32, what they read and write does not.
  const double direct_share = !spec.isa.has(IsaFeature::kBf16) ? 1 : spec.isa.has(IsaFeature::kAmx) ? 0.15 : 0.55;
  const auto setting = winograd_setting();
  if (!setting.ok() || winograd_tile(*g, *setting, direct_share) != transforms.tile)
    return spec.refuse("another way to convolve takes less time, or SMELT_CPU_WINOGRAD forbids this one");
  return make_conv_winograd_by(*g, gemm_f32(spec.isa), transforms, spec);
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_winograd_2x2_f32(const KernelSpec& spec) {
  return make_winograd_f32(spec, winograd_2x2_f32(spec.isa));
}

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_winograd_4x4_f32(const KernelSpec& spec) {
  return make_winograd_f32(spec, winograd_4x4_f32(spec.isa));
}

}  // namespace smelt
