#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"

namespace smelt {

bool fits_int8(const std::vector<int16_t>& values);

/// [rows][columns] -> [columns][rows].
void transpose_bytes(ThreadPool& pool, const uint8_t* in, int64_t rows, int64_t columns, uint8_t* out);

}  // namespace smelt
