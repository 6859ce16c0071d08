#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "graph/graph.h"

namespace smelt {

struct OpenBackend {
  const Backend* backend = nullptr;
  std::shared_ptr<BackendDevice> device;
};

/// What a session of these options runs nodes on, best first: the back-end that it names, then those that work in the
/// host's memory. Empty for BackendKind::kReference. An error where a device lacks what the options ask of it.
Result<std::vector<OpenBackend>> open_backends(const SessionOptions& options);

/// What inputs with defaults are in a compiled module.
enum class InputDefaults : uint8_t {
  kConstant,     ///< constants, and no inputs any more
  kOverridable,  ///< inputs like all others: a caller gives the defaults, too
};

/// What sessions of one model share: the optimised graph, and the model on each back-end.
class Compiled {
 public:
  explicit Compiled(std::shared_ptr<const Module> module) : module_(std::move(module)) {}
  /// Of a module that nobody else holds: what module() first makes takes its memory, and it makes nothing else.
  explicit Compiled(std::shared_ptr<Module> own) : own_(std::move(own)) {}
  /// The module after the passes, as the back-ends require it; made once.
  Result<std::shared_ptr<const Module>> module(InputDefaults defaults, const GraphRequirements& requirements);
  /// The module before the passes, whose memory module() takes no more; an error if it has.
  Result<std::shared_ptr<const Module>> original();
  /// The model on each of these; made once a device.
  std::vector<std::shared_ptr<BackendModel>> models(const std::vector<OpenBackend>& backends);

 private:
  struct OnDevice {
    OpenBackend on;
    std::shared_ptr<BackendModel> model;
  };
  Result<std::shared_ptr<const Module>> compile(InputDefaults defaults, const GraphRequirements& requirements);
  const std::shared_ptr<BackendModel>& model_on(const OpenBackend& on);

  std::shared_ptr<const Module> module_;  ///< null: `own_` is the module
  std::shared_ptr<Module> own_;           ///< null: `module_` is, or it was taken
  std::mutex mutex_;
  struct Made {
    InputDefaults defaults;
    GraphRequirements requirements;
    std::shared_ptr<const Module> module;
  };
  std::vector<Made> made_;
  std::vector<OnDevice> models_;
};

/// The module with the dynamic quantization that these requirements want: a copy, where they change it.
std::shared_ptr<const Module> legalized(std::shared_ptr<const Module> module, const GraphRequirements& requirements);
/// What the nodes' first choice and the session's arithmetic want the graph to be, as far as the options allow it.
GraphRequirements requirements(const std::vector<OpenBackend>& backends, const SessionOptions& options);

}  // namespace smelt
