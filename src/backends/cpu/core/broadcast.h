#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "ops/core/op.h"

namespace smelt {

/// Short rows of an operand: `row` elements from one to the next (0: all rows are one), `step` within one.
struct ShortRows {
  const char* from;
  int64_t row, step, inner, size;  ///< elements of a row, bytes of an element
};

/// Short rows as long ones: several rows at a time are written out where they do not lie together.
class LongRows {
 public:
  static constexpr int64_t kBytes = 4096;  ///< of the rows that go together, at most

  explicit LongRows(const ShortRows& rows) : rows_(rows) {}
  /// The elements of `count` rows from `first` on, without gaps. Valid until the next call. A call for the first rows
  /// comes first and asks for at least as many as any other.
  const void* operator()(int64_t first, int64_t count);

 private:
  ShortRows rows_;
  alignas(64) char wide_[kBytes];
};

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

  /// Runs row(a, step of a, b, step of b, y, elements) over a node's operands and result, whose elements have `size`
  /// and `out_size` bytes. Steps are in elements, 0 or 1. Short rows go together, as long ones of step 1.
  template <class F>
  void each_row(KernelContext& ctx, int64_t size, int64_t out_size, const F& row) const {
    constexpr int64_t kGrain = 8192;
    const auto* a = static_cast<const char*>(ctx.input(0).raw());
    const auto* b = static_cast<const char*>(ctx.input(1).raw());
    auto* y = static_cast<char*>(ctx.output(0).raw());
    if (!narrow(size))
      return each_row(ctx.threads(), kGrain, [&](int64_t at_a, int64_t at_b, int64_t at_y, int64_t n) {
        row(a + at_a * size, inner_a, b + at_b * size, inner_b, y + at_y * out_size, n);
      });
    const int last = rank - 1;
    const int64_t rows = dims[last], blocks = outer / rows, together = LongRows::kBytes / (inner * size);
    ctx.threads().parallel_for(blocks, std::max<int64_t>(1, kGrain / (rows * inner)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t at_a, at_b;
        at(i * rows, at_a, at_b);
        LongRows long_a({a + at_a * size, this->a[last], inner_a, inner, size}),
            long_b({b + at_b * size, this->b[last], inner_b, inner, size});
        for (int64_t first = 0; first < rows; first += together) {
          const int64_t n = std::min(together, rows - first);
          row(long_a(first, n), 1, long_b(first, n), 1, y + (i * rows + first) * inner * out_size, n * inner);
        }
      }
    });
  }

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

 private:
  /// True for rows of `size` bytes an element that are so short that several of them had better go together.
  bool narrow(int64_t size) const {
    constexpr int64_t kLine = 64, kLines = 16;  // bytes, and what pays where no operand is written out more than once
    if (rank == 0 || dims[rank - 1] < 4 || inner == 0) return false;
    const auto cheap = [&](int64_t row, int64_t step) { return row == 0 || (row == inner && step == 1); };
    const bool once = cheap(a[rank - 1], inner_a) && cheap(b[rank - 1], inner_b);
    return inner * size < (once ? kLines * kLine : kLine);
  }
};

}  // namespace smelt
