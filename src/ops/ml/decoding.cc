// Helpers of sequence decoding.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/ml/ml.h"
#include "tensor/numeric.h"

namespace smelt {

Status infer_BanRepeatedNgrams(InferContext& ctx) {
  const ValueType &ids = ctx.input(0), &scores = ctx.input(1);
  if ((ids.ranked && ids.shape.rank() != 2) || (scores.ranked && scores.shape.rank() != 2))
    return InvalidModel("ids and scores must have rank 2");
  if (ids.ranked && scores.ranked && ids.shape[0] >= 0 && scores.shape[0] >= 0 && ids.shape[0] != scores.shape[0])
    return InvalidModel("ids have ", ids.shape[0], " rows, scores ", scores.shape[0]);
  ctx.set(0, scores);
  return Ok();
}

Status reference_BanRepeatedNgrams(KernelContext& ctx) {
  const int64_t size = ctx.attrs<NgramAttrs>().size;
  const Tensor &ids = ctx.input(0), &scores = ctx.input(1);
  Tensor& out = ctx.output(0);
  const int64_t n = ids.dim(1), vocabulary = scores.dim(1);
  for (int64_t i = 0; i < scores.elements(); ++i) set_double(out, i, get_double(scores, i));
  for (int64_t b = 0; b < ids.dim(0); ++b) {
    SMELT_TRY(ctx.tick());
    for (int64_t at = 0; at + size <= n; ++at) {
      bool same = true;
      for (int64_t k = 0; k + 1 < size && same; ++k)
        same = get_int(ids, b * n + at + k) == get_int(ids, b * n + n - size + 1 + k);
      if (!same) continue;
      const int64_t token = get_int(ids, b * n + at + size - 1);
      if (token < 0 || token >= vocabulary) return InvalidInput("token ", token, " is not in [0, ", vocabulary, ")");
      set_double(out, b * vocabulary + token, -INFINITY);
    }
  }
  return Ok();
}

Status infer_TimeWarp(InferContext& ctx) {
  const ValueType& x = ctx.input(0);
  if (x.ranked && x.shape.rank() != 2 && !(x.shape.rank() == 3 && (x.shape[0] == 1 || x.shape[0] < 0)))
    return InvalidModel("costs have shape ", x.shape.str(), ", [n, m] or [1, n, m] expected");
  ctx.set(0, ValueType::tensor(DType::kI32, Shape{2, -1}));
  return Ok();
}

Status reference_TimeWarp(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const int64_t rows = x.dim(x.rank() - 2), columns = x.dim(x.rank() - 1), width = columns + 1;
  if (rows < 1 || columns < 1) return InvalidInput("costs have shape ", x.shape().str());
  std::vector<double> cost(static_cast<size_t>((rows + 1) * width), INFINITY);
  enum Step : uint8_t { kBoth, kRow, kColumn };
  std::vector<uint8_t> step(cost.size(), kBoth);
  cost[0] = 0;
  for (int64_t i = 1; i <= rows; ++i) {
    for (int64_t j = 1; j <= columns; ++j) {
      const double both = cost[(i - 1) * width + j - 1], row = cost[(i - 1) * width + j],
                   column = cost[i * width + j - 1];
      const uint8_t s = both < row && both < column ? kBoth : row < both && row < column ? kRow : kColumn;
      step[i * width + j] = s;
      cost[i * width + j] = get_double(x, (i - 1) * columns + j - 1) + (s == kBoth ? both : s == kRow ? row : column);
    }
    SMELT_TRY(ctx.tick());
  }
  for (int64_t j = 0; j <= columns; ++j) step[j] = kColumn;
  for (int64_t i = 0; i <= rows; ++i) step[i * width] = kRow;
  std::vector<std::pair<int64_t, int64_t>> path;
  for (int64_t i = rows, j = columns; i > 0 || j > 0;) {
    path.emplace_back(i - 1, j - 1);
    const uint8_t s = step[i * width + j];
    if (s != kColumn) --i;
    if (s != kRow) --j;
  }
  std::reverse(path.begin(), path.end());
  const auto length = static_cast<int64_t>(path.size());
  SMELT_ASSIGN(Tensor * out, ctx.allocate(0, DType::kI32, Shape{2, length}));
  for (int64_t k = 0; k < length; ++k) {
    out->data<int32_t>()[k] = static_cast<int32_t>(path[k].first);
    out->data<int32_t>()[length + k] = static_cast<int32_t>(path[k].second);
  }
  return Ok();
}

}  // namespace smelt
