#pragma once

#include <cstdint>
#include <string>

#include "cli/json.h"
#include "smelt/tensor.h"

namespace smelt::cli {

/// The first `most` elements of a tensor in nested brackets: "[[1, 2], [3, ...]]". Quantized integers are shown as they
/// are stored.
std::string tensor_text(const Tensor& t, int64_t most);

/// The contents of a value, one line each tensor: "NAME = [1, 2]", sequences element by element, maps as {key: value}.
std::string value_text(const std::string& name, const Datum& d, int64_t most);

/// Element i as JSON: a number, bool or text; numbers that JSON lacks are "NaN", "Infinity" and "-Infinity"; complex
/// numbers are [real, imaginary].
Json element_json(const Tensor& t, int64_t i);

/// Kind, type, shape, statistics and the first `most` elements of a value.
Json value_json(const Datum& d, int64_t most);

/// Smallest, largest and mean element of a tensor of real numbers, NaN left out.
struct Statistics {
  double min = 0, max = 0, mean = 0;
  int64_t numbers = 0;  ///< elements that are not NaN
};
Statistics statistics(const Tensor& t);

}  // namespace smelt::cli
