#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "backends/cpu/core/pack_store.h"
#include "base/mapped_file.h"
#include "base/recycled_memory.h"
#include "tensor/pages.h"

namespace smelt {

/// Memory aligned to 64 bytes, which is taken from RecycledMemory::current() where there is one; or a part of a mapped
/// file, which is never written.
class AlignedBuffer {
 public:
  using Contents = RecycledMemory::Contents;
  /// `contents`: of the bytes; those behind them that kernels may read are zero.
  explicit AlignedBuffer(size_t bytes, Contents contents = Contents::kZeros);
  /// `data`: with_slack(bytes) of the file, aligned to 64.
  AlignedBuffer(std::shared_ptr<const MappedFile> file, const std::byte* data, size_t bytes);
  ~AlignedBuffer();
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  template <class T>
  T* data() {
    return static_cast<T*>(data_);
  }
  template <class T>
  const T* data() const {
    return static_cast<const T*>(data_);
  }
  size_t bytes() const { return bytes_; }
  /// So many bytes with the zeros behind them that kernels may read: 64 at least, to a multiple of 64.
  static size_t with_slack(size_t bytes) { return (bytes + 127) / 64 * 64; }

 private:
  std::shared_ptr<const MappedFile> file_;  ///< nullptr: memory of its own
  void* data_;
  size_t bytes_;
  bool recycled_ = false;
};

/// Packed weights of a model, shared by all its plans and sessions. Thread-safe. Entries live as long as the cache;
/// the constants that they were packed from must too.
class PackCache {
 public:
  enum class Mode : unsigned char {
    kPack,
    kDry,  ///< packs nothing and reads no weights: kernels can be chosen, not run
  };
  /// `store`: where packed forms are kept that say what they are made of; nullptr: nowhere.
  explicit PackCache(Mode mode = Mode::kPack, std::shared_ptr<const PackStore> store = nullptr)
      : mode_(mode), store_(std::move(store)) {}
  /// Packs what `shared` has no entry for, and leaves `shared` as it is. `shared`: outlives the cache.
  explicit PackCache(const PackCache& shared) : mode_(shared.mode_), shared_(&shared) {}
  /// The entry of a key, made by `pack` when absent. A Key is a struct of the kernel, ordered by <=>: the addresses of
  /// the constants and everything else that their packed form depends on. Keys of different types never meet.
  /// `contents`: what the form follows from, for the store; empty: it is not kept there.
  template <class Key>
  [[gnu::cold]] Packed get(const Key& key, const std::function<Packed()>& pack,
                           const std::function<PackContents()>& contents = {}) {
    if (shared_)
      if (Packed packed = shared_->find(key)) return packed;
    const std::lock_guard lock(mutex_);
    auto& table = tables_[&kKeyType<Key>];
    if (!table) table = std::make_unique<TableOf<Key>>();
    Packed& entry = static_cast<TableOf<Key>&>(*table).entries[key];
    if (!entry) entry = make(pack, contents);
    return entry;
  }
  Mode mode() const { return mode_; }
  bool has_store() const { return store_ != nullptr; }
  size_t bytes() const;  ///< held by all entries

 private:
  /// Its address tells a type of keys from all others.
  template <class Key>
  static inline char kKeyType;
  struct Table {
    virtual ~Table() = default;
    virtual size_t bytes() const = 0;
  };
  template <class Key>
  struct TableOf final : Table {
    std::map<Key, Packed> entries;
    size_t bytes() const override {
      size_t total = 0;
      for (const auto& [key, packed] : entries) total += packed ? packed->bytes() : 0;
      return total;
    }
  };

  template <class Key>
  Packed find(const Key& key) const {
    const std::lock_guard lock(mutex_);
    const auto table = tables_.find(&kKeyType<Key>);
    if (table == tables_.end()) return nullptr;
    const auto& entries = static_cast<const TableOf<Key>&>(*table->second).entries;
    const auto entry = entries.find(key);
    return entry == entries.end() ? nullptr : entry->second;
  }
  Packed make(const std::function<Packed()>& pack, const std::function<PackContents()>& contents) const;

  Mode mode_;
  const PackCache* shared_ = nullptr;  ///< nullptr: none
  std::shared_ptr<const PackStore> store_;
  mutable std::mutex mutex_;
  std::map<const void*, std::unique_ptr<Table>> tables_;  ///< by the keys' type
};

}  // namespace smelt
