#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/list_view.h"
#include "formats/common/writer.h"
#include "formats/executorch/xnnpack/writer/graph_writer.h"
#include "graph/graph.h"

namespace smelt::executorch {

/// A value of an execution plan to write.
struct FileValue {
  enum class Kind : uint8_t {
    kNull,
    kInt,
    kBool,
    kDouble,
    kString,
    kTensor,
    kIntList,
    kTensorList,
    kOptionalTensorList
  };
  Kind kind = Kind::kNull;
  int64_t i = 0;                ///< kInt, kBool
  double d = 0;                 ///< kDouble
  std::string text = {};        ///< kString
  std::vector<int> items = {};  ///< of lists: indices of values; -1: absent
  DType dtype = DType::kInvalid;
  Shape shape = {};      ///< static
  int constant = -1;     ///< index of FileProgram::constants; -1: not constant
  int state = -1;        ///< index of FileProgram::states; -1: no variable
  uint64_t offset = 0;   ///< in planned memory
  bool bounded = false;  ///< `shape` is an upper bound of what a run gives
};

struct FileCall {
  std::string name, overload;
  std::vector<int> args;  ///< indices of values; an operator's outputs are listed twice
  int delegate = -1;      ///< index of FilePlan::delegates; -1: none
  /// Index of the call to go on with if args[0], a bool, is false; -1: no jump.
  int jump = -1;
};

struct FilePlan {
  std::string name;
  std::vector<FileValue> values = {};
  std::vector<FileCall> calls = {};
  std::vector<int> inputs = {}, outputs = {};
  std::vector<std::string> delegates = {};  ///< bytes of XNNPACK graphs
  uint64_t memory = 0;                      ///< bytes of planned memory
};

/// A variable: its place is the same in all plans, in a memory of its own.
struct FileState {
  std::string name;
  Tensor first;  ///< contents before the first run
  uint64_t offset = 0;
};

struct FileProgram {
  std::vector<FilePlan> plans = {};
  std::vector<Tensor> constants = {};  ///< contents are shared with the module where types allow it
  std::vector<FileState> states = {};
  std::vector<NamedTensor> named = {};  ///< constants of delegates
};

/// Lays out a program: the flatbuffer behind an extended header, the segments of constants, of variables, of delegates
/// and of what has a name.
Result<formats::FileBytes> lay_out(const FileProgram& program);

/// Marks as bounded what is larger in `wider`, the same program for a larger bound of the sizes that runs decide: sizes
/// that calls ask for follow from their operands then. False if something else differs.
bool mark_bounds(FileProgram& program, const FileProgram& wider);

/// Removes constants that no call reads and no plan gives.
void drop_unused_constants(FileProgram& program);

/// Writes one method as one plan of calls of ATen's out variants on contiguous tensors. Control flow that only calls
/// other graphs is opened.
class PlanWriter {
 public:
  /// `delegate`: XNNPACK runs what it can, but for values whose type differs in `other`, the module for another bound
  /// of the sizes that runs decide. `other` null: all sizes are known.
  PlanWriter(const Module& module, FileProgram& program, std::vector<formats::Unwritable>& missing, bool delegate,
             const Module* other = nullptr)
      : module_(module), program_(program), missing_(missing), delegate_(delegate), other_(other) {}
  void write(const Method& method);
  /// True if the node can be written. The program is of no use afterwards.
  bool try_node(const Graph& graph, const Node& node);

  const Module& module() const { return module_; }
  const Graph& graph() const { return *graph_; }
  bool has_bounds() const { return other_ != nullptr; }
  FilePlan& plan() { return plan_; }
  /// Contents of a constant.
  const Tensor& contents(int value) const { return program_.constants[static_cast<size_t>(at(value).constant)]; }
  const FileValue& at(int value) const { return plan_.values[static_cast<size_t>(value)]; }

  // Values of the graph.
  int tensor(ValueId id);          ///< dimensions in the graph's order
  int channels_first(ValueId id);  ///< of a value with channels last
  void bind(ValueId id, int value);
  void bind_channels_first(ValueId id, int value);
  /// Writes another graph of the module in place: its inputs are the arguments. Gives its outputs.
  std::vector<int> inlined(int graph, const std::vector<int>& arguments);
  /// Writes one graph for the case that `condition` holds and another that it does not, with a jump around each. Gives
  /// their outputs; nullopt if those differ in shape or type.
  std::optional<std::vector<int>> branch(int condition, int then_graph, int else_graph,
                                         const std::vector<int>& arguments);
  /// One round of a loop: takes the carried values, gives the next condition and the next values.
  using LoopBody = std::function<std::optional<std::vector<int>>(const std::vector<int>&)>;
  /// Writes calls that run again as long as the condition, a bool of one element, holds. Gives the carried values
  /// behind the loop, which have memory of their own; nullopt if the body gives none, or other shapes or types.
  std::optional<std::vector<int>> loop(int condition, const std::vector<int>& carried, const LoopBody& body);

  // Values of the plan.
  int null();
  int integer(int64_t v);
  int boolean(bool v);
  int real(double v);
  int text(const std::string& v);
  int integers(Int64List v);
  int list(IntList tensors, bool optional = false);
  int constant(const Tensor& t);
  int number(DType dtype, double v);  ///< a constant scalar
  int state(int index);
  int add_tensor(DType dtype, const Shape& shape);
  /// A call with one output, a new tensor.
  int call(std::string_view name, std::string_view overload, IntList args, DType dtype, const Shape& shape);
  /// A call that writes these tensors. `as_list`: they are one argument.
  void call_to(std::string_view name, std::string_view overload, IntList args, IntList outputs, bool as_list = false);
  int permute(int x, Int64List perm);
  int reshape(int x, const Shape& shape);

 private:
  struct Forms {
    int graph_order = -1, channels_first = -1;
  };
  int add(FileValue v);
  int copy(int x);
  size_t jump_if_false(int condition);  ///< index of the jump, whose destination is set later
  bool is_bounded(const Node& node) const;
  void write_nodes(const Graph& graph);
  void write_partitions(const Graph& graph);
  void emit(const Node& node);
  void emit_delegate(const std::vector<const Node*>& nodes);
  void plan_memory();

  const Module& module_;
  FileProgram& program_;
  std::vector<formats::Unwritable>& missing_;
  bool delegate_;
  const Module* other_;
  const Graph* graph_ = nullptr;
  FilePlan plan_;
  std::map<ValueId, Forms> forms_;
  std::map<std::pair<int, std::string>, int> scalars_;  ///< plain values by kind and text
  std::vector<std::pair<size_t, size_t>> loops_;        ///< first and last calls of loops, inner ones first
};

}  // namespace smelt::executorch
