#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "backends/vulkan/record/recorder.h"
#include "smelt/tensor.h"

namespace smelt::vulkan {

/// Variables of one session that lie on the device, shared by its plans. Each has a copy on the host too, and what
/// wrote it last decides which of the two counts: bytes cross only when the other side reads.
class StateStore {
 public:
  explicit StateStore(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  /// Where variable `index` of `bytes` bytes lies.
  Result<Binding> place(int index, size_t bytes);
  /// Before the device reads it.
  Status to_device(int index, const Tensor& host);
  /// Before the host reads it.
  Status to_host(int index, Tensor& host);
  void written_on_device(int index);
  void written_on_host(int index);
  void all_written_on_host();

  size_t bytes() const;                        ///< of all variables there
  uint64_t copies() const { return copies_; }  ///< made so far, either way

 private:
  struct Entry {
    std::unique_ptr<Buffer> buffer;
    size_t bytes = 0;
    bool device = false, host = true;  ///< whose copy is up to date
  };
  /// Between the variable and memory that the host sees, where it does not see the variable itself.
  Status stage(Entry& e, char* host, bool up);

  std::shared_ptr<Device> device_;
  std::map<int, Entry> entries_;
  uint64_t copies_ = 0;
};

}  // namespace smelt::vulkan
