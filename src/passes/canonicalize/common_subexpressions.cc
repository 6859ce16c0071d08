#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "graph/graph.h"
#include "ops/core/op.h"
#include "passes/passes.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

// Cold functions are compiled for size: each runs once a model.
namespace smelt {
namespace {

/// Constants of more bytes are equal only where they are the same storage.
constexpr size_t kComparedBytes = size_t{1} << 16;
/// The contents of constants up to this many bytes are part of a node's hash.
constexpr size_t kHashedBytes = 64;
/// Nodes of one hash that a node is compared with.
constexpr int kCandidates = 8;
/// Estimated extent of a dimension that is not known.
constexpr int64_t kUnknownExtent = 64;

/// The fields of an attribute struct as bytes.
[[gnu::cold]] void append_attrs(const Attrs* attrs, std::string& out) {
  const auto append = [&](const void* data, size_t bytes) { out.append(static_cast<const char*>(data), bytes); };
  for_each_field(attrs, [&](const char*, const auto& v) {
    using T = std::remove_cvref_t<decltype(v)>;
    if constexpr (std::is_arithmetic_v<T>) {
      append(&v, sizeof v);
    } else {
      const size_t count = v.size();
      append(&count, sizeof count);
      if constexpr (std::is_same_v<T, std::string>)
        out += v;
      else if constexpr (std::is_same_v<T, std::vector<std::string>>)
        for (const std::string& s : v) out.append(s).push_back('\0');
      else
        append(v.data(), count * sizeof v[0]);
    }
  });
}

/// Bytes that a value takes, about; 0: it is no tensor of known type and rank.
int64_t estimated_bytes(const ValueType& t) {
  if (t.kind != ValueType::Kind::kTensor || t.dtype == DType::kInvalid || !t.ranked) return 0;
  double n = 1;
  for (const int64_t d : t.shape) n *= static_cast<double>(d < 0 ? kUnknownExtent : d);
  constexpr int64_t kMost = int64_t{1} << 40;
  return n > static_cast<double>(kMost) ? kMost
                                        : static_cast<int64_t>(Tensor::byte_size(t.dtype, static_cast<int64_t>(n)));
}

/// True if two types are those of equal tensors.
bool same_type(const ValueType& a, const ValueType& b) {
  return a.kind == ValueType::Kind::kTensor && b.kind == a.kind && a.dtype == b.dtype && a.ranked == b.ranked &&
         a.shape == b.shape && same_quant_params(a.quant, b.quant) &&
         (!a.quant || a.quant->rounding == b.quant->rounding);
}

/// Estimates what a graph's values take at each of its nodes, and lets values live longer where that takes little more
/// than the node that takes most, by a 64th.
class LiveBytes {
 public:
  [[gnu::cold]] explicit LiveBytes(const Graph& g)
      : root_(g.values.size()), last_(g.values.size(), -1), live_(g.nodes.size() + 1) {
    std::vector<int> first(g.values.size(), -1);
    for (size_t i = 0; i < root_.size(); ++i) root_[i] = static_cast<ValueId>(i);
    const auto end = static_cast<int>(g.nodes.size());
    for (int k = 0; k < end; ++k) {
      const Node& n = g.nodes[static_cast<size_t>(k)];
      for (const ValueId id : n.inputs)
        if (id != kNoValue) last(id) = k;
      for (const ValueId id : n.outputs) {
        if (id == kNoValue) continue;
        if ((op_info(n.op).flags & kView) && n.inputs[0] != kNoValue) root_[index(id)] = root(n.inputs[0]);
        if (root(id) == id) first[index(id)] = k;
        last(id) = std::max(last(id), k);
      }
    }
    for (const ValueId id : g.outputs)
      if (id != kNoValue) last(id) = end;
    std::vector<int64_t> change(live_.size() + 1, 0);
    for (size_t i = 0; i < first.size(); ++i) {
      if (first[i] < 0) continue;
      const int64_t bytes = estimated_bytes(g.values[i].type);
      change[static_cast<size_t>(first[i])] += bytes;
      change[static_cast<size_t>(last_[i]) + 1] -= bytes;
    }
    int64_t now = 0;
    for (size_t k = 0; k < live_.size(); ++k) live_[k] = now += change[k];
    most_ = *std::ranges::max_element(live_);
    most_ += most_ / 64;
    work_ = 64 * end;
  }

  /// True if `kept` may be read wherever `other`, which node k makes, is read; the value then lives so long.
  [[gnu::cold]] bool extend(const Graph& g, ValueId kept, ValueId other, int k) {
    if (root(kept) != root(other)) {
      const int64_t bytes = estimated_bytes(g.value(root(kept)).type);
      const int from = last(kept) + 1;
      work_ -= std::max(k - from, 0);
      if (bytes == 0 || work_ < 0) return false;
      for (int i = from; i < k; ++i)
        if (live_[static_cast<size_t>(i)] + bytes > most_) return false;
      for (int i = from; i < k; ++i) live_[static_cast<size_t>(i)] += bytes;
    }
    last(kept) = std::max(last(kept), last(other));
    root_[index(other)] = root(kept);
    return true;
  }

 private:
  static size_t index(ValueId id) { return static_cast<size_t>(id); }
  ValueId root(ValueId id) const { return root_[index(id)]; }
  /// The last node that reads the value or a view of it.
  int& last(ValueId id) { return last_[index(root(id))]; }

  std::vector<ValueId> root_;  ///< by value: the value that it is a view of, or itself
  std::vector<int> last_;
  std::vector<int64_t> live_;  ///< by node
  int64_t most_ = 0;
  int64_t work_ = 0;  ///< nodes that extend() may still look at
};

class CommonSubexpressions {
 public:
  [[gnu::cold]] explicit CommonSubexpressions(Graph& graph)
      : graph_(graph), same_(graph.values.size()), kept_(graph.values.size(), false) {
    for (size_t i = 0; i < same_.size(); ++i) same_[i] = static_cast<ValueId>(i);
    for (const ValueId id : graph.outputs)
      if (id != kNoValue) kept_[static_cast<size_t>(id)] = true;
    table_.assign(std::bit_ceil(2 * graph.nodes.size() + 1), -1);
    hashes_.resize(graph.nodes.size());
  }

  [[gnu::cold]] void run() {
    bool changed = false;
    for (size_t k = 0; k < graph_.nodes.size(); ++k) {
      Node& n = graph_.nodes[k];
      for (ValueId& id : n.inputs)
        if (id != kNoValue) id = same_[static_cast<size_t>(id)];
      if (may_merge(n)) changed |= merge(k);
    }
    if (changed) remove_dead_nodes(graph_);
  }

 private:
  /// True if the results follow from operator, fields of attributes and inputs, all of them tensors.
  static bool may_merge(const Node& n) {
    const OpInfo& info = op_info(n.op);
    if ((info.flags & (kEffect | kControl | kContainer)) != 0 || n.inputs.empty()) return false;
    // Attributes of these families have more than their fields; kernels dequantize constants themselves.
    const std::string_view family = info.family;
    return family != "ml" && family != "strings" && family != "recurrent" && n.op != Op::kDequantizeLinear &&
           n.op != Op::kDequantize;
  }
  /// Makes node k's outputs those of an equal node before it, if there is one; else later nodes may find it.
  [[gnu::cold]] bool merge(size_t k) {
    const Node& n = graph_.nodes[k];
    hashes_[k] = hash_of(n);
    size_t slot = hashes_[k] & (table_.size() - 1);
    for (int left = kCandidates; table_[slot] >= 0; slot = (slot + 1) & (table_.size() - 1)) {
      const auto before = static_cast<size_t>(table_[slot]);
      if (hashes_[before] != hashes_[k]) continue;
      if (left-- == 0) return false;
      if (!equal(graph_.nodes[before], n)) continue;
      return reads_from(graph_.nodes[before], n, static_cast<int>(k));
    }
    table_[slot] = static_cast<int>(k);
    return false;
  }
  [[gnu::cold]] bool reads_from(const Node& before, const Node& n, int k) {
    if (!live_) live_ = std::make_unique<LiveBytes>(graph_);
    for (size_t i = 0; i < n.outputs.size(); ++i)
      if (n.outputs[i] != kNoValue && !live_->extend(graph_, before.outputs[i], n.outputs[i], k)) return false;
    for (size_t i = 0; i < n.outputs.size(); ++i)
      if (n.outputs[i] != kNoValue) same_[static_cast<size_t>(n.outputs[i])] = before.outputs[i];
    return true;
  }
  static uint64_t hash_of(const void* data, size_t bytes) {
    return std::hash<std::string_view>()({static_cast<const char*>(data), bytes});
  }
  [[gnu::cold]] uint64_t hash_of(const Node& n) {
    uint64_t h = 0xcbf29ce484222325;
    const auto mix = [&h](uint64_t v) { h = std::rotl((h ^ v) * 0x9e3779b97f4a7c15, 29); };
    mix(static_cast<uint64_t>(n.op));
    for (const ValueId id : n.inputs) {
      const Tensor* constant = id == kNoValue ? nullptr : graph_.value(id).constant.get();
      if (!constant) {
        mix(static_cast<uint64_t>(id));
        continue;
      }
      mix(static_cast<uint64_t>(constant->elements()));
      if (constant->bytes() <= kHashedBytes && constant->dtype() != DType::kString && constant->identity())
        mix(hash_of(constant->unaligned_bytes(), constant->bytes()));
    }
    text_.clear();
    append_attrs(n.attrs.get(), text_);
    mix(hash_of(text_.data(), text_.size()));
    return h;
  }
  [[gnu::cold]] bool equal(const Node& a, const Node& b) {
    if (a.op != b.op || a.inputs.size() != b.inputs.size() || a.outputs.size() != b.outputs.size()) return false;
    for (size_t i = 0; i < a.inputs.size(); ++i)
      if (!same_value(a.inputs[i], b.inputs[i])) return false;
    for (size_t i = 0; i < a.outputs.size(); ++i) {
      if (b.outputs[i] == kNoValue) continue;
      if (a.outputs[i] == kNoValue || kept_[static_cast<size_t>(b.outputs[i])] ||
          !same_type(graph_.value(a.outputs[i]).type, graph_.value(b.outputs[i]).type))
        return false;
    }
    if (a.attrs == b.attrs) return true;
    std::string fields;
    append_attrs(a.attrs.get(), fields);
    text_.clear();
    append_attrs(b.attrs.get(), text_);
    return fields == text_;
  }
  bool same_value(ValueId a, ValueId b) const {
    if (a == b) return true;
    if (a == kNoValue || b == kNoValue) return false;
    const Value &x = graph_.value(a), &y = graph_.value(b);
    return x.constant && y.constant && same_type(x.type, y.type) &&
           same_contents(*x.constant, *y.constant, kComparedBytes);
  }

  Graph& graph_;
  std::vector<ValueId> same_;  ///< by value: what its readers read
  std::vector<bool> kept_;     ///< by value: an output of the graph
  std::vector<int> table_;     ///< open addressing by hash: nodes; -1: none
  std::vector<uint64_t> hashes_;
  std::string text_;
  std::unique_ptr<LiveBytes> live_;
};

}  // namespace

[[gnu::cold]] void merge_common_subexpressions(Graph& graph) { CommonSubexpressions(graph).run(); }

}  // namespace smelt
