#include "ops/common/broadcast.h"

#include <algorithm>

#include "base/error.h"

namespace smelt {

Result<Shape> broadcast_shapes(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape out = Shape::of_rank(rank, 1);
  for (int i = 1; i <= rank; ++i) {
    const int64_t x = i <= a.rank() ? a[a.rank() - i] : 1, y = i <= b.rank() ? b[b.rank() - i] : 1;
    int64_t d;
    if (x == y || y == 1) {
      d = x;
    } else if (x == 1) {
      d = y;
    } else if (x < 0 || y < 0) {
      d = std::max(x, y);
    } else {
      return InvalidInput("shapes ", a.str(), " and ", b.str(), " do not broadcast");
    }
    out[rank - i] = d;
  }
  return out;
}

Result<Shape> broadcast_shapes(std::span<const Shape> shapes) {
  Shape out;
  for (const Shape& s : shapes) {
    SMELT_ASSIGN(out, broadcast_shapes(out, s));
  }
  return out;
}

}  // namespace smelt
