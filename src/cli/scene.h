#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/image.h"
#include "smelt/model.h"

namespace smelt::cli {

/// An object in a picture. Corners as fractions of the picture's width and height.
struct Detection {
  int64_t index = 0;  ///< of its class
  float score = 0;
  float left = 0, top = 0, right = 0, bottom = 0;
};

/// What a detector or a segmentation model sees in a picture: one of the two.
struct Scene {
  std::vector<Detection> objects;  ///< the best first
  bool is_mask = false;
  int64_t height = 0, width = 0;  ///< of the mask
  std::vector<int32_t> mask;      ///< class of each pixel, row by row
};

/// Objects with scores of at least this are kept, and of those that overlap by kMaxOverlap (intersection over union)
/// the best.
inline constexpr float kMinScore = 0.25f, kMaxOverlap = 0.45f;

/// Recognises the outputs of TFLite's detection post-process (boxes [1,N,4], classes and scores [1,N], count), of
/// YOLO-like heads ([1, 4 + classes, N], or [1, N, 5 + classes] with objectness; centre and size in pixels of the input
/// or fractions), and of segmentation ([1,H,W,C] or [1,C,H,W] scores, [1,H,W] classes; at least 8 x 8). nullopt for
/// other outputs. `input`: shape of the picture as the model takes it.
std::optional<Scene> recognise_scene(const std::vector<Datum>& outputs, const Shape& input);

/// Prints the objects, or the share of each class in the mask.
void print_scene(const Scene& scene, const std::vector<std::string>& labels, const Picture& picture);

/// Draws frames around the objects, or tints the picture by the mask.
void draw_scene(const Scene& scene, Picture& picture);

}  // namespace smelt::cli
