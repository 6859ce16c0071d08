// TFLITE_METADATA and the archive of associated files behind a model.
#include <array>

#include "base/cat.h"

#include "formats/tflite/writer/file_layout.h"
#include "tflite_metadata_generated.h"

namespace smelt::tflite {
namespace {

namespace tm = tfl_metadata;
using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

std::string entry(const Module& module, const std::string& key) {
  for (const auto& [k, text] : module.metadata)
    if (k == key) return text;
  return {};
}

std::vector<Offset<tm::TensorMetadata>> tensors(FlatBufferBuilder& b, const Module& module, const char* what,
                                                size_t n) {
  std::vector<Offset<tm::TensorMetadata>> out;
  for (size_t i = 0; i < n; ++i) {
    const std::string text = entry(module, Cat(what, " ", i)), labels = entry(module, Cat(what, " ", i, " labels"));
    const size_t colon = text.find(": ");
    const std::string name = text.substr(0, colon),
                      description = colon == std::string::npos ? "" : text.substr(colon + 2);
    std::vector<Offset<tm::ProcessUnit>> units;
    const auto norm = module.normalization.find(static_cast<int>(i));
    if (what == std::string("input") && norm != module.normalization.end()) {
      const auto options = tm::CreateNormalizationOptionsDirect(b, &norm->second.mean, &norm->second.std);
      units.push_back(tm::CreateProcessUnit(b, tm::ProcessUnitOptions::NormalizationOptions, options.Union()));
    }
    std::vector<Offset<tm::AssociatedFile>> files;
    if (!labels.empty())
      files.push_back(
          tm::CreateAssociatedFileDirect(b, labels.c_str(), nullptr, tm::AssociatedFileType::TENSOR_AXIS_LABELS));
    out.push_back(tm::CreateTensorMetadataDirect(b, name.empty() ? nullptr : name.c_str(),
                                                 description.empty() ? nullptr : description.c_str(), nullptr, 0,
                                                 &units, 0, &files));
  }
  return out;
}

uint32_t crc32(const std::string& bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
      t[i] = c;
    }
    return t;
  }();
  uint32_t c = 0xffffffffu;
  for (const char byte : bytes) c = table[(c ^ static_cast<uint8_t>(byte)) & 0xff] ^ (c >> 8);
  return c ^ 0xffffffffu;
}

void put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

/// The fields that a member's header and its entry of the directory share.
std::string member_fields(const std::string& name, const std::string& text) {
  std::string out;
  put(out, 20, 2);    // version needed
  put(out, 0, 2);     // flags
  put(out, 0, 2);     // not compressed
  put(out, 0, 2);     // time
  put(out, 0x21, 2);  // date: 1980-01-01
  put(out, crc32(text), 4);
  put(out, text.size(), 4);
  put(out, text.size(), 4);
  put(out, name.size(), 2);
  put(out, 0, 2);  // extra field
  return out;
}

}  // namespace

std::string metadata_buffer(const Module& module) {
  constexpr const char* kKeys[] = {"name", "description", "version", "author", "license"};
  bool any = !module.text_files.empty() || !module.normalization.empty();
  for (const char* key : kKeys) any |= module.format == "tflite" && !entry(module, key).empty();
  if (!any || module.methods.empty()) return {};
  FlatBufferBuilder b;
  const Graph& main = module.graphs[static_cast<size_t>(module.methods[0].graph)];
  const auto in = tensors(b, module, "input", main.inputs.size());
  const auto out = tensors(b, module, "output", main.outputs.size());
  std::vector<Offset<tm::AssociatedFile>> files;
  for (const auto& [name, lines] : module.text_files) files.push_back(tm::CreateAssociatedFileDirect(b, name.c_str()));
  const std::vector<Offset<tm::SubGraphMetadata>> subgraphs{
      tm::CreateSubGraphMetadataDirect(b, nullptr, nullptr, &in, &out)};
  std::array<std::string, 5> texts;
  for (size_t i = 0; i < texts.size(); ++i) texts[i] = entry(module, kKeys[i]);
  const auto text = [&](size_t i) { return texts[i].empty() ? nullptr : texts[i].c_str(); };
  b.Finish(tm::CreateModelMetadataDirect(b, text(0), text(1), text(2), &subgraphs, text(3), text(4), &files), "M001");
  return {reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()};
}

std::string associated_files(const Module& module, size_t offset) {
  if (module.text_files.empty()) return {};
  std::string out, directory;
  for (const auto& [name, lines] : module.text_files) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    const std::string fields = member_fields(name, text);
    put(directory, 0x02014b50, 4);
    put(directory, 20, 2);  // version made by
    directory += fields;
    put(directory, 0, 2);  // comment
    put(directory, 0, 2);  // disk
    put(directory, 0, 2);  // internal attributes
    put(directory, 0, 4);  // external attributes
    put(directory, offset + out.size(), 4);
    directory += name;
    put(out, 0x04034b50, 4);
    out += fields + name + text;
  }
  const size_t at = offset + out.size();
  out += directory;
  put(out, 0x06054b50, 4);
  put(out, 0, 4);  // disks
  put(out, module.text_files.size(), 2);
  put(out, module.text_files.size(), 2);
  put(out, directory.size(), 4);
  put(out, at, 4);
  put(out, 0, 2);  // comment
  return out;
}

}  // namespace smelt::tflite
