// What a file states of an operator: its builtin options, or its custom options where those are a FlexBuffer map.
#include "binary/tflite_schema.h"
#include "formats/common/flatbuffer_attributes.h"
#include "formats/tflite/custom.h"

namespace smelt::tflite {
namespace {

/// A value of a map; what holds other values than numbers and texts, by its size.
std::string text_of(const flexbuffers::Reference& value) {
  if (value.IsBool()) return json_text(value.AsBool());
  if (value.IsFloat()) return json_text(value.AsDouble());
  if (value.IsIntOrUint()) return json_text(value.AsInt64());
  if (value.IsString()) return json_text(std::string_view(value.AsString().c_str(), value.AsString().length()));
  if (value.IsNull()) return "null";
  if (value.IsTypedVector()) {
    const auto items = value.AsTypedVector();
    return json_list(items.size(), [&](size_t i) {
      return items[i].IsNumeric() ? text_of(items[i]) : json_text(std::string_view("a value"));
    });
  }
  return json_text(
      std::string_view(Cat(value.IsAnyVector() ? value.AsVector().size() : value.AsBlob().size(), " values")));
}

}  // namespace

StatedAttributes stated_attributes(OperatorContext& c) {
  const auto& op = reinterpret_cast<const flatbuffers::Table&>(c.op());
  StatedAttributes out;
  for (const char* options : {"builtin_options", "builtin_options_2"})
    for (auto& attribute : union_attributes(tflite_schema(), "smelt.tfl.Operator", options, op))
      out.push_back(std::move(attribute));
  const auto bytes = custom_bytes(c);
  if (!bytes.ok() || bytes->empty()) return out;
  if (bytes->size() < 3 || !flexbuffers::VerifyBuffer(bytes->data(), bytes->size()) ||
      !flexbuffers::GetRoot(bytes->data(), bytes->size()).IsMap()) {
    out.emplace_back("custom_options", json_text(std::string_view(Cat(bytes->size(), " bytes"))));
    return out;
  }
  const auto map = flexbuffers::GetRoot(bytes->data(), bytes->size()).AsMap();
  for (size_t i = 0; i < map.size(); ++i) out.emplace_back(map.Keys()[i].AsKey(), text_of(map.Values()[i]));
  return out;
}

}  // namespace smelt::tflite
