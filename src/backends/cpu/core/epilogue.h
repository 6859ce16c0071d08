#pragma once

#include <cstdint>

#include "backends/cpu/core/isa.h"
#include "ops/core/node_spec.h"
#include "ops/core/op.h"

namespace smelt {

/// The parameters of a function of one value, as far as it has any.
struct UnaryParameters {
  float a, b, c;
};
/// y = fn(x) for n neighbours; x may be y.
using UnaryVector = void (*)(const float* x, int64_t n, UnaryParameters p, float* y);

/// An elementwise float32 node that a kernel computes in place on each block of its output as soon as the block is
/// made, while the nearest cache holds it. Results equal those of the node's own kernel bit by bit.
struct EpilogueF32 {
  /// Where the other operand's element for an element of the output is.
  enum class Other : uint8_t {
    kScalar,      ///< one constant for all
    kLast,        ///< of a vector, by the last dimension
    kEverywhere,  ///< of a tensor of the output's shape
  };
  /// y[i] = clamp(fn(y[i], other[i]), lo, hi) for `rows` rows of `columns` elements: rows of y are `stride` apart,
  /// those of other `other_stride`. other_step: 0 if a row of other is one element, else 1.
  using Block = void (*)(float* y, int64_t stride, const float* other, int64_t other_stride, int64_t other_step,
                         int64_t rows, int64_t columns, float lo, float hi);
  Block block = nullptr;        ///< of two operands
  UnaryVector unary = nullptr;  ///< of one. Without either there is no epilogue.
  UnaryParameters parameters{};
  Other other = Other::kScalar;
  float scalar = 0;
  int input = 0;     ///< of the kernel's context: the other operand, unless it is kScalar
  int64_t last = 1;  ///< extent of the output's last dimension
  float lo = 0, hi = 0;

  explicit operator bool() const { return block || unary; }
  /// Becomes `other` unless it is an epilogue already. True: it did.
  bool take(const EpilogueF32& other) {
    if (*this) return false;
    *this = other;
    return true;
  }
  /// The epilogue for a node whose input `operand` a kernel makes; `input`: of the kernel's context, its other operand.
  /// False where the node is none.
  static EpilogueF32 make(const NodeSpec& node, size_t operand, int input, Isa isa);
  static EpilogueF32 of_binary(const NodeSpec& node, size_t operand, int input, Isa isa);
  static EpilogueF32 of_unary(const NodeSpec& node, Isa isa);
};

/// Asks for two cache lines of each of `rows` rows, `stride` floats apart, which a tile is about to read or to write.
inline void prefetch_tile(const float* p, int64_t rows, int64_t stride) {
  constexpr int64_t kLine = 16;  // floats
  for (int64_t r = 0; r < rows; ++r, p += stride) {
    __builtin_prefetch(p, 1);
    __builtin_prefetch(p + kLine, 1);
  }
}

/// An epilogue with the operands of one run.
class EpilogueRun {
 public:
  EpilogueRun(const EpilogueF32& e, KernelContext& ctx) : e_(e) {
    if (!e) return;
    y_ = ctx.output(0).data<float>();
    other_ = e.unary || e.other == EpilogueF32::Other::kScalar ? &e_.scalar : ctx.input(e.input).data<float>();
  }
  /// On rows that lie from y on, not in the output. Precondition: not kEverywhere.
  EpilogueRun(const EpilogueF32& e, KernelContext& ctx, float* y) : e_(e), y_(y) {
    if (e) other_ = e.block && e.other == EpilogueF32::Other::kLast ? ctx.input(e.input).data<float>() : &e_.scalar;
  }
  explicit operator bool() const { return static_cast<bool>(e_); }
  /// Computes a block of the output: `rows` rows of `columns` elements from y on, `stride` apart. kLast: a row is part
  /// of one line of the last dimension.
  void operator()(float* y, int64_t rows, int64_t columns, int64_t stride) const {
    using Other = EpilogueF32::Other;
    if (e_.unary) return of_unary(y, rows, columns, stride);
    const int64_t at = y - y_;
    const float* other = other_ + (e_.other == Other::kEverywhere ? at : e_.other == Other::kLast ? at % e_.last : 0);
    e_.block(y, stride, other, e_.other == Other::kEverywhere ? stride : 0, e_.other == Other::kScalar ? 0 : 1, rows,
             columns, e_.lo, e_.hi);
  }

  /// Asks for what a tile will need: a few columns of rows that lie far apart, which no hardware foresees.
  void prefetch(const float* y, int64_t rows, int64_t stride) const {
    if (!e_.block || e_.other != EpilogueF32::Other::kEverywhere) return;
    prefetch_tile(other_ + (y - y_), rows, stride);
  }

 private:
  void of_unary(float* y, int64_t rows, int64_t columns, int64_t stride) const {
    if (stride == columns) return e_.unary(y, rows * columns, e_.parameters, y);
    for (int64_t r = 0; r < rows; ++r, y += stride) e_.unary(y, columns, e_.parameters, y);
  }
  EpilogueF32 e_;
  float* y_ = nullptr;
  const float* other_ = nullptr;
};

}  // namespace smelt
