#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/core/isa.h"
#include "base/thread_pool.h"
#include "ops/common/enums.h"

namespace smelt {

class EpilogueRun;

/// The product of one float32 row with a constant matrix whose columns stay where they lie one behind the other in a
/// model's file. Where columns begin with cache lines and caches hold the matrix, that is as fast as packed panels are,
/// and takes no time and no memory to pack.
class UnpackedBF32 {
 public:
  UnpackedBF32() = default;
  /// False where the n columns of k elements at `b` are to be packed.
  static bool suits(Isa isa, const std::byte* b, int64_t k, int64_t n);
  /// Precondition: suits().
  UnpackedBF32(Isa isa, int64_t k, int64_t n);

  explicit operator bool() const { return run_ != nullptr; }
  /// y = act(x columns + bias), then the epilogue; bias, epilogue: null for none. Threads share the columns.
  void run(ThreadPool& pool, const float* x, const float* columns, const float* bias, const Activation& act, float* y,
           const EpilogueRun* epilogue = nullptr) const;

 private:
  /// y[j] = clamp(x . column j + bias[j]) for n columns.
  using Run = void (*)(const float* columns, int64_t n, int64_t k, const float* x, const float* bias, float lo,
                       float hi, float* y);
  Run run_ = nullptr;  ///< nullptr: columns are packed
  int64_t k_ = 0, n_ = 0;
};

}  // namespace smelt
