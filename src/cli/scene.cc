#include "cli/scene.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "base/cat.h"
#include "cli/output.h"
#include "tensor/numeric.h"

namespace smelt::cli {
namespace {

constexpr std::array<std::array<uint8_t, 3>, 8> kColours = {{{230, 25, 75},
                                                             {60, 180, 75},
                                                             {0, 130, 200},
                                                             {255, 165, 0},
                                                             {145, 30, 180},
                                                             {70, 240, 240},
                                                             {240, 50, 230},
                                                             {255, 225, 25}}};

const std::array<uint8_t, 3>& colour(int64_t index) { return kColours[static_cast<size_t>(index) % kColours.size()]; }

bool is_numbers(const Datum& d) {
  return d.is_tensor() && (is_float(d.tensor.dtype()) || is_integer(d.tensor.dtype()));
}

std::vector<float> reals(const Tensor& t) {
  std::vector<float> out(static_cast<size_t>(t.elements()));
  if (t.quant() && is_integer(t.dtype()))
    dequantize(t, out.data());
  else
    to_floats(t, out.data());
  return out;
}

float overlap(const Detection& a, const Detection& b) {
  const float w = std::min(a.right, b.right) - std::max(a.left, b.left);
  const float h = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  if (!(w > 0 && h > 0)) return 0;
  const auto area = [](const Detection& d) { return (d.right - d.left) * (d.bottom - d.top); };
  return w * h / (area(a) + area(b) - w * h);
}

/// The best first, without those that a better one of their class covers.
std::vector<Detection> distinct(std::vector<Detection> all) {
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  constexpr size_t kMost = 1000;
  std::vector<Detection> out;
  for (const Detection& d : all) {
    const bool covered = std::ranges::any_of(
        out, [&](const Detection& better) { return better.index == d.index && overlap(better, d) > kMaxOverlap; });
    if (!covered && out.size() < kMost) out.push_back(d);
  }
  return out;
}

/// Boxes [1,N,4] as top, left, bottom, right; classes and scores [1,N]; count.
std::optional<Scene> post_process(const std::vector<Datum>& outputs) {
  if (outputs.size() != 4) return std::nullopt;
  std::vector<float> boxes, rows[2];
  int64_t n = -1, count = -1;
  size_t found = 0;
  for (const Datum& d : outputs)
    if (is_numbers(d) && d.tensor.rank() == 3 && d.tensor.dim(2) == 4) {
      boxes = reals(d.tensor);
      n = d.tensor.dim(1);
    }
  for (const Datum& d : outputs) {
    if (!is_numbers(d)) return std::nullopt;
    if (d.tensor.rank() == 2 && d.tensor.dim(1) == n && found < 2)
      rows[found++] = reals(d.tensor);
    else if (d.tensor.elements() == 1)
      count = std::llround(reals(d.tensor)[0]);
  }
  if (n < 0 || found != 2 || count < 0) return std::nullopt;
  // Some exporters give the scores first: those are no whole numbers.
  const auto whole = [](const std::vector<float>& v) {
    return std::ranges::all_of(v, [](float x) { return x == std::floor(x); });
  };
  const bool swapped = !whole(rows[0]) && whole(rows[1]);
  const std::vector<float>&classes = rows[swapped ? 1 : 0], &scores = rows[swapped ? 0 : 1];
  Scene out;
  for (size_t i = 0; i < static_cast<size_t>(std::min(n, count)); ++i)
    if (scores[i] >= kMinScore && classes[i] >= 0)
      out.objects.push_back(
          {std::llround(classes[i]), scores[i], boxes[4 * i + 1], boxes[4 * i], boxes[4 * i + 3], boxes[4 * i + 2]});
  std::stable_sort(out.objects.begin(), out.objects.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  return out;
}

/// Height and width of the picture in an input of any layout.
std::pair<float, float> picture_size(const Shape& input) {
  const int r = input.rank();
  if (r < 3) return {1, 1};
  const bool last = input[r - 1] == 1 || input[r - 1] == 3 || input[r - 1] == 4;
  return {static_cast<float>(input[last ? r - 3 : r - 2]), static_cast<float>(input[last ? r - 2 : r - 1])};
}

std::optional<Scene> yolo_head(const std::vector<Datum>& outputs, const Shape& input) {
  constexpr int64_t kMostClasses = 1024, kLeast = 20;
  if (outputs.size() != 1 || !is_numbers(outputs[0])) return std::nullopt;
  const Tensor& t = outputs[0].tensor;
  if (t.rank() != 3 || t.dim(0) != 1) return std::nullopt;
  const bool attributes_first = t.dim(1) < t.dim(2);
  const int64_t n = std::max(t.dim(1), t.dim(2)), attributes = std::min(t.dim(1), t.dim(2));
  const int64_t first = attributes_first ? 4 : 5;  // of the classes
  if (n < kLeast || attributes <= first || attributes > kMostClasses) return std::nullopt;
  const auto values = reals(t);
  const auto at = [&](int64_t i, int64_t a) {
    return values[static_cast<size_t>(attributes_first ? a * n + i : i * attributes + a)];
  };
  float largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max({largest, at(i, 0), at(i, 1)});
  const auto [height, width] = largest > 2 ? picture_size(input) : std::pair<float, float>{1, 1};
  std::vector<Detection> all;
  for (int64_t i = 0; i < n; ++i) {
    int64_t best = first;
    for (int64_t a = first + 1; a < attributes; ++a)
      if (at(i, a) > at(i, best)) best = a;
    const float score = at(i, best) * (attributes_first ? 1 : at(i, 4));
    if (!(score >= kMinScore)) continue;
    const float x = at(i, 0) / width, y = at(i, 1) / height, w = at(i, 2) / width, h = at(i, 3) / height;
    all.push_back({best - first, score, x - w / 2, y - h / 2, x + w / 2, y + h / 2});
  }
  Scene out;
  out.objects = distinct(std::move(all));
  return out;
}

std::optional<Scene> segmentation(const std::vector<Datum>& outputs) {
  constexpr int64_t kLeast = 8, kMostClasses = 512;
  if (outputs.empty() || !is_numbers(outputs[0])) return std::nullopt;
  const Tensor& t = outputs[0].tensor;
  Scene out;
  out.is_mask = true;
  if (t.rank() < 3 || t.dim(0) != 1) return std::nullopt;
  if (t.rank() == 3 && is_integer(t.dtype()) && t.dim(1) >= kLeast && t.dim(2) >= kLeast) {
    out.height = t.dim(1);
    out.width = t.dim(2);
    for (float v : reals(t)) out.mask.push_back(static_cast<int32_t>(v));
    return out;
  }
  if (t.rank() != 4) return std::nullopt;
  const bool first = t.dim(1) < t.dim(3);
  const int64_t classes = first ? t.dim(1) : t.dim(3);
  out.height = first ? t.dim(2) : t.dim(1);
  out.width = first ? t.dim(3) : t.dim(2);
  if (classes < 2 || classes > kMostClasses || out.height < kLeast || out.width < kLeast) return std::nullopt;
  const auto values = reals(t);
  const int64_t pixels = out.height * out.width;
  for (int64_t p = 0; p < pixels; ++p) {
    const auto at = [&](int64_t c) { return values[static_cast<size_t>(first ? c * pixels + p : p * classes + c)]; };
    int64_t best = 0;
    for (int64_t c = 1; c < classes; ++c)
      if (at(c) > at(best)) best = c;
    out.mask.push_back(static_cast<int32_t>(best));
  }
  return out;
}

std::string label_of(const std::vector<std::string>& labels, int64_t index) {
  return index >= 0 && static_cast<size_t>(index) < labels.size() ? labels[static_cast<size_t>(index)] : "";
}

}  // namespace

std::optional<Scene> recognise_scene(const std::vector<Datum>& outputs, const Shape& input) {
  if (auto out = post_process(outputs)) return out;
  if (auto out = yolo_head(outputs, input)) return out;
  return segmentation(outputs);
}

void print_scene(const Scene& scene, const std::vector<std::string>& labels, const Picture& picture) {
  if (!scene.is_mask) {
    Table table({"class", "score", "left", "top", "right", "bottom", "label"});
    const auto pixel = [](float fraction, int size) { return Cat(std::lround(fraction * static_cast<float>(size))); };
    for (const Detection& d : scene.objects)
      table.row({Cat(d.index), formatted("{:.4f}", d.score), pixel(d.left, picture.width), pixel(d.top, picture.height),
                 pixel(d.right, picture.width), pixel(d.bottom, picture.height), label_of(labels, d.index)});
    put(table.str({0, 1, 2, 3, 4, 5}, 60));
    say("{} object{} with a score of at least {}\n", scene.objects.size(), scene.objects.size() == 1 ? "" : "s",
        kMinScore);
    return;
  }
  std::map<int32_t, size_t> counts;
  for (int32_t c : scene.mask) ++counts[c];
  Table table({"class", "share", "label"});
  for (const auto& [index, count] : counts)
    table.row({Cat(index),
               formatted("{:.1f} %", 100.0 * static_cast<double>(count) / static_cast<double>(scene.mask.size())),
               label_of(labels, index)});
  put(table.str({0, 1}, 60));
}

void draw_scene(const Scene& scene, Picture& picture) {
  const auto pixel = [&](int x, int y) {
    return picture.rgb.data() +
           (static_cast<size_t>(y) * static_cast<size_t>(picture.width) + static_cast<size_t>(x)) * 3;
  };
  if (scene.is_mask) {
    for (int y = 0; y < picture.height; ++y)
      for (int x = 0; x < picture.width; ++x) {
        const int64_t row = int64_t{y} * scene.height / picture.height,
                      column = int64_t{x} * scene.width / picture.width;
        const int32_t index = scene.mask[static_cast<size_t>(row * scene.width + column)];
        if (index == 0) continue;  // by custom the background
        for (size_t c = 0; c < 3; ++c) pixel(x, y)[c] = static_cast<uint8_t>((pixel(x, y)[c] + colour(index)[c]) / 2);
      }
    return;
  }
  const int thick = std::max(1, std::min(picture.width, picture.height) / 200);
  for (auto d = scene.objects.rbegin(); d != scene.objects.rend(); ++d) {  // the best on top
    const auto at = [](float fraction, int size) {
      return static_cast<int>(std::lround(std::clamp(fraction, 0.0f, 1.0f) * static_cast<float>(size - 1)));
    };
    const int left = at(d->left, picture.width), right = at(d->right, picture.width);
    const int top = at(d->top, picture.height), bottom = at(d->bottom, picture.height);
    for (int y = top; y <= bottom; ++y)
      for (int x = left; x <= right; ++x)
        if (x - left < thick || right - x < thick || y - top < thick || bottom - y < thick)
          std::copy_n(colour(d->index).data(), 3, pixel(x, y));
  }
}

}  // namespace smelt::cli
