#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/aligned_bytes.h"
#include "graph/graph.h"
#include "smelt/options.h"
#include "smelt/result.h"

namespace smelt {

/// The bytes that a format reader turns into a module, and what belongs to them.
struct Source {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  ///< constants that view the bytes keep this
  std::string name;                   ///< for messages
  std::string folder;                 ///< external data may lie below it; empty: none allowed
  const LoadOptions* options = nullptr;
};

/// The source with bytes aligned for flatbuffer access; see align_flatbuffer().
inline Source aligned(Source source) {
  align_flatbuffer(source.bytes, source.owner);
  return source;
}

/// A format: how to know it by its first bytes, and how to read it.
struct Format {
  const char* name;
  bool (*recognise)(std::span<const std::byte> bytes);
  Result<Module> (*load)(const Source& source);
  bool takes_data_files = false;  ///< LoadOptions::data_files
};

/// All formats, in the order in which Model::load tries them.
std::span<const Format* const> all_formats();

}  // namespace smelt
