// Winograd's convolutions F(2x2, 3x3) and F(4x4, 3x3) of channels-last images of bytes: 16 products instead of 36, or
// 36 instead of 144. Sums of products of transformed numbers count modulo 2^32, and results are exact where they are
// small enough for it.
#include <algorithm>
#include <vector>

#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/conv/winograd_choice_i8.h"
#include "backends/cpu/conv/winograd_i8.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/workspace.h"
#include "backends/cpu/gemm/gemm_i8.h"
#include "backends/cpu/gemm/quantized_weights.h"
#include "backends/cpu/quantize/requantize_accumulators.h"
#include "ops/common/quantized_pair.h"

namespace smelt {
namespace {

struct ConvWinogradI8Key {
  FilterKey filter;
  const GemmI8* gemm;
  auto operator<=>(const ConvWinogradI8Key&) const = default;
};

/// Keeps the filters as packed bytes. A run transforms those of a panel for each block of tiles.
class ConvWinogradI8 final : public Kernel {
 public:
  ConvWinogradI8(const ConvShape& g, const QuantizedPair& q, const WinogradI8& transforms, RequantizeParams params,
                 const KernelSpec& spec)
      : g_(g),
        q_(q),
        params_(std::move(params)),
        rescale_(requantize_accumulators(spec.isa, params_)),
        bytes_(byte_pairs_i8(spec.isa)),
        gemm_(gemm_i8(spec.isa, false)),
        transforms_(transforms),
        rows_(ceil_div(g.out[1], transforms.tile)),
        columns_(ceil_div(g.out[2], transforms.tile)),
        bias_(params_.bias) {
    bias_.resize(static_cast<size_t>(gemm_.panels(g.c_out) * gemm_.nr()), 0);
    const Tensor& filter = *spec.constant(1);
    const ConvWinogradI8Key key{{g, filter, nullptr}, &bytes_};
    packed_ = spec.packs.get(
        key,
        [&] {
          auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(bytes_.packed_bytes(g.k(), g.c_out)));
          if (is_ordered_filter(g, filter, q_.w_zeros))
            bytes_.pack(filter.data<int8_t>(), g.k(), g.c_out, nullptr, 0, packed->data<char>());
          else
            bytes_.pack(ordered_filter_int8(g, filter, q_.w_zeros).data(), g.k(), g.c_out, nullptr, 0,
                        packed->data<char>());
          release_pages(filter);
          return packed;
        },
        [&] { return spec.contents("conv_winograd_i8", key.filter.numbers(), {bytes_.group_bytes}); });
    const int64_t all = g.batch * rows_ * columns_, threads = std::max(spec.threads, 1);
    const int64_t most = winograd_block_tiles_i8(g, transforms, gemm_);
    blocks_ = std::min(all, round_up(ceil_div(all, most), std::min<int64_t>(threads, all)));
    block_ = ceil_div(all, blocks_);
    slots_ = std::min<int64_t>(threads, blocks_);
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(padded_bytes(g_.c_in) + slots_ * slot_bytes()); }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<uint8_t*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for the tiles of a convolution");
    std::fill_n(scratch, g_.c_in, static_cast<uint8_t>(q_.x_zero));
    const Run run{ctx.input(0).data<uint8_t>(), ctx.output(0).data<uint8_t>(), scratch};
    ctx.threads().parallel_for(slots_, 1, [&](int64_t begin, int64_t end) {
      const int64_t all = g_.batch * rows_ * columns_;
      for (int64_t slot = begin; slot < end; ++slot)
        for (int64_t b = blocks_ * slot / slots_; b < blocks_ * (slot + 1) / slots_; ++b) {
          const int64_t first = all * b / blocks_;
          block(run, first, all * (b + 1) / blocks_ - first, scratch + padded_bytes(g_.c_in) + slot * slot_bytes());
        }
    });
    return Ok();
  }

 private:
  struct Run {
    const uint8_t* x;
    uint8_t* y;
    const uint8_t* zeros;  ///< a pixel of the padding
  };
  // From a position to the next an odd number of cache lines, so that positions do not meet in the same lines of the
  // nearest cache: of tiles and of filters in int16s, of products in int32s.
  static int64_t odd_lines(int64_t bytes) { return (ceil_div(bytes, 64) | 1) * 64; }
  int64_t positions() const { return transforms_.positions(); }
  int64_t v_step() const { return odd_lines(block_ * g_.c_in * 2) / 2; }
  int64_t u_step() const { return odd_lines((2 + g_.c_in) * gemm_.nr() * 2) / 2; }
  int64_t m_step() const { return odd_lines(block_ * gemm_.nr() * 4) / 4; }
  int64_t v_bytes() const { return padded_bytes(positions() * v_step() * 2); }
  int64_t u_bytes() const { return padded_bytes(positions() / 2 * u_step() * 2); }
  int64_t m_bytes() const { return padded_bytes(positions() * m_step() * 4); }
  /// Accumulators of a line of pixels of a block.
  int64_t line_bytes() const { return padded_bytes(std::min(block_, columns_) * transforms_.tile * gemm_.nr() * 4); }
  int64_t slot_bytes() const { return v_bytes() + u_bytes() + m_bytes() + transforms_.tile * line_bytes(); }

  /// Tiles [first, first + count).
  void block(const Run& run, int64_t first, int64_t count, uint8_t* scratch) const {
    auto* const v = reinterpret_cast<int16_t*>(scratch);
    auto* const u = reinterpret_cast<int16_t*>(scratch + v_bytes());
    auto* const m = reinterpret_cast<int32_t*>(scratch + v_bytes() + u_bytes());
    auto* const lines = reinterpret_cast<int32_t*>(scratch + v_bytes() + u_bytes() + m_bytes());
    for (int64_t t = 0; t < count; ++t) input(run, first + t, v + t * g_.c_in);
    const EvenTiles tiles(count, gemm_.mr);
    const int64_t nr = gemm_.nr(), lda = g_.c_in * 2;
    TileState state;
    // The tiles of a position bring 32 bytes a channel and vector nearer, of the 144 of the filters of the next panel.
    const int64_t half = positions() / 2, every = positions() / 5;
    const int64_t panels = gemm_.panels(g_.c_out), steps = gemm_.steps(g_.c_in);
    for (int64_t p = 0; p < panels; ++p) {
      const int64_t w = gemm_.width(g_.c_out, p);
      const char* next = taps_of(p + 1 < panels ? p + 1 : 0);
      for (int64_t position = 0; position < positions(); ++position) {
        if (position % half == 0) filter(p, w, static_cast<int>(position / half), u);
        const bool brings = position % every == every / 2;
        for (int64_t t = 0, i = 0, here = 0; t < tiles.count; ++t, i += here) {
          here = tiles.rows(t);
          const void* rows = v + position * v_step() + i * g_.c_in;
          const auto& of_width = (brings && t == 0 ? gemm_.prefetching_tiles : gemm_.tiles)[0][w > gemm_.lanes];
          of_width[here - 1](&rows, 1, lda, u + position % half * u_step(), steps, m + position * m_step() + i * nr,
                             next, state);
        }
        if (brings) next += steps * w * 4;
      }
      output(run, first, count, p, w, m, lines);
    }
  }
  /// Transforms a tile of input pixels.
  void input(const Run& run, int64_t tile, int16_t* v) const {
    const int64_t image = tile / (rows_ * columns_), row = tile / columns_ % rows_, column = tile % columns_;
    const uint8_t* d[WinogradI8::kMostPositions];
    const uint8_t** next = d;
    for (int64_t y = row * transforms_.tile - g_.pad[1], i = 0; i < transforms_.side(); ++i, ++y)
      for (int64_t x = column * transforms_.tile - g_.pad[2], j = 0; j < transforms_.side(); ++j, ++x) {
        const bool inside = y >= 0 && y < g_.in[1] && x >= 0 && x < g_.in[2];
        *next++ = inside ? run.x + ((image * g_.in[1] + y) * g_.in[2] + x) * g_.c_in : run.zeros;
      }
    transforms_.input(d, g_.c_in, q_.x_signed, q_.x_zero, v, v_step());
  }
  const char* taps_of(int64_t panel) const {
    return packed_->data<char>() + bytes_.panel_offset(g_.k(), panel) + gemm_.width(g_.c_out, panel) * 4;
  }
  /// Transforms the filters of a panel of w columns: each position is a panel without addends.
  void filter(int64_t panel, int64_t w, int half, int16_t* u) const {
    const auto* taps = reinterpret_cast<const int8_t*>(taps_of(panel));
    for (int64_t position = 0; position < positions() / 2; ++position)
      std::fill_n(u + position * u_step(), w * 2, int16_t{0});
    transforms_.filter(taps, g_.c_in * w, g_.c_in * w, half, u + w * 2, u_step());
  }
  /// The output channels of a panel from the products of tiles [first, first + count).
  void output(const Run& run, int64_t first, int64_t count, int64_t panel, int64_t w, const int32_t* m,
              int32_t* lines) const {
    const int64_t nr = gemm_.nr(), channel = panel * nr, n = std::min(nr, g_.c_out - channel);
    const int64_t tile = transforms_.tile, line = line_bytes() / 4;
    for (int64_t t = 0, here = 0; t < count; t += here) {  // tiles side by side
      const int64_t image = (first + t) / (rows_ * columns_), row = (first + t) / columns_ % rows_ * tile,
                    column = (first + t) % columns_ * tile;
      here = std::min(count - t, columns_ - (first + t) % columns_);
      for (int64_t i = 0; i < here; ++i)
        transforms_.output(m + (t + i) * nr, m_step(), bias_.data() + channel, w, lines + i * tile * nr, line, nr);
      const int64_t pixels = std::min(here * tile, g_.out[2] - column);
      for (int64_t y = 0; y < std::min(tile, g_.out[1] - row); ++y)
        rescale_(params_, lines + y * line, nr, pixels, n, channel,
                 run.y + ((image * g_.out[1] + row + y) * g_.out[2] + column) * g_.c_out + channel, g_.c_out);
    }
  }

  ConvShape g_;
  QuantizedPair q_;
  RequantizeParams params_;
  RequantizeAccumulators rescale_;
  const GemmI8 &bytes_, &gemm_;  ///< the form of the filters as they are kept, and transformed
  const WinogradI8& transforms_;
  int64_t rows_, columns_;          ///< of tiles of an image
  std::vector<int32_t> bias_;       ///< of whole panels
  int64_t blocks_ = 1, block_ = 1;  ///< blocks of all images, tiles of a block at most
  int64_t slots_ = 1;               ///< threads that work at once
  Packed packed_;
};

/// Bound of the magnitude of a result before its bias.
int64_t largest_result(const ConvShape& g, const QuantizedPair& q, const Tensor& filter, Isa isa) {
  const int64_t least = q.x_signed ? -128 : 0, below = q.x_zero - least, above = least + 255 - q.x_zero;
  const bool as_it_lies = filter.dtype() == DType::kI8 && g.filter_o == g.k() &&
                          std::all_of(q.w_zeros.begin(), q.w_zeros.end(), [](int32_t z) { return z == 0; });
  return as_it_lies ? largest_dot(isa, filter.data<int8_t>(), g.c_out, g.k(), below, above)
                    : std::max(below, above) * 128 * g.k();
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_winograd_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvAttrs>();
  const auto g = ConvShape::in_lines(spec);
  if (!g || spec.outputs[0].shape.elements() == 0) return nullptr;
  const int axis = filter_output_axis(attrs, spec.inputs[1].shape.rank());
  const auto q = QuantizedPair::make(spec.inputs[0], spec.inputs[1], axis, g->all_out());
  if (!q || !filter_fits_int8(*g, *spec.constant(1), q->w_zeros)) return nullptr;
  const auto setting = winograd_setting();
  const WinogradTimesI8* const times = winograd_times_i8(spec.isa);
  const WinogradI8* transforms = nullptr;
  if (setting.ok() && times)
    transforms = winograd_transforms_i8(*g, spec.isa, *times, *setting, [&](const WinogradI8& w) {
      return largest_result(*g, *q, *spec.constant(1), spec.isa) <= w.most_magnitude;
    });
  if (!transforms)
    return spec.refuse("another way to convolve takes less time, or SMELT_CPU_WINOGRAD forbids this one");
  auto params = smelt::requantize_params(spec, g->all_out(), attrs.rescale_rule());
  if (!params) return nullptr;
  return std::make_unique<ConvWinogradI8>(*g, *q, *transforms, std::move(*params), spec);
}

}  // namespace smelt
