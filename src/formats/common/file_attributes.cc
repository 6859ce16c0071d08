#include "formats/common/file_attributes.h"

#include <fmt/format.h>

#include <cmath>

namespace smelt {
namespace {

thread_local FileAttributes* innermost = nullptr;

template <class T>
std::string real_text(T value) {
  if (std::isfinite(value)) return fmt::format("{}", value);
  return std::isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
}

}  // namespace

FileAttributes::Scope::Scope(FileAttributes& to) : before_(innermost) { innermost = &to; }
FileAttributes::Scope::~Scope() { innermost = before_; }
FileAttributes* FileAttributes::wanted() { return innermost; }

void FileAttributes::record(Builder& builder, std::string where, StatedAttributes attributes) {
  const auto graph = static_cast<size_t>(&builder.graph() - builder.module().graphs.data());
  records_.push_back({graph, builder.graph().nodes.size(), std::move(where), std::move(attributes)});
}

void FileAttributes::finish(const Module& module) {
  std::map<std::pair<size_t, size_t>, const Record*> at;  // of operators without nodes the next one counts
  for (const Record& r : records_) at[{r.graph, r.first}] = &r;
  for (size_t g = 0; g < module.graphs.size(); ++g) {
    const Record* current = nullptr;
    std::map<Location, const Record*> seen;
    for (size_t i = 0; i < module.graphs[g].nodes.size(); ++i) {
      const Node& node = module.graphs[g].nodes[i];
      if (const auto it = at.find({g, i}); it != at.end()) current = it->second;
      if (!current || current->where != node.where) continue;
      const auto [location, fresh] = seen.emplace(location_of(g, node), current);
      if (fresh)
        by_location_[location->first] = current->attributes;
      else if (location->second != current)
        by_location_[location->first] = std::nullopt;
    }
  }
  records_.clear();
}

const StatedAttributes* FileAttributes::find(size_t graph, const Node& node) const {
  const auto it = by_location_.find(location_of(graph, node));
  return it == by_location_.end() || !it->second ? nullptr : &*it->second;
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + '"';
}

std::string json_text(float value) { return real_text(value); }
std::string json_text(double value) { return real_text(value); }

std::string json_text(int64_t value) { return Cat(value); }
std::string json_text(bool value) { return value ? "true" : "false"; }

}  // namespace smelt
