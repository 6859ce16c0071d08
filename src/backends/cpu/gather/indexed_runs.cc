#include "backends/cpu/gather/indexed_runs.h"

#include <cstring>

#include "ops/common/index.h"

namespace smelt {
namespace {

template <size_t kUnit>
void replace_run(void* y, const void* updates, int64_t n) {
  if (n == 1)
    std::memcpy(y, updates, kUnit);
  else
    std::memcpy(y, updates, static_cast<size_t>(n) * kUnit);
}

}  // namespace

CombineRun replacing_run(int64_t unit) {
  switch (unit) {
    case 1:
      return replace_run<1>;
    case 2:
      return replace_run<2>;
    case 4:
      return replace_run<4>;
    case 8:
      return replace_run<8>;
    case 16:
      return replace_run<16>;
    default:
      return nullptr;
  }
}

[[gnu::cold]] TupleOffsets::TupleOffsets(const Shape& x, int first, int64_t tuple)
    : run_(product(x, first + static_cast<int>(tuple), x.rank())) {
  const Shape strides = x.strides();
  for (int d = first; d < first + static_cast<int>(tuple); ++d) {
    extents_.push_back(x[d]);
    strides_.push_back(strides[d]);
  }
}

}  // namespace smelt
