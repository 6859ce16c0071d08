#pragma once

#include <string>
#include <vector>

#include "cli/dimensions.h"
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
/// Unknown dimensions take their size from `dimensions`, else 1 image of 224 x 224.
Result<Datum> image_input(const Model& model, const std::string& method, int index, const ImageOptions& options,
                          const DimensionOptions& dimensions);

/// True for scores of one image: [C], [1, C], or these with dimensions of 1 around C, where C > 1.
bool is_classification(const Datum& output);

/// Lines of a label file; the model's own labels when `file` is empty (none: an empty list).
Result<std::vector<std::string>> read_labels(const Model& model, const std::string& file);

struct ClassScore {
  int64_t index = 0;
  float score = 0;
  std::string label;  ///< empty where the list has none
};
/// The `top` largest scores, the largest first.
std::vector<ClassScore> top_classes(const Tensor& scores, const std::vector<std::string>& labels, int top);

}  // namespace smelt::cli
