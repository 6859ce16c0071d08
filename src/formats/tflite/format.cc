#include "formats/format.h"

#include <cstring>

#include "base/error.h"
#include "formats/tflite/buffer_table.h"
#include "formats/tflite/reader.h"

namespace smelt {
namespace {

bool recognise(std::span<const std::byte> bytes) {
  return bytes.size() >= 8 && std::memcmp(bytes.data() + 4, "TFL3", 4) == 0;
}

Result<Module> load(const Source& given) {
  const Source source = aligned(given);
  // A table costs at least four bytes, unless offsets share one: the bound keeps hostile sharing cheap.
  constexpr int kMaxDepth = 32;
  constexpr int kMaxTables = 1'000'000;
  const auto* data = reinterpret_cast<const uint8_t*>(source.bytes.data());
  if (source.bytes.size() < 12) return InvalidModel("a flatbuffer of ", source.bytes.size(), " bytes is cut off");
  // Offsets are 32 bits wide: what a larger file holds beyond 2 GiB is data that Buffer.offset refers to.
  const size_t size =
      source.bytes.size() < FLATBUFFERS_MAX_BUFFER_SIZE ? source.bytes.size() : size_t{FLATBUFFERS_MAX_BUFFER_SIZE} - 1;
  flatbuffers::Verifier verifier(data, size, kMaxDepth, kMaxTables);
  if (!tflite::verify_model(verifier))
    return InvalidModel("the flatbuffer is damaged (an offset leads out of it or to an odd place)");
  tflite::Reader reader(source, size, *tfl::GetModel(data));
  return reader.read();
}

}  // namespace

extern const Format tflite_format;
const Format tflite_format{"tflite", recognise, load};

}  // namespace smelt
