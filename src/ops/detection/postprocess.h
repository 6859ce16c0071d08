#pragma once

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

/// Decodes the boxes, selects among them and writes the node's outputs. Fails for a box without area.
Status detect(KernelContext& ctx, const DetectionAttrs& a, const DetectionInputs& in);

}  // namespace smelt
