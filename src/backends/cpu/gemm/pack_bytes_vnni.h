#pragma once

#include <cstdint>

#include "backends/cpu/gemm/gemm_i8.h"

namespace smelt {

/// A matrix b of bytes that a run computes: element (i, j) lies at data[i * row_stride + j * column_stride]. One of the
/// strides is 1.
struct BytesOfB {
  const uint8_t* data = nullptr;
  int64_t row_stride = 1, column_stride = 1;
  int64_t k = 0, n = 0;
  bool is_signed = true;  ///< else uint8, which the packed form counts from 128
};

// By AVX-512 VNNI, for gemm_i8() of that level.

/// GemmI8::pack() in the byte form: `a_zero` is subtracted from every element of a, nothing from b.
void pack_bytes_vnni(const GemmI8& gemm, const BytesOfB& b, int32_t a_zero, void* packed);
/// The sum of n bytes, int8 or uint8.
int32_t sum_bytes_vnni(const uint8_t* x, int64_t n, bool is_signed);
/// Adds addends[r] to the n accumulators of row r, and to those up to the next multiple of 16: rows `stride` apart.
void add_to_rows_vnni(const int32_t* addends, int64_t rows, int64_t stride, int64_t n, int32_t* acc);

}  // namespace smelt
