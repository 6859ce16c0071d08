#include "formats/tflite/buffer_table.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "base/mapped_file.h"

namespace smelt::tflite {
namespace {

/// tfl::Model with a Verify() of its own.
class ModelButBuffers : private flatbuffers::Table {
 public:
  bool Verify(flatbuffers::Verifier& v) const {
    using M = tfl::Model;
    const auto& m = *reinterpret_cast<const M*>(this);
    // An offset is verified before it is read.
    const auto tables = [&](flatbuffers::voffset_t field, auto list) {
      return VerifyOffset(v, field) && v.VerifyVector((m.*list)()) && v.VerifyVectorOfTables((m.*list)());
    };
    return VerifyTableStart(v) && VerifyField<uint32_t>(v, M::VT_VERSION, 4) &&
           tables(M::VT_OPERATOR_CODES, &M::operator_codes) && tables(M::VT_SUBGRAPHS, &M::subgraphs) &&
           VerifyOffset(v, M::VT_DESCRIPTION) && v.VerifyString(m.description()) && VerifyOffset(v, M::VT_BUFFERS) &&
           v.VerifyVector(m.buffers()) && VerifyOffset(v, M::VT_METADATA_BUFFER) &&
           v.VerifyVector(m.metadata_buffer()) && tables(M::VT_METADATA, &M::metadata) &&
           tables(M::VT_SIGNATURE_DEFS, &M::signature_defs) &&
           tables(M::VT_EXTERNAL_BUFFER_GROUPS, &M::external_buffer_groups) &&
           tables(M::VT_EXTERNAL_BUFFERS, &M::external_buffers) && v.EndTable();
  }
};

}  // namespace

bool verify_model(flatbuffers::Verifier& verifier) {
  return verifier.VerifyBuffer<ModelButBuffers>(tfl::ModelIdentifier());
}

BufferTable::BufferTable(std::span<const std::byte> flatbuffer, const tfl::Model& model) : bytes_(flatbuffer) {
  if (const auto* buffers = model.buffers()) {
    offsets_ = static_cast<size_t>(reinterpret_cast<const std::byte*>(buffers->Data()) - flatbuffer.data());
    count_ = buffers->size();
  }
}

template <class T>
T BufferTable::number(size_t at) {
  if (at < window_begin_ || at + sizeof(T) > window_begin_ + window_bytes_) {
    // Writers put tables before their contents and those of later buffers before these.
    constexpr size_t kBehind = 64;
    const size_t end = std::min(at + kBehind, bytes_.size());
    window_begin_ = end > window_.size() ? end - window_.size() : 0;
    window_bytes_ = end - window_begin_;
    copy_few_file_bytes(bytes_.data() + window_begin_, window_bytes_, window_.data());
  }
  T v;
  std::memcpy(&v, window_.data() + (at - window_begin_), sizeof(T));
  return v;
}

Result<BufferTable::Fields> BufferTable::operator[](uint32_t index) {
  const auto damaged = [&] { return InvalidModel("the table of buffer ", index, " is damaged"); };
  const auto holds = [&](size_t at, size_t bytes) { return in_range(at, bytes, bytes_.size()); };
  const auto mapped = [&](size_t at) {
    uint16_t v;
    std::memcpy(&v, bytes_.data() + at, sizeof(v));
    return v;
  };
  const size_t offset = offsets_ + size_t{4} * index;  // of a vector that was verified
  uint32_t to_table;
  std::memcpy(&to_table, bytes_.data() + offset, sizeof(to_table));
  const size_t table = offset + to_table;
  if (!holds(table, 4)) return damaged();
  // Tables share few lists of fields.
  const auto fields = static_cast<size_t>(static_cast<int64_t>(table) - number<int32_t>(table));
  if (!holds(fields, 4) || mapped(fields) % 2 != 0 || !holds(fields, mapped(fields))) return damaged();
  const auto place = [&](flatbuffers::voffset_t field) -> size_t {
    const uint16_t at = field + 2u <= mapped(fields) ? mapped(fields + field) : uint16_t{0};
    return at == 0 ? 0 : table + at;
  };
  Fields found;
  if (const size_t at = place(tfl::Buffer::VT_DATA); at != 0) {
    if (!holds(at, 4)) return damaged();
    const size_t data = at + number<uint32_t>(at);
    if (!holds(data, 4)) return damaged();
    const uint32_t size = number<uint32_t>(data);
    if (!holds(data + 4, size)) return damaged();
    found.data = {reinterpret_cast<const uint8_t*>(bytes_.data()) + data + 4, size};
  }
  for (const auto& [field, to] :
       {std::pair{tfl::Buffer::VT_OFFSET, &found.offset}, {tfl::Buffer::VT_SIZE, &found.size}})
    if (const size_t at = place(field); at != 0) {
      if (!holds(at, 8)) return damaged();
      *to = number<uint64_t>(at);
    }
  return found;
}

}  // namespace smelt::tflite
