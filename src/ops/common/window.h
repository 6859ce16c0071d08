#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ops/common/enums.h"
#include "smelt/result.h"
#include "smelt/tensor.h"

namespace smelt {

/// One spatial dimension of a sliding window over an image.
struct WindowDim {
  int64_t in = -1, out = -1;  ///< sizes; -1: unknown
  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t pad_begin = 0, pad_end = 0;
  int64_t extent() const { return (kernel - 1) * dilation + 1; }
};

/// All spatial dimensions. Rank is at most Shape::kMaxRank - 2.
struct Window {
  int rank = 0;
  std::array<WindowDim, Shape::kMaxRank> dims;
  int64_t taps() const;           ///< product of kernel sizes
  int64_t in_positions() const;   ///< product of input sizes; all known
  int64_t out_positions() const;  ///< product of output sizes; all known
};

/// Position of channels and of the first spatial dimension in an image of `rank` dimensions.
inline int channel_dim(Layout layout, int rank) { return layout == Layout::kChannelsFirst ? 1 : rank - 1; }
inline int spatial_dim(Layout layout) { return layout == Layout::kChannelsFirst ? 2 : 1; }

/// Fills in strides, dilations and pads from attribute lists; empty lists mean 1, 1 and 0. Kernel sizes and input sizes
/// must be set before. Checks signs and magnitudes (2^31).
Status set_window(Window& w, const std::vector<int64_t>& strides, const std::vector<int64_t>& dilations,
                  const std::vector<int64_t>& pads);

/// Resolves automatic padding and computes output sizes where the input sizes are known. A window that does not fit
/// into the padded image is an error. `ceil` rounds the number of windows up (a window may end behind the padded
/// image), but drops windows that start behind the image and its front padding.
Status slide_window(Window& w, AutoPad auto_pad, bool ceil);

}  // namespace smelt
