#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/tflite/schema.h"
#include "smelt/result.h"

namespace smelt::tflite {

/// The tables of a model's buffers, which lie among their contents all over the file: each is verified when it is asked
/// for, and read from the file so that the pages around it, which cost more, are not mapped.
class BufferTable {
 public:
  /// The part of a Buffer's fields that says where its contents are.
  struct Fields {
    std::span<const uint8_t> data;  ///< inside the flatbuffer
    uint64_t offset = 0, size = 0;  ///< behind it
  };
  /// `flatbuffer` holds the model and must outlive this.
  BufferTable(std::span<const std::byte> flatbuffer, const tfl::Model& model);
  uint32_t size() const { return count_; }
  /// Precondition: index < size(). An error where the table is damaged.
  Result<Fields> operator[](uint32_t index);

 private:
  /// The number at `at`, which lies inside the flatbuffer; of a table, by way of the window.
  template <class T>
  T number(size_t at);

  std::span<const std::byte> bytes_;
  size_t offsets_ = 0;  ///< where the offsets of the tables begin
  uint32_t count_ = 0;
  std::array<std::byte, 512> window_;  ///< bytes from window_begin_ on
  size_t window_begin_ = 0, window_bytes_ = 0;
};

/// Verifies all of a model but the tables of its buffers.
bool verify_model(flatbuffers::Verifier& verifier);

}  // namespace smelt::tflite
