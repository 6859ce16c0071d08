#pragma once

#include <cstdint>
#include <exception>
#include <protozero/pbf_reader.hpp>
#include <string_view>
#include <vector>

#include "formats/onnx/proto.h"

namespace smelt::onnx {

using protozero::pbf_wire_type;

/// protozero reports malformed bytes by exceptions; they end in parse_model().
class Fault : public std::exception {
 public:
  explicit Fault(const char* text) : text_(text) {}
  const char* what() const noexcept override { return text_; }

 private:
  const char* text_;
};

/// One field of a message with its wire type checked as it is read.
class Field {
 public:
  explicit Field(protozero::pbf_reader& r) : r_(r) {}
  uint32_t tag() const { return r_.tag(); }
  int64_t varint() {
    expect(pbf_wire_type::varint, "a number expected");
    return r_.get_int64();
  }
  float fixed_float() {
    expect(pbf_wire_type::fixed32, "a float expected");
    return r_.get_float();
  }
  std::string_view bytes() {
    expect(pbf_wire_type::length_delimited, "bytes or text expected");
    const auto v = r_.get_view();
    return {v.data(), v.size()};
  }
  /// A repeated number, packed or not, as a run of the file's bytes.
  void run(pbf_wire_type single, Runs& out) {
    if (r_.wire_type() == pbf_wire_type::length_delimited) {
      out.push_back(bytes());
      return;
    }
    expect(single, "a repeated number expected");
    const char* begin = r_.data().data();
    r_.skip();
    out.emplace_back(begin, static_cast<size_t>(r_.data().data() - begin));
  }
  void varints(std::vector<int64_t>& out) {
    if (r_.wire_type() == pbf_wire_type::varint) {
      do out.push_back(r_.get_int64());
      while (next_is_alike());
      return;
    }
    expect(pbf_wire_type::length_delimited, "repeated numbers expected");
    for (const int64_t v : r_.get_packed_int64()) out.push_back(v);
  }
  void floats(std::vector<float>& out) {
    if (r_.wire_type() == pbf_wire_type::fixed32) {
      do out.push_back(r_.get_float());
      while (next_is_alike());
      return;
    }
    expect(pbf_wire_type::length_delimited, "repeated floats expected");
    for (const float v : r_.get_packed_float()) out.push_back(v);
  }
  void skip() { r_.skip(); }

  // By the type of what the field is read into; repeated fields append.
  void read(int64_t& out) { out = varint(); }
  void read(float& out) { out = fixed_float(); }
  void read(std::string_view& out) { out = bytes(); }
  void read(std::vector<int64_t>& out) { varints(out); }
  void read(std::vector<float>& out) { floats(out); }
  void read(std::vector<std::string_view>& out) { out.push_back(bytes()); }

 private:
  /// True if another field of this number and wire type follows; it is the current one then.
  bool next_is_alike() {
    const uint32_t key = r_.tag() << 3 | static_cast<uint32_t>(r_.wire_type());
    const auto rest = r_.data();
    return key < 0x80 && !rest.empty() && static_cast<uint8_t>(*rest.data()) == key && r_.next();
  }
  void expect(pbf_wire_type type, const char* what) const {
    if (r_.wire_type() != type) throw Fault(what);
  }
  protozero::pbf_reader& r_;
};

}  // namespace smelt::onnx
