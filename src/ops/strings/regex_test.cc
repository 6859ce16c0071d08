#include "ops/strings/regex.h"

#include <gtest/gtest.h>

#include <string>

#include "ops/strings/utf8.h"

namespace smelt {
namespace {

struct MatchRow {
  const char* pattern;
  const char* text;
  bool matches;
};

TEST(Regex, FullMatches) {
  const MatchRow rows[] = {
      {"abc", "abc", true},
      {"abc", "abcd", false},
      {"a|bc", "bc", true},
      {"(a|b)*c", "ababc", true},
      {"(a*)*b", "aaab", true},
      {"(?:a|ab)(?:c|bcd)d*", "abcd", true},
      {"a{2,3}", "a", false},
      {"a{2,3}", "aaa", true},
      {"a{2,}", "aaaaa", true},
      {"a{0}b", "b", true},
      {"x{,2}", "x{,2}", true},
      {"[a-c]+", "abcabc", true},
      {"[^a-c]+", "xyz", true},
      {"[^a-c]", "b", false},
      {"[]a]+", "]a]", true},
      {"[[:digit:]x-z]+", "12zx", true},
      {"\\d+\\.\\d*", "3.14", true},
      {"[\\w.-]+@[\\w.-]+\\.[a-z]{2,}", "a.b@c-d.org", true},
      {"(www.[\\w.-]+\\.)?x", "www.y.x", true},
      {".", "\n", false},
      {"(?s).", "\n", true},
      {"(?i)straße", "STRAßE", true},
      {"(?i:a)b", "Ab", true},
      {"(?i:a)b", "AB", false},
      {"^a$", "a", true},
      {"\\ba\\b", "a", true},
      {"a\\Bb", "ab", true},
      {"\\Qa.b\\E+", "a.bbb", true},
      {"\\x41\\x{e9}", "Aé", true},
      {".é", "éé", true},
      {"", "", true},
      {"", "a", false},
      {"(?P<name>a)", "a", true},
      {"((a?){30}){3}b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", true},
  };
  for (const MatchRow& r : rows) {
    auto regex = Regex::compile(r.pattern);
    ASSERT_TRUE(regex.ok()) << r.pattern << ": " << regex.error().message();
    EXPECT_EQ(regex->full_match(decode_utf8(r.text)), r.matches) << r.pattern << " on " << r.text;
  }
}

TEST(Regex, RefusesBadPatterns) {
  for (const char* pattern : {"(", ")", "[a", "a**", "*a", "a{2,1}", "a{1001}", "\\", "\\8", "(?z)", "[b-a]",
                              "((((a{1000}){1000}){1000}){1000})", "\\p{Greek}"})
    EXPECT_FALSE(Regex::compile(pattern).ok()) << pattern;
  EXPECT_FALSE(Regex::compile(std::string(100000, '(')).ok());
}

}  // namespace
}  // namespace smelt
