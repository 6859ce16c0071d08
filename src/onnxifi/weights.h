#pragma once

#include <onnxifi.h>

#include <memory>
#include <string>
#include <vector>

#include "formats/onnx/proto.h"
#include "onnxifi/descriptor.h"

namespace smelt::onnxifi {

/// Bytes that a graph's constants view: the serialized model and the weights of its descriptors.
struct Storage {
  std::string model;
  struct Free {
    void operator()(void* p) const;
  };
  std::vector<std::unique_ptr<char, Free>> weights;
};

/// Tags, names (present, each once) and the descriptors' own members.
onnxStatus check_weights(const onnxTensorDescriptorV1* weights, uint32_t count);

/// Makes initializers of a parsed model from descriptors, whose bytes `storage` copies. A weight names an input or a
/// value that nodes read; the model may have no initializers of its own beside them. Inputs that become weights leave
/// the list of inputs for `statics`. The descriptors' names must live as long as `model`.
onnxStatus add_weights(onnx::ModelProto& model, const onnxTensorDescriptorV1* weights, uint32_t count, Storage& storage,
                       std::vector<Port>& statics, Symbols& symbols);

}  // namespace smelt::onnxifi
