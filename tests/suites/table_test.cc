#include <gtest/gtest.h>

#include <set>
#include <string>

#include "ops/core/op.h"

namespace smelt {
namespace {

TEST(OpTable, NamesAreUniqueAndRowsComplete) {
  std::set<std::string> names;
  for (const OpInfo& op : all_ops()) {
    EXPECT_TRUE(names.insert(op.name).second) << op.name;
    EXPECT_NE(std::string(op.doc), "") << op.name;
    EXPECT_LE(op.min_inputs, op.max_inputs) << op.name;
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(Op::kCount));
}

}  // namespace
}  // namespace smelt
