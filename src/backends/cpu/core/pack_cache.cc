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

Packed PackCache::get(const void* data, const std::string& key, const std::function<Packed()>& pack) {
  const std::lock_guard lock(mutex_);
  Packed& entry = entries_[{data, key}];
  if (!entry) entry = mode_ == Mode::kDry ? std::make_shared<const AlignedBuffer>(0) : pack();
  return entry;
}

size_t PackCache::bytes() const {
  const std::lock_guard lock(mutex_);
  size_t total = 0;
  for (const auto& [key, packed] : entries_) total += packed ? packed->bytes() : 0;
  return total;
}

}  // namespace smelt
