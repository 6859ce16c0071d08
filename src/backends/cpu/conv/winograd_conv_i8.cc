#include "backends/cpu/conv/winograd_conv_i8.h"

#include <algorithm>
#include <utility>

#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/conv/winograd_choice_i8.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/core/workspace.h"
#include "backends/cpu/gemm/quantized_weights.h"
#include "tensor/pages.h"

namespace smelt {
namespace {

struct WinogradFilterI8Key {
  FilterKey filter;
  const GemmI8* gemm;
  auto operator<=>(const WinogradFilterI8Key&) const = default;
};

/// From a position to the next an odd number of cache lines, so that positions do not meet in the same lines of the
/// nearest cache.
int64_t odd_lines(int64_t bytes) { return (ceil_div(bytes, 64) | 1) * 64; }

}  // namespace

struct WinogradConvI8::Images {
  const uint8_t* x;
  bool x_signed;
  int32_t x_zero;
  const uint8_t* zeros;  ///< a pixel of the padding
};

const WinogradI8* WinogradConvI8::transforms_for(const KernelSpec& spec, const ConvShape& g,
                                                 const std::function<bool(const WinogradI8&)>& is_exact) {
  const auto setting = winograd_setting();
  const WinogradTimesI8* const times = winograd_times_i8(spec.isa);
  return setting.ok() && times ? winograd_transforms_i8(g, spec.isa, *times, *setting, is_exact) : nullptr;
}

int64_t WinogradConvI8::largest_result(const KernelSpec& spec, const ConvShape& g, const std::vector<int32_t>& w_zeros,
                                       int64_t below, int64_t above) {
  const Tensor& filter = *spec.constant(1);
  const bool as_it_lies = filter.dtype() == DType::kI8 && g.filter_o == g.k() &&
                          std::ranges::all_of(w_zeros, [](int32_t z) { return z == 0; });
  if (!as_it_lies) return std::max(below, above) * 128 * g.k();
  constexpr int64_t kPart = int64_t{1} << 15;
  // From the file, where it is one, a part at a time: the pages around the filter are not mapped then.
  const int64_t k = g.k(), rows = std::max<int64_t>(kPart / k, 1);
  std::vector<int8_t> part(static_cast<size_t>(std::min(rows, g.c_out) * k));
  int64_t largest = 0;
  for (int64_t first = 0; first < g.c_out; first += rows) {
    const int64_t n = std::min(rows, g.c_out - first);
    filter.copy_elements(first * k, n * k, part.data());
    largest = std::max(largest, largest_dot(spec.isa, part.data(), n, k, below, above));
  }
  return largest;
}

WinogradConvI8::WinogradConvI8(const ConvShape& g, const std::vector<int32_t>& w_zeros, std::vector<int32_t> bias,
                               const WinogradI8& transforms, const KernelSpec& spec)
    : g_(g),
      bytes_(byte_pairs_i8(spec.isa)),
      gemm_(gemm_i8(spec.isa, false)),
      transforms_(transforms),
      rows_(ceil_div(g.out[1], transforms.tile)),
      columns_(ceil_div(g.out[2], transforms.tile)),
      bias_(std::move(bias)) {
  bias_.resize(static_cast<size_t>(gemm_.panels(g.c_out) * gemm_.nr()), 0);
  const Tensor& filter = *spec.constant(1);
  const WinogradFilterI8Key key{{g, filter, nullptr}, &bytes_};
  packed_ = spec.packs.get(
      key,
      [&] {
        auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(bytes_.packed_bytes(g.k(), g.c_out)));
        if (is_ordered_filter(g, filter, w_zeros)) {
          bytes_.pack(static_cast<const int8_t*>(elements_once(filter).get()), g.k(), g.c_out, nullptr, 0,
                      packed->data<char>());
          release_read_pages(filter);
        } else {
          bytes_.pack(ordered_filter_int8(g, filter, w_zeros).data(), g.k(), g.c_out, nullptr, 0, packed->data<char>());
          release_pages(filter);
        }
        return packed;
      },
      [&] { return spec.contents("conv_winograd_i8", key.filter.numbers(), {bytes_.group_bytes}); });
  const int64_t all = g.batch * rows_ * columns_, threads = std::max(spec.threads, 1);
  const int64_t most = winograd_block_tiles_i8(g, transforms, gemm_);
  blocks_ = std::min(all, round_up(ceil_div(all, most), std::min<int64_t>(threads, all)));
  block_ = ceil_div(all, blocks_);
  slots_ = std::min<int64_t>(threads, blocks_);
}

/// Of tiles and of filters in int16s, of products in int32s.
int64_t WinogradConvI8::v_step() const { return odd_lines(block_ * g_.c_in * 2) / 2; }
int64_t WinogradConvI8::u_step() const { return odd_lines((2 + g_.c_in) * gemm_.nr() * 2) / 2; }
int64_t WinogradConvI8::m_step() const { return odd_lines(block_ * gemm_.nr() * 4) / 4; }
int64_t WinogradConvI8::v_bytes() const { return padded_bytes(positions() * v_step() * 2); }
int64_t WinogradConvI8::u_bytes() const { return padded_bytes(positions() / 2 * u_step() * 2); }
int64_t WinogradConvI8::m_bytes() const { return padded_bytes(positions() * m_step() * 4); }
/// Accumulators of a line of pixels of a block.
int64_t WinogradConvI8::line_bytes() const {
  return padded_bytes(std::min(block_, columns_) * transforms_.tile * gemm_.nr() * 4);
}
int64_t WinogradConvI8::scratch_bytes() const { return padded_bytes(g_.c_in) + slots_ * slot_bytes(); }

void WinogradConvI8::run(ThreadPool& threads, const uint8_t* x, bool x_signed, int32_t x_zero, uint8_t* scratch,
                         const AccumulatorLines& lines) const {
  std::fill_n(scratch, g_.c_in, static_cast<uint8_t>(x_zero));
  const Images images{x, x_signed, x_zero, scratch};
  const int64_t all = g_.batch * rows_ * columns_;
  in_slots(threads, slots_, blocks_, [&](int64_t b, int64_t slot) {
    const int64_t first = all * b / blocks_;
    block(images, first, all * (b + 1) / blocks_ - first, scratch + padded_bytes(g_.c_in) + slot * slot_bytes(), lines);
  });
}

/// Tiles [first, first + count).
void WinogradConvI8::block(const Images& images, int64_t first, int64_t count, uint8_t* scratch,
                           const AccumulatorLines& lines) const {
  auto* const v = reinterpret_cast<int16_t*>(scratch);
  auto* const u = reinterpret_cast<int16_t*>(scratch + v_bytes());
  auto* const m = reinterpret_cast<int32_t*>(scratch + v_bytes() + u_bytes());
  auto* const acc = reinterpret_cast<int32_t*>(scratch + v_bytes() + u_bytes() + m_bytes());
  for (int64_t t = 0; t < count; ++t) input(images, first + t, v + t * g_.c_in);
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
        of_width[here - 1](&rows, 1, lda, u + position % half * u_step(), steps, m + position * m_step() + i * nr, next,
                           state);
      }
      if (brings) next += steps * w * 4;
    }
    output(first, count, p, w, m, acc, lines);
  }
}
/// Transforms a tile of input pixels.
void WinogradConvI8::input(const Images& images, int64_t tile, int16_t* v) const {
  const int64_t image = tile / (rows_ * columns_), row = tile / columns_ % rows_, column = tile % columns_;
  const uint8_t* d[WinogradI8::kMostPositions];
  const uint8_t** next = d;
  for (int64_t y = row * transforms_.tile - g_.pad[1], i = 0; i < transforms_.side(); ++i, ++y)
    for (int64_t x = column * transforms_.tile - g_.pad[2], j = 0; j < transforms_.side(); ++j, ++x) {
      const bool inside = y >= 0 && y < g_.in[1] && x >= 0 && x < g_.in[2];
      *next++ = inside ? images.x + ((image * g_.in[1] + y) * g_.in[2] + x) * g_.c_in : images.zeros;
    }
  transforms_.input(d, g_.c_in, images.x_signed, images.x_zero, v, v_step());
}
const char* WinogradConvI8::taps_of(int64_t panel) const {
  return packed_->data<char>() + bytes_.panel_offset(g_.k(), panel) + gemm_.width(g_.c_out, panel) * 4;
}
/// Transforms the filters of a panel of w columns: each position is a panel without addends.
void WinogradConvI8::filter(int64_t panel, int64_t w, int half, int16_t* u) const {
  const auto* taps = reinterpret_cast<const int8_t*>(taps_of(panel));
  for (int64_t position = 0; position < positions() / 2; ++position)
    std::fill_n(u + position * u_step(), w * 2, int16_t{0});
  transforms_.filter(taps, g_.c_in * w, g_.c_in * w, half, u + w * 2, u_step());
}
/// The output channels of a panel from the products of tiles [first, first + count).
void WinogradConvI8::output(int64_t first, int64_t count, int64_t panel, int64_t w, const int32_t* m, int32_t* acc,
                            const AccumulatorLines& lines) const {
  const int64_t nr = gemm_.nr(), channel = panel * nr, n = std::min(nr, g_.c_out - channel);
  const int64_t tile = transforms_.tile, line = line_bytes() / 4;
  for (int64_t t = 0, here = 0; t < count; t += here) {  // tiles side by side
    const int64_t image = (first + t) / (rows_ * columns_), row = (first + t) / columns_ % rows_ * tile,
                  column = (first + t) % columns_ * tile;
    here = std::min(count - t, columns_ - (first + t) % columns_);
    for (int64_t i = 0; i < here; ++i)
      transforms_.output(m + (t + i) * nr, m_step(), bias_.data() + channel, w, acc + i * tile * nr, line, nr);
    const int64_t pixels = std::min(here * tile, g_.out[2] - column);
    for (int64_t y = 0; y < std::min(tile, g_.out[1] - row); ++y)
      lines.put(acc + y * line, (image * g_.out[1] + row + y) * g_.out[2] + column, pixels, channel, n);
  }
}

}  // namespace smelt
