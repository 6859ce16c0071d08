#include "convert/node_runner.h"

namespace smelt::convert {
namespace {

SessionOptions limited() {
  SessionOptions options;
  options.limit_seconds = 60;
  return options;
}

}  // namespace

NodeRunner::NodeRunner(const Module& module)
    : options_(limited()), executor_(std::make_shared<const Module>(module), options_) {
  executor_.control.begin(options_, executor_.size, {});
  evaluate_ = [this](const Graph& graph, const Node& node, std::vector<Datum> in, std::vector<Datum>& out) -> Status {
    SMELT_TRY(executor_.control.tick());
    return execute_node(executor_, graph, node, std::move(in), out, 0);
  };
}

}  // namespace smelt::convert
