// What can be told from the bytes of a message without its meaning.
#include "formats/onnx/wire.h"

namespace smelt::onnx {

bool looks_like_model(std::string_view bytes) {
  bool known = false;
  try {
    protozero::pbf_reader r(bytes.data(), bytes.size());
    for (int i = 0; i < 64 && r.next(); ++i) {
      const uint32_t tag = r.tag();
      const bool number = tag == 1 || tag == 5;
      const bool text = (tag >= 2 && tag <= 8 && tag != 5) || tag == 14 || tag == 20 || tag == 25 || tag == 26;
      if (number && r.wire_type() == pbf_wire_type::varint)
        known = true;
      else if (text && r.wire_type() == pbf_wire_type::length_delimited)
        known = true;
      else if (number || text)
        return false;
      r.skip();
    }
  } catch (const protozero::exception&) {
    return known;
  }
  return known;
}

bool decode_varints(const Runs& runs, size_t limit, std::vector<uint64_t>& out) {
  for (const std::string_view run : runs) {
    size_t i = 0;
    while (i < run.size()) {
      uint64_t v = 0;
      for (int shift = 0;; shift += 7) {
        if (i >= run.size() || shift > 63) return false;
        const auto byte = static_cast<uint8_t>(run[i++]);
        v |= static_cast<uint64_t>(byte & 0x7f) << shift;
        if (!(byte & 0x80)) break;
      }
      if (out.size() >= limit) return false;
      out.push_back(v);
    }
  }
  return true;
}

}  // namespace smelt::onnx
