#include "backends/cpu/copy/transpose_bytes.h"

#include <algorithm>

namespace smelt {

void transpose_bytes(ThreadPool& pool, const uint8_t* in, int64_t rows, int64_t columns, uint8_t* out) {
  constexpr int64_t kTile = 32;
  pool.parallel_for((columns + kTile - 1) / kTile, 16, [&](int64_t begin, int64_t end) {
    for (int64_t c0 = begin * kTile; c0 < std::min(columns, end * kTile); c0 += kTile)
      for (int64_t r0 = 0; r0 < rows; r0 += kTile)
        for (int64_t c = c0; c < std::min(columns, c0 + kTile); ++c)
          for (int64_t r = r0; r < std::min(rows, r0 + kTile); ++r) out[c * rows + r] = in[r * columns + c];
  });
}

}  // namespace smelt
