#include "formats/tflite/reader.h"

#include <algorithm>

#include "base/checked.h"

namespace smelt::tflite {

Result<std::span<const uint8_t>> Reader::file_bytes(uint64_t offset, uint64_t size, const char* what) const {
  if (!in_range(offset, size, source_.bytes.size()))
    return InvalidModel(what, " at offset ", offset, " of ", size, " bytes lies outside the file of ",
                        source_.bytes.size(), " bytes");
  return std::span<const uint8_t>(reinterpret_cast<const uint8_t*>(source_.bytes.data()) + offset, size);
}

Result<std::span<const uint8_t>> Reader::buffer(uint32_t index) {
  if (index >= buffers_.size()) {
    if (index == 0) return std::span<const uint8_t>();
    return InvalidModel("buffer ", index, " does not exist, the model has ", buffers_.size());
  }
  SMELT_ASSIGN(const BufferTable::Fields b, buffers_[index]);
  if (!b.data.empty() && b.offset > 1)
    return InvalidModel("buffer ", index, " lies inside the flatbuffer and behind it");
  if (b.data.empty() && b.offset > 1) return file_bytes(b.offset, b.size, "buffer data");
  return b.data;
}

int Reader::resource(const std::string& key) {
  for (size_t i = 0; i < resources_.size(); ++i)
    if (resources_[i].key == key) return static_cast<int>(i);
  resources_.push_back({.key = key});
  return static_cast<int>(resources_.size()) - 1;
}

int Reader::add_state(StateVar state) {
  module_.states.push_back(std::move(state));
  return static_cast<int>(module_.states.size()) - 1;
}

Status Reader::check_top() {
  if (model_.version() != 3) return InvalidModel("schema version ", model_.version(), ", 3 expected");
  if (!model_.subgraphs() || model_.subgraphs()->size() == 0) return InvalidModel("the model has no subgraph");
  if (!model_.buffers()) return InvalidModel("the model has no buffers");
  if (model_.subgraphs()->size() > 100'000) return LimitReached(model_.subgraphs()->size(), " subgraphs are too many");
  return Ok();
}

/// Signatures become methods of their names, the one of subgraph 0 first; without one it is "main".
Status Reader::add_methods() {
  const auto* signatures = model_.signature_defs();
  bool main = false;
  if (signatures) {
    for (const tfl::SignatureDef* s : *signatures) {
      if (s->subgraph_index() >= model_.subgraphs()->size())
        return InvalidModel("signature '", s->signature_key() ? s->signature_key()->str() : "", "' names subgraph ",
                            s->subgraph_index(), ", the model has ", model_.subgraphs()->size());
      const int graph = static_cast<int>(s->subgraph_index());
      if (std::any_of(signatures->begin(), signatures->end(), [&](const tfl::SignatureDef* other) {
            return other != s && s->signature_key() && other->signature_key() &&
                   s->signature_key()->string_view() == other->signature_key()->string_view();
          }))
        return InvalidModel("two signatures '", s->signature_key()->str(), "'");
      Method method{s->signature_key() ? s->signature_key()->str() : "", graph};
      Graph& g = module_.graphs[static_cast<size_t>(graph)];
      // Signatures name the tensors of the subgraph, in any order.
      const auto rename = [&](const auto* maps, const std::vector<ValueId>& ports, const auto* tensors) {
        if (!maps || !tensors) return;
        for (const tfl::TensorMap* m : *maps)
          for (uint32_t i = 0; i < tensors->size() && i < ports.size(); ++i)
            if (tensors->Get(i) == static_cast<int32_t>(m->tensor_index()) && m->name() && ports[i] != kNoValue)
              module_.metadata.emplace_back("signature " + method.name,
                                            m->name()->str() + " = " + g.value(ports[i]).name);
      };
      const tfl::SubGraph* sub = model_.subgraphs()->Get(s->subgraph_index());
      const uint32_t count = sub->tensors() ? sub->tensors()->size() : 0;
      for (const auto* maps : {s->inputs(), s->outputs()})
        for (uint32_t i = 0; maps && i < maps->size(); ++i)
          if (maps->Get(i)->tensor_index() >= count)
            return InvalidModel("signature '", method.name, "' names tensor ", maps->Get(i)->tensor_index(),
                                ", the subgraph has ", count);
      rename(s->inputs(), g.inputs, sub->inputs());
      rename(s->outputs(), g.outputs, sub->outputs());
      if (graph == 0 && !main) {
        module_.methods.insert(module_.methods.begin(), std::move(method));
        main = true;
      } else {
        module_.methods.push_back(std::move(method));
      }
    }
  }
  if (!main) module_.methods.insert(module_.methods.begin(), Method{"main", 0});
  return Ok();
}

Status Reader::read_subgraph(int index, std::vector<char>& state, int depth) {
  char& mark = state[static_cast<size_t>(index)];
  if (mark == 2) return Ok();
  if (mark == 1) return InvalidModel("subgraph ", index, " runs itself");
  if (depth > 64) return LimitReached("subgraphs are nested more than 64 deep");
  mark = 1;
  if (const auto* operators = model_.subgraphs()->Get(static_cast<uint32_t>(index))->operators())
    for (const tfl::Operator* op : *operators)
      for (const int sub : called_subgraphs(*op))
        if (sub >= 0 && sub < subgraphs()) SMELT_TRY(read_subgraph(sub, state, depth + 1));
  SubgraphReader subgraph(*this, index);
  SMELT_TRY(subgraph.read());
  state[static_cast<size_t>(index)] = 2;
  return Ok();
}

int Reader::variable_state(int resource, DType dtype) {
  Resource& r = resource_at(resource);
  if (r.state < 0) r.state = add_state({.name = r.key, .type = ValueType::tensor(dtype)});
  return r.state;
}

const Shape* Reader::variable_shape(int resource) {
  VariableShape& found = variable_shapes_[resource_at(resource).key];
  if (found.shape) return &*found.shape;
  found.unshaped = true;
  return nullptr;
}

void Reader::variable_assigned(int resource, const ValueType& type) {
  VariableShape& found = variable_shapes_[resource_at(resource).key];
  if (!type.is_static())
    found.differs = true;
  else if (!found.shape && !found.differs)
    found.shape = type.shape;
  else if (found.shape && !(*found.shape == type.shape))
    found.differs = true;
}

bool Reader::variable_shapes_hold(int round) {
  // Round 0 may find a shape after a read, round 1 that shapes do not hold. Round 2 reads without those. If others
  // followed from them, round 3 reads without any.
  bool hold = true;
  for (auto& [key, found] : variable_shapes_) {
    const bool late = found.unshaped && found.shape && round == 0;
    if (found.shape && (late || found.differs)) hold = false;
    if (!late && found.differs) found.shape.reset();
    found.unshaped = false;
    if (late) found.differs = false;
  }
  if (!hold && round >= 2)
    for (auto& [key, found] : variable_shapes_) found = {.shape = {}, .differs = true};
  return hold;
}

Result<Module> Reader::read() {
  SMELT_TRY(check_top());
  for (int round = 0;; ++round) {
    SMELT_TRY(read_module());
    if (variable_shapes_hold(round)) return std::move(module_);
    module_ = {};
    resources_.clear();
    handles_.clear();
  }
}

Status Reader::read_module() {
  module_.format = "tflite";
  if (model_.description()) module_.producer = model_.description()->str();
  const int count = subgraphs();
  module_.graphs.resize(static_cast<size_t>(count));
  SMELT_TRY(resolve_handles());
  std::vector<char> state(static_cast<size_t>(count), 0);
  for (int i = 0; i < count; ++i) SMELT_TRY(read_subgraph(i, state, 0));
  SMELT_TRY(add_methods());
  return read_metadata(*this);
}

}  // namespace smelt::tflite
