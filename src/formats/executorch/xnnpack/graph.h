#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/executorch/blob.h"
#include "xnnpack_graph_generated.h"

namespace smelt::executorch {

/// The id that stands for "no value".
inline constexpr uint32_t kXnnInvalidId = 0xffffffffu;

/// One value of an XNNPACK graph, checked.
struct XnnValue {
  uint32_t id = kXnnInvalidId;           ///< what nodes call it
  uint32_t external_id = kXnnInvalidId;  ///< position among the delegate's arguments
  bool input = false, output = false;    ///< external
  bool dynamic_on_entry = false;         ///< a real input that is dynamically quantized per token
  fb_xnnpack::XNNDatatype datatype = fb_xnnpack::XNNDatatype::xnn_datatype_invalid;  ///< as written
  ValueType type;   ///< element type, declared shape, quantization
  Tensor constant;  ///< defined(): its contents
};

/// Ids that a node reads and writes; absent optional ones are left out.
struct XnnPorts {
  std::vector<uint32_t> inputs, outputs;
};
Result<XnnPorts> ports_of(const fb_xnnpack::XNode& node);

/// An XNNPACK graph whose indices, sizes and order are checked. Node tables are read from the flatbuffer.
struct XnnGraph {
  const fb_xnnpack::XNNGraph* table = nullptr;
  std::vector<XnnValue> values;
  std::unordered_map<uint32_t, size_t> by_id;  ///< XnnValue::id -> position in `values`
  std::vector<uint32_t> order;                 ///< nodes in topological order
  std::vector<size_t> inputs, outputs;         ///< externals, by external id
};
Result<XnnGraph> read_xnn_graph(const DelegateBlob& blob);

/// "node 3 XNNConv2d"
std::string xnn_node_label(const XnnGraph& graph, uint32_t node);

}  // namespace smelt::executorch
