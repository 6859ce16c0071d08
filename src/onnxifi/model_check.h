#pragma once

#include <onnxifi.h>

#include <string_view>

#include "formats/onnx/proto.h"
#include "smelt/model.h"

namespace smelt::onnxifi {

/// Parses and loads a serialized ModelProto the way both onnxGetBackendCompatibility and onnxInitGraph do, so that they
/// answer alike. `bytes` must outlive the model unless `owner` keeps them. The model is set on SUCCESS.
onnxStatus load_model(std::string_view bytes, std::shared_ptr<const void> owner, std::unique_ptr<Model>* model);

/// Newest versions that load_model takes.
int64_t newest_ir();
int64_t newest_opset(std::string_view domain);

/// Number of an ONNX element type as DType; kInvalid when descriptors may not carry it.
DType element_type(onnxEnum type);
/// The number for a DType.
onnxEnum element_number(DType dtype);

}  // namespace smelt::onnxifi
