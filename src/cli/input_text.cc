#include "cli/input_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "cli/output.h"
#include "tensor/numeric.h"

namespace smelt::cli {
namespace {

/// `shape` with its open dimensions filled for `elements` elements.
Result<Shape> filled_shape(Shape shape, int64_t elements) {
  int open = -1;
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] < 0) {
      open = i;
      shape[i] = 1;
    }
  SMELT_ASSIGN(const int64_t fixed, shape.checked_elements());
  if (open >= 0 && fixed > 0) shape[open] = elements / fixed;
  return shape;
}

Status set_number(Tensor& t, int64_t i, std::string_view word) {
  const char *begin = word.data(), *end = begin + word.size();
  if (is_integer(t.dtype()) || t.dtype() == DType::kBool) {
    int64_t value = 0;
    const auto r = std::from_chars(begin, end, value);
    if (r.ec != std::errc() || r.ptr != end || value < int_min(t.dtype()) || value > int_max(t.dtype()))
      return InvalidInput("'", word, "' is no ", to_string(t.dtype()));
    set_int(t, i, value);
    return Ok();
  }
  double value = 0;
  const auto r = std::from_chars(begin, end, value);
  if (r.ec != std::errc() || r.ptr != end) return InvalidInput("'", word, "' is no number");
  set_double(t, i, value);
  return Ok();
}

}  // namespace

Result<Tensor> tensor_from_text(std::string_view text, const Port& port, const Shape& given, const std::string& name) {
  constexpr std::string_view kBetween = " \t\r\n,[]";
  std::vector<std::string_view> words;
  for (size_t at = text.find_first_not_of(kBetween); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kBetween, end);
  }
  if (port.dtype == DType::kInvalid || port.dtype == DType::kString || is_complex(port.dtype) || !port.ranked)
    return InvalidInput(name, ": input '", port.name, "' takes no numbers as text");
  const auto n = static_cast<int64_t>(words.size());
  SMELT_ASSIGN(const Shape shape, filled_shape(given, n));
  if (shape.elements() != n)
    return InvalidInput(name, ": has ", n, " numbers, input '", port.name, "' of shape ", given.str(), " takes ",
                        shape.elements());
  SMELT_ASSIGN(Tensor t, Tensor::allocate(port.dtype, shape));
  for (int64_t i = 0; i < n; ++i)
    if (auto s = set_number(t, i, words[static_cast<size_t>(i)]); !s.ok()) return s.error().within(name);
  return t;
}

Result<Tensor> tensor_from_sound(const Sound& sound, const Port& port, const Shape& given, const std::string& name) {
  if (!port.ranked || !(is_float(port.dtype) || port.dtype == DType::kI16))
    return InvalidInput(name, ": input '", port.name, "' takes no sound: ", to_string(port.dtype));
  const auto n = static_cast<int64_t>(sound.samples.size());
  SMELT_ASSIGN(const Shape shape, filled_shape(given, n));
  SMELT_ASSIGN(Tensor t, Tensor::allocate(port.dtype, shape));
  const int64_t kept = std::min(n, t.elements());
  if (n != t.elements())
    complain(formatted("{}: {} samples at {} Hz, input '{}' takes {}: {}", name, n, sound.rate, port.name, t.elements(),
                       n > kept ? "the rest is cut" : "silence follows"));
  for (int64_t i = 0; i < kept; ++i) {
    const float v = sound.samples[static_cast<size_t>(i)];
    if (port.dtype == DType::kI16)
      set_int(t, i, std::clamp<int64_t>(std::lround(v * 32768), -32768, 32767));
    else
      set_double(t, i, v);
  }
  return t;
}

}  // namespace smelt::cli
