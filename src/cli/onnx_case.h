#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/common.h"
#include "cli/verify_bundle.h"

namespace smelt::cli {

/// One test_data_set_N of an ONNX test folder.
struct OnnxTestSet {
  std::string name;
  std::vector<Datum> inputs;  ///< in the model's order; none where the set has no file
  std::vector<Datum> wanted;  ///< may be fewer than the model's outputs
};
Result<std::vector<OnnxTestSet>> read_onnx_sets(const Model& model, const std::filesystem::path& folder);

/// Why a value is not the stored one, or nothing.
std::string mismatch(const Datum& want, const Datum& got, const CaseTolerance& tolerance);

/// Runs the test sets of an ONNX test folder (model.onnx, test_data_set_N/input_K.pb and output_K.pb). Reals match by
/// |expected - got| <= atol + rtol * |expected|, everything else exactly. Where the caller chose no tolerance it
/// follows the element type: rtol 1e-3 with atol 1e-7 for float64, 1e-5 for float32, 1e-3 for float16; 0.016 each for
/// bfloat16 (two steps); a float8 has to be equal. An error: the model or the data are broken.
Result<std::vector<SetResult>> run_onnx_case(const std::filesystem::path& folder, LoadOptions load,
                                             const SessionOptions& options, const CaseTolerance& tolerance);

}  // namespace smelt::cli
