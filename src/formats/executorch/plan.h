#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "formats/executorch/file.h"
#include "formats/executorch/values.h"
#include "graph/graph.h"

namespace smelt::executorch {

/// One instruction with its arguments divided into inputs and outputs. Indices are checked.
struct Instruction {
  enum class Kind : uint8_t { kCall, kDelegate, kMove, kView, kJumpFalse, kFree };
  Kind kind = Kind::kFree;
  std::string name, overload;    ///< kCall: "aten::add", "out"
  uint32_t delegate = 0;         ///< kDelegate
  std::vector<int32_t> inputs;   ///< kCall: arguments before the outputs; kDelegate: all arguments
  std::vector<int32_t> outputs;  ///< kCall: its results: tensors or numbers
  std::vector<int32_t> changed;  ///< kCall: values among the inputs that it changes in place
  int32_t from = 0, to = 0;      ///< kMove, kView; kJumpFalse: condition and destination

  std::string label() const;  ///< "aten::add.out", "delegate 0"
};

/// An execution plan, decoded.
struct Plan {
  std::string name;
  std::vector<PlanValue> values;
  std::vector<int32_t> inputs, outputs;
  std::vector<Instruction> code;  ///< of all chains, one after the other
  const fb::et::ExecutionPlan* table = nullptr;
  std::vector<char> written;      ///< per value: some instruction writes it
  std::map<int32_t, int> states;  ///< value -> Module::states
  /// Per value: the first and last instruction that reads it; SIZE_MAX and 0 when none does.
  std::vector<std::pair<size_t, size_t>> readers;
};

/// `budget` is what may still be read, in entries of tables, over all plans: tables may be shared within a file, so
/// that a small one can hold enormous programs.
Result<Plan> read_plan(const ProgramFile& file, const fb::et::ExecutionPlan& plan, size_t& budget);

/// Inserts a view instruction before every use of a value that nothing writes but that shares its address in planned
/// memory with one that is written: programs leave static reshapes out.
void add_views(Plan& plan);

/// Values that a range of instructions uses.
struct Uses {
  std::vector<int32_t> reads;  ///< read before the range itself writes them
  std::vector<int32_t> maybe;  ///< arguments of delegates: read or written
  std::vector<int32_t> writes;
  /// In instructions [begin, end) of the plan, in program order.
  static Uses of(const Plan& plan, size_t begin, size_t end);
};

/// Finds the variables that live across runs: tensors in planned memory with initial contents, or read before any
/// instruction writes them. Methods share variables of one qualified name, or of one address in shared memory.
Status find_states(Module& module, std::vector<Plan>& plans);

}  // namespace smelt::executorch
