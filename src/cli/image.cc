#include "cli/image.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "base/mapped_file.h"
#include "graph/graph.h"
#include "tensor/numeric.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wtype-limits"
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_MAX_DIMENSIONS 16384
#include <stb/stb_image.h>
#define STB_IMAGE_RESIZE_STATIC
#define STB_IMAGE_RESIZE_IMPLEMENTATION
#include <stb/stb_image_resize.h>
#pragma GCC diagnostic pop

namespace smelt::cli {
namespace {

constexpr int64_t kMaxPixels = 100'000'000;

/// Where an image goes in an input.
struct Fit {
  int height = 0, width = 0, channels = 0;
  bool channels_last = true;
  Shape shape;
};

bool is_channels(int64_t c) { return c == 1 || c == 3 || c == 4; }

Result<Fit> fit_of(const Port& p, const Shape& given) {
  Fit f;
  f.shape = given;
  if (!p.is_tensor || !p.ranked || !(is_float(p.dtype) || is_integer(p.dtype)))
    return InvalidInput("input '", p.name, "' takes no image: ", p.is_tensor ? to_string(p.dtype) : "not a tensor");
  for (int i = 0; i < f.shape.rank(); ++i)
    if (f.shape[i] < 0) f.shape[i] = i == 0 ? 1 : 224;
  const int r = f.shape.rank();
  const int64_t square = r == 2 ? static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(f.shape[1])))) : 0;
  const auto at = [&](int i) { return static_cast<int>(f.shape[i]); };
  if ((r == 4 || r == 3) && is_channels(f.shape.back())) {
    f = {at(r - 3), at(r - 2), at(r - 1), true, f.shape};
  } else if ((r == 4 || r == 3) && is_channels(f.shape[r - 3])) {
    f = {at(r - 2), at(r - 1), at(r - 3), false, f.shape};
  } else if (r == 3 && f.shape[0] == 1) {
    f = {at(1), at(2), 1, true, f.shape};
  } else if (r == 2 && square * square == f.shape[1]) {
    f = {static_cast<int>(square), static_cast<int>(square), 1, true, f.shape};
  } else {
    return InvalidInput("input '", p.name, "' of shape ", p.shape.str(),
                        " takes no image: [N, H, W, C], [N, C, H, W] or [N, side*side] expected");
  }
  if (r == 4 && f.shape[0] != 1)
    return InvalidInput("input '", p.name, "' takes ", f.shape[0], " images at once, --image gives one");
  if (f.height <= 0 || f.width <= 0 || f.height > 16384 || f.width > 16384)
    return InvalidInput("input '", p.name, "' of shape ", p.shape.str(), " is no image size");
  return f;
}

/// Interleaved 8-bit pixels in the wanted size.
Result<std::vector<uint8_t>> decode(const std::string& path, const Fit& f) {
  SMELT_ASSIGN(auto file, MappedFile::open(path));
  const auto bytes = file->bytes();
  if (bytes.size() > size_t{1} << 30) return InvalidInput(path, ": larger than 1 GiB");
  int w = 0, h = 0, c = 0;
  const auto* data = reinterpret_cast<const stbi_uc*>(bytes.data());
  const int size = static_cast<int>(bytes.size());
  if (stbi_info_from_memory(data, size, &w, &h, &c) != 0 && int64_t{w} * h > kMaxPixels)
    return InvalidInput(path, ": an image of ", w, " x ", h, ", at most ", kMaxPixels / 1000000,
                        " megapixels expected");
  std::unique_ptr<stbi_uc, void (*)(void*)> pixels(stbi_load_from_memory(data, size, &w, &h, &c, f.channels),
                                                   stbi_image_free);
  if (!pixels) return InvalidInput(path, ": not an image: ", stbi_failure_reason());
  std::vector<uint8_t> out(static_cast<size_t>(f.height) * static_cast<size_t>(f.width) *
                           static_cast<size_t>(f.channels));
  if (w == f.width && h == f.height)
    std::memcpy(out.data(), pixels.get(), out.size());
  else if (!stbir_resize_uint8(pixels.get(), w, h, 0, out.data(), f.width, f.height, 0, f.channels))
    return InvalidInput(path, ": cannot be resized");
  return out;
}

float entry(const std::vector<float>& v, int channel, float otherwise) {
  if (v.empty()) return otherwise;
  return v.size() == 1 ? v[0] : v[static_cast<size_t>(channel)];
}

}  // namespace

Result<Datum> image_input(const Model& model, const std::string& method, int index, const ImageOptions& o,
                          const DimensionOptions& options) {
  const auto ports = model.inputs(method);
  if (index >= static_cast<int>(ports.size())) return InvalidInput("the model has no input ", index);
  const Port& p = ports[static_cast<size_t>(index)];
  SMELT_ASSIGN(const Dimensions dimensions, Dimensions::parse(options, ports));
  SMELT_ASSIGN(const Fit f, fit_of(p, dimensions.given_shape(p)));
  SMELT_ASSIGN(const auto pixels, decode(o.file, f));
  std::vector<float> mean = o.mean, deviation = o.std;
  const auto& normalizations = model.module().normalization;
  if (const auto it = normalizations.find(index); it != normalizations.end() && mean.empty() && deviation.empty()) {
    mean = it->second.mean;
    deviation = it->second.std;
  }
  for (const auto* v : {&mean, &deviation})
    if (v->size() > 1 && v->size() != static_cast<size_t>(f.channels))
      return InvalidInput(v == &mean ? "mean" : "standard deviation", " of ", v->size(), " channels, input '", p.name,
                          "' has ", f.channels);
  const bool given = !mean.empty() || !deviation.empty();
  SMELT_ASSIGN(Tensor t, Tensor::allocate(p.dtype, f.shape));
  const int64_t plane = static_cast<int64_t>(f.height) * f.width;
  for (int64_t i = 0; i < plane; ++i)
    for (int c = 0; c < f.channels; ++c) {
      const float pixel = pixels[static_cast<size_t>(i * f.channels + c)];
      const int64_t to = f.channels_last ? i * f.channels + c : c * plane + i;
      if (is_float(p.dtype)) {
        set_double(t, to, (pixel - entry(mean, c, 0)) / entry(deviation, c, given ? 1.0f : 255.0f));
      } else if (given && p.quant) {
        const float real = (pixel - entry(mean, c, 0)) / entry(deviation, c, 1);
        const double q = std::nearbyint(real / p.quant->scale()) + p.quant->zero_point();
        set_int(t, to,
                static_cast<int64_t>(
                    std::clamp(q, static_cast<double>(int_min(p.dtype)), static_cast<double>(int_max(p.dtype)))));
      } else {
        set_int(t, to, static_cast<int64_t>(pixel) + (p.dtype == DType::kI8 ? -128 : 0));
      }
    }
  return Datum(std::move(t));
}

bool is_classification(const Datum& output) {
  if (!output.is_tensor() || !(is_float(output.tensor.dtype()) || is_integer(output.tensor.dtype()))) return false;
  const Shape& s = output.tensor.shape();
  return s.rank() >= 1 && output.tensor.elements() > 1 &&
         std::count_if(s.begin(), s.end(), [](int64_t d) { return d != 1; }) == 1;
}

Result<std::vector<std::string>> read_labels(const Model& model, const std::string& file) {
  std::vector<std::string> out;
  if (file.empty()) {
    for (const auto& [name, lines] : model.module().text_files)
      if (lines.size() > out.size()) out = lines;
    return out;
  }
  SMELT_ASSIGN(auto mapped, MappedFile::open(file));
  std::string line;
  for (std::byte b : mapped->bytes()) {
    const char c = static_cast<char>(b);
    if (c == '\n') {
      out.push_back(line);
      line.clear();
    } else if (c != '\r') {
      line += c;
    }
  }
  if (!line.empty()) out.push_back(line);
  return out;
}

std::vector<ClassScore> top_classes(const Tensor& scores, const std::vector<std::string>& labels, int top) {
  const int64_t n = scores.elements();
  std::vector<float> v(static_cast<size_t>(n));
  if (scores.quant() && is_integer(scores.dtype()))
    dequantize(scores, v.data());
  else
    to_floats(scores, v.data());
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto rank = [](float score) { return std::isnan(score) ? -INFINITY : score; };
  const auto keep = static_cast<std::ptrdiff_t>(std::min<int64_t>(top, n));
  std::partial_sort(order.begin(), order.begin() + keep, order.end(), [&](int64_t a, int64_t b) {
    return rank(v[static_cast<size_t>(a)]) > rank(v[static_cast<size_t>(b)]);
  });
  // A model with one class more than the list has a background class first.
  const int64_t shift = static_cast<int64_t>(labels.size()) + 1 == n ? 1 : 0;
  std::vector<ClassScore> out;
  for (std::ptrdiff_t i = 0; i < keep; ++i) {
    const int64_t c = order[static_cast<size_t>(i)];
    const int64_t l = c - shift;
    const std::string label = l < 0                                     ? "(background)"
                              : l < static_cast<int64_t>(labels.size()) ? labels[static_cast<size_t>(l)]
                                                                        : "";
    out.push_back({c, v[static_cast<size_t>(c)], label});
  }
  return out;
}

}  // namespace smelt::cli
