#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compare/compare.h"

namespace smelt {

/// What quantization does to one layer: the nodes that make one value of the float model.
struct QuantizedLayer {
  ValueId real = kNoValue;       ///< in the float model's graph
  ValueId quantized = kNoValue;  ///< in the graph of simulated()
  double sqnr = 0;               ///< dB, of the whole runs
  double own_sqnr = 0;           ///< dB, the layer alone, on the float model's operands
  double saturated = 0;          ///< part of the quantized values at an end of their range
  double clipped = 0;            ///< part of the float model's values outside the range
  double remaining = 0;          ///< relative error of the outputs when this layer alone is computed in float
};

struct QuantizationReport {
  double error = 0;                    ///< relative error of the outputs
  double sqnr = 0;                     ///< dB, of the outputs
  std::vector<QuantizedLayer> layers;  ///< in the order of the run
  std::vector<int> ranking;            ///< indices of layers: what keeping in float gains most comes first
  size_t unpaired = 0;                 ///< values of the quantized model that go with none of the float model
};

/// The graph with quantized values as float32, each rounded by a Quantize and a Dequantize behind the node that makes
/// it, so that a layer can be kept from rounding. Nodes that move values or keep their quantization round nothing.
Result<std::shared_ptr<const Module>> simulated(const Module& module, int graph);

/// Measures what each layer's quantization costs, summed over the draws. `progress` is told layers done and their
/// number. An error if the models' inputs or outputs do not go together.
Result<QuantizationReport> compare_quantized(Side& real, const Side& quantized, const std::vector<Draw>& draws,
                                             const SideOptions& options,
                                             const std::function<void(size_t, size_t)>& progress);

}  // namespace smelt
