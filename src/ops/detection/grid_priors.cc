#include "base/checked.h"
#include "ops/core/op.h"
#include "ops/detection/detection.h"
#include "tensor/numeric.h"

namespace smelt {

Status infer_GridPriors(InferContext& c) {
  const ValueType& x = c.input(0);
  ValueType out = ValueType::tensor(x.dtype, Shape{-1, 2});
  if (x.ranked) {
    const int rank = x.shape.rank();
    if (rank < 2) return InvalidModel("grid priors of a tensor of rank ", rank);
    const int64_t h = x.shape[rank - 2], w = x.shape[rank - 1];
    if (h >= 0 && w >= 0) {
      const auto cells = checked_mul(h, w);
      if (!cells) return LimitReached("a grid of ", h, " x ", w, " cells is too large");
      out.shape[0] = *cells;
    }
  }
  c.set(0, std::move(out));
  return Ok();
}

Status reference_GridPriors(KernelContext& c) {
  const auto& a = c.attrs<GridPriorsAttrs>();
  const Tensor& x = c.input(0);
  Tensor& out = c.output(0);
  const int64_t h = x.dim(x.rank() - 2), w = x.dim(x.rank() - 1);
  const auto centre = [&](int64_t i) { return (static_cast<double>(i) + a.offset) * static_cast<double>(a.stride); };
  for (int64_t y = 0; y < h; ++y)
    for (int64_t i = 0; i < w; ++i) {
      set_double(out, 2 * (y * w + i), centre(i));
      set_double(out, 2 * (y * w + i) + 1, centre(y));
    }
  return Ok();
}

}  // namespace smelt
