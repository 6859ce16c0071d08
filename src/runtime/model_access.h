#pragma once

#include <memory>
#include <utility>

#include "smelt/model.h"

namespace smelt {

/// What a Model holds, for the code of this repository.
struct ModelAccess {
  /// Makes it a model for sessions of the same options alone: the first one takes the graphs instead of a copy of them,
  /// and what is left describes inputs and outputs. Nothing changes where somebody else holds the model, or an input
  /// has a default.
  static void keep_for_like_sessions(Model& model);
  static Model make(std::shared_ptr<const Module> module) { return Model(std::move(module)); }
  static const std::shared_ptr<const Module>& module(const Model& model) { return model.module_; }
  /// Optimised graphs and packed weights that the sessions of the model share.
  static const std::shared_ptr<Compiled>& compiled(const Model& model) { return model.compiled_; }
};

struct Value;
/// The description of a value that is an input or output of a graph.
Port port_of(const Value& value);

/// The graphs of a model as its reader made them.
inline const Module& module_of(const Model& model) { return *ModelAccess::module(model); }

}  // namespace smelt
