#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backends/cpu/conv/line_buffer.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/core/workspace.h"
#include "backends/cpu/gemm/gemm_i8.h"
#include "base/thread_pool.h"
#include "ops/conv/conv_shape.h"

namespace smelt {

/// The chunks in which tiles read a window of a channels-last image: its lines, or its taps where those of a line do
/// not lie side by side.
struct WindowChunks {
  static constexpr int64_t kMost = 64;
  bool joined;  ///< a chunk is a line
  int64_t count;
  int64_t steps;  ///< groups of a chunk

  WindowChunks(const ConvShape& g, const GemmI8& gemm)
      : joined(g.dilation[2] == 1 && g.groups == 1),
        count(joined ? g.kernel[0] * g.kernel[1] : g.taps()),
        steps(gemm.steps(g.k() / count)) {}
  /// False if there are too many, or they waste too much of their last groups.
  bool pay_off(const ConvShape& g, const GemmI8& gemm) const {
    return count <= kMost && count * steps * 5 <= gemm.steps(g.k()) * 7;
  }
};

/// A channels-last convolution of bytes as products of a padded image and panels of filters, for tiles that are faster
/// than weights come from the third cache: a panel passes by a whole band of lines. Pixels follow each other at the
/// same distance across the ends of padded lines, so that tiles take any of them; what falls between lines is dropped.
class ConvBands {
 public:
  ConvBands(const ConvShape& g, const GemmI8& gemm) : g_(g), gemm_(gemm), rows_(g, false, nullptr) { choose(); }

  /// True if the convolution is faster so. Else nothing else may be asked for.
  bool apply() const { return chunks_ > 0; }
  int64_t chunks() const { return chunks_; }  ///< of a window
  int64_t steps() const { return steps_; }    ///< groups of a chunk
  /// Memory of image(), aligned to 64 bytes.
  int64_t scratch_bytes(int64_t threads) const { return threads * workspace_stride(band_bytes_, threads); }

  /// As ConvLineBuffer::image(). done() is called for the pixels of a tile that lie in one line.
  template <class F>
  void image(ThreadPool& pool, int64_t threads, const LoadPixels& load, bool x_signed, uint8_t zero, const char* packed,
             uint8_t* scratch, F&& done) const {
    ranges_in_slots(pool, threads, g_.out[1], [&](int64_t first, int64_t last, int64_t slot) {
      uint8_t* const band = scratch + slot * workspace_stride(band_bytes_, threads);
      for (int64_t y = first, lines = 0; y < last; y += lines) {
        lines = ceil_div(last - y, ceil_div(last - y, lines_));
        fill(load, zero, y, lines, band);
        products(x_signed, y, lines, packed, band, done);
      }
    });
  }

 private:
  /// Where tiles are that fast, windows move pixel by pixel, padding adds few pixels to a line, chunks waste little of
  /// their last groups, and a few lines stay in the second cache.
  void choose() {
    if (gemm_.addend_rows < 2 || !g_.planar() || g_.pointwise() || g_.groups != 1) return;
    if (g_.stride[1] != 1 || g_.stride[2] != 1) return;
    const int64_t padded = g_.out[2] + (g_.kernel[2] - 1) * g_.dilation[2];
    if (padded * 3 > g_.out[2] * 4 && g_.out[1] > 1) return;
    const WindowChunks chunks(g_, gemm_);
    if (!chunks.pay_off(g_, gemm_)) return;
    const int64_t line = padded * g_.c_in, margin = (g_.kernel[1] - 1) * g_.dilation[1];
    if (line > gemm_.block_bytes || (margin + 1) * line > gemm_.block_bytes) return;
    const int64_t left = gemm_.block_bytes * 3 / 2 - margin * line;
    lines_ = std::clamp<int64_t>(left / (line + g_.out[2] * g_.c_out), 1, g_.out[1]);
    if (lines_ * 2 <= margin) return;
    chunks_ = chunks.count;
    steps_ = chunks.steps;
    padded_ = padded;
    band_bytes_ = padded_bytes((lines_ + margin) * line + 64);
    for (int64_t ky = 0; ky < g_.kernel[1]; ++ky)
      for (int64_t kx = 0; kx < (chunks.joined ? 1 : g_.kernel[2]); ++kx)
        offsets_.push_back((ky * g_.dilation[1] * padded + kx * g_.dilation[2]) * g_.c_in);
  }
  /// The padded lines of the image that output lines [y, y + lines) see.
  void fill(const LoadPixels& load, uint8_t zero, int64_t y, int64_t lines, uint8_t* to) const {
    const int64_t n = lines + (g_.kernel[1] - 1) * g_.dilation[1];
    rows_.fill_lines(load, zero, y - g_.pad[1], n, 0, padded_, padded_ * g_.c_in, to);
  }
  template <class F>
  void products(bool x_signed, int64_t y, int64_t lines, const char* packed, const uint8_t* band, F&& done) const {
    alignas(64) int32_t acc[GemmI8::kMaxTile];
    TileState state;
    const int64_t depth = chunks_ * steps_ * 4, nr = gemm_.nr(), panels = gemm_.panels(g_.c_out);
    const EvenTiles tiles((lines - 1) * padded_ + g_.out[2], gemm_.mr);
    for (int64_t p = 0; p < panels; ++p) {
      const bool more = p + 1 < panels || y + lines < g_.out[1];
      const int64_t next = gemm_.panel_offset(depth, p + 1 < panels ? p + 1 : 0), column = p * nr;
      state.bring(packed + next, more ? gemm_.panel_offset(depth, 1) : 0, tiles.count * chunks_ * steps_);
      const auto& tile = gemm_.tiles_of(x_signed, g_.c_out - column);
      for (int64_t t = 0, i = 0, here = 0; t < tiles.count; ++t, i += here) {
        here = tiles.rows(t);
        const void* starts[WindowChunks::kMost];
        for (int64_t j = 0; j < chunks_; ++j) starts[j] = band + i * g_.c_in + offsets_[static_cast<size_t>(j)];
        tile[here - 1](starts, chunks_, g_.c_in, packed + gemm_.panel_offset(depth, p), steps_, acc, nullptr, state);
        for (int64_t at = i; at < i + here;) {
          const int64_t line = at / padded_, x = at % padded_, n = std::min(i + here, (line + 1) * padded_) - at;
          const int64_t pixels = std::min(n, g_.out[2] - x);
          if (pixels > 0)
            done(acc + (at - i) * nr, (y + line) * g_.out[2] + x, pixels, column, std::min(nr, g_.c_out - column));
          at += n;
        }
      }
    }
  }

  ConvShape g_;
  const GemmI8& gemm_;
  LineBuffer rows_;
  int64_t chunks_ = 0, steps_ = 0;
  int64_t padded_ = 0, lines_ = 0, band_bytes_ = 0;  ///< pixels of a padded line; lines of a band, at most
  std::vector<int64_t> offsets_;                     ///< of the chunks, from the window's first byte on
};

}  // namespace smelt
