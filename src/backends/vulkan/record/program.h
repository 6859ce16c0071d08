#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backends/vulkan/core/kernel.h"
#include "backends/vulkan/device/backend.h"

namespace smelt::vulkan {

class Image;
class StateStore;
class WeightStore;

/// The device's part of a plan: one arena of activations, and command buffers that are recorded once and replayed.
/// A segment is a run of nodes without the host in between: uploads, kernels, downloads.
class Program {
 public:
  /// `profile` records timestamps between nodes; `threads` make pipelines.
  Program(std::shared_ptr<Device> device, std::shared_ptr<WeightStore> weights, std::shared_ptr<StateStore> states,
          bool profile, int threads);
  ~Program();

  /// Where values lie. An upload or download is a copy unless the memory is unified.
  void place(ValueId id, size_t offset, size_t bytes);
  /// A value whose content is known. `model_lifetime`: the tensor's bytes live as long as the model, else as the plan.
  void place_constant(ValueId id, const Tensor* content, bool model_lifetime);
  /// The content of a variable, in its own memory.
  void place_state(ValueId id, int state, size_t bytes);
  /// An image of the arena. Returns the number that names it.
  int place_image(std::shared_ptr<Image> image, size_t offset);
  Status allocate(size_t arena_bytes);

  void begin_segment();
  Status upload(ValueId id);
  /// `inputs` and `outputs`: images of the operands; -1: where place() or place_constant() put them.
  Status add(const Kernel& kernel, const Node& node, size_t scratch_offset, std::span<const int> inputs,
             std::span<const int> outputs);
  /// Brings the elements of value `id`, one after the other, from one image to another; -1: its buffer. To an image
  /// from a constant: once, before the first run.
  Status convert(ValueId id, int from, int to);
  Status download(ValueId id);
  /// The segment reads a variable's own memory.
  void read_state(int state);
  /// A value becomes a variable's content, behind all other work of the segment.
  Status write_state(ValueId id, int state);
  void end_segment();
  /// Uploads weights, makes the command buffers and everything else ready to run.
  Status finish();

  /// After allocate(): host memory where a downloaded value is found after its segment ran.
  Result<void*> host_view(ValueId id, size_t bytes);

  /// Runs a segment and waits: copies the uploaded ones of `values` (by ValueId), and variables of `context` that the
  /// host wrote. The context's tick() is asked while waiting.
  Status run(int segment, std::span<const Datum> values, KernelContext& context);
  /// Microseconds of each node of the segment in the last run; empty unless profiled.
  const std::vector<double>& node_micros(int segment) const;
  size_t segments() const;
  size_t dispatches() const;
  size_t table_bytes() const;  ///< of constants that are this plan's alone

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace smelt::vulkan
