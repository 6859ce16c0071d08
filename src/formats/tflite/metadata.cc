// Model.metadata: version strings now; associated files and normalization through the metadata's own flatbuffer.
#include "formats/tflite/reader.h"

namespace smelt::tflite {

Status read_metadata(Reader& reader) {
  const auto* entries = reader.model().metadata();
  if (!entries) return Ok();
  for (const tfl::Metadata* m : *entries) {
    const std::string name = m->name() ? m->name()->str() : "";
    auto bytes = reader.buffer(m->buffer());
    if (!bytes.ok()) return bytes.error().within(Cat("metadata '", name, "'"));
    std::string text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    while (!text.empty() && text.back() == '\0') text.pop_back();
    const bool printable =
        text.size() < 256 &&
        text.find_first_not_of(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,:;-_+/()[]{}=<>#*'\"!?&%@") ==
            std::string::npos;
    reader.module().metadata.emplace_back(name, printable ? text : Cat(bytes->size(), " bytes"));
  }
  return Ok();
}

}  // namespace smelt::tflite
