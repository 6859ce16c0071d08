#include "cli/image.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "base/mapped_file.h"
#include "cli/output.h"
#include "graph/graph.h"
#include "ops/signal/image_stb.h"
#include "runtime/model_access.h"
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
#define STBI_NO_PNG  // by ops/signal/image_stb.h
#define STBI_NO_BMP
#define STBI_NO_JPEG
#include <stb/stb_image.h>
#define STB_IMAGE_RESIZE_STATIC
#define STB_IMAGE_RESIZE_IMPLEMENTATION
#include <stb/stb_image_resize.h>
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image_write.h>
#pragma GCC diagnostic pop

namespace smelt::cli {
namespace {

constexpr int64_t kMaxPixels = 100'000'000;

/// Where images go in an input.
struct Fit {
  int batch = 1;
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
    f = {r == 4 ? at(0) : 1, at(r - 3), at(r - 2), at(r - 1), true, f.shape};
  } else if ((r == 4 || r == 3) && is_channels(f.shape[r - 3])) {
    f = {r == 4 ? at(0) : 1, at(r - 2), at(r - 1), at(r - 3), false, f.shape};
  } else if (r == 3 && f.shape[0] == 1) {
    f = {1, at(1), at(2), 1, true, f.shape};
  } else if (r == 2 && square * square == f.shape[1]) {
    f = {at(0), static_cast<int>(square), static_cast<int>(square), 1, true, f.shape};
  } else {
    return InvalidInput("input '", p.name, "' of shape ", p.shape.str(),
                        " takes no image: [N, H, W, C], [N, C, H, W] or [N, side*side] expected");
  }
  if (f.batch < 1 || f.batch > 65536) return InvalidInput("input '", p.name, "' takes ", f.batch, " images at once");
  if (f.height <= 0 || f.width <= 0 || f.height > 16384 || f.width > 16384)
    return InvalidInput("input '", p.name, "' of shape ", p.shape.str(), " is no image size");
  return f;
}

struct Pixels {
  int width = 0, height = 0;
  std::unique_ptr<uint8_t, void (*)(void*)> bytes{nullptr, std::free};
};

/// Interleaved 8-bit pixels as the file has them.
Result<Pixels> decode(const std::string& path, int channels) {
  SMELT_ASSIGN(auto file, MappedFile::open(path));
  const auto bytes = file->bytes();
  if (bytes.size() > size_t{1} << 30) return InvalidInput(path, ": larger than 1 GiB");
  const image::Bytes data{reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
  const int size = static_cast<int>(bytes.size());
  const bool common = image::stb_recognises(data);
  int64_t w = 0, h = 0;
  if (common) {
    if (const auto known = image::stb_size(data); known.ok()) w = known->width, h = known->height;
  } else if (int x = 0, y = 0, c = 0; stbi_info_from_memory(data.data(), size, &x, &y, &c) != 0) {
    w = x, h = y;
  }
  if (w * h > kMaxPixels)
    return InvalidInput(path, ": an image of ", w, " x ", h, ", at most ", kMaxPixels / 1000000,
                        " megapixels expected");
  Pixels out;
  int c = 0;
  out.bytes.reset(common ? image::stb_pixels(data, channels, out.width, out.height)
                         : stbi_load_from_memory(data.data(), size, &out.width, &out.height, &c, channels));
  if (!out.bytes) return InvalidInput(path, ": not an image: ", common ? image::stb_failure() : stbi_failure_reason());
  return out;
}

/// Interleaved 8-bit pixels in the wanted size.
Result<std::vector<uint8_t>> decode_fitted(const std::string& path, const Fit& f) {
  SMELT_ASSIGN(const Pixels pixels, decode(path, f.channels));
  const int w = pixels.width, h = pixels.height;
  std::vector<uint8_t> out(static_cast<size_t>(f.height) * static_cast<size_t>(f.width) *
                           static_cast<size_t>(f.channels));
  if (w == f.width && h == f.height)
    std::memcpy(out.data(), pixels.bytes.get(), out.size());
  else if (!stbir_resize_uint8(pixels.bytes.get(), w, h, 0, out.data(), f.width, f.height, 0, f.channels))
    return InvalidInput(path, ": cannot be resized");
  return out;
}

float entry(const std::vector<float>& v, int channel, float otherwise) {
  if (v.empty()) return otherwise;
  return v.size() == 1 ? v[0] : v[static_cast<size_t>(channel)];
}

}  // namespace

namespace {

struct Normalization {
  std::vector<float> mean, deviation;
  bool given = false;
};

/// The options', else the model's; an error where it does not fit the channels.
Result<Normalization> normalization(const Model& model, int index, const ImageOptions& o, const Port& p, int channels) {
  Normalization out{o.mean, o.std};
  const auto& stated = module_of(model).normalization;
  if (const auto it = stated.find(index); it != stated.end() && o.mean.empty() && o.std.empty())
    out = {it->second.mean, it->second.std};
  for (const auto* v : {&out.mean, &out.deviation})
    if (v->size() > 1 && v->size() != static_cast<size_t>(channels))
      return InvalidInput(v == &out.mean ? "mean" : "standard deviation", " of ", v->size(), " channels, input '",
                          p.name, "' has ", channels);
  out.given = !out.mean.empty() || !out.deviation.empty();
  return out;
}

/// Writes an image's pixels into `t` from element `begin` on.
void place(const std::vector<uint8_t>& pixels, const Fit& f, const Normalization& n, const Port& p, Tensor& t,
           int64_t begin) {
  const int64_t plane = static_cast<int64_t>(f.height) * f.width;
  for (int64_t i = 0; i < plane; ++i)
    for (int c = 0; c < f.channels; ++c) {
      const float pixel = pixels[static_cast<size_t>(i * f.channels + c)];
      const int64_t to = begin + (f.channels_last ? i * f.channels + c : c * plane + i);
      if (is_float(p.dtype)) {
        set_double(t, to, (pixel - entry(n.mean, c, 0)) / entry(n.deviation, c, n.given ? 1.0f : 255.0f));
      } else if (n.given && p.quant) {
        const float real = (pixel - entry(n.mean, c, 0)) / entry(n.deviation, c, 1);
        const double q = std::nearbyint(real / p.quant->scale()) + p.quant->zero_point();
        const auto low = static_cast<double>(int_min(p.dtype)), high = static_cast<double>(int_max(p.dtype));
        set_int(t, to, static_cast<int64_t>(std::clamp(q, low, high)));
      } else {
        set_int(t, to, static_cast<int64_t>(pixel) + (p.dtype == DType::kI8 ? -128 : 0));
      }
    }
}

struct ImagePort {
  Port port;
  Fit fit;
};

Result<ImagePort> image_port(const Model& model, const std::string& method, int index,
                             const DimensionOptions& options) {
  const auto ports = model.inputs(method);
  if (index >= static_cast<int>(ports.size())) return InvalidInput("the model has no input ", index);
  const Port& p = ports[static_cast<size_t>(index)];
  SMELT_ASSIGN(const Dimensions dimensions, Dimensions::parse(options, ports));
  SMELT_ASSIGN(const Fit f, fit_of(p, dimensions.given_shape(p)));
  return ImagePort{p, f};
}

}  // namespace

Result<Picture> read_picture(const std::string& path) {
  SMELT_ASSIGN(const Pixels pixels, decode(path, 3));
  Picture out{pixels.width, pixels.height, {}};
  out.rgb.assign(pixels.bytes.get(), pixels.bytes.get() + int64_t{3} * out.width * out.height);
  return out;
}

Status write_png(const std::string& path, const Picture& picture) {
  std::string bytes;
  const auto append = [](void* to, void* data, int size) {
    static_cast<std::string*>(to)->append(static_cast<const char*>(data), static_cast<size_t>(size));
  };
  if (!stbi_write_png_to_func(append, &bytes, picture.width, picture.height, 3, picture.rgb.data(), picture.width * 3))
    return LimitReached(path, ": no memory for the picture");
  return write_result(path, {bytes});
}

Result<std::vector<std::string>> picture_files(const ImageOptions& options) {
  namespace fs = std::filesystem;
  constexpr std::array<std::string_view, 9> kEndings = {".png", ".jpg", ".jpeg", ".bmp", ".tga",
                                                        ".ppm", ".pgm", ".pnm",  ".gif"};
  std::vector<std::string> out;
  for (const std::string& path : options.files) {
    std::error_code ec;
    if (!fs::is_directory(path, ec)) {
      out.push_back(path);
      continue;
    }
    const size_t before = out.size();
    for (const auto& e : fs::directory_iterator(path, ec)) {
      std::string ending = e.path().extension().string();
      for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      if (std::ranges::find(kEndings, ending) != kEndings.end()) out.push_back(e.path().string());
    }
    if (ec) return Error(ErrorCode::kIo, Cat(path, ": ", ec.message()));
    if (out.size() == before) return InvalidInput(path, ": the folder has no pictures");
    std::sort(out.begin() + static_cast<std::ptrdiff_t>(before), out.end());
  }
  return out;
}

Result<size_t> batch_size(const Model& model, const std::string& method, int index, const DimensionOptions& options) {
  SMELT_ASSIGN(const ImagePort at, image_port(model, method, index, options));
  return static_cast<size_t>(at.fit.batch);
}

Result<Datum> image_input(const Model& model, const std::string& method, int index, const ImageOptions& o,
                          std::span<const std::string> files, const DimensionOptions& options) {
  SMELT_ASSIGN(const ImagePort at, image_port(model, method, index, options));
  SMELT_ASSIGN(const Normalization n, normalization(model, index, o, at.port, at.fit.channels));
  if (files.size() > static_cast<size_t>(at.fit.batch))
    return InvalidInput(files.size(), " images for input '", at.port.name, "', which takes ", at.fit.batch);
  SMELT_ASSIGN(Tensor t, Tensor::allocate(at.port.dtype, at.fit.shape));
  int64_t begin = 0;
  for (const std::string& file : files) {
    SMELT_ASSIGN(const auto pixels, decode_fitted(file, at.fit));
    place(pixels, at.fit, n, at.port, t, begin);
    begin += t.elements() / at.fit.batch;
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
  if (file.empty()) return model.labels();
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
