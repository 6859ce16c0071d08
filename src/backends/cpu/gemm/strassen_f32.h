#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "backends/cpu/core/isa.h"
#include "backends/cpu/core/row_spacing.h"
#include "backends/cpu/gemm/gemm_f32.h"
#include "base/checked.h"
#include "base/error.h"

namespace smelt {

/// Where float32 products with constant matrices are made by Strassen's algorithm.
enum class StrassenSetting : uint8_t { kNever, kWhereItGains, kWhereItCan };

/// The setting of that name: 0, 1 (also without a name) or always. Fails on another one.
Result<StrassenSetting> strassen_setting_named(const char* name);
/// The setting that SMELT_CPU_STRASSEN names. Session::create() reports its error.
Result<StrassenSetting> strassen_setting();

/// Rows of numbers, `stride` floats apart; 0: all are the same one.
struct StrassenRows {
  float* first;
  ptrdiff_t stride = 0;
};

/// A product of halves, for all its tiles: to = begin + start + product; also = to + addend + also_start. What is made
/// last lies within [lo, hi].
struct StrassenStep {
  const float *b, *subtrahend;  ///< rows of panels; the right operand is b - subtrahend, or b where that is null
  float* difference;            ///< where the first tile leaves it for those that follow
  ptrdiff_t k, a_stride;        ///< floats of a row of the left operand, even; from a row to the next one
  StrassenRows begin, start, to;
  StrassenRows addend, also_start, also;  ///< also of stride 0: there is none
  float lo, hi;
  ptrdiff_t ahead_step;  ///< bytes by which the prefetches advance with two floats of K
};

/// What a level has for StrassenF32.
struct StrassenKernels {
  /// One tile. a: its rows of the left operand; row: its first one; ahead: memory that is needed soon.
  using Tile = void (*)(const StrassenStep& step, const float* a, ptrdiff_t row, const char* ahead);
  /// Left operands for row i of the upper and of the lower half of a, `half` floats of both halves of K, in the order
  /// of StrassenF32::kOperands, `stride` floats apart. largest: magnitudes in both rows; infinite where one holds an
  /// infinity or NaN.
  using Operands = void (*)(const float* upper, const float* lower, int64_t half, float* operands, int64_t stride,
                            float largest[2]);
  /// largest[j]: magnitude in column j of a panel of k rows; infinite where it holds an infinity or NaN.
  using LargestOfColumns = void (*)(const float* panel, int64_t k, float* largest);
  int64_t lowest = 0;                          ///< rows of the lowest tile; 0: the level has none
  int64_t least_rows = 0, least_share = 0;     ///< a gain: rows, and n k / (n + k), at least
  Tile of_b[14] = {}, of_difference[14] = {};  ///< [rows - 1]; the latter makes the difference of a step
  Operands operands = nullptr;
  LargestOfColumns largest_of_columns = nullptr;
};

const StrassenKernels& strassen_kernels(Isa isa);

/// Rows times a constant matrix by Strassen's algorithm in Winograd's form: seven products of halves in place of eight.
/// It is applied once, to blocks of rows (halves: the upper and the lower rows), parts of K (halves: the first and the
/// second ones) and pairs of neighbouring panels of b.
///
/// Error: with u = 2^-24, A the largest |a| of the row and of the row that it is paired with, B likewise of columns,
/// and q parts of K, a result is within u (2 k + 10 q) (9 k A B + |bias|) of the exact one. Paired rows and columns
/// whose largest magnitudes differ by more than kUneven, and what is not finite, are multiplied as defined: no small
/// row takes an error from a large one, and no infinity or NaN reaches another row.
/// So are pairs of panels of the same columns: networks of one constant weight have ties.
class StrassenF32 {
 public:
  static constexpr float kUneven = 16;

  /// Rows and columns of a product that one thread makes.
  struct Task {
    int64_t rows, columns;
  };

  /// For rows of k elements and n columns, which threads share as such tasks. Null where the setting does not ask for
  /// it, the level has no tiles, sums keep one order, or k does not divide into halves.
  static std::unique_ptr<StrassenF32> make(StrassenSetting setting, const GemmF32& gemm, Isa isa, Task task, int64_t n,
                                           int64_t k);
  /// Scratch of a run.
  int64_t scratch_floats() const { return operands_floats() + 2 * half_ * gemm_.nr() + rows_ * gemm_.nr(); }
  /// As GemmF32::run() without a row bias.
  void run(int64_t m, const float* a, int64_t lda, const float* packed, int64_t first, int64_t last, float* c,
           int64_t ldc, float lo, float hi, const EpilogueRun* epilogue, float* scratch) const;

 private:
  static constexpr int64_t kOperands = 7;  ///< A21 + A22 = S1, A11, A12, S1 - A11 = S2, A11 - A21, A22, A12 - S2
  /// What is known of pairs of panels: kUnknown until the first run that needs it.
  enum Evenness : uint8_t { kUnknown, kEven, kNotEven };
  struct Block;
  StrassenF32(const GemmF32& gemm, const StrassenKernels& kernels, int64_t n, int64_t k, int64_t rows);
  int64_t operands_floats() const { return round_up(kOperands * apart<float>(half_) * (rows_ / 2), int64_t{16}); }
  int64_t height(int64_t rows) const;
  std::atomic<Evenness>& evenness(int64_t panel) const { return evenness_[static_cast<size_t>(panel / 2)]; }
  bool are_even(const float* packed, int64_t panel) const;
  void times_pair(const Block& block, const float* packed, int64_t panel) const;
  void as_defined(const Block& block, const float* packed, int64_t panel, int64_t row, int64_t rows) const;
  void times_even_pairs(const GemmStrips& strip, const float* packed, int64_t first, int64_t last, float lo, float hi,
                        float* scratch) const;

  const GemmF32& gemm_;
  const StrassenKernels& kernels_;
  int64_t n_, k_;
  int64_t rows_;  ///< of the largest block
  int64_t half_;  ///< of the longest part of K
  std::unique_ptr<std::atomic<Evenness>[]> evenness_;
};

}  // namespace smelt
