#pragma once

#include <onnxifi.h>

#include <optional>
#include <string_view>
#include <vector>

#include "formats/onnx/proto.h"
#include "onnxifi/descriptor.h"
#include "smelt/model.h"

namespace smelt::onnxifi {

/// A model ready to run.
struct Loaded {
  Model model;
  std::vector<Port> statics;  ///< inputs of the file that have static values
  Symbols symbols;            ///< symbolic dimensions that the static values have bound
};

/// Parses and checks a serialized ModelProto, once, the way both onnxGetBackendCompatibility (no `loaded`) and
/// onnxInitGraph do, so that they answer alike. With `loaded`, everything that lives on is copied.
onnxStatus load_model(std::string_view bytes, const onnxTensorDescriptorV1* weights, uint32_t weight_count,
                      std::optional<Loaded>* loaded);

/// What a graph input of the file says: element type, shape, symbolic dimensions.
onnxStatus declared_port(const onnx::ValueInfo& info, Port& port);

}  // namespace smelt::onnxifi
