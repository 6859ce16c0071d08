#include "cli/trace_event.h"
#include "cli/json.h"

#include <gtest/gtest.h>

namespace smelt::cli {
namespace {

/// What Perfetto reads of a time.
int64_t cut(const Json& micros) { return static_cast<int64_t>(micros.get<double>() * 1000.0); }

TEST(TraceEvent, TimesKeepTheirNanoseconds) {
  EXPECT_LT(static_cast<int64_t>(1.001 * 1000.0), 1001);  // why a quotient does not do
  for (int64_t nanos = 0; nanos < 100'000; ++nanos) ASSERT_EQ(cut(event_micros(nanos)), nanos);
  for (int64_t nanos = 3'600'000'000'000; nanos < 3'600'000'010'000; ++nanos)
    ASSERT_EQ(cut(event_micros(nanos)), nanos);
}

TEST(TraceEvent, SlicesMeetAfterRounding) {
  double at = 0;
  int64_t end = 0;
  for (int i = 0; i < 1000; ++i) {
    const double next = at + 0.1202 + 0.0007 * i;
    const auto event = slice_event("node", nanoseconds(at), nanoseconds(next), 1, 2, Json::object());
    ASSERT_EQ(cut(event["ts"]), end);
    end += cut(event["dur"]);
    at = next;
  }
  EXPECT_EQ(end, nanoseconds(at));
}

}  // namespace
}  // namespace smelt::cli
