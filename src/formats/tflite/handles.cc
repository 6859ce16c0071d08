// Resource handles: which variable or table each handle tensor names, found before the subgraphs are read.
#include <set>

#include "formats/tflite/reader.h"

namespace smelt::tflite {

std::vector<int> called_subgraphs(const tfl::Operator& op) {
  std::vector<int> out;
  if (const auto* c = op.builtin_options_as_CallOptions()) out = {static_cast<int>(c->subgraph())};
  if (const auto* i = op.builtin_options_as_IfOptions()) out = {i->then_subgraph_index(), i->else_subgraph_index()};
  if (const auto* w = op.builtin_options_as_WhileOptions()) out = {w->cond_subgraph_index(), w->body_subgraph_index()};
  if (const auto* o = op.builtin_options_as_CallOnceOptions()) out = {o->init_subgraph_index()};
  if (const auto* c = op.builtin_options_2_as_StableHLOCompositeOptions()) out = {c->decomposition_subgraph_index()};
  if (const auto* w = op.builtin_options_2_as_StablehloWhileOptions())
    out = {w->cond_subgraph_index(), w->body_subgraph_index()};
  if (const auto* c = op.builtin_options_2_as_StablehloCaseOptions())
    if (c->branch_subgraph_indices())
      out.assign(c->branch_subgraph_indices()->begin(), c->branch_subgraph_indices()->end());
  return out;
}

int Reader::handle(int subgraph, int tensor) const {
  const auto found = handles_.find({subgraph, tensor});
  return found == handles_.end() ? -1 : found->second;
}

Status Reader::resolve_handles() {
  // Handles are few: models without them end here.
  bool any = false;
  for (const tfl::SubGraph* s : *model_.subgraphs())
    if (s->operators())
      for (const tfl::Operator* op : *s->operators())
        any |= op->builtin_options_type() == tfl::BuiltinOptions::VarHandleOptions ||
               op->builtin_options_type() == tfl::BuiltinOptions::HashtableOptions;
  if (!any) return Ok();
  for (int i = 0; i < subgraphs(); ++i) {
    const tfl::SubGraph* s = model_.subgraphs()->Get(static_cast<uint32_t>(i));
    if (!s->operators()) continue;
    for (const tfl::Operator* op : *s->operators()) {
      if (!op->outputs() || op->outputs()->size() != 1) continue;
      if (const auto* v = op->builtin_options_as_VarHandleOptions()) {
        const std::string name = Cat("variable ", v->container() ? v->container()->str() : "", "/",
                                     v->shared_name() ? v->shared_name()->str() : "");
        handles_[{i, op->outputs()->Get(0)}] = resource(name);
      } else if (const auto* t = op->builtin_options_as_HashtableOptions()) {
        const int r = resource(Cat("table ", t->table_id()));
        SMELT_ASSIGN(resources_[static_cast<size_t>(r)].key_dtype, dtype_of(t->key_dtype()));
        SMELT_ASSIGN(resources_[static_cast<size_t>(r)].value_dtype, dtype_of(t->value_dtype()));
        handles_[{i, op->outputs()->Get(0)}] = r;
      }
    }
  }
  // Into callees, to a fixed point: each pass adds at least one handle or is the last.
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < subgraphs(); ++i) {
      const tfl::SubGraph* s = model_.subgraphs()->Get(static_cast<uint32_t>(i));
      if (!s->operators()) continue;
      for (const tfl::Operator* op : *s->operators()) {
        const bool skip_condition = op->builtin_options_type() == tfl::BuiltinOptions::IfOptions;
        const bool loop = op->builtin_options_type() == tfl::BuiltinOptions::WhileOptions;
        const std::vector<int> callees = called_subgraphs(*op);
        if (callees.empty() || !op->inputs()) continue;
        for (uint32_t k = skip_condition ? 1 : 0; k < op->inputs()->size(); ++k) {
          const int r = handle(i, op->inputs()->Get(k));
          if (r < 0) continue;
          const uint32_t position = k - (skip_condition ? 1 : 0);
          if (loop && op->outputs() && position < op->outputs()->size())
            changed |= handles_.emplace(std::pair{i, op->outputs()->Get(position)}, r).second;
          for (const int sub : callees) {
            if (sub < 0 || sub >= subgraphs()) continue;
            const auto* inputs = model_.subgraphs()->Get(static_cast<uint32_t>(sub))->inputs();
            if (!inputs || position >= inputs->size()) continue;
            const auto [at, added] = handles_.emplace(std::pair{sub, inputs->Get(position)}, r);
            if (!added && at->second != r)
              return Unsupported("subgraph ", sub, " is called with different resources as input ", position);
            changed |= added;
          }
        }
      }
    }
  }
  return Ok();
}

}  // namespace smelt::tflite
