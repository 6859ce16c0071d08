#pragma once
#include <string>

#include "cli/json.h"
#include "compare/compare.h"
#include "compare/quantization.h"

namespace smelt::cli {

/// A comparison and its two sides, in the roles that the comparison gave them.
struct DiffResult {
  const Side& first;
  const Side& second;
  const Comparison& comparison;
};

/// Everything that was measured, as docs/schemas/diff.json says.
Json diff_json(const DiffResult& result);
/// What departs first, why, further layers with an error of their own, and the outputs.
void print_diff(const DiffResult& result);
/// A page of its own that shows both graphs side by side, coloured by error. Precondition: histograms were made.
std::string diff_page(const DiffResult& result);

Json quantization_json(const Side& real, const Side& quantized, const QuantizationReport& report);
void print_quantization(const Side& real, const QuantizationReport& report);

}  // namespace smelt::cli
