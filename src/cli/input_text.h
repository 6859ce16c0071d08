#pragma once

#include <string>
#include <string_view>

#include "cli/wav.h"
#include "smelt/model.h"

namespace smelt::cli {

/// A tensor for `port` from numbers as text, between spaces, commas or line ends, in brackets or not: token ids, small
/// vectors. `shape` holds -1 where the number of elements decides; with several, the last of them does and the others
/// are 1. `name` begins messages.
Result<Tensor> tensor_from_text(std::string_view text, const Port& port, const Shape& shape, const std::string& name);

/// A tensor for `port` from a sound: reals in [-1, 1], or 16-bit integers. Where the shape is fixed, the sound is cut
/// or silence follows it, with a word on standard error.
Result<Tensor> tensor_from_sound(const Sound& sound, const Port& port, const Shape& shape, const std::string& name);

}  // namespace smelt::cli
