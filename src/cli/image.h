#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/dimensions.h"
#include "smelt/model.h"

namespace smelt::cli {

struct ImageOptions {
  std::vector<std::string> files;  ///< pictures, or folders of them
  std::vector<float> mean,
      std;  ///< real = (pixel - mean) / std for pixels 0..255, one entry or one a channel; empty: from the model
};

/// A decoded picture of interleaved red, green and blue.
struct Picture {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;
};
Result<Picture> read_picture(const std::string& path);
/// Writes a PNG, to standard output for "-". The file appears whole or not at all.
Status write_png(const std::string& path, const Picture& picture);

/// The files of the options, those of a folder (PNG, JPEG, BMP, TGA, PNM) by name. An error for a folder without any.
Result<std::vector<std::string>> picture_files(const ImageOptions& options);

/// Number of pictures that input `index` takes at once: its first dimension, 1 where that is open.
Result<size_t> batch_size(const Model& model, const std::string& method, int index, const DimensionOptions& dimensions);

/// Decodes PNG or JPEG files (BMP, TGA, PNM too), as many as batch_size() at most, and fits them to input `index`:
/// channels, size, layout, element type, quantization; zeros follow where there are fewer. Normalization is the
/// options', else the TFLite metadata's, else [0, 1] for floats and the stored range for integers. Unknown dimensions
/// take their size from `dimensions`, else 1 image of 224 x 224.
Result<Datum> image_input(const Model& model, const std::string& method, int index, const ImageOptions& options,
                          std::span<const std::string> files, const DimensionOptions& dimensions);

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
