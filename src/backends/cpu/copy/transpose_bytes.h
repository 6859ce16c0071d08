#pragma once

#include <cstdint>

#include "base/thread_pool.h"

namespace smelt {

/// [rows][columns] -> [columns][rows].
void transpose_bytes(ThreadPool& pool, const uint8_t* in, int64_t rows, int64_t columns, uint8_t* out);

}  // namespace smelt
