#pragma once

#include <filesystem>
#include <vector>

#include "cli/verify_bundle.h"

namespace smelt::cli {

/// Runs the test sets of an ONNX test folder (model.onnx, test_data_set_N/input_K.pb and output_K.pb). Reals match by
/// |expected - got| <= atol + rtol * |expected|, everything else exactly. An error: the model or the data are broken.
Result<std::vector<SetResult>> run_onnx_case(const std::filesystem::path& folder, const SessionOptions& options,
                                             double rtol, double atol);

}  // namespace smelt::cli
