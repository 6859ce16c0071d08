#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "ops/core/op.h"

namespace smelt {

/// A broadcast of two operands as nested loops, dimensions merged where both operands allow. Strides are in elements,
/// 0 along a dimension that repeats; the innermost strides are 0 or 1.
struct BroadcastLoops {
  int rank = 0;  ///< of the outer loops
  int64_t dims[Shape::kMaxRank] = {}, a[Shape::kMaxRank] = {}, b[Shape::kMaxRank] = {};
  int64_t inner = 1, inner_a = 0, inner_b = 0;
  int64_t outer = 1;  ///< product of dims

  /// Precondition: x and y broadcast to out.
  static BroadcastLoops make(const Shape& x, const Shape& y, const Shape& out) {
    const int r = out.rank();
    int64_t d[Shape::kMaxRank], sa[Shape::kMaxRank], sb[Shape::kMaxRank];
    int n = 0;
    int64_t step_a = 1, step_b = 1;
    for (int i = r - 1; i >= 0; --i) {  // innermost first, merging on the way
      const int ia = i - (r - x.rank()), ib = i - (r - y.rank());
      const int64_t da = ia >= 0 ? x[ia] : 1, db = ib >= 0 ? y[ib] : 1;
      const int64_t ta = da == 1 ? 0 : step_a, tb = db == 1 ? 0 : step_b;
      step_a *= da;
      step_b *= db;
      if (out[i] == 1) continue;
      if (n > 0 && ta == sa[n - 1] * d[n - 1] && tb == sb[n - 1] * d[n - 1]) {
        d[n - 1] *= out[i];
        continue;
      }
      d[n] = out[i];
      sa[n] = ta;
      sb[n] = tb;
      ++n;
    }
    BroadcastLoops loops;
    if (n == 0) return loops;
    loops.inner = d[0];
    loops.inner_a = sa[0];
    loops.inner_b = sb[0];
    for (int i = n - 1; i >= 1; --i) {
      loops.dims[loops.rank] = d[i];
      loops.a[loops.rank] = sa[i];
      loops.b[loops.rank++] = sb[i];
      loops.outer *= d[i];
    }
    return loops;
  }

  /// Calls row(offset in a, offset in b, offset in the output, elements) for chunks of innermost rows, in several
  /// threads; a thread takes about `grain` elements at once.
  template <class F>
  void each_row(ThreadPool& threads, int64_t grain, const F& row) const {
    if (outer == 1) {
      threads.parallel_for(
          inner, grain, [&](int64_t begin, int64_t end) { row(begin * inner_a, begin * inner_b, begin, end - begin); });
      return;
    }
    const int64_t rows = std::max<int64_t>(1, grain / std::max<int64_t>(1, inner));
    threads.parallel_for(outer, rows, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t offset_a, offset_b;
        at(i, offset_a, offset_b);
        row(offset_a, offset_b, i * inner, inner);
      }
    });
  }

  /// Runs row(a, b, y, elements) over a node's operands and result, whose elements have `size` bytes.
  template <class F>
  void each_row(KernelContext& ctx, int64_t size, int64_t out_size, const F& row) const {
    constexpr int64_t kGrain = 8192;
    const auto* a = static_cast<const char*>(ctx.input(0).raw());
    const auto* b = static_cast<const char*>(ctx.input(1).raw());
    auto* y = static_cast<char*>(ctx.output(0).raw());
    each_row(ctx.threads(), kGrain, [&](int64_t at_a, int64_t at_b, int64_t at_y, int64_t n) {
      row(a + at_a * size, b + at_b * size, y + at_y * out_size, n);
    });
  }

  /// Rows so short that several of them had better go together, as each_block() hands them out.
  bool narrow() const { return rank >= 1 && inner < kNarrow && dims[rank - 1] >= 4; }
  /// Calls block(offset in a, offset in b, offset in the output) for each run of dims[rank - 1] rows. Precondition:
  /// narrow().
  template <class F>
  void each_block(ThreadPool& threads, int64_t grain, const F& block) const {
    const int64_t rows = dims[rank - 1], blocks = outer / rows;
    threads.parallel_for(blocks, std::max<int64_t>(1, grain / (rows * inner)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t offset_a, offset_b;
        at(i * rows, offset_a, offset_b);
        block(offset_a, offset_b, i * rows * inner);
      }
    });
  }
  static constexpr int64_t kNarrow = 16;

  /// Offsets of the operands at outer index i.
  void at(int64_t i, int64_t& offset_a, int64_t& offset_b) const {
    offset_a = offset_b = 0;
    for (int k = rank - 1; k >= 0; --k) {
      const int64_t at = i % dims[k];
      i /= dims[k];
      offset_a += at * a[k];
      offset_b += at * b[k];
    }
  }
};

}  // namespace smelt
