#include "runtime/partition.h"

#include <algorithm>

#include "ops/core/op.h"

namespace smelt {
namespace {

constexpr int kOutside = -1;  ///< an input or a constant

/// Who makes and who uses each value, as indices into the nodes.
struct Edges {
  std::vector<int> maker;
  std::vector<std::vector<int>> users;

  Edges(const Graph& graph, const std::vector<PartitionNode>& nodes)
      : maker(graph.values.size(), kOutside), users(nodes.size()) {
    for (int i = 0; i < static_cast<int>(nodes.size()); ++i)
      for (ValueId id : nodes[static_cast<size_t>(i)].node->outputs)
        if (id != kNoValue) maker[static_cast<size_t>(id)] = i;
    for (int i = 0; i < static_cast<int>(nodes.size()); ++i)
      for (ValueId id : nodes[static_cast<size_t>(i)].node->inputs)
        if (const int m = id == kNoValue ? kOutside : maker[static_cast<size_t>(id)]; m != kOutside)
          users[static_cast<size_t>(m)].push_back(i);
  }
};

bool effect(const PartitionNode& n) { return (op_info(n.node->op).flags & (kEffect | kControl)) != 0; }

/// Takes ready nodes, as long as possible from the side that the last one ran on.
std::vector<int> schedule(const Graph& graph, const std::vector<PartitionNode>& nodes) {
  const Edges edges(graph, nodes);
  const auto n = static_cast<int>(nodes.size());
  std::vector<int> waits(nodes.size(), 0), order;
  for (const auto& users : edges.users)
    for (int u : users) ++waits[static_cast<size_t>(u)];
  std::vector<bool> done(nodes.size(), false);
  constexpr size_t kHost = 0, kDevice = 1, kFree = 2;
  std::vector<std::vector<int>> ready(3);  // heaps, smallest index first
  const auto later = [](int a, int b) { return a > b; };
  const auto push = [&](int i) {
    const PartitionNode& s = nodes[static_cast<size_t>(i)];
    auto& heap = ready[s.alias ? kFree : s.device ? kDevice : kHost];
    heap.push_back(i);
    std::push_heap(heap.begin(), heap.end(), later);
  };
  int first_open = 0;        // every node before it is done
  std::vector<int> held;     // ready but for their effects
  std::vector<int> effects;  // in order
  size_t next_effect = 0;
  for (int i = 0; i < n; ++i)
    if (effect(nodes[static_cast<size_t>(i)])) effects.push_back(i);
  // A read of a variable needs only the effects before it; what changes something needs all that stood before it.
  const auto may = [&](int i) {
    const PartitionNode& s = nodes[static_cast<size_t>(i)];
    if (!effect(s)) return true;
    if (next_effect >= effects.size() || effects[next_effect] != i) return false;
    return s.node->op == Op::kStateRead || first_open == i;
  };
  const auto offer = [&](int i) {
    if (may(i))
      push(i);
    else
      held.push_back(i);
  };
  for (int i = 0; i < n; ++i)
    if (waits[static_cast<size_t>(i)] == 0) offer(i);
  size_t side = kDevice;
  while (static_cast<int>(order.size()) < n) {
    // What costs nothing goes first: a view of a host's value then stands in no segment.
    if (ready[kFree].empty() && ready[side].empty()) side = 1 - side;
    auto& heap = ready[ready[kFree].empty() ? side : kFree];
    if (heap.empty()) return {};  // cannot be: the graph is in topological order
    std::pop_heap(heap.begin(), heap.end(), later);
    const int i = heap.back();
    heap.pop_back();
    order.push_back(i);
    done[static_cast<size_t>(i)] = true;
    while (first_open < n && done[static_cast<size_t>(first_open)]) ++first_open;
    while (next_effect < effects.size() && done[static_cast<size_t>(effects[next_effect])]) ++next_effect;
    for (int u : edges.users[static_cast<size_t>(i)])
      if (--waits[static_cast<size_t>(u)] == 0) offer(u);
    for (size_t k = 0; k < held.size();) {
      if (may(held[k])) {
        push(held[k]);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(k));
      } else {
        ++k;
      }
    }
  }
  return order;
}

/// Gives islands that don't pay to the host. True when there were any.
bool drop_islands(const Graph& graph, std::vector<PartitionNode>& nodes, const std::vector<int>& order,
                  const PartitionCost& cost) {
  const Edges edges(graph, nodes);
  bool dropped = false;
  for (size_t at = 0; at < order.size();) {
    size_t end = at;
    const auto on_device = [&](size_t k) {
      const PartitionNode& s = nodes[static_cast<size_t>(order[k])];
      return s.device || s.alias;
    };
    while (end < order.size() && on_device(end)) ++end;
    bool from_host = false, to_host = false;
    double work = 0;
    for (size_t k = at; k < end; ++k) {
      const PartitionNode& s = nodes[static_cast<size_t>(order[k])];
      work += s.work;
      for (ValueId id : s.node->inputs) {
        const int m = id == kNoValue ? kOutside : edges.maker[static_cast<size_t>(id)];
        const PartitionNode* maker = m == kOutside ? nullptr : &nodes[static_cast<size_t>(m)];
        if (maker && !maker->device && !maker->alias) from_host = true;
      }
      for (int u : edges.users[static_cast<size_t>(order[k])]) {
        const PartitionNode& user = nodes[static_cast<size_t>(u)];
        if (!user.device && !user.alias) to_host = true;
      }
    }
    if (from_host && to_host && work < cost.min_island_work) {
      for (size_t k = at; k < end; ++k) {
        PartitionNode& s = nodes[static_cast<size_t>(order[k])];
        dropped = dropped || s.device;
        s.device = false;
      }
    }
    at = std::max(end, at + 1);
  }
  return dropped;
}

}  // namespace

std::vector<int> partition(const Graph& graph, std::vector<PartitionNode>& nodes, const PartitionCost& cost) {
  std::vector<int> order = schedule(graph, nodes);
  if (drop_islands(graph, nodes, order, cost)) order = schedule(graph, nodes);
  return order;
}

std::vector<NodeRange> find_partitions(std::span<const PlannedNode> nodes) {
  std::vector<NodeRange> ranges;
  bool open = false;
  for (int k = 0; k < static_cast<int>(nodes.size()); ++k) {
    const Placement p = nodes[static_cast<size_t>(k)].placement;
    if (p == Placement::kElsewhere) open = false;
    if (p != Placement::kHere) continue;
    if (!open) ranges.push_back({k, k});
    ranges.back().last = k;
    open = true;
  }
  return ranges;
}

}  // namespace smelt
