#pragma once

#include <cstdint>

#include "backends/cpu/core/isa.h"

namespace smelt {

/// The functions of ops/recurrent/fixed_cell.h on n values, equal to them bit by bit. x and y may be the same.
struct FixedCellOps {
  void (*logistic)(const int16_t* x, int64_t n, int integer_bits, int16_t* y);
  void (*tanh)(const int16_t* x, int64_t n, int integer_bits, int16_t* y);
};
FixedCellOps fixed_cell_ops(Isa isa);

}  // namespace smelt
