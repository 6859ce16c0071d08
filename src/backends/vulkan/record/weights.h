#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backends/vulkan/record/recorder.h"

namespace smelt::vulkan {

/// Constants on the device, uploaded once and packed by shaders. Entries live as long as the store, and so must the
/// host memory that they are made from. Thread-safe.
class WeightStore {
 public:
  explicit WeightStore(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  /// The tensor's bytes, unpacked.
  Result<Binding> raw(const Tensor& t);
  /// `bytes` of device memory that `pack` fills from the tensor's raw bytes by dispatches. `key` names the packing and
  /// its parameters.
  using Pack = std::function<Status(Recorder& r, const Binding& raw, const Binding& packed)>;
  Result<Binding> packed(const Tensor& t, const std::string& key, size_t bytes, const Pack& pack);
  /// `bytes` of device memory that `pack` fills from `raw_bytes` that the host computes by `fill`. `of` and `key`
  /// identify the result.
  using Fill = std::function<void(void* to)>;
  Result<Binding> packed(const void* of, const std::string& key, size_t raw_bytes, const Fill& fill, size_t bytes,
                         const Pack& pack);
  /// `bytes` that the host computes by `fill`; `of` and `key` identify them.
  Result<Binding> table(const void* of, const std::string& key, size_t bytes, const Fill& fill);
  /// Runs pending uploads and packings. Entries must not be used before.
  Status flush();
  size_t bytes() const { return bytes_; }

 private:
  using Key = std::pair<const void*, std::string>;
  /// `bytes` of device memory that live as long as the store.
  Result<const Buffer*> hold(size_t bytes);
  Status upload(const void* data, size_t bytes, const Buffer& to);
  Recorder& setup();
  /// A temporary upload, released by flush().
  Result<Binding> upload_for_now(const void* data, size_t bytes);
  Result<Binding> pack_from(const Binding& raw, const Key& key, size_t bytes, const Pack& pack);
  Status flush_locked();

  std::shared_ptr<Device> device_;
  std::vector<std::unique_ptr<Buffer>> held_;
  size_t bytes_ = 0;  ///< of all held
  std::mutex mutex_;
  std::map<Key, Binding> entries_;
  std::unique_ptr<Recorder> setup_;                 ///< what is pending; null: nothing
  std::vector<std::unique_ptr<Buffer>> temporary_;  ///< staging and raw bytes, until it ran
  size_t pending_ = 0;
};

}  // namespace smelt::vulkan
