#pragma once

#include <string>
#include <string_view>

#include "base/cat.h"
#include "base/error.h"

namespace smelt {

/// A value of an environment variable, and what it means.
template <class T>
struct NamedSetting {
  const char* name;
  T value;
};

/// What `name` means of those settings; `otherwise` where it is null. Another name is an error that lists them.
template <class T, size_t N>
Result<T> setting_named(const char* variable, const NamedSetting<T> (&settings)[N], const char* name, T otherwise) {
  if (!name) return otherwise;
  std::string choices;
  for (const auto& s : settings) {
    if (s.name == std::string_view(name)) return s.value;
    choices += Cat(choices.empty() ? "" : ", ", s.name);
  }
  return InvalidInput(variable, " is ", name, "; it may be ", choices);
}

}  // namespace smelt
