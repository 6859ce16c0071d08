#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/core/builder.h"

namespace smelt {

/// Attributes of one operator as its file states them: names, and values as JSON texts, in the file's order.
using StatedAttributes = std::vector<std::pair<std::string, std::string>>;

/// Attributes of the operators of a file. Readers record them only where somebody asks: while a FileAttributes::Scope
/// lives on the thread that loads.
class FileAttributes {
 public:
  /// Readers on this thread record into `to`, which must outlive the scope. Of nested scopes the innermost counts.
  class Scope {
   public:
    explicit Scope(FileAttributes& to);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    FileAttributes* before_;
  };

  /// Where readers on this thread record; null where nobody asks.
  static FileAttributes* wanted();

  /// Attributes of the operator whose nodes the builder adds next, all of them with the location `where`.
  void record(Builder& builder, std::string where, StatedAttributes attributes);

  /// Joins what was recorded with the nodes of the module that was loaded; find() answers afterwards.
  void finish(const Module& module);

  /// What the file states of the operator that a node of graph `graph` comes from, before or after passes. Null where
  /// nothing was recorded, or several operators have this location (calls of one ONNX function).
  const StatedAttributes* find(size_t graph, const Node& node) const;

 private:
  struct Record {
    size_t graph = 0, first = 0;  ///< index of the graph, and of the operator's first node there
    std::string where;
    StatedAttributes attributes;
  };
  using Location = std::tuple<size_t, int, std::string, std::string>;  ///< graph, partition, location, name
  static Location location_of(size_t graph, const Node& node) { return {graph, node.partition, node.where, node.name}; }

  std::vector<Record> records_;
  std::map<Location, std::optional<StatedAttributes>> by_location_;  ///< nullopt: of several operators
};

/// JSON texts of values. Numbers that JSON lacks are the strings "NaN", "Infinity" and "-Infinity".
std::string json_text(std::string_view text);
std::string json_text(float value);
std::string json_text(double value);
std::string json_text(int64_t value);
std::string json_text(bool value);

/// The JSON text of `count` elements, element(i) giving that of one: "[1,2]". Of more than 32 the string "N values".
template <class F>
std::string json_list(size_t count, F&& element) {
  constexpr size_t kShown = 32;
  if (count > kShown) return json_text(std::string_view(Cat(count, " values")));
  std::string out = "[";
  for (size_t i = 0; i < count; ++i) out += Cat(i ? "," : "", element(i));
  return out + "]";
}

}  // namespace smelt
