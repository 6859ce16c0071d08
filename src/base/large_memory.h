#pragma once

#include <cstddef>

namespace smelt {

/// Memory for std::free, aligned to 64 bytes, uninitialised; null when there is none. Where the system has huge pages,
/// large blocks lie on them: a first touch costs one fault instead of hundreds.
void* allocate_large(size_t bytes);

}  // namespace smelt
