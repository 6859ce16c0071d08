// Loads files that break a rule of their format.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string>

#include "smelt/model.h"

namespace smelt {

/// The file is refused with `words` in the error, and accepted where `rule` is tolerated. An empty rule: no tolerance
/// helps.
inline void expect_refused(std::span<const std::byte> file, const std::string& words, const std::string& rule = "") {
  const auto load = [&](std::vector<std::string> tolerate) {
    return Model::load_bytes(file, nullptr, "file", "", {.tolerate = std::move(tolerate)});
  };
  const auto refused = load({});
  ASSERT_FALSE(refused.ok()) << "no error, expected: " << words;
  const std::string& message = refused.error().message();
  EXPECT_NE(message.find(words), std::string::npos) << message;
  const auto all = load({"all"});
  if (rule.empty()) {
    EXPECT_FALSE(all.ok()) << message;
    EXPECT_EQ(message.find("--tolerate"), std::string::npos) << message;
    return;
  }
  EXPECT_NE(message.find("(rule " + rule + "; --tolerate " + rule + " accepts it)"), std::string::npos) << message;
  EXPECT_TRUE(all.ok()) << all.error().message();
  const auto accepted = load({rule});
  EXPECT_TRUE(accepted.ok()) << accepted.error().message();
  EXPECT_FALSE(load({rule == "ir-version" ? "node-order" : "ir-version"}).ok()) << "another rule's name accepts it";
}

inline void expect_refused(const std::string& file, const std::string& words, const std::string& rule = "") {
  expect_refused(std::as_bytes(std::span(file)), words, rule);
}

}  // namespace smelt
