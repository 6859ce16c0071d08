// Views that a program leaves out: a reshape of a static tensor is no instruction, the result lies at the same
// address of planned memory as its source.
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "formats/executorch/plan.h"

namespace smelt::executorch {
namespace {

using Kind = PlanValue::Kind;
/// Memory, offset, element type and number of elements.
using Address = std::tuple<uint32_t, uint64_t, DType, int64_t>;

std::optional<Address> address_of(const PlanValue& v) {
  if (v.kind != Kind::kTensor || !v.planned) return std::nullopt;
  return Address{v.memory_id, v.offset, v.dtype, v.shape.elements()};
}

class Views {
 public:
  explicit Views(Plan& plan) : plan_(plan) {
    for (const Instruction& in : plan.code) {
      if (in.kind == Instruction::Kind::kMove) written_.insert(in.to);
      if (in.kind != Instruction::Kind::kCall) continue;
      written_.insert(in.outputs.begin(), in.outputs.end());
      written_.insert(in.changed.begin(), in.changed.end());
    }
    for (size_t i = 0; i < plan.values.size(); ++i) {
      const auto address = address_of(plan.values[i]);
      if (!address) continue;
      const auto at = static_cast<int32_t>(i);
      if (written_.contains(at)) later_.emplace(*address, at);
      first_.emplace(*address, at);
      if (plan.values[i].data) now_[*address] = at;
    }
    for (int32_t at : plan.inputs) settle(at);
  }

  void resolve() {
    std::vector<int32_t> moved;
    for (const Instruction& in : plan_.code) {
      moved.push_back(static_cast<int32_t>(code_.size()));
      const bool delegate = in.kind == Instruction::Kind::kDelegate;
      for (int32_t at : in.inputs) show(at, delegate);
      if (in.kind == Instruction::Kind::kMove || in.kind == Instruction::Kind::kJumpFalse) show(in.from, false);
      code_.push_back(in);
      for (int32_t at : in.changed) settle(at);
      for (int32_t at : in.outputs) settle(at);
      if (in.kind == Instruction::Kind::kMove) settle(in.to);
      if (delegate)
        for (int32_t at : in.inputs)
          if (!shown_.contains(at)) settle(at);
    }
    moved.push_back(static_cast<int32_t>(code_.size()));
    for (int32_t at : plan_.outputs) show(at, true);
    for (Instruction& in : code_)
      if (in.kind == Instruction::Kind::kJumpFalse) in.to = moved[static_cast<size_t>(in.to)];
    plan_.code = std::move(code_);
  }

 private:
  /// Value `at` now occupies its address.
  void settle(int32_t at) {
    if (const auto address = address_of(plan_.values[static_cast<size_t>(at)])) now_[*address] = at;
    known_.insert(at);
  }

  /// Adds a view when `at` is read and nothing ever writes it. `optional`: it may be an output not yet computed, which
  /// only what occupies the address now can tell.
  void show(int32_t at, bool optional) {
    const PlanValue& v = plan_.values[static_cast<size_t>(at)];
    if (v.kind == Kind::kTensorList)
      for (int64_t item : v.items)
        if (item >= 0) show(static_cast<int32_t>(item), optional);
    const auto address = address_of(v);
    // Programs leave out views of static tensors only.
    if (!address || v.dynamic || written_.contains(at) || v.data || (known_.contains(at) && !shown_.contains(at)))
      return;
    int32_t base = at;
    if (const auto current = now_.find(*address); current != now_.end())
      base = current->second;
    else if (optional)
      return;
    else if (const auto later = later_.find(*address); later != later_.end())
      base = later->second;
    else
      base = first_.at(*address);
    if (base == at) return;
    shown_.insert(at);
    Instruction view;
    view.kind = Instruction::Kind::kView;
    view.from = base;
    view.to = at;
    code_.push_back(std::move(view));
  }

  Plan& plan_;
  std::vector<Instruction> code_;
  std::set<int32_t> written_;  ///< by instructions other than delegates
  std::set<int32_t> known_;    ///< has been given a value of its own
  std::set<int32_t> shown_;    ///< is a view
  std::map<Address, int32_t> now_, later_, first_;
};

}  // namespace

void add_views(Plan& plan) { Views(plan).resolve(); }

}  // namespace smelt::executorch
