#include "ops/strings/hash.h"

#include <gtest/gtest.h>

#include <string>

namespace smelt {
namespace {

std::string repeated(const std::string& s, int n) {
  std::string out;
  while (n-- > 0) out += s;
  return out;
}

TEST(Hash, Fingerprint64) {
  const auto of = [](const std::string& s) { return static_cast<int64_t>(fingerprint64(s.data(), s.size())); };
  EXPECT_EQ(of("test"), 8581389452482819506);
  EXPECT_EQ(of(repeated("test", 8)), -4196240717365766262);
  EXPECT_EQ(of(repeated("test", 64)), 3500507768004279527);
}

TEST(Hash, Murmur3) {
  const auto of = [](const std::string& s, uint32_t seed) { return murmur3(s.data(), s.size(), seed); };
  EXPECT_EQ(of("", 0), 0u);
  EXPECT_EQ(of("", 1), 0x514e28b7u);
  EXPECT_EQ(of("test", 0), 0xba6bd213u);
  EXPECT_EQ(of("Hello, world!", 0), 0xc0363e43u);
}

}  // namespace
}  // namespace smelt
