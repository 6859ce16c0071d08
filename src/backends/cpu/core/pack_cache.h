#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace smelt {

/// Memory aligned to 64 bytes, zero-filled at first.
class AlignedBuffer {
 public:
  explicit AlignedBuffer(size_t bytes);
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

 private:
  void* data_;
  size_t bytes_;
};
using Packed = std::shared_ptr<const AlignedBuffer>;

/// Packed weights of a model, shared by all its plans and sessions. Thread-safe. Entries live as long as the cache;
/// the constants that they were packed from must too.
class PackCache {
 public:
  enum class Mode : unsigned char {
    kPack,
    kDry,  ///< packs nothing and reads no weights: kernels can be chosen, not run
  };
  explicit PackCache(Mode mode = Mode::kPack) : mode_(mode) {}
  /// The entry for constant `data` packed the way `key` says (kernel, level and parameters), made by `pack` when
  /// absent.
  Packed get(const void* data, const std::string& key, const std::function<Packed()>& pack);
  Mode mode() const { return mode_; }
  size_t bytes() const;  ///< held by all entries

 private:
  Mode mode_;
  mutable std::mutex mutex_;
  std::map<std::pair<const void*, std::string>, Packed> entries_;
};

}  // namespace smelt
