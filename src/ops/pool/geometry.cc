#include "ops/pool/geometry.h"

#include "base/error.h"

namespace smelt {
namespace {

/// Windows much larger than any image are refused before a kernel walks them.
Status check_taps(const Window& w) {
  int64_t taps = 1;
  for (int i = 0; i < w.rank; ++i)
    if (__builtin_mul_overflow(taps, w.dims[static_cast<size_t>(i)].kernel, &taps) || taps > (int64_t{1} << 26))
      return LimitReached("a pooling window of more than 2^26 elements");
  return Ok();
}

}  // namespace

Result<PoolGeometry> pool_geometry(const PoolAttrs& a, const Shape& x) {
  PoolGeometry g;
  const int rank = x.rank();
  const int spatial = a.global ? rank - 2 : static_cast<int>(a.kernel.size());
  g.batched = a.layout == Layout::kChannelsLast || rank != spatial + 1;
  const int lead = g.batched ? 2 : 1;
  if (rank < 2 || spatial < 0 || rank != spatial + lead)
    return InvalidModel("the input of pooling has rank ", rank, ", ", spatial + 2, " expected for a window of ",
                        spatial, " dimensions");
  const bool first = a.layout == Layout::kChannelsFirst;
  g.batch = g.batched ? x[0] : 1;
  g.channels = x[first ? lead - 1 : rank - 1];
  g.window.rank = spatial;
  const int at = first ? lead : 1;
  for (int i = 0; i < spatial; ++i) {
    WindowDim& d = g.window.dims[static_cast<size_t>(i)];
    d.in = x[at + i];
    d.kernel = a.global ? d.in : a.kernel[static_cast<size_t>(i)];
    if (!a.global && d.kernel < 1) return InvalidModel("a pooling window of size ", d.kernel);
  }
  if (a.global) {
    for (int i = 0; i < spatial; ++i) {
      WindowDim& d = g.window.dims[static_cast<size_t>(i)];
      if (d.in == 0) return InvalidInput("pooling over an empty image");
      d.out = 1;
    }
  } else {
    SMELT_TRY(set_window(g.window, a.strides, a.dilations, a.pads));
    SMELT_TRY(check_taps(g.window));
    SMELT_TRY(slide_window(g.window, a.auto_pad, a.ceil_mode));
  }
  g.output = x;
  for (int i = 0; i < spatial; ++i) g.output[at + i] = g.window.dims[static_cast<size_t>(i)].out;
  return g;
}

}  // namespace smelt
