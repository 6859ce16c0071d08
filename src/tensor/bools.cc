#include "tensor/bools.h"

#include <algorithm>
#include <span>

#include "base/error.h"

namespace smelt {

Result<Tensor> normalize_bools(Tensor t) {
  if (t.dtype() != DType::kBool) return t;
  const std::span bytes(t.data<uint8_t>(), t.bytes());
  if (std::ranges::all_of(bytes, [](uint8_t b) { return b < 2; })) return t;
  SMELT_ASSIGN(Tensor copy, Tensor::allocate(DType::kBool, t.shape(), false));
  std::transform(bytes.begin(), bytes.end(), copy.data<uint8_t>(), [](uint8_t b) { return uint8_t{b != 0}; });
  return copy;
}

}  // namespace smelt
