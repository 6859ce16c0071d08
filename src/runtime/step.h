#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "backends/backend.h"
#include "runtime/environment.h"
#include "runtime/loop_values.h"

namespace smelt {

/// A node in a partition of a back-end, or appended to the node before it. The first node runs the segment; the others
/// stand in the plan for profiles and reports.
struct SegmentStep {
  const BackendSession* backend = nullptr;
  std::shared_ptr<Segment> segment;  ///< null: a step before this one runs it. Plans of one graph may share it.
  const char* kernel = "";
  std::string storage;  ///< form of its tensors on a device; "": dense buffers, or the host
};
/// The reference kernel on outputs that are laid out beforehand.
struct ReferenceStep {
  bool empty = false;     ///< no output has elements, so the kernel does not run
  bool in_place = false;  ///< the output is the first input's storage, of which the kernel changes what differs
  /// An input of the graph that nothing reads behind the step, whose memory may be the output's; or kNoValue.
  ValueId updates = kNoValue;
};
/// Shapes depend on data, or values are containers: the node allocates as it runs.
struct DynamicStep {
  std::unique_ptr<LoopValues> loop;  ///< of a While, made by its first run
  InferredTypes types;
};
/// The output is the input's storage on the host under the type that is planned for it, or the outputs are parts of it.
struct AliasStep {
  bool laid_out = false;  ///< the input stays where it is in the arena, and so do the outputs: nothing runs
};
struct StateStep {
  enum class Kind : uint8_t {
    kRead,  ///< the output is the variable's own storage
    kCopy,  ///< the output is a copy, because the variable is written while the value is still used
    kWrite,
  };
  Kind kind = Kind::kRead;
  bool fixed_shape = false;  ///< of a read value: as planned
};
/// Nothing runs: segments of a back-end read and write that storage themselves.
struct DeviceStep {
  enum class Kind : uint8_t {
    kView,   ///< another shape of a value on the device, or of one that no step makes
    kState,  ///< a variable that lies on the device
  };
  Kind kind = Kind::kView;
};

/// What one node became.
struct Step {
  const Node* node = nullptr;
  const Node* part_of = nullptr;  ///< the graph's node that was decomposed into this one and others; null: none was
  /// Of the node; an alias takes its first input alone. With a node appended: what the segment reads and makes for
  /// both.
  std::span<const ValueId> in, out;
  int32_t joined = -1;        ///< the step whose segment computes it, too; -1: none
  std::vector<int32_t> dead;  ///< values on the heap that nobody uses after this step
  std::string host_reason;    ///< in a plan with a device: why the node is not on it
  std::variant<DynamicStep, ReferenceStep, SegmentStep, AliasStep, StateStep, DeviceStep> work;
  std::span<std::byte> scratch;  ///< a place in the arena for the scratch memory of the segment; empty: none
  double micros = 0;             ///< over all profiled runs
  uint64_t calls = 0;

  template <class Kind>
  bool is() const {
    return std::holds_alternative<Kind>(work);
  }
  /// Runs in a segment of a back-end that has memory of its own.
  bool on_device() const {
    const auto* s = std::get_if<SegmentStep>(&work);
    return s && s->backend->memory() == MemorySpace::kDevice;
  }
  /// Of the segment that the step runs on the host; 0 without one.
  size_t scratch_bytes() const {
    const auto* s = std::get_if<SegmentStep>(&work);
    return s && s->segment && !on_device() ? s->segment->scratch_bytes() : 0;
  }
  /// Name of the kernel that runs; "reference" for what no back-end runs.
  const char* kernel_name() const {
    const auto* s = std::get_if<SegmentStep>(&work);
    return s ? s->kernel : "reference";
  }
};

}  // namespace smelt
