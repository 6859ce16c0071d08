#include "ops/common/index.h"

#include <algorithm>

#include "base/error.h"

namespace smelt {

Result<int> normalize_axis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) return InvalidInput("axis ", axis, " is out of range for rank ", rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Result<std::vector<int>> normalize_axes(std::span<const int64_t> axes, int rank) {
  std::vector<int> out;
  for (int64_t a : axes) {
    SMELT_ASSIGN(const int axis, normalize_axis(a, rank));
    out.push_back(axis);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace smelt
