#pragma once

#include "base/mapped_file.h"
#include "smelt/tensor.h"

namespace smelt {

/// Gives the pages of a constant back to its file, if it lies in one: for when a packed form, a hash or what was
/// computed of it stands for it. They are read again when asked for.
inline void release_pages(const Tensor& constant) { release_pages(constant.unaligned_bytes(), constant.bytes()); }

}  // namespace smelt
