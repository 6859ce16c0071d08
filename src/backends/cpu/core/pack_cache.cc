#include "backends/cpu/core/pack_cache.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "base/large_memory.h"

namespace smelt {

AlignedBuffer::AlignedBuffer(size_t bytes) : bytes_(bytes) {
  const size_t rounded = (bytes + 127) / 64 * 64;
  data_ = allocate_large(rounded);
  if (!data_) throw std::bad_alloc();
  std::memset(data_, 0, rounded);
}

AlignedBuffer::~AlignedBuffer() { std::free(data_); }

size_t PackCache::bytes() const {
  const std::lock_guard lock(mutex_);
  size_t total = 0;
  for (const auto& [type, table] : tables_) total += table->bytes();
  return total;
}

}  // namespace smelt
