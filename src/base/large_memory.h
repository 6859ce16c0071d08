#pragma once

#include <cstddef>

namespace smelt {

/// Uninitialised memory aligned to 64 bytes, to be freed with std::free; nullptr when there is none. Large blocks use
/// the system's huge pages, if it has them, which take fewer page faults.
void* allocate_large(size_t bytes);

}  // namespace smelt
