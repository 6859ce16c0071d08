#include "cli/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <utility>

namespace smelt::cli {
namespace {

TEST(Json, BracesAreObjectsOfPairsOrElseArrays) {
  const Json object = {{"b", 1}, {"a", {1.5, nullptr}}, {"c", {{"d", true}}}};
  EXPECT_EQ(object.dump(), R"({"a":[1.5,null],"b":1,"c":{"d":true}})");
  EXPECT_EQ((Json{{"a", 1}, {2, 3}}).dump(), R"([["a",1],[2,3]])");
  EXPECT_EQ((Json{"a", "b"}).dump(), R"(["a","b"])");
  EXPECT_EQ((Json{{"a", 1}, {"a", 2}}).dump(), R"({"a":1})");
}

TEST(Json, TextIsIndentedByLevel) {
  const Json value = {{"empty", {{"list", Json::array()}, {"object", Json::object()}}}, {"list", {1, 2}}};
  EXPECT_EQ(value.dump(1), "{\n \"empty\": {\n  \"list\": [],\n  \"object\": {}\n },\n \"list\": [\n  1,\n  2\n ]\n}");
}

TEST(Json, NumbersKeepTheirValue) {
  EXPECT_EQ(Json(std::numeric_limits<uint64_t>::max()).dump(), "18446744073709551615");
  EXPECT_EQ(Json(std::numeric_limits<int64_t>::min()).dump(), "-9223372036854775808");
  EXPECT_EQ(Json(1.0).dump(), "1.0");
  EXPECT_EQ(Json(1e-7).dump(), "1e-07");
  EXPECT_EQ(Json(std::nan("")).dump(), "null");
  EXPECT_EQ(Json(3), Json(3.0));
  EXPECT_EQ(Json(uint64_t{3}), Json(int64_t{3}));
  EXPECT_FALSE(Json(std::numeric_limits<uint64_t>::max()) == Json(int64_t{-1}));
}

TEST(Json, TextThatIsNotUtf8IsMended) {
  EXPECT_EQ(Json("a\xff\n\"").dump(), "\"a\xEF\xBF\xBD\\n\\\"\"");
  EXPECT_EQ((Json{{"\xff", 1}}).dump(), "{\"\xEF\xBF\xBD\":1}");
}

TEST(Json, ParsesWhatItWrites) {
  const char* const text = R"({"a":[1,-2,2.5,"x",null,{"b":[]}],"c":false})";
  const auto value = Json::parse(text);
  ASSERT_TRUE(value);
  EXPECT_EQ(value->dump(), text);
  EXPECT_TRUE((*value)["a"][0].is_unsigned());
  EXPECT_FALSE((*value)["a"][1].is_unsigned());
  EXPECT_TRUE((*value)["a"][1].is_integer());
  EXPECT_FALSE((*value)["a"][2].is_integer());
  EXPECT_EQ(Json::parse(R"({"a":1,"a":2})")->dump(), R"({"a":2})");
  for (const char* const broken : {"", "{", "[1,]", "nul", "1 2", "\"\xff\""})
    EXPECT_FALSE(Json::parse(broken)) << broken;
}

TEST(Json, DepthIsLimited) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(Json::parse(nested(500)));
  EXPECT_FALSE(Json::parse(nested(501)));
  EXPECT_FALSE(Json::parse(nested(1'000'000)));
}

TEST(Json, MembersAndElements) {
  Json value;
  EXPECT_TRUE(value.is_null());
  EXPECT_EQ(value.size(), 0U);
  value["list"].push_back(1);
  value["list"].push_back("two");
  EXPECT_EQ(value["list"].back(), "two");
  EXPECT_EQ(value["list"].front(), 1);
  value.update({{"list", 7}, {"more", 0.5}});
  EXPECT_EQ(value.dump(), R"({"list":7,"more":0.5})");
  const Json& fixed = value;
  EXPECT_TRUE(fixed["nothing"].is_null());
  EXPECT_EQ(fixed.find("nothing"), nullptr);
  EXPECT_EQ(fixed.value("list", 1), 7);
  EXPECT_EQ(fixed.value("nothing", 1), 1);
  EXPECT_EQ(fixed.value("nothing", "x"), "x");
  EXPECT_FALSE(fixed.contains("nothing"));
}

TEST(Json, CopiesAreTheirOwn) {
  Json first = {{"a", {1, 2}}};
  Json second = first;
  second["a"].push_back(3);
  EXPECT_EQ(first["a"].size(), 2U);
  EXPECT_FALSE(first == second);
  first = first["a"];  // a part of itself
  EXPECT_EQ(first.dump(), "[1,2]");
  const Json third = std::move(second);
  EXPECT_EQ(third["a"].size(), 3U);
}

TEST(Json, WrongTypesThrow) {
  const Json text = "x", number = 1;
  EXPECT_THROW((void)text.get<int>(), std::domain_error);
  EXPECT_THROW((void)number.get<std::string>(), std::domain_error);
  EXPECT_THROW((void)number.get<bool>(), std::domain_error);
  EXPECT_THROW((void)number.items(), std::domain_error);
  EXPECT_THROW((void)Json::array()[0], std::out_of_range);
}

}  // namespace
}  // namespace smelt::cli
