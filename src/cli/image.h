#pragma once

#include <string>
#include <vector>

#include "smelt/model.h"

namespace smelt::cli {

struct ImageOptions {
  std::string file;
  std::vector<float> mean,
      std;  ///< real = (pixel - mean) / std for pixels 0..255, one entry or one a channel; empty: from the model
};

/// Decodes a PNG or JPEG (BMP, TGA, PNM too) and fits it to input `index`: channels, size, layout, element type,
/// quantization. Normalization is the options', else the TFLite metadata's, else [0, 1] for floats and the stored range
/// for integers.
Result<Datum> image_input(const Model& model, const std::string& method, int index, const ImageOptions& options);

/// Lines of a label file; the model's own labels when `file` is empty (none: an empty list).
Result<std::vector<std::string>> read_labels(const Model& model, const std::string& file);

/// The `top` largest scores as a table: rank, score, label.
std::string top_classes(const Tensor& scores, const std::vector<std::string>& labels, int top);

}  // namespace smelt::cli
