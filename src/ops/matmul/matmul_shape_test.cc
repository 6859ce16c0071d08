#include "ops/matmul/matmul_shape.h"

#include <gtest/gtest.h>

namespace smelt {
namespace {

/// Tasks make each element once, and none has more tiles than whole tiles of the rows would give it.
TEST(SplitProduct, SharesRowsEvenly) {
  constexpr int64_t kTall = 14;
  for (const int64_t rows : {1, 13, 14, 28, 29, 100, 126, 128, 197})
    for (const int64_t panels : {1, 3, 8, 40})
      for (const int64_t tasks : {1, 2, 3, 8}) {
        int64_t made = 0, next = 0;
        for (int64_t task = 0; task < tasks; ++task)
          split_product(rows, kTall, panels, task, tasks, [&](int64_t r0, int64_t r1, int64_t p0, int64_t p1) {
            made += (r1 - r0) * (p1 - p0);
            const bool by_rows = p0 == 0 && p1 == panels;
            if (!by_rows) return;
            EXPECT_EQ(r0, next);
            next = r1;
            const int64_t tiles = (rows + kTall - 1) / kTall, most = (tiles + tasks - 1) / tasks;
            EXPECT_LE(r1 - r0, most * kTall);
            EXPECT_LE(r1 - r0, tiles >= tasks ? rows / tasks + 1 : kTall);
          });
        EXPECT_EQ(made, rows * panels) << rows << " rows, " << panels << " panels, " << tasks << " tasks";
      }
}

}  // namespace
}  // namespace smelt
