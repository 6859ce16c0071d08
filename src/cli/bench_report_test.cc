#include "cli/bench_report.h"
#include "cli/json.h"

#include <gtest/gtest.h>

namespace smelt::cli {
namespace {

Measurement two_runs() {
  const ProfileEntry conv{"a", "Conv", "CONV_2D", "conv_nhwc_f32", "float32[1,\"2\"]", 3000, 2, 0, 3};
  const ProfileEntry relu{"b", "Unary", "", "unary_f32", "float32[2]", 1000, 2, 0, 4};
  Measurement m;
  m.samples_ms = {3, 2};
  m.profile = {conv, relu};
  m.traced = {{0, 3, {conv, relu}}, {3, 2, {conv, relu}}};
  return m;
}

TEST(BenchReport, Statistics) {
  const TimeStatistics s = time_statistics({4, 1, 3, 2});
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.max, 4);
  EXPECT_EQ(s.mean, 2.5);
  EXPECT_EQ(s.median, 3);
  EXPECT_EQ(s.p99, 4);
  EXPECT_NEAR(s.deviation, 1.29099, 1e-5);
  EXPECT_EQ(time_statistics({5}).deviation, 0);
}

TEST(BenchReport, ProfilesOfMeasuredRunsLeaveOutTheWarmUp) {
  const ProfileEntry a{"a", "Conv", "", "k", "t", 10, 1}, b{"b", "Unary", "", "k", "t", 7, 1};
  ProfileEntry later = a;
  later.micros = 25;
  later.calls = 3;
  const auto since = profile_since({a}, {later, b});
  ASSERT_EQ(since.size(), 2u);
  EXPECT_EQ(since[0].micros, 15);
  EXPECT_EQ(since[0].calls, 2u);
  EXPECT_EQ(since[1].micros, 7);
  EXPECT_TRUE(profile_since({a, b}, {a, b}).empty());
}

TEST(BenchReport, ProfilesOfStreamsAddUp) {
  const ProfileEntry a{"a", "Conv", "", "k", "t", 10, 1, 0, 0}, b{"b", "Unary", "", "k", "t", 7, 1, 0, 1};
  std::vector<ProfileEntry> total{a};
  add_profile(total, {a, b});
  add_profile(total, {b});
  ASSERT_EQ(total.size(), 2u);
  EXPECT_EQ(total[0].micros, 20);
  EXPECT_EQ(total[0].calls, 2u);
  EXPECT_EQ(total[1].micros, 14);
  EXPECT_EQ(total[1].index, 1u);
}

TEST(BenchReport, StreamsCountTogether) {
  Measurement m = two_runs();
  EXPECT_EQ(runs_per_second(m), 400);
  m.streams = 2;
  m.wall_ms = 4;
  EXPECT_EQ(runs_per_second(m), 500);
}

TEST(BenchReport, TimesHaveAUnitThatSuits) {
  EXPECT_EQ(human_time(0.0000004), "0.4 ns");
  EXPECT_EQ(human_time(0.00123), "1.23 us");
  EXPECT_EQ(human_time(0.5), "500.0 us");
  EXPECT_EQ(human_time(1.5), "1.500 ms");
  EXPECT_EQ(human_time(2500), "2.50 s");
}

TEST(BenchReport, ProfilesAsCsvQuoteFields) {
  EXPECT_EQ(profile_csv(two_runs()),
            "graph,index,node,op,origin,kernel,output,calls,micros,micros_per_run\n"
            "0,3,a,Conv,CONV_2D,conv_nhwc_f32,\"float32[1,\"\"2\"\"]\",2,3000.000,1500.000\n"
            "0,4,b,Unary,,unary_f32,float32[2],2,1000.000,500.000\n");
}

TEST(BenchReport, NodesOfATraceLieInTheirRun) {
  const auto events = trace_json(two_runs())["traceEvents"];
  ASSERT_EQ(events.size(), 7u);  // the process's name, two runs, two nodes each
  EXPECT_EQ(events[1]["name"], "run 0");
  EXPECT_EQ(events[1]["dur"], 3000.0);
  const double first = events[2]["dur"], second = events[3]["dur"];
  EXPECT_EQ(events[2]["name"], "CONV_2D");
  EXPECT_LE(first + second, 3000.0);  // 4 ms of nodes are scaled into a run of 3 ms
  EXPECT_EQ(events[3]["ts"].get<double>(), first);
  EXPECT_EQ(events[4]["ts"], 3000.0);
}

TEST(BenchReport, ComparisonNeedsFigures) {
  const TimeStatistics now = time_statistics({1});
  EXPECT_TRUE(print_comparison({{"median_ms", 2.0}}, now, "old.json").ok());
  EXPECT_FALSE(print_comparison({{"median_ms", "2"}}, now, "old.json").ok());
  EXPECT_FALSE(print_comparison(Json::array(), now, "old.json").ok());
}

}  // namespace
}  // namespace smelt::cli
