#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compare/recording.h"
#include "graph/graph.h"
#include "runtime/environment.h"
#include "smelt/model.h"

namespace smelt {

/// One of the two runs that are compared: a model, and what runs it.
class Side {
 public:
  virtual ~Side() = default;
  const std::string& label() const { return label_; }
  /// The graph whose values run() shows. Inputs with defaults are constants.
  const Graph& graph() const { return module_->graphs[static_cast<size_t>(graph_)]; }
  const Module& module() const { return *module_; }
  std::shared_ptr<const Module> share_module() const { return module_; }
  int graph_index() const { return graph_; }

  /// Runs the graph from its initial state; shows `tap` the inputs and what nodes make, as far as it can be seen.
  virtual Status run(std::span<const Datum> inputs, ValueTap& tap) = 0;
  /// Lets go of plans and packed weights. The next run makes them again.
  virtual void rest() {}
  /// True if later nodes of a run compute with what `tap` writes.
  virtual bool takes_changes() const { return false; }
  /// True if a value is 8-bit integers with quantization parameters of its own.
  bool has_quantized_values() const;
  /// With `shown`, 8-bit integers that the graph holds without parameters have those that its QuantizeLinear and
  /// DequantizeLinear nodes say: what they are compared with has its own.
  void show_parameters(bool shown) { shows_parameters_ = shown; }

 protected:
  Side(std::string label, std::shared_ptr<const Module> module, int graph)
      : label_(std::move(label)), module_(std::move(module)), graph_(graph) {}
  std::string label_;
  std::shared_ptr<const Module> module_;
  int graph_;
  bool shows_parameters_ = false;
};

/// "FILE" or "FILE@WHERE".
struct SideName {
  std::string file, where;
};
/// Splits at the last "@" whose right part is a word, unless a file of the whole name exists.
SideName parse_side(const std::string& text);

struct SideOptions {
  int threads = 1;
  std::string method;
  bool strict_types = false;
  LoadOptions load = {};
};

/// Opens a side. WHERE is
///   (nothing)    the graph as read, node by node, by the CPU's kernels
///   cpu, or the level of a CPU's kernels ("avx2")   what Session runs: nodes fused, constants folded
///   reference    the reference kernels
///   vulkan, or another back-end                     what Session runs there
///   onnxruntime, litert, executorch                 the peer, in a Python process of its own
/// An error for another word, which lists these.
Result<std::unique_ptr<Side>> open_side(const std::string& name, const Model& model, const SideOptions& options);
/// The graph as read on a module that is given, by the CPU's kernels.
Result<std::unique_ptr<Side>> open_module(std::string label, std::shared_ptr<const Module> module, int graph,
                                          const SideOptions& options);

/// The module of a model with inputs that have defaults made constants.
std::shared_ptr<const Module> without_defaults(const Model& model);

}  // namespace smelt
