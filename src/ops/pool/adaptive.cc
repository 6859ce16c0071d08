#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/common/operands.h"
#include "ops/pool/pool.h"

namespace smelt {
namespace {

/// Dimensions of x behind the batch and channels: the spatial ones.
struct AdaptiveGeometry {
  int rank = 0, first = 0;
  int64_t outer = 1, inner = 1;  ///< elements before and behind the spatial dimensions
  Shape output;
};

Result<AdaptiveGeometry> adaptive_geometry(const AdaptivePoolAttrs& a, const Shape& x) {
  AdaptiveGeometry g;
  g.rank = static_cast<int>(a.output.size());
  g.first = a.layout == Layout::kChannelsFirst ? x.rank() - g.rank : x.rank() - g.rank - 1;
  if (g.first < 0 || g.rank < 1)
    return InvalidModel("the input of adaptive pooling has rank ", x.rank(), ", too few for ", g.rank,
                        " spatial dimensions");
  g.output = x;
  for (int i = 0; i < g.rank; ++i) {
    const int64_t size = a.output[static_cast<size_t>(i)];
    if (size < 0) return InvalidModel("adaptive pooling to size ", size);
    g.output[g.first + i] = size;
  }
  for (int i = 0; i < x.rank(); ++i) {
    if (i < g.first) g.outer *= x[i];
    if (i >= g.first + g.rank) g.inner *= x[i];
  }
  return g;
}

template <class T>
Status adaptive(KernelContext& ctx, const AdaptivePoolAttrs& a, const AdaptiveGeometry& g) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(const T* const xs, operand<T>(ctx, x));
  SMELT_ASSIGN(T* const ys, scratch_array<T>(ctx, y.elements()));
  uint64_t* indices = nullptr;
  if (ctx.wants(1)) {
    SMELT_ASSIGN(indices, scratch_array<uint64_t>(ctx, y.elements()));
  }
  int64_t in_plane = 1, out_plane = 1;
  for (int i = 0; i < g.rank; ++i) {
    in_plane *= x.dim(g.first + i);
    out_plane *= y.dim(g.first + i);
  }
  const bool max = a.kind == PoolKind::kMax;
  for (int64_t o = 0; o < out_plane; ++o) {
    SMELT_TRY(ctx.tick());
    std::array<int64_t, Shape::kMaxRank> begin{}, end{}, at{};
    int64_t rest = o, window = 1;
    for (int i = g.rank - 1; i >= 0; --i) {
      const auto d = static_cast<size_t>(i);
      const int64_t in = x.dim(g.first + i), out = y.dim(g.first + i), p = rest % out;
      rest /= out;
      begin[d] = p * in / out;
      end[d] = std::min(in, ((p + 1) * in + out - 1) / out);
      window *= end[d] - begin[d];
    }
    for (int64_t outer = 0; outer < g.outer; ++outer)
      for (int64_t inner = 0; inner < g.inner; ++inner) {
        double sum = 0;
        T best = -std::numeric_limits<T>::infinity();
        int64_t winner = -1;
        at = begin;
        for (int64_t k = 0; k < window; ++k) {
          int64_t index = 0;
          for (int i = 0; i < g.rank; ++i) index = index * x.dim(g.first + i) + at[static_cast<size_t>(i)];
          const T v = xs[(outer * in_plane + index) * g.inner + inner];
          sum += static_cast<double>(v);
          if (winner < 0 || v > best || std::isnan(v)) {
            best = v;
            winner = index;
          }
          for (int i = g.rank - 1; i >= 0; --i) {
            const auto d = static_cast<size_t>(i);
            if (++at[d] < end[d]) break;
            at[d] = begin[d];
          }
        }
        const int64_t to = (outer * out_plane + o) * g.inner + inner;
        ys[to] = max ? best : static_cast<T>(sum / static_cast<double>(window));
        if (indices) indices[to] = static_cast<uint64_t>(std::max<int64_t>(winner, 0));
      }
  }
  store(ys, y);
  if (indices) store(indices, ctx.output(1));
  return Ok();
}

}  // namespace

Status infer_AdaptivePool(InferContext& ctx) {
  const auto& a = ctx.attrs<AdaptivePoolAttrs>();
  const ValueType& x = ctx.input(0);
  ValueType y = ValueType::tensor(x.dtype), index = ValueType::tensor(DType::kI64);
  if (x.ranked) {
    SMELT_ASSIGN(const AdaptiveGeometry g, adaptive_geometry(a, x.shape));
    y.ranked = index.ranked = true;
    y.shape = index.shape = g.output;
  }
  ctx.set(0, std::move(y));
  ctx.set(1, std::move(index));
  return Ok();
}

Status reference_AdaptivePool(KernelContext& ctx) {
  const auto& a = ctx.attrs<AdaptivePoolAttrs>();
  SMELT_ASSIGN(const AdaptiveGeometry g, adaptive_geometry(a, ctx.input(0).shape()));
  if (a.kind == PoolKind::kLp) return Unsupported("adaptive pooling takes the mean or the maximum");
  return ctx.input(0).dtype() == DType::kF64 ? adaptive<double>(ctx, a, g) : adaptive<float>(ctx, a, g);
}

}  // namespace smelt
