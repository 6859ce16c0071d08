#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "backends/cpu/conv/line_buffer.h"
#include "backends/cpu/core/isa.h"
#include "backends/cpu/gemm/gemm_i8.h"
#include "base/thread_pool.h"
#include "ops/conv/conv_shape.h"

namespace smelt {

struct GroupedTile;
using GroupedTileFunction = void (*)(const GroupedTile&);

/// A channels-last convolution of bytes in groups of so few channels, and as many filters, that those of a group fill a
/// part of a vector: tiles compute the filters of several groups at once. Bands of padded lines, a run of channels at a
/// time.
class ConvGroups {
 public:
  /// gemm: the form for the filter, whose accumulators lie like those of the tiles.
  [[gnu::cold]] ConvGroups(const ConvShape& shape, const GemmI8& gemm, Isa isa);

  /// True if the convolution is one of such groups, on a level that has tiles. Else nothing else may be asked for.
  bool apply() const { return tile_ != nullptr; }
  int64_t packed_bytes() const;
  /// Packs filters given as [filter][tap][channel], as GemmI8::pack().
  void pack(const int8_t* weights, const int32_t* bias, int32_t a_zero, char* packed) const;
  /// Memory of image(), aligned to 64 bytes.
  int64_t scratch_bytes(int64_t threads) const { return threads * workspace_stride(band_bytes_, threads); }

  /// As the `done` of ConvLineBuffer::image().
  using Done = std::function<void(const int32_t* acc, int64_t pixel, int64_t pixels, int64_t channel, int64_t n)>;
  /// As ConvLineBuffer::image(), of bytes that count from the least of their type.
  void image(ThreadPool& pool, int64_t threads, const LoadPixels& load, uint8_t zero, const char* packed,
             uint8_t* scratch, const Done& done) const;

 private:
  /// The convolution of half as many groups in place of ones of two channels: filters then have zeros.
  static ConvShape joined_pairs(const ConvShape& g);
  /// True if tiles take one run of channels of two pixels, from channel c on, not two of one.
  bool one_run(int64_t c) const { return g_.all_out() - c <= run_; }
  /// Output pixels: some lines, or a part of one.
  struct Area {
    int64_t y, lines, x, columns;
  };
  /// The padded lines of the image that an area sees.
  void fill(const LoadPixels& load, uint8_t zero, const Area& area, uint8_t* to) const;
  void products(const Area& area, const char* packed, const uint8_t* band, const Done& done) const;
  /// Accumulators of `pixels` pixels of an area from `at` on, in two runs of channels from c on, or one if there are no
  /// more.
  void strip(const Area& area, int64_t at, int64_t pixels, int64_t c, const char* packed, const uint8_t* band,
             int32_t* acc) const;

  ConvShape g_;
  bool pairs_;  ///< two groups of the convolution are one of g_
  const GemmI8& gemm_;
  LineBuffer rows_;
  GroupedTileFunction tile_ = nullptr;
  int64_t run_ = 0;  ///< channels that a tile takes at once of a pixel: whole groups
  int64_t panel_bytes_ = 0, line_ = 0, lines_ = 0, band_bytes_ = 0;  ///< line_: bytes; lines_: of output, of a band
  std::vector<int64_t> taps_;                                        ///< bytes from the window's first
};

}  // namespace smelt
