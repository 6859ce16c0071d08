#pragma once

#include "smelt/result.h"
#include "smelt/tensor.h"

namespace smelt {

/// `t`, or a copy of it where it holds bools whose bytes are neither 0 nor 1: those count as 1.
Result<Tensor> normalize_bools(Tensor t);

}  // namespace smelt
