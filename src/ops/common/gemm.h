#pragma once

#include <algorithm>
#include <cstdint>

namespace smelt {

/// Elements that a product takes at a time: four of float32, in code that is compiled for size too.
template <class T>
struct GemmStep {
  using Type = T;
};
template <>
struct GemmStep<float> {
  using Type [[gnu::vector_size(16), gnu::aligned(4), gnu::may_alias]] = float;
};

/// C [m, n] += A [m, k] * B [k, n], row-major with the given leading dimensions. Sums run in blocks of k, so float
/// errors grow slower than with one long sum.
template <class T>
void gemm_accumulate(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c,
                     int64_t ldc) {
  constexpr int64_t kRows = 4, kColumns = 16, kDepth = 256;
  for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
    const int64_t depth = std::min(kDepth, k - k0);
    for (int64_t j = 0; j < n; j += kColumns) {
      const int64_t columns = std::min(kColumns, n - j);
      for (int64_t i = 0; i < m; i += kRows) {
        const int64_t rows = std::min(kRows, m - i);
        T acc[kRows][kColumns] = {};
        const T* bp = b + k0 * ldb + j;
        if (rows == kRows && columns == kColumns) {
          const T *a0 = a + i * lda + k0, *a1 = a0 + lda, *a2 = a1 + lda, *a3 = a2 + lda;
          using Step = typename GemmStep<T>::Type;
          constexpr int64_t kStep = sizeof(Step) / sizeof(T);
          const auto add = [](T* to, T v, const Step& values) { *reinterpret_cast<Step*>(to) += v * values; };
          for (int64_t kk = 0; kk < depth; ++kk, bp += ldb) {
            const T v0 = a0[kk], v1 = a1[kk], v2 = a2[kk], v3 = a3[kk];
            for (int64_t jj = 0; jj < kColumns; jj += kStep) {
              const Step& values = *reinterpret_cast<const Step*>(bp + jj);
              add(acc[0] + jj, v0, values);
              add(acc[1] + jj, v1, values);
              add(acc[2] + jj, v2, values);
              add(acc[3] + jj, v3, values);
            }
          }
        } else if (columns == kColumns) {
          for (int64_t kk = 0; kk < depth; ++kk, bp += ldb)
            for (int64_t ii = 0; ii < rows; ++ii) {
              const T v = a[(i + ii) * lda + k0 + kk];
              for (int64_t jj = 0; jj < kColumns; ++jj) acc[ii][jj] += v * bp[jj];
            }
        } else {
          for (int64_t kk = 0; kk < depth; ++kk, bp += ldb)
            for (int64_t ii = 0; ii < rows; ++ii) {
              const T v = a[(i + ii) * lda + k0 + kk];
              for (int64_t jj = 0; jj < columns; ++jj) acc[ii][jj] += v * bp[jj];
            }
        }
        for (int64_t ii = 0; ii < rows; ++ii)
          for (int64_t jj = 0; jj < columns; ++jj) c[(i + ii) * ldc + j + jj] += acc[ii][jj];
      }
    }
  }
}

}  // namespace smelt
