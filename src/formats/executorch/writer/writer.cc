#include "formats/common/writer.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "formats/executorch/writer/dynamic_quant.h"
#include "formats/executorch/writer/plan_writer.h"

namespace smelt {

namespace executorch {
namespace {

using formats::WriteOptions;
using formats::WriteResult;

/// First contents of all variables; what is unset before it is assigned has no form.
void add_states(const Module& module, FileProgram& program, std::vector<formats::Unwritable>& missing) {
  uint64_t end = 0;
  for (size_t i = 0; i < module.states.size(); ++i) {
    const StateVar& v = module.states[i];
    FileState s{.name = v.name.empty() ? Cat("state", i) : v.name, .offset = end};
    if (v.initial.is_tensor())
      s.first = v.initial.tensor;
    else if (v.type.is_static())
      s.first = Tensor(v.type.dtype, v.type.shape);
    else
      missing.push_back(
          {"variable", v.type.str(), Cat("variable '", v.name, "' without contents before the first run")});
    end += (s.first.bytes() + 15) / 16 * 16;
    program.states.push_back(std::move(s));
  }
}

/// Writes all methods; what has no form goes to `missing`. `other`: see PlanWriter.
FileProgram program_of(const Module& module, bool delegate, const Module* other,
                       std::vector<formats::Unwritable>& missing) {
  FileProgram program;
  add_states(module, program, missing);
  for (const Method& m : module.methods) {
    if (!m.refusal.empty()) {
      missing.push_back({"method " + m.name, "", m.refusal});
      continue;
    }
    PlanWriter(module, program, missing, delegate, other).write(m);
  }
  return program;
}

/// True if the graphs of both modules have the same values.
bool same_values(const Module& a, const Module& b) {
  return std::ranges::equal(
      a.graphs, b.graphs, {}, [](const Graph& g) { return g.values.size(); },
      [](const Graph& g) { return g.values.size(); });
}

/// `given_wider`: see Writer::write_bounded; null: all sizes are known.
Result<WriteResult> write_program(const Module& given, const Module* given_wider, const WriteOptions& options) {
  const bool none = options.delegate == "none";
  if (!none && !options.delegate.empty() && options.delegate != "xnnpack")
    return InvalidInput("--delegate ", options.delegate, ": xnnpack or none expected");
  Module module = given;
  SMELT_TRY(split_dynamic_quant(module, !none));
  WriteResult result;
  std::optional<Module> wider;
  if (given_wider) {
    wider = *given_wider;
    SMELT_TRY(split_dynamic_quant(*wider, !none));
    if (!same_values(module, *wider)) wider.reset();
  }
  const Module* const other = wider ? &*wider : nullptr;
  FileProgram program = program_of(module, !none, other, result.missing);
  if (!result.missing.empty()) return result;
  if (other) {
    const FileProgram larger = program_of(*other, !none, &module, result.missing);
    if (!result.missing.empty() || !mark_bounds(program, larger)) {
      result.missing = {
          {"method " + module.methods[0].name, "", "sizes that depend on the run go into what is static"}};
      return result;
    }
  }
  drop_unused_constants(program);
  formats::WrittenFile file;
  SMELT_ASSIGN(file.bytes, lay_out(program));
  result.files.push_back(std::move(file));
  return result;
}

Result<WriteResult> write(const Module& module, const WriteOptions& options) {
  return write_program(module, nullptr, options);
}

bool delegate_takes(const Graph& graph, const Node& node) { return XnnGraphWriter(graph).add(node); }

bool can_write(const Module& module, const Graph& graph, const Node& node, const WriteOptions& options) {
  if (options.delegate != "none" && delegate_takes(graph, node)) return true;
  FileProgram program;
  std::vector<formats::Unwritable> missing;
  add_states(module, program, missing);
  missing.clear();
  return PlanWriter(module, program, missing, false).try_node(graph, node);
}

Result<WriteResult> write_bounded(const Module& module, const Module& wider, const WriteOptions& options) {
  return write_program(module, &wider, options);
}

}  // namespace
}  // namespace executorch

namespace formats {
extern const Writer pte_writer;
const Writer pte_writer{.name = "pte",
                        .suffix = ".pte",
                        .can_write = executorch::can_write,
                        .write = executorch::write,
                        .integer_operators = true,
                        .static_shapes = true,
                        .write_bounded = executorch::write_bounded,
                        .int8_delegate = true,
                        .delegate_takes = executorch::delegate_takes,
                        .explicit_padding = true,
                        .channels_first = true};
}  // namespace formats

}  // namespace smelt
