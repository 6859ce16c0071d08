#include <string_view>

#include "backends/backend.h"
#include "base/selection.h"

namespace smelt {

#define SMELT_BACKEND(name) const Backend& name##_backend();
#include "backends/backends.inc"
#undef SMELT_BACKEND

namespace {
std::vector<const Backend*>& list() {
  static std::vector<const Backend*> backends = [] {
    std::vector<const Backend*> built;
#define SMELT_BACKEND(name) \
  if (builds_backend(#name)) built.push_back(&name##_backend());
#include "backends/backends.inc"
#undef SMELT_BACKEND
    return built;
  }();
  return backends;
}
}  // namespace

std::span<const Backend* const> all_backends() { return list(); }
RegisteredBackend::RegisteredBackend(const Backend& backend) { list().push_back(&backend); }
RegisteredBackend::~RegisteredBackend() { list().pop_back(); }

const Backend* find_backend(std::string_view name) {
  for (const Backend* b : all_backends())
    if (b->name() == name) return b;
  return nullptr;
}

}  // namespace smelt
