#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/core/op.h"
#include "ops/detection/detection.h"

namespace smelt {

/// The operands of a DetectionPostprocess node as real numbers.
struct DetectionInputs {
  const float* codes;    ///< [boxes, width]: the first four encode a box
  const float* scores;   ///< [boxes, columns]: one a class, and one in front for the background where there is one more
  const float* anchors;  ///< [boxes, 4]
  int64_t boxes, width, columns;
};

/// Bytes of memory that detect() works in, for so many boxes; never 0.
size_t detection_bytes(const DetectionAttrs& a, int64_t boxes);
/// Decodes the boxes, selects among them and writes the node's outputs. `memory`: detection_bytes() of them, aligned to
/// 16 bytes. Fails for a box without area.
Status detect(KernelContext& ctx, const DetectionAttrs& a, const DetectionInputs& in, std::byte* memory);

}  // namespace smelt
