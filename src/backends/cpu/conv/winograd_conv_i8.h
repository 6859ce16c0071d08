#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "backends/cpu/conv/winograd_i8.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/gemm/gemm_i8.h"
#include "base/thread_pool.h"
#include "ops/conv/conv_shape.h"

namespace smelt {

/// Takes the accumulators of a convolution, by several threads at once.
class AccumulatorLines {
 public:
  /// Channels [channel, channel + n) of output pixels [pixel, pixel + pixels), counted over all images: `n` neighbours
  /// a pixel, pixels WinogradConvI8::stride() apart.
  virtual void put(const int32_t* acc, int64_t pixel, int64_t pixels, int64_t channel, int64_t n) const = 0;

 protected:
  ~AccumulatorLines() = default;
};

/// Winograd's convolutions F(2x2, 3x3) and F(4x4, 3x3) of channels-last images of bytes: 16 products instead of 36, or
/// 36 instead of 144. Sums of products of transformed numbers count modulo 2^32, and accumulators are exact where they
/// are small enough for it. The filters (input 1) are kept as packed bytes in spec.packs; a run transforms those of a
/// panel for each block of tiles.
class WinogradConvI8 {
 public:
  /// The transforms for a node, or nullptr: another way takes less time, the level was not measured, or the setting
  /// forbids them. is_exact: for its images.
  static const WinogradI8* transforms_for(const KernelSpec& spec, const ConvShape& g,
                                          const std::function<bool(const WinogradI8&)>& is_exact);
  /// Bound of the magnitude of a result before its bias, of input numbers in [-below, above].
  static int64_t largest_result(const KernelSpec& spec, const ConvShape& g, const std::vector<int32_t>& w_zeros,
                                int64_t below, int64_t above);

  /// w_zeros: zero points of the output channels; bias: addends of their accumulators.
  [[gnu::cold]] WinogradConvI8(const ConvShape& g, const std::vector<int32_t>& w_zeros, std::vector<int32_t> bias,
                               const WinogradI8& transforms, const KernelSpec& spec);
  int64_t scratch_bytes() const;
  int64_t stride() const { return gemm_.nr(); }
  /// Images x, of whose bytes the zero point is subtracted.
  void run(ThreadPool& threads, const uint8_t* x, bool x_signed, int32_t x_zero, uint8_t* scratch,
           const AccumulatorLines& lines) const;

 private:
  struct Images;
  int64_t positions() const { return transforms_.positions(); }
  int64_t v_step() const;
  int64_t u_step() const;
  int64_t m_step() const;
  int64_t v_bytes() const;
  int64_t u_bytes() const;
  int64_t m_bytes() const;
  int64_t line_bytes() const;
  int64_t slot_bytes() const { return v_bytes() + u_bytes() + m_bytes() + transforms_.tile * line_bytes(); }
  const char* taps_of(int64_t panel) const;
  void block(const Images& images, int64_t first, int64_t count, uint8_t* scratch, const AccumulatorLines& lines) const;
  void input(const Images& images, int64_t tile, int16_t* v) const;
  void filter(int64_t panel, int64_t w, int half, int16_t* u) const;
  void output(int64_t first, int64_t count, int64_t panel, int64_t w, const int32_t* m, int32_t* acc,
              const AccumulatorLines& lines) const;

  ConvShape g_;
  const GemmI8 &bytes_, &gemm_;  ///< the form of the filters as they are kept, and transformed
  const WinogradI8& transforms_;
  int64_t rows_, columns_;          ///< of tiles of an image
  std::vector<int32_t> bias_;       ///< of whole panels
  int64_t blocks_ = 1, block_ = 1;  ///< blocks of all images, tiles of a block at most
  int64_t slots_ = 1;               ///< threads that work at once
  Packed packed_;
};

}  // namespace smelt
