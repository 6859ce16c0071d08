#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "ops/core/node_spec.h"
#include "ops/core/op.h"
#include "smelt/options.h"

/// The interface between the runtime and the back-ends. A back-end is a folder below src/backends with one function
/// `const Backend& NAME_backend()` and a line in backends.inc. Its objects, by lifetime:
///
///   Backend         the process; stateless
///   BackendDevice   an opened device, shared by all that use it
///   BackendModel    a model on a device: packed weights, shared by the model's sessions
///   BackendSession  a session: variables on the device
///   PlanCompiler    the making of one plan: prepares nodes, then compiles partitions
///   Segment         a compiled partition, owned by the plans that run it
namespace smelt {

/// Where the results of a back-end's segments lie.
enum class MemorySpace : uint8_t {
  kHost,    ///< in tensors that the runtime lays out; every partition is one node and what is appended to it
  kDevice,  ///< in memory that the back-end lays out; what the host reads is copied or mapped
};

enum class CompileMode : uint8_t {
  kRun,
  kDry,  ///< kernels are chosen and memory is laid out to show them; no weight is read, no segment can run
};

/// What the graph must be before the back-end sees its nodes. The runtime runs the passes that make it so.
struct GraphRequirements {
  bool dynamic_quantize = false;            ///< quantization parameters found at run time are values of the graph
  bool widen_float16 = false;               ///< float16 and bfloat16 values between nodes are float32
  bool fuse_integer_products = false;       ///< MatMul takes quantized rows with a scale and zero point as operands,
                                            ///< Recurrent quantized weights
  bool tabulate_byte_functions = false;     ///< TableFind of 8-bit queries is faster than arithmetic
  bool share_dynamic_quantization = false;  ///< Conv and MatMul take int8 values with a scale an image or row
  bool widen_weights = false;               ///< Conv, and MatMul of quantized values, take weights of 8 bits;
                                            ///< other MatMul of 4 at least
  bool litert_xnnpack = false;              ///< SessionOptions::arithmetic is kLiteRtXnnpack
  auto operator<=>(const GraphRequirements&) const = default;
};

/// What the partitioner weighs.
struct PartitionCost {
  /// Element operations that a partition between host nodes on both sides must have to pay for its submission.
  double min_island_work = 0;
};

class BackendDevice {
 public:
  virtual ~BackendDevice() = default;
  /// True if nothing runs on the device any more; Backend::open() gives a fresh one.
  virtual bool lost() const { return false; }
  /// True if both stand for one device, so that what a model holds there serves both.
  /// Precondition: `other` is of the same back-end.
  virtual bool same(const BackendDevice& other) const { return this == &other; }
};

enum class ConstantLifetime : uint8_t {
  kModel,  ///< contents live as long as the model: what is packed from them may be shared by its sessions
  kPlan,   ///< some contents live as long as the plan
};

enum class ThreadUse : uint8_t {
  kByWork,  ///< one thread where sharing the work would take longer than the work; see Segment::sharing()
  kAll,
};

enum class PackTime : uint8_t {
  kPlan,       ///< weights are packed as the plan is made
  kSecondRun,  ///< the first run comes next and may be the last one: what it packs of large constants need not stay
};
/// Bytes from which on a constant is large.
inline constexpr size_t kLargeConstant = size_t{1} << 14;

/// A node that a back-end is asked to run.
struct NodeRequest : NodeSpec {
  ConstantLifetime lifetime = ConstantLifetime::kModel;
  ThreadUse threads = ThreadUse::kByWork;
  bool fixed_shapes = false;  ///< the graph states all shapes of its inputs: plans for others are not expected
  PackTime pack_time = PackTime::kPlan;
};

/// What a back-end has found out about a node that it supports, such as the chosen kernel.
class PreparedNode {
 public:
  virtual ~PreparedNode() = default;
  /// True if the only output may be the storage of that input, which has as many bytes.
  virtual bool may_overwrite(size_t /*input*/) const { return false; }
};

/// How a node of a plan relates to one back-end.
enum class Placement : uint8_t {
  kElsewhere,   ///< another back-end or the reference kernel runs it
  kHere,        ///< in a partition of this back-end
  kView,        ///< nothing runs: the output is the storage of the first input, a value of this back-end
  kStateRead,   ///< nothing runs: the output is the storage of a variable that lies with this back-end
  kStateWrite,  ///< the input becomes the content of a variable that lies with this back-end
};

struct PlannedNode {
  const Node* node = nullptr;
  Placement placement = Placement::kElsewhere;
  std::unique_ptr<PreparedNode> prepared;  ///< kHere; compile() may take it
};

struct PlannedValue {
  const ValueType* type = nullptr;  ///< as planned
  const Tensor* content = nullptr;  ///< known while planning; lives as long as the plan
  bool model_lifetime = false;      ///< the content lives as long as the model
  bool here = false;                ///< made by this back-end, views of such values included
  int state = -1;                   ///< the variable of this back-end whose storage it is
};

/// A partition: the nodes [first, last] of a plan's order. Those of kHere run in one segment; the others are views and
/// variables of the same back-end.
struct NodeRange {
  int first = 0, last = 0;
};

/// A plan as one back-end compiles its part of it.
struct PlanOutline {
  const Graph& graph;
  std::span<PlannedNode> nodes;           ///< in the order in which they run
  std::span<const PlannedValue> values;   ///< by ValueId; empty for MemorySpace::kHost
  std::span<const NodeRange> partitions;  ///< ascending
};

/// Threads that a segment shares its work among.
enum class Sharing : uint8_t {
  kNone,
  kNear,  ///< all of them while they are near each other (ThreadPool::near()); otherwise one computes the same chunks
  kAll,
};

/// A compiled partition. One thread at a time runs it.
class Segment {
 public:
  virtual ~Segment() = default;
  /// Runs the partition. `context`: of its first node, which gives operands on the host, variables, threads, scratch
  /// memory and limits. `values`: the plan's values by ValueId; a device reads there what the host made. Allocates
  /// nothing.
  virtual Status run(KernelContext& context, std::span<const Datum> values) = 0;
  /// Bytes that run() asks KernelContext::scratch() for, in one call.
  virtual size_t scratch_bytes() const { return 0; }
  /// True if the next run() has a use for memory that is lent.
  virtual bool borrows() const { return false; }
  /// Memory of any contents, aligned to 64 bytes, which is nothing else's while run() runs; empty: none any longer.
  virtual void lend(std::span<std::byte> /*memory*/) {}
  /// Asks for the memory that run(), which comes soon, reads first.
  virtual void fetch() const {}
  /// Sharing::kNone: run() wants a pool of one thread.
  Sharing sharing() const { return sharing_; }
  /// Microseconds of each node of kHere in the last run. Empty: the caller times the segment as a whole.
  virtual std::span<const double> node_micros() const { return {}; }

 protected:
  explicit Segment(Sharing sharing = Sharing::kAll) : sharing_(sharing) {}

 private:
  Sharing sharing_;
};

/// What crosses between the host and a device in one run.
struct Copies {
  size_t up = 0, down = 0, bytes_up = 0, bytes_down = 0;
  size_t conversions = 0;  ///< of a value on the device, between two storage forms
};

struct DeviceUse {
  size_t arena_bytes = 0, arena_lower_bound = 0;
  size_t constant_bytes = 0;  ///< of constants that are this plan's alone
  Copies copies;
};

struct CompiledPlan {
  std::vector<std::shared_ptr<Segment>> segments;  ///< by partition
  /// How a node of kHere runs, for reports.
  struct NodeReport {
    const char* kernel = "";  ///< static
    std::string storage;      ///< form of its tensors on the device, where that is not a dense buffer
  };
  std::vector<NodeReport> nodes;  ///< by node of the outline
  /// A value that the host reads after the segment that makes it ran.
  struct HostView {
    ValueId id;
    void* data;  ///< valid as long as the segments
  };
  std::vector<HostView> views;
  DeviceUse use;
};

/// Makes one back-end's part of one plan.
class PlanCompiler {
 public:
  virtual ~PlanCompiler() = default;
  /// Nullptr, with the reason in *why unless `why` is null, if the back-end does not support the node.
  virtual std::unique_ptr<PreparedNode> prepare(const NodeRequest& node, std::string* why) = 0;
  bool supports(const NodeRequest& node, std::string* why = nullptr) { return prepare(node, why) != nullptr; }
  /// Makes the segment of `before` compute `node`, too, of which it makes input `operand`; nothing else reads that
  /// value. The segment's context then has the inputs of both nodes, in their order and without that value, and the
  /// outputs of `node`. Returns the name of what computes `node`; null: not supported, and `before` stays as it was.
  virtual const char* append(PreparedNode& /*before*/, const NodeRequest& /*node*/, size_t /*operand*/) {
    return nullptr;
  }
  virtual Result<CompiledPlan> compile(const PlanOutline& plan) = 0;
};

class BackendSession {
 public:
  virtual ~BackendSession() = default;
  virtual MemorySpace memory() const = 0;
  /// `check_memory` says whether a run may hold so many bytes; it outlives the compiler.
  virtual std::unique_ptr<PlanCompiler> begin_plan(const std::function<Status(size_t bytes)>& check_memory) = 0;
  /// Instruction set level of the kernels; "" where there is none to name.
  virtual const char* isa() const { return ""; }
  virtual PartitionCost partition_cost() const { return {}; }

  // Variables, of MemorySpace::kDevice. A variable has a copy on the host too; the one written last counts.

  /// True if a variable of this type may lie with the back-end.
  virtual bool holds(const ValueType&) const { return false; }
  /// Brings the host's copy of variable `index` up to date.
  virtual Status fetch_state(int /*index*/, Tensor& /*host*/) { return Ok(); }
  /// The host has written variable `index`.
  virtual void state_written(int /*index*/) {}
  /// The host has written all variables.
  virtual void all_states_written() {}
  virtual size_t state_bytes() const { return 0; }
  virtual uint64_t state_copies() const { return 0; }  ///< made so far, either way
};

class BackendModel {
 public:
  virtual ~BackendModel() = default;
  /// `threads`: of the pools that segments run with.
  virtual std::unique_ptr<BackendSession> make_session(const SessionOptions& options, int threads) = 0;
  virtual size_t weight_bytes() const = 0;  ///< held for the model
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;
  virtual MemorySpace memory() const = 0;
  virtual GraphRequirements requirements() const { return {}; }
  /// The device that the options ask for. An error where there is none, or it lacks what they ask of it.
  virtual Result<std::shared_ptr<BackendDevice>> open(const SessionOptions& options) const = 0;
  /// `device`: of open().
  virtual std::shared_ptr<BackendModel> make_model(std::shared_ptr<BackendDevice> device, CompileMode mode) const = 0;
};

/// The back-ends of backends.inc, in its order, then registered ones.
std::span<const Backend* const> all_backends();
/// Adds a back-end to the list while the object lives, for tests. Not thread-safe.
class RegisteredBackend {
 public:
  explicit RegisteredBackend(const Backend& backend);
  ~RegisteredBackend();
  RegisteredBackend(const RegisteredBackend&) = delete;
  RegisteredBackend& operator=(const RegisteredBackend&) = delete;
};
/// Null where there is none of that name.
const Backend* find_backend(std::string_view name);

}  // namespace smelt
