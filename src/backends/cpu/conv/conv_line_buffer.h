#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "backends/cpu/conv/conv_bands.h"
#include "backends/cpu/conv/conv_groups.h"
#include "backends/cpu/conv/line_buffer.h"
#include "backends/cpu/core/prefetch.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/gemm/gemm_i8.h"
#include "base/thread_pool.h"

namespace smelt {

/// A channels-last convolution of bytes whose windows are read in chunks from padded rows: a chunk is a line of a
/// window, or one tap of a line where its taps do not lie side by side. Packed filters are of k() elements: chunks
/// end with whole groups. Where those pay off, the rows are those of ConvBands, or of ConvGroups.
class ConvLineBuffer {
 public:
  [[gnu::cold]] ConvLineBuffer(const ConvShape& g, const GemmI8& gemm, Isa isa)
      : g_(g), gemm_(gemm), rows_(g, false, nullptr, lines_are_inside(g)), bands_(g, gemm), groups_(g, gemm, isa) {
    if (groups_.apply()) return;
    if (bands_.apply()) {
      chunks_ = bands_.chunks();
      steps_ = bands_.steps();
    } else {
      choose();
    }
  }

  /// True if this pays off for the convolution. Else nothing else may be asked for but how filters are packed.
  bool apply() const { return chunks_ > 0 || groups_.apply(); }
  /// True if the image's int8 had better have their sign bits flipped (GemmI8::flips). Those of pointwise convolutions
  /// need not be copied else.
  [[gnu::cold]] bool flips(bool x_signed) const {
    if (groups_.apply()) return x_signed;
    return g_.pointwise() ? gemm_.flips_in_copy(x_signed, g_.out_pixels(), g_.c_out, g_.k())
                          : gemm_.flips(x_signed, g_.out_pixels());
  }
  /// Tells packed forms of one filter apart.
  int64_t form() const { return groups_.apply() ? -1 : chunks_; }
  [[gnu::cold]] int64_t packed_bytes() const {
    return groups_.apply() ? groups_.packed_bytes() : gemm_.packed_bytes(k(), g_.c_out) * g_.groups;
  }
  /// Packs filters of g.k() elements in the order (tap, channel), one behind the other, as GemmI8::pack().
  template <class W>
  [[gnu::cold]] void pack(const W* weights, const int32_t* bias, int32_t a_zero, char* packed) const {
    if constexpr (sizeof(W) == 1)
      if (groups_.apply()) return groups_.pack(weights, bias, a_zero, packed);
    std::vector<W> workspace;
    weights = spread(weights, workspace);
    const int64_t depth = k(), group = gemm_.packed_bytes(depth, g_.c_out);
    for (int64_t i = 0; i < g_.groups; ++i)
      gemm_.pack(weights + i * g_.c_out * depth, depth, g_.c_out, bias ? bias + i * g_.c_out : nullptr, a_zero,
                 packed + i * group);
  }
  /// True if pack() of a constant in a file reads the file.
  bool packs_from_file() const { return gemm_.pack_bytes && !groups_.apply() && k() == g_.k(); }
  /// Memory of image(), aligned to 64 bytes.
  int64_t scratch_bytes(int64_t threads) const {
    if (groups_.apply()) return groups_.scratch_bytes(threads);
    if (bands_.apply()) return bands_.scratch_bytes(threads);
    return threads * workspace_stride(rows_.workspace_bytes(), threads);
  }

  /// True if lines() can be asked for, with a workspace of line_bytes(), aligned to 64 bytes, which begin_lines() makes
  /// ready for lines of an image from above to below.
  bool has_lines() const { return chunks_ > 0 && !bands_.apply(); }
  int64_t line_bytes() const { return rows_.workspace_bytes(); }
  void begin_lines(uint8_t* workspace, uint8_t zero) const { rows_.begin(workspace, zero); }
  /// As image(), for lines [first, last) of the output.
  template <class F>
  void lines(const LoadPixels& load, bool x_signed, int64_t first, int64_t last, const char* packed, uint8_t* workspace,
             F&& done) const {
    for (int64_t i = first; i < last; ++i)
      line(load, x_signed, rows_.outside(workspace), i, 0, g_.out[2], packed, workspace, done);
  }

  /// The `load` of image() and lines() for an image x of bytes, whose sign bits it flips or not.
  auto loads_of(const uint8_t* x, bool flipped) const {
    return [this, x, flipped](int64_t at, int64_t pixels, uint8_t* to) {
      const int64_t n = pixels * g_.all_in();
      gemm_.copy_bytes(x + at, n, flipped, to);
      prefetch_row(x + at + n, n);
    };
  }
  /// Calls done(accumulators, pixel, pixels, channel, channels) for the tiles of an image, accumulators gemm.nr()
  /// apart. packed: filters of the groups one behind the other. `zero` stands in the padding.
  /// load: called by the threads. They share the pixels of a line where lines are fewer.
  template <class F>
  void image(ThreadPool& pool, int64_t threads, const LoadPixels& load, bool x_signed, uint8_t zero, const char* packed,
             uint8_t* scratch, F&& done) const {
    if (groups_.apply()) return groups_.image(pool, threads, load, zero, packed, scratch, std::ref(done));
    if (bands_.apply()) return bands_.image(pool, threads, load, x_signed, zero, packed, scratch, done);
    const int64_t lines = g_.out[0] * g_.out[1], tiles = ceil_div(g_.out[2], height_);
    const int64_t parts = std::min(ceil_div(threads, lines), tiles), n = lines * parts;
    const int64_t stride = workspace_stride(rows_.workspace_bytes(), threads);
    ranges_in_slots(pool, threads, n, [&](int64_t begin, int64_t end, int64_t slot) {
      uint8_t* workspace = scratch + slot * stride;
      const uint8_t* const outside = rows_.begin(workspace, zero);
      for (int64_t i = begin; i < end; ++i) {
        if (parts > 1) rows_.clear(workspace);  // of another part it holds other pixels
        const int64_t part = i % parts, first = tiles * part / parts, last = tiles * (part + 1) / parts;
        line(load, x_signed, outside, i / parts, first * height_, std::min(last * height_, g_.out[2]), packed,
             workspace, done);
      }
    });
  }

 private:
  /// True if no window has a line outside the image.
  static bool lines_are_inside(const ConvShape& g) {
    const auto inside = [&](int d) {
      return g.pad[d] == 0 && (g.out[d] - 1) * g.stride[d] + (g.kernel[d] - 1) * g.dilation[d] < g.in[d];
    };
    return inside(0) && inside(1);
  }
  /// Length of a packed filter.
  int64_t k() const { return chunks_ > 0 ? chunks_ * steps_ * 4 : g_.k(); }
  /// Filters of g.k() elements, one behind the other, as ones of k(): `weights` themselves or in `workspace`.
  template <class W>
  const W* spread(const W* weights, std::vector<W>& workspace) const {
    if (k() == g_.k()) return weights;
    const int64_t chunk = g_.k() / chunks_;
    workspace.assign(static_cast<size_t>(g_.all_out() * k()), W{0});
    for (int64_t i = 0; i < g_.all_out() * chunks_; ++i)
      std::copy_n(weights + i * chunk, chunk, workspace.data() + i * steps_ * 4);
    return workspace.data();
  }
  /// Not for short rows, nor where chunks waste too much of their last groups, nor for panels of filters so large that
  /// reading them once a row costs more than copies of patches.
  void choose() {
    constexpr int64_t kShort = 8, kLargestPanel = 64 * 1024;
    if (!gemm_.bytes || g_.pointwise() || g_.out[2] < kShort || !rows_.small()) return;
    const WindowChunks chunks(g_, gemm_);
    if (!chunks.pay_off(g_, gemm_) || chunks.count * chunks.steps * gemm_.nr() * 4 > kLargestPanel) return;
    chunks_ = chunks.count;
    steps_ = chunks.steps;
    panel_bytes_ = gemm_.panel_offset(k(), 1);
    const int64_t tiles = (g_.out[2] + gemm_.mr - 1) / gemm_.mr;
    height_ = (g_.out[2] + tiles - 1) / tiles;
    for (int64_t kx = 0; kx < (chunks.joined ? 1 : g_.kernel[2]); ++kx) offsets_.push_back(rows_.offset(kx));
  }
  /// Pixels [begin, end) of one row of the output.
  template <class F>
  void line(const LoadPixels& load, bool x_signed, const uint8_t* outside, int64_t index, int64_t begin, int64_t end,
            const char* packed, uint8_t* workspace, F&& done) const {
    const uint8_t* starts[WindowChunks::kMost];
    int64_t n = 0;
    const int64_t z0 = index / g_.out[1] * g_.stride[0] - g_.pad[0], y0 = index % g_.out[1] * g_.stride[1] - g_.pad[1];
    for (int64_t kz = 0; kz < g_.kernel[0]; ++kz)
      for (int64_t ky = 0; ky < g_.kernel[1]; ++ky) {
        const uint8_t* row =
            rows_.row_from(load, outside, z0 + kz * g_.dilation[0], y0 + ky * g_.dilation[1], workspace,
                           begin * g_.stride[2], (end - 1) * g_.stride[2] + (g_.kernel[2] - 1) * g_.dilation[2] + 1);
        for (const int64_t offset : offsets_) starts[n++] = row + offset;
      }
    const int64_t step = g_.stride[2] * g_.all_in(), nr = gemm_.nr(), first = index * g_.out[2];
    alignas(64) int32_t acc[GemmI8::kMaxTile];
    TileState state;
    for (int64_t group = 0, channel = 0; group < g_.groups; ++group)
      for (int64_t left = g_.c_out; left > 0; left -= nr) {
        const bool wide = left > gemm_.lanes;
        const int64_t columns = std::min(left, nr);
        const auto& tile = gemm_.tiles_of(x_signed, left);
        int64_t shift = group * g_.c_in + begin * step;
        for (int64_t at = begin; at < end; at += height_, shift += height_ * step) {
          const int64_t here = std::min(height_, end - at);
          const void* chunks[WindowChunks::kMost];
          for (int64_t i = 0; i < n; ++i) chunks[i] = starts[i] + shift;
          tile[here - 1](chunks, n, step, packed, steps_, acc, nullptr, state);
          done(acc, first + at, here, channel, columns);
        }
        packed += panel_bytes_ >> !wide;
        channel += columns;
      }
  }

  ConvShape g_;
  const GemmI8& gemm_;
  LineBuffer rows_;
  ConvBands bands_;
  ConvGroups groups_;
  int64_t chunks_ = 0, steps_ = 0;        ///< of a window, groups of a chunk
  int64_t panel_bytes_ = 0, height_ = 0;  ///< of a panel of full width; of the tiles
  std::vector<int64_t> offsets_;          ///< of the chunks of a line
};

}  // namespace smelt
