#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace smelt {

/// The values that a run made. Their contents lie in an unnamed file of the folder TMPDIR, not in memory.
class Recording {
 public:
  static Result<Recording> create();
  /// Notes a tensor. One that was noted under the same id is replaced. Values other than tensors are left out.
  Status add(ValueId id, const Datum& value);
  /// Notes a tensor whose bytes lie in another file.
  void refer(ValueId id, const Tensor& type, std::shared_ptr<const int> file, uint64_t offset);
  bool has(ValueId id) const { return entries_.count(id) > 0; }
  /// A tensor of the type without contents, quantization included. Precondition: has(id).
  const Tensor& type(ValueId id) const { return entries_.at(id).type; }
  /// Reads a tensor into storage of its own. Precondition: has(id).
  Result<Tensor> read(ValueId id) const;
  /// Reads `count` elements from element `at` on. Preconditions: has(id), there are that many, and an element of the
  /// type takes whole bytes.
  Status read(ValueId id, int64_t at, int64_t count, void* to) const;
  /// In the order in which they were made.
  const std::vector<ValueId>& order() const { return order_; }
  uint64_t bytes() const { return end_; }

 private:
  struct Entry {
    Tensor type;
    std::shared_ptr<const int> file;
    uint64_t offset = 0;
  };
  std::shared_ptr<const int> file_;  ///< its descriptor, closed with the last owner
  std::map<ValueId, Entry> entries_;
  std::vector<ValueId> order_;
  uint64_t end_ = 0;
};

/// A file descriptor that its last owner closes.
std::shared_ptr<const int> own_descriptor(int fd);

}  // namespace smelt
