#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/backend.h"

namespace smelt::test {

/// The reference kernels and every back-end of the list.
inline std::vector<BackendKind> every_backend() {
  std::vector<BackendKind> kinds{BackendKind::kReference};
  for (const Backend* b : all_backends()) kinds.emplace_back(b->name());
  return kinds;
}

/// Why sessions can't be made on a back-end, such as a device that this machine lacks; "" if they can.
inline std::string why_absent(const BackendKind& kind) {
  const Backend* backend = find_backend(kind.name());
  if (!backend) return "";
  const auto device = backend->open({.backend = kind});
  return device.ok() ? "" : device.error().message();
}

}  // namespace smelt::test

/// Skips a test where sessions can't be made on the back-end.
#define SMELT_SKIP_WITHOUT(kind) \
  if (const std::string why = smelt::test::why_absent(kind); !why.empty()) GTEST_SKIP() << why
