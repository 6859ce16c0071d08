// The types of a float16 model for a delegate that computes float16: its nodes keep the file's types, what runs beside
// it is float32.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "convert/convert.h"
#include "ops/core/op.h"
#include "passes/passes.h"
#include "tensor/numeric.h"

namespace smelt::convert {
namespace {

class Narrower {
 public:
  using Takes = bool (*)(const Graph&, const Node&);
  Narrower(Graph& g, const std::vector<ValueId>& wide, Takes takes)
      : g_(g), wide_(wide.begin(), wide.end()), takes_(takes) {}

  void run() {
    std::vector<Node> nodes = std::move(g_.nodes);
    g_.nodes.clear();
    for (Node& n : nodes) {
      for (ValueId& id : n.inputs)
        if (const auto at = same_.find(id); at != same_.end()) id = at->second;
      if (enters(n) || leaves(n) || narrowed(n)) continue;
      for (const ValueId id : n.inputs) need_wide(id);
      g_.nodes.push_back(std::move(n));
    }
    for (ValueId& id : g_.outputs) {
      if (const auto at = same_.find(id); at != same_.end()) id = at->second;
      need_wide(id);
    }
  }

 private:
  bool is_float32(ValueId id) const { return is_unquantized_f32(g_.value(id).type); }
  bool is_cast(const Node& n, DType from, DType to) const {
    return n.op == Op::kCast && g_.value(n.inputs[0]).type.dtype == from && g_.value(n.outputs[0]).type.dtype == to;
  }
  /// A Cast by which a float16 value came to float32 nodes: it stands where one is left.
  bool enters(const Node& n) {
    if (!is_cast(n, DType::kF16, DType::kF32) || !wide_.contains(n.outputs[0])) return false;
    narrow_[n.outputs[0]] = pending_[n.outputs[0]] = n.inputs[0];
    return true;
  }
  /// A Cast of what is float16 already.
  bool leaves(const Node& n) {
    if (!is_cast(n, DType::kF32, DType::kF16)) return false;
    const auto at = narrow_.find(n.inputs[0]);
    if (at == narrow_.end()) return false;
    same_[n.outputs[0]] = at->second;
    return true;
  }
  bool narrowed(const Node& n) {
    // What only moves elements does so in either type, beside the delegate as well; rows of float16 are normalized in
    // float32 by ExecuTorch's own kernel.
    constexpr uint32_t kSpecial = kEffect | kDynamic | kControl | kContainer;
    const uint32_t flags = op_info(n.op).flags;
    const bool moves = (flags & kDataMovement) && !(flags & kSpecial), either = moves || n.op == Op::kLayerNorm;
    bool any = false, all = !n.outputs.empty() && n.op != Op::kCast;
    for (const ValueId id : n.inputs) {
      if (id == kNoValue || g_.value(id).constant || !is_float32(id)) continue;
      any = true;
      all = all && (narrow_.contains(id) || (wide_.contains(id) && !either));
    }
    for (const ValueId id : n.outputs) all = all && id != kNoValue && is_float32(id) && (wide_.contains(id) || moves);
    if (!any || !all) return false;
    Node made = n;
    const size_t values = g_.values.size();
    for (ValueId& id : made.inputs)
      if (id != kNoValue && is_float32(id)) id = narrow_form(id);
    for (ValueId& id : made.outputs) id = add_narrow(id);
    if (!either && !takes_(g_, made)) {
      std::erase_if(narrow_, [&](const auto& pair) { return static_cast<size_t>(pair.second) >= values; });
      g_.values.resize(values);
      return false;
    }
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const ValueId id = made.inputs[i];
      if (id != n.inputs[i] && static_cast<size_t>(id) >= values && !g_.value(id).constant && !cast_.contains(id))
        cast(n.inputs[i], id);
    }
    for (size_t i = 0; i < n.outputs.size(); ++i) narrow_[n.outputs[i]] = pending_[n.outputs[i]] = made.outputs[i];
    g_.nodes.push_back(std::move(made));
    return true;
  }
  ValueId add_narrow(ValueId of) {
    Value v;
    v.name = g_.value(of).name;
    v.type = g_.value(of).type;
    v.type.dtype = DType::kF16;
    return g_.add_value(std::move(v));
  }
  ValueId narrow_form(ValueId id) {
    if (const auto at = narrow_.find(id); at != narrow_.end()) return at->second;
    const ValueId made = add_narrow(id);
    if (!g_.value(id).constant) return narrow_[id] = made;  // a Cast makes it
    const Tensor& real = *g_.value(id).constant;
    auto rounded = std::make_shared<Tensor>(DType::kF16, real.shape());
    for (int64_t i = 0; i < real.elements(); ++i) set_double(*rounded, i, get_double(real, i));
    g_.value(made).constant = std::move(rounded);
    return narrow_[id] = made;
  }
  /// Makes the float32 form of a value, where only the float16 one was made so far.
  void need_wide(ValueId id) {
    const auto at = pending_.find(id);
    if (at == pending_.end()) return;
    cast(at->second, id);
    pending_.erase(at);
  }
  void cast(ValueId from, ValueId to) {
    append_cast(g_, from, to, "narrow");
    cast_.insert(to);
  }

  Graph& g_;
  const std::unordered_set<ValueId> wide_;
  Takes takes_;
  std::unordered_map<ValueId, ValueId> narrow_;   ///< float16 forms of float32 values
  std::unordered_map<ValueId, ValueId> pending_;  ///< those whose float32 form no node makes yet
  std::unordered_set<ValueId> cast_;              ///< results of Casts made here
  std::unordered_map<ValueId, ValueId> same_;     ///< results of a Cast that is gone
};

}  // namespace

void narrow_float16(Graph& graph, const std::vector<ValueId>& wide, bool (*takes)(const Graph&, const Node&)) {
  if (!wide.empty()) Narrower(graph, wide, takes).run();
}

}  // namespace smelt::convert
