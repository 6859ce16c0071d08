#include "runtime/partition.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/control/control.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"

namespace smelt {
namespace {

/// A graph of unary nodes given as "output <- inputs".
struct Drawing {
  Graph graph;
  std::vector<PartitionNode> nodes;

  explicit Drawing(int values) { graph.values.resize(static_cast<size_t>(values)); }
  void node(ValueId out, std::vector<ValueId> in, bool device, double work = 1, Op op = Op::kUnary) {
    Node n;
    n.op = op;
    n.inputs = std::move(in);
    if (out != kNoValue) n.outputs = {out};
    graph.nodes.push_back(n);
    nodes.push_back({nullptr, device, false, work});
  }
  std::vector<int> order() {
    for (size_t i = 0; i < nodes.size(); ++i) nodes[i].node = &graph.nodes[i];
    return partition(graph, nodes, {.min_island_work = 16'000});
  }
};

TEST(Partition, DeviceNodesComeTogether) {
  Drawing d(6);
  d.node(1, {0}, true);
  d.node(2, {0}, false);
  d.node(3, {1}, true);
  d.node(4, {2}, false);
  d.node(5, {3, 4}, true);
  EXPECT_EQ(d.order(), (std::vector<int>{0, 2, 1, 3, 4}));
}

TEST(Partition, AnIslandThatDoesNotPayGoesToTheHost) {
  Drawing d(4);
  d.node(1, {0}, false);
  d.node(2, {1}, true, 10);
  d.node(3, {2}, false);
  d.order();
  EXPECT_FALSE(d.nodes[1].device);
}

TEST(Partition, AnIslandThatPaysStays) {
  Drawing d(4);
  d.node(1, {0}, false);
  d.node(2, {1}, true, 1e7);
  d.node(3, {2}, false);
  d.order();
  EXPECT_TRUE(d.nodes[1].device);
}

TEST(Partition, SmallWorkAtTheEdgesStays) {
  Drawing d(3);
  d.node(1, {0}, true, 1);
  d.node(2, {1}, false);
  d.order();
  EXPECT_TRUE(d.nodes[0].device);
}

TEST(Partition, AWriteWaitsForWhatStoodBeforeIt) {
  Drawing d(5);
  d.node(1, {}, false, 0, Op::kStateRead);
  d.node(2, {0}, true);
  d.node(3, {1}, false);
  d.node(kNoValue, {2}, false, 0, Op::kStateWrite);
  d.node(4, {}, false, 0, Op::kStateRead);
  const auto order = d.order();
  ASSERT_EQ(order.size(), 5u);
  const auto at = [&](int i) { return std::find(order.begin(), order.end(), i) - order.begin(); };
  EXPECT_LT(at(2), at(3));
  EXPECT_LT(at(0), at(3));
  EXPECT_LT(at(3), at(4));
}

}  // namespace
}  // namespace smelt
