// Model.metadata: version strings, the description of inputs and outputs, associated files.
#include <algorithm>

#include "formats/tflite/archive.h"
#include "formats/tflite/reader.h"
#include "tflite_metadata_generated.h"

namespace smelt::tflite {
namespace {

namespace tm = tfl_metadata;

bool printable(const std::string& text) {
  return text.size() < 256 && std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

std::string text_of(const flatbuffers::String* s) { return s ? s->str() : std::string(); }

/// Cuts a text file into lines; nothing when it is no text or too long to be a label file.
std::vector<std::string> lines_of(std::span<const uint8_t> bytes, size_t& lines_left) {
  constexpr size_t kLargest = size_t{16} << 20;
  std::vector<std::string> lines;
  if (bytes.size() > kLargest || std::ranges::find(bytes, 0) != bytes.end()) return lines;
  const auto count = static_cast<size_t>(std::count(bytes.begin(), bytes.end(), '\n')) + 1;
  if (count > lines_left) return lines;
  lines_left -= count;
  for (size_t at = 0; at < bytes.size();) {
    const auto end = std::ranges::find(bytes.begin() + static_cast<ptrdiff_t>(at), bytes.end(), '\n');
    const auto stop = static_cast<size_t>(end - bytes.begin());
    std::string line(reinterpret_cast<const char*>(bytes.data()) + at, stop - at);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(std::move(line));
    at = stop + 1;
  }
  return lines;
}

void read_files(Reader& reader) {
  const auto bytes = reader.source().bytes;
  size_t lines_left = 1'000'000;
  for (Member& m : archive_members({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, 1000)) {
    if (m.method != 0) {
      reader.module().metadata.emplace_back("associated file " + m.name, "compressed");
      continue;
    }
    auto lines = lines_of(m.bytes, lines_left);
    if (lines.empty() && !m.bytes.empty())
      reader.module().metadata.emplace_back("associated file " + m.name, Cat(m.bytes.size(), " bytes"));
    else
      reader.module().text_files[m.name] = std::move(lines);
  }
}

void read_normalization(const tm::SubGraphMetadata& subgraph, Module& module) {
  if (!subgraph.input_tensor_metadata()) return;
  int index = 0;
  for (const tm::TensorMetadata* t : *subgraph.input_tensor_metadata()) {
    const int input = index++;
    if (!t->process_units()) continue;
    for (const tm::ProcessUnit* unit : *t->process_units()) {
      const auto* n = unit->options_as_NormalizationOptions();
      if (!n || !n->mean() || !n->std() || n->mean()->size() == 0 || n->std()->size() == 0) continue;
      Module::Normalization norm;
      norm.mean.assign(n->mean()->begin(), n->mean()->end());
      norm.std.assign(n->std()->begin(), n->std()->end());
      if (std::ranges::all_of(norm.std, [](float s) { return s != 0; })) module.normalization[input] = std::move(norm);
    }
  }
}

void read_description(Reader& reader, std::span<const uint8_t> bytes) {
  Module& module = reader.module();
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), 32, 100'000);
  if (bytes.size() < 8 || !verifier.VerifyBuffer<tm::ModelMetadata>(nullptr)) {
    module.metadata.emplace_back("TFLITE_METADATA", "damaged");
    return;
  }
  const auto* m = flatbuffers::GetRoot<tm::ModelMetadata>(bytes.data());
  const auto add = [&](const char* key, const flatbuffers::String* value) {
    if (value && value->size() > 0) module.metadata.emplace_back(key, value->str());
  };
  add("name", m->name());
  add("description", m->description());
  add("version", m->version());
  add("author", m->author());
  add("license", m->license());
  add("min_parser_version", m->min_parser_version());
  if (m->subgraph_metadata() && m->subgraph_metadata()->size() > 0) {
    const tm::SubGraphMetadata& main = *m->subgraph_metadata()->Get(0);
    read_normalization(main, module);
    const auto tensors = [&](const char* what, const auto* list) {
      if (!list) return;
      int i = 0;
      for (const tm::TensorMetadata* t : *list) {
        const std::string name = text_of(t->name()), text = text_of(t->description());
        if (!name.empty() || !text.empty())
          module.metadata.emplace_back(Cat(what, " ", i), text.empty() ? name : name + ": " + text);
        if (t->associated_files())
          for (const tm::AssociatedFile* f : *t->associated_files())
            if (f->type() == tm::AssociatedFileType::TENSOR_AXIS_LABELS ||
                f->type() == tm::AssociatedFileType::TENSOR_VALUE_LABELS)
              module.metadata.emplace_back(Cat(what, " ", i, " labels"), text_of(f->name()));
        ++i;
      }
    };
    tensors("input", main.input_tensor_metadata());
    tensors("output", main.output_tensor_metadata());
  }
  read_files(reader);
}

}  // namespace

Status read_metadata(Reader& reader) {
  const auto* entries = reader.model().metadata();
  if (!entries) return Ok();
  if (entries->size() > 100'000) return LimitReached(entries->size(), " metadata entries");
  bool described = false;
  for (const tfl::Metadata* m : *entries) {
    const std::string name = text_of(m->name());
    auto bytes = reader.buffer(m->buffer());
    if (!bytes.ok()) return bytes.error().within(Cat("metadata '", name, "'"));
    if (name == "TFLITE_METADATA" && !described) {
      described = true;
      read_description(reader, *bytes);
      continue;
    }
    std::string text(reinterpret_cast<const char*>(bytes->data()), std::min<size_t>(bytes->size(), 256));
    while (!text.empty() && text.back() == '\0') text.pop_back();
    reader.module().metadata.emplace_back(name, printable(text) ? text : Cat(bytes->size(), " bytes"));
  }
  return Ok();
}

}  // namespace smelt::tflite
