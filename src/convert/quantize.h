#pragma once

#include <map>
#include <string>
#include <vector>

#include "convert/calibrate.h"
#include "graph/graph.h"

namespace smelt::convert {

struct QuantizeOptions {
  bool int8 = false;                    ///< convolutions, products and what lies between them in int8
  int64_t int4_block = 0;               ///< weights of products in int4, this many a scale; 0: not
  std::vector<std::string> keep_float;  ///< parts of names of nodes or operators that stay as they are
  RangeRule rule = RangeRule::kMinMax;
  std::vector<std::vector<Datum>> calibration = {};  ///< inputs of calibration runs; int8 needs one at least
};

/// Quantizes the first method's graph of a float32 model. Activations are asymmetric int8, weights symmetric with a
/// scale for each output channel, biases int32. Inputs and outputs stay float32. Values that no calibrated range is
/// known for stay float32.
Status quantize(Module& module, const QuantizeOptions& options);

}  // namespace smelt::convert
