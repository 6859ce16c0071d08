// Tree ensembles of ai.onnx.ml: the tuple lists of versions 1 to 3 and the arrays of version 5 become one form.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "formats/onnx/ml_readers.h"
#include "tensor/numeric.h"

namespace smelt::onnx {
namespace {

using Mode = TreeEnsembleAttrs::Mode;
using Aggregate = TreeEnsembleAttrs::Aggregate;

/// A list of floats, or the tensor that replaces it in newer versions.
std::vector<double> reals(NodeContext& n, const std::string& name) {
  const std::string tensor = name + "_as_tensor";
  if (!n.has_attr(tensor)) return n.doubles(name);
  const auto t = n.tensor(tensor);
  if (!t) return {};
  if (!is_float(t->dtype())) {
    n.fail("attribute '", tensor, "' is ", to_string(t->dtype()));
    return {};
  }
  std::vector<double> out(static_cast<size_t>(t->elements()));
  to_doubles(*t, out.data());
  return out;
}

/// -2: a leaf; -1: not known.
int mode_of(const std::string& s) {
  static constexpr const char* kNames[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                           "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
  if (s == "LEAF") return -2;
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (s == kNames[i]) return static_cast<int>(i);
  return -1;
}

/// The node lists of versions 1 to 3.
struct NodeLists {
  std::vector<int64_t> tree, id, feature, yes, no, missing;
  std::vector<double> value;
  std::vector<std::string> mode;
};

/// The nodes of the lists by tree and id.
class NodeIndex {
 public:
  struct Entry {
    int64_t tree, id;
    int32_t at;  ///< node number or ~leaf
    bool is_child = false;
    auto key() const { return std::pair(tree, id); }
  };
  void reserve(size_t nodes) { entries_.reserve(nodes); }
  void add(int64_t tree, int64_t id, int32_t at) { entries_.push_back({tree, id, at}); }
  /// To be called once all are added. The first of two entries with the same key; nullptr: there are none.
  const Entry* sort() {
    const auto less = [](const Entry& p, const Entry& q) { return p.key() < q.key(); };
    if (!std::is_sorted(entries_.begin(), entries_.end(), less)) std::sort(entries_.begin(), entries_.end(), less);
    const auto twin = std::adjacent_find(entries_.begin(), entries_.end(),
                                         [](const Entry& p, const Entry& q) { return p.key() == q.key(); });
    return twin == entries_.end() ? nullptr : &*twin;
  }
  /// nullptr: there is no such node.
  Entry* find(int64_t tree, int64_t id) {
    const auto from = [&](int64_t least) {
      return static_cast<size_t>(std::lower_bound(entries_.begin(), entries_.end(), std::pair(tree, least),
                                                  [](const Entry& e, const auto& key) { return e.key() < key; }) -
                                 entries_.begin());
    };
    if (first_ >= entries_.size() || entries_[first_].tree != tree) first_ = from(INT64_MIN);
    // Trees mostly number their nodes from 0 on.
    size_t i =
        id >= 0 && static_cast<size_t>(id) < entries_.size() - first_ ? first_ + static_cast<size_t>(id) : first_;
    if (i < entries_.size() && entries_[i].key() != std::pair(tree, id)) i = from(id);
    return i < entries_.size() && entries_[i].key() == std::pair(tree, id) ? &entries_[i] : nullptr;
  }

 private:
  std::vector<Entry> entries_;
  size_t first_ = SIZE_MAX;  ///< entry of the tree that was asked for last
};

/// Splits and leaves of the lists.
void read_nodes(NodeContext& n, TreeEnsembleAttrs& a, NodeIndex& index) {
  NodeLists l{n.ints("nodes_treeids"),     n.ints("nodes_nodeids"),      n.ints("nodes_featureids"),
              n.ints("nodes_truenodeids"), n.ints("nodes_falsenodeids"), n.ints("nodes_missing_value_tracks_true"),
              reals(n, "nodes_values"),    n.strings("nodes_modes")};
  const size_t count = l.mode.size();
  if (!n.ok()) return;
  if (count > size_t{1} << 30 || l.tree.size() != count || l.id.size() != count || l.feature.size() != count ||
      l.yes.size() != count || l.no.size() != count || l.value.size() != count ||
      (!l.missing.empty() && l.missing.size() != count))
    return n.fail("the lists of nodes differ in length");
  std::vector<size_t> splits;
  int32_t leaves = 0;
  index.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const int mode = mode_of(l.mode[i]);
    if (mode == -1) return n.fail("node mode '", l.mode[i], "'");
    const int32_t at = mode == -2 ? ~leaves++ : static_cast<int32_t>(splits.size());
    index.add(l.tree[i], l.id[i], at);
    if (mode != -2) splits.push_back(i);
  }
  if (const auto* twin = index.sort()) return n.fail("tree ", twin->tree, " has two nodes ", twin->id);
  a.leaf_begin.assign(static_cast<size_t>(leaves) + 1, 0);
  for (const size_t i : splits) {
    auto *const yes = index.find(l.tree[i], l.yes[i]), *const no = index.find(l.tree[i], l.no[i]);
    if (!yes || !no) return n.fail("a child of node ", l.id[i], " of tree ", l.tree[i], " does not exist");
    if (l.feature[i] < 0 || l.feature[i] > INT32_MAX) return n.fail("feature ", l.feature[i]);
    a.yes.push_back(yes->at);
    a.no.push_back(no->at);
    a.feature.push_back(static_cast<int32_t>(l.feature[i]));
    a.mode.push_back(static_cast<Mode>(mode_of(l.mode[i])));
    a.split.push_back(l.value[i]);
    a.missing_is_yes.push_back(!l.missing.empty() && l.missing[i] != 0);
    yes->is_child = no->is_child = true;
  }
  // The root of a tree is its first node that is nobody's child.
  std::map<int64_t, bool> rooted;
  auto tree = rooted.end();
  for (size_t i = 0; i < count; ++i) {
    if (tree == rooted.end() || tree->first != l.tree[i]) tree = rooted.try_emplace(l.tree[i], false).first;
    if (tree->second) continue;
    const auto* const node = index.find(l.tree[i], l.id[i]);
    if (node->is_child) continue;
    tree->second = true;
    a.roots.push_back(node->at);
  }
  for (const auto& [id, has_root] : rooted)
    if (!has_root) return n.fail("tree ", id, " has no root");
}

/// Votes in the order of the leaves.
void read_votes(NodeContext& n, TreeEnsembleAttrs& a, NodeIndex& index, const std::string& prefix, int64_t targets) {
  const auto tree = n.ints(prefix + "_treeids"), node = n.ints(prefix + "_nodeids"), id = n.ints(prefix + "_ids");
  const auto weight = reals(n, prefix + "_weights");
  if (!n.ok()) return;
  if (tree.size() != node.size() || id.size() != node.size() || weight.size() != node.size() || id.size() > (1u << 30))
    return n.fail("the lists of leaf weights differ in length");
  std::vector<std::pair<int32_t, size_t>> order;
  for (size_t i = 0; i < id.size(); ++i) {
    const auto* const it = index.find(tree[i], node[i]);
    if (!it) return n.fail("a weight belongs to node ", node[i], " of tree ", tree[i], ", which does not exist");
    if (it->at >= 0) continue;  // weights of inner nodes are never reached
    if (id[i] < 0 || id[i] >= targets) return n.fail("class or target ", id[i], " of ", targets);
    order.emplace_back(~it->at, i);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& p, const auto& q) { return p.first < q.first; });
  for (const auto& [leaf, i] : order) {
    ++a.leaf_begin[static_cast<size_t>(leaf) + 1];
    a.vote_target.push_back(static_cast<int32_t>(id[i]));
    a.vote_weight.push_back(weight[i]);
  }
  for (size_t k = 1; k < a.leaf_begin.size(); ++k) a.leaf_begin[k] += a.leaf_begin[k - 1];
}

}  // namespace

void lower_tree_classifier(NodeContext& n) {
  TreeEnsembleAttrs a;
  a.classifier = true;
  a.labels = class_labels(n, "classlabels_int64s", "classlabels_strings");
  if (a.labels.empty()) return n.fail("class labels are missing");
  a.targets = static_cast<int64_t>(a.labels.size());
  a.post = post_transform(n);
  a.base = reals(n, "base_values");
  NodeIndex index;
  read_nodes(n, a, index);
  if (n.ok()) read_votes(n, a, index, "class", a.targets);
  if (static_cast<int64_t>(a.base.size()) > a.targets)
    return n.fail(a.base.size(), " base values for ", a.targets, " classes");
  bool one = true;
  for (size_t i = 0; i < a.vote_target.size(); ++i) {
    one = one && a.vote_target[i] == a.vote_target[0];
    a.positive_weights = a.positive_weights && a.vote_weight[i] >= 0;
  }
  a.one_vote_class = a.targets == 2 && one;
  n.emit(Op::kTreeEnsemble, pack(std::move(a)), {n.in(0)}, 2);
}

void lower_tree_regressor(NodeContext& n) {
  TreeEnsembleAttrs a;
  a.targets = n.i("n_targets", 1);
  if (a.targets < 1 || a.targets > (1 << 24)) return n.fail("n_targets is ", a.targets);
  a.post = post_transform(n);
  a.base = reals(n, "base_values");
  if (!a.base.empty() && static_cast<int64_t>(a.base.size()) != a.targets)
    return n.fail(a.base.size(), " base values for ", a.targets, " targets");
  const std::string f = n.s("aggregate_function", "SUM");
  a.aggregate = f == "AVERAGE" ? Aggregate::kAverage
                : f == "MIN"   ? Aggregate::kMin
                : f == "MAX"   ? Aggregate::kMax
                               : Aggregate::kSum;
  if (a.aggregate == Aggregate::kSum && f != "SUM") return n.fail("aggregate_function is '", f, "'");
  NodeIndex index;
  read_nodes(n, a, index);
  if (n.ok()) read_votes(n, a, index, "target", a.targets);
  n.emit(Op::kTreeEnsemble, pack(std::move(a)), {n.in(0)});
}

void lower_tree_ensemble(NodeContext& n) {
  TreeEnsembleAttrs a;
  a.targets = n.i("n_targets", 1);
  if (a.targets < 1 || a.targets > (1 << 24)) return n.fail("n_targets is ", a.targets);
  const int64_t aggregate = n.i("aggregate_function", 1), post = n.i("post_transform", 0);
  if (aggregate < 0 || aggregate > 3 || post < 0 || post > 4)
    return n.fail("aggregate_function is ", aggregate, ", post_transform is ", post);
  a.aggregate = static_cast<Aggregate>(aggregate);
  a.post = static_cast<PostTransform>(post);
  const auto feature = n.ints("nodes_featureids"), yes = n.ints("nodes_truenodeids"), no = n.ints("nodes_falsenodeids"),
             yes_leaf = n.ints("nodes_trueleafs"), no_leaf = n.ints("nodes_falseleafs"),
             missing = n.ints("nodes_missing_value_tracks_true"), roots = n.ints("tree_roots"),
             targets = n.ints("leaf_targetids");
  const auto modes = n.tensor("nodes_modes"), splits = n.tensor("nodes_splits"), weights = n.tensor("leaf_weights");
  if (!n.ok()) return;
  if (!modes || !splits || !weights) return n.fail("nodes_modes, nodes_splits or leaf_weights are missing");
  const size_t count = feature.size();
  const auto sized = [&](const std::vector<int64_t>& v) { return v.size() == count; };
  if (!sized(yes) || !sized(no) || !sized(yes_leaf) || !sized(no_leaf) || !(missing.empty() || sized(missing)) ||
      static_cast<size_t>(modes->elements()) != count || static_cast<size_t>(splits->elements()) != count ||
      static_cast<size_t>(weights->elements()) != targets.size() || !is_float(splits->dtype()) ||
      !is_float(weights->dtype()) || !is_integer(modes->dtype()) || count > (1u << 30) || targets.size() > (1u << 30))
    return n.fail("the lists of nodes or leaves differ in length or type");
  const auto child = [&](int64_t id, bool leaf) -> int32_t {
    if (id < 0 || id >= static_cast<int64_t>(leaf ? targets.size() : count)) n.fail("child ", id, " does not exist");
    return leaf ? ~static_cast<int32_t>(id) : static_cast<int32_t>(id);
  };
  std::vector<double> members;
  if (const auto t = n.tensor("membership_values")) {
    members.resize(static_cast<size_t>(t->elements()));
    if (!is_float(t->dtype())) return n.fail("membership_values are ", to_string(t->dtype()));
    to_doubles(*t, members.data());
  }
  size_t next = 0;
  a.members.resize(count);
  for (size_t i = 0; i < count && n.ok(); ++i) {
    const int64_t mode = get_int(*modes, static_cast<int64_t>(i));
    if (mode < 0 || mode > 6) return n.fail("node mode ", mode);
    if (feature[i] < 0 || feature[i] > INT32_MAX) return n.fail("feature ", feature[i]);
    a.mode.push_back(static_cast<Mode>(mode));
    a.feature.push_back(static_cast<int32_t>(feature[i]));
    a.yes.push_back(child(yes[i], yes_leaf[i] != 0));
    a.no.push_back(child(no[i], no_leaf[i] != 0));
    a.split.push_back(get_double(*splits, static_cast<int64_t>(i)));
    a.missing_is_yes.push_back(!missing.empty() && missing[i] != 0);
    if (a.mode.back() != Mode::kMember) continue;
    // The sets follow each other in the order of the nodes, each ended by a NaN.
    while (next < members.size() && !std::isnan(members[next])) a.members[i].push_back(members[next++]);
    ++next;
  }
  for (const int64_t r : roots) a.roots.push_back(child(r, false));
  for (size_t i = 0; i <= targets.size(); ++i) a.leaf_begin.push_back(static_cast<int32_t>(i));
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] < 0 || targets[i] >= a.targets) return n.fail("target ", targets[i], " of ", a.targets);
    a.vote_target.push_back(static_cast<int32_t>(targets[i]));
    a.vote_weight.push_back(get_double(*weights, static_cast<int64_t>(i)));
  }
  ValueType type;
  type.dtype = splits->dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  n.bind(0, n.add_as(Op::kTreeEnsemble, pack(std::move(a)), {n.in(0)}, type));
}

}  // namespace smelt::onnx
