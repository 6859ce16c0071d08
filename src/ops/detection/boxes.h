#pragma once

#include <algorithm>

namespace smelt {

struct Box {
  float y_min, x_min, y_max, x_max;
};

/// The box with its corners in order.
inline Box ordered(const Box& b) {
  return {std::min(b.y_min, b.y_max), std::min(b.x_min, b.x_max), std::max(b.y_min, b.y_max),
          std::max(b.x_min, b.x_max)};
}

/// The box of four coordinates: two opposite corners, or centre x, centre y, width and height.
inline Box box_at(const float* b, bool center) {
  if (!center) return ordered({b[0], b[1], b[2], b[3]});
  return ordered({b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2});
}

/// Height times width. Precondition: corners in order.
inline float area(const Box& b) { return (b.y_max - b.y_min) * (b.x_max - b.x_min); }

/// True if the boxes' interiors overlap. Precondition: corners in order.
inline bool touch(const Box& a, const Box& b) {
  return (a.y_min < b.y_max) & (b.y_min < a.y_max) & (a.x_min < b.x_max) & (b.x_min < a.x_max);
}

/// Intersection over union; 0 when one of the boxes has no area.
inline float overlap(const Box& a, const Box& b) {
  const float area_a = area(a), area_b = area(b);
  if (!(area_a > 0) || !(area_b > 0)) return 0;
  const float height = std::max(std::min(a.y_max, b.y_max) - std::max(a.y_min, b.y_min), 0.0f);
  const float width = std::max(std::min(a.x_max, b.x_max) - std::max(a.x_min, b.x_min), 0.0f);
  const float both = height * width;
  return both / (area_a + area_b - both);
}

}  // namespace smelt
