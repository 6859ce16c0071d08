#include "backends/cpu/core/pack_cache.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "base/large_memory.h"
#include "base/selection.h"

namespace smelt {

AlignedBuffer::AlignedBuffer(size_t bytes, Contents contents) : bytes_(bytes) {
  if (RecycledMemory* const memory = RecycledMemory::current(); memory && is_worth_sharing_pages(bytes)) {
    data_ = memory->take(with_slack(bytes), contents);
    recycled_ = data_ != nullptr;
    if (recycled_) {
      std::memset(static_cast<std::byte*>(data_) + bytes, 0, with_slack(bytes) - bytes);
      return;
    }
  }
  const bool shares_pages = is_worth_sharing_pages(bytes);
  data_ = shares_pages ? map_block(with_slack(bytes)) : allocate_large(with_slack(bytes));
  if (!data_) throw std::bad_alloc();
  if (!shares_pages) std::memset(data_, 0, with_slack(bytes));
}

AlignedBuffer::AlignedBuffer(std::shared_ptr<const MappedFile> file, const std::byte* data, size_t bytes)
    : file_(std::move(file)), data_(const_cast<std::byte*>(data)), bytes_(bytes) {}

AlignedBuffer::~AlignedBuffer() {
  if (file_ || recycled_) return;
  if (is_worth_sharing_pages(bytes_))
    unmap_block(data_, with_slack(bytes_));
  else
    std::free(data_);
}

Packed PackCache::make(const std::function<Packed()>& pack, const std::function<PackContents()>& contents) const {
  if (mode_ == Mode::kDry) return std::make_shared<const AlignedBuffer>(0);
  if (!kBuildsEverything || !store_ || !contents) return pack();  // builds for a model are small
  const PackContents made_of = contents();
  if (!store_->keeps(made_of)) return pack();
  const std::string name = store_->name(made_of);
  if (Packed kept = store_->read(name)) return kept;
  Packed packed = pack();
  if (!packed) return packed;
  store_->write(name, *packed);
  // In mapped memory, processes share it.
  Packed kept = store_->read(name);
  return kept ? kept : packed;
}

size_t PackCache::bytes() const {
  const std::lock_guard lock(mutex_);
  size_t total = 0;
  for (const auto& [type, table] : tables_) total += table->bytes();
  return total;
}

}  // namespace smelt
