#pragma once

#include <cstdint>

namespace smelt {

/// The end of a slice as ONNX counts: the largest integers stand for "to the last entry" in either direction.
inline int64_t slice_end(int64_t end, int64_t step) {
  return step < 0 && (end == INT32_MAX || end == INT64_MAX) ? INT64_MIN : end;
}

}  // namespace smelt
