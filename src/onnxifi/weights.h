#pragma once

#include <onnxifi.h>

#include <memory>
#include <string>
#include <string_view>

namespace smelt::onnxifi {

/// A copy of a serialized model with weights from descriptors added as initializers: protobuf messages that follow each
/// other merge. Checks tags, names (an input, or a value that nodes read; given once), the descriptors' members and
/// that the model has no initializers of its own beside them.
onnxStatus with_weights(std::string_view model, const onnxTensorDescriptorV1* weights, uint32_t count,
                        std::shared_ptr<const std::string>* out);

}  // namespace smelt::onnxifi
