#pragma once
#include <string>

#include "cli/dimensions.h"
#include "cli/json.h"
#include "formats/common/file_attributes.h"
#include "smelt/model.h"

namespace smelt::cli {

/// What a page shows beside the model.
struct PageOptions {
  bool optimised = false;                  ///< opens with the optimised graphs instead of the file's
  Json profile = nullptr;                  ///< of `smelt bench --profile`: colours nodes by time
  const FileAttributes* stated = nullptr;  ///< attributes of the file's operators, as describe_model() takes them
};

/// A self-contained HTML page of a model (page/): graphs laid out, as the file has them and as runs execute them;
/// search, node details, contents of constants, times. Reads the constants. `on` and `sizes` as describe_model() has
/// them. An error when the profile has nodes that the optimised model lacks.
Result<std::string> inspect_page(const Model& model, const SessionOptions& on, const DimensionOptions& sizes,
                                 const PageOptions& options);

}  // namespace smelt::cli
