#pragma once

#include <cstddef>
#include <memory>

#include "base/mapped_file.h"
#include "smelt/tensor.h"

namespace smelt {

/// Tensor::deferred() pays off for constants of more bytes than these.
constexpr size_t kWorthDeferring = 2048;

/// Gives the pages of a constant, or of what it is derived from, back to its file, if it lies in one: for when a packed
/// form, a hash or what was computed of it stands for it. They are read again when asked for.
inline void release_pages(const Tensor& constant) {
  const Tensor* stored = &constant;
  while (const Tensor* source = stored->source()) stored = source;
  release_pages(stored->unaligned_bytes(), stored->bytes());
}
/// As release_pages(), for a constant that only copy_file_bytes() or copy_elements() has read.
inline void release_read_pages(const Tensor& constant) {
  if (constant.source()) return release_pages(constant);
  release_read_pages(constant.unaligned_bytes(), constant.bytes());
}

/// The elements of a constant, aligned, for those who read them this once: see Tensor::read_once().
[[gnu::noinline]] std::shared_ptr<const void> elements_once(const Tensor& constant);

}  // namespace smelt
