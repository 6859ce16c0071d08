#pragma once

#include <span>

#include "formats/common/file_attributes.h"
#include "formats/executorch/aten/aten.h"

namespace smelt::executorch {

/// The arguments of a call that are no tensors, by their position: {"argument 2", "[1,1]"}. A dynamic number is the
/// text "dynamic".
StatedAttributes argument_attributes(std::span<const aten::Arg> args);

}  // namespace smelt::executorch
