#pragma once

// Builds XNNPACK blobs for tests. Included by tests only.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "xnnpack_graph_generated.h"

namespace smelt::executorch::testing {

using fb_xnnpack::XNNDatatype;
using fb_xnnpack::XNodeUnion;
using Dims = std::vector<uint32_t>;

/// Quantization parameters of a value; which table is written follows from what is set.
struct XnnQuant {
  std::vector<float> scales;  ///< one: per tensor, unless `channel_dim` is set
  int32_t zero_point = 0;
  int channel_dim = -1;
  int group_size = 0;
  int nonbatch_dims = -1;  ///< set: dynamic
  uint32_t num_scales = 0;
  bool torn = false;  ///< the file names the kind and leaves the parameters out
};

/// A blob with an XH00 header, put together value by value and node by node.
class XnnBlob {
 public:
  flatbuffers::FlatBufferBuilder fbb;

  uint32_t input(XNNDatatype type, const Dims& dims, const XnnQuant& quant = {}) {
    return value(type, dims, quant, 0, externals_++, 1);
  }
  uint32_t output(XNNDatatype type, const Dims& dims, const XnnQuant& quant = {}) {
    return value(type, dims, quant, 0, externals_++, 2);
  }
  uint32_t internal(XNNDatatype type, const Dims& dims, const XnnQuant& quant = {}) {
    return value(type, dims, quant, 0, 0xffffffffu, 0);
  }
  template <class T>
  uint32_t constant(XNNDatatype type, const Dims& dims, const std::vector<T>& data, const XnnQuant& quant = {}) {
    constants_.resize((constants_.size() + 15) / 16 * 16);
    entries_.emplace_back(constants_.size(), data.size() * sizeof(T));
    constants_.resize(constants_.size() + data.size() * sizeof(T));
    if (!data.empty()) std::memcpy(constants_.data() + entries_.back().first, data.data(), data.size() * sizeof(T));
    return value(type, dims, quant, static_cast<uint32_t>(entries_.size()), 0xffffffffu, 0);
  }

  template <class T>
  void node(XNodeUnion type, flatbuffers::Offset<T> table, std::optional<std::pair<float, float>> range = {}) {
    flatbuffers::Offset<fb_xnnpack::OutputMinMax> clamp;
    if (range) clamp = fb_xnnpack::CreateOutputMinMax(fbb, range->first, range->second);
    nodes_.push_back(fb_xnnpack::CreateXNode(fbb, type, table.Union(), static_cast<uint32_t>(nodes_.size()), clamp));
  }

  /// An entry of the constants that no value reads.
  void region(uint64_t offset, uint64_t size) { entries_.emplace_back(offset, size); }
  std::vector<uint32_t> listed_inputs, listed_outputs;          ///< input_ids and output_ids
  uint32_t extra_dims = 0;                                      ///< added to num_dims of the values that follow
  XNNDatatype dq_datatype = XNNDatatype::xnn_datatype_invalid;  ///< of the values that follow

  std::vector<std::byte> finish() {
    std::vector<flatbuffers::Offset<fb_xnnpack::ConstantDataOffset>> entries{
        fb_xnnpack::CreateConstantDataOffset(fbb, 0, 0)};
    for (const auto& [offset, size] : entries_)
      entries.push_back(fb_xnnpack::CreateConstantDataOffset(fbb, offset, size));
    const auto nodes = fbb.CreateVector(nodes_);
    const auto values = fbb.CreateVector(values_);
    const auto constants = fbb.CreateVector(entries);
    const auto input_ids = fbb.CreateVector(listed_inputs), output_ids = fbb.CreateVector(listed_outputs);
    fb_xnnpack::XNNGraphBuilder graph(fbb);
    graph.add_input_ids(input_ids);
    graph.add_output_ids(output_ids);
    graph.add_xnodes(nodes);
    graph.add_xvalues(values);
    graph.add_num_externs(externals_);
    graph.add_constant_data(constants);
    fbb.Finish(graph.Finish(), "XN01");
    return with_header();
  }

 private:
  uint32_t value(XNNDatatype type, const Dims& dims, const XnnQuant& quant, uint32_t constant, uint32_t external,
                 uint32_t flags) {
    const auto id = static_cast<uint32_t>(values_.size());
    const auto tensor =
        fb_xnnpack::CreateXNNTensorValue(fbb, type, static_cast<uint32_t>(dims.size()) + extra_dims,
                                         fbb.CreateVector(dims), constant, external, flags, id, dq_datatype);
    if (quant.scales.empty() && quant.nonbatch_dims < 0) {
      values_.push_back(fb_xnnpack::CreateXValue(fbb, fb_xnnpack::XValueUnion::XNNTensorValue, tensor.Union()));
      return id;
    }
    auto kind = fb_xnnpack::XNNQuantParams::PerTensorQuant;
    flatbuffers::Offset<void> params;
    if (quant.nonbatch_dims >= 0) {
      kind = fb_xnnpack::XNNQuantParams::PerTokenDynamicQuant;
      params = fb_xnnpack::CreatePerTokenDynamicQuant(fbb, quant.nonbatch_dims).Union();
    } else if (quant.group_size > 0) {
      kind = fb_xnnpack::XNNQuantParams::PerChannelGroupQuant;
      params = fb_xnnpack::CreatePerChannelGroupQuant(fbb, fbb.CreateVector(quant.scales), quant.channel_dim,
                                                      quant.group_size, 0, 0, quant.num_scales)
                   .Union();
    } else if (quant.channel_dim >= 0) {
      kind = fb_xnnpack::XNNQuantParams::PerChannelQuant;
      params =
          fb_xnnpack::CreatePerChannelQuant(fbb, fbb.CreateVector(quant.scales), quant.channel_dim, 0, quant.num_scales)
              .Union();
    } else {
      params = fb_xnnpack::CreatePerTensorQuant(fbb, quant.scales[0], quant.zero_point).Union();
    }
    if (quant.torn) params = 0;
    const auto quantized = fb_xnnpack::CreateXNNQuantizedTensorValue(fbb, tensor, kind, params);
    values_.push_back(
        fb_xnnpack::CreateXValue(fbb, fb_xnnpack::XValueUnion::XNNQuantizedTensorValue, quantized.Union()));
    return id;
  }

  std::vector<std::byte> with_header() const {
    const size_t graph = fbb.GetSize(), constants_at = 32 + (graph + 15) / 16 * 16;
    std::vector<std::byte> blob(constants_at + constants_.size());
    const auto put = [&](size_t at, auto number) { std::memcpy(blob.data() + at, &number, sizeof number); };
    std::memcpy(blob.data() + 4, "XH00", 4);
    put(8, uint16_t{30});
    put(10, uint32_t{32});
    put(14, static_cast<uint32_t>(graph));
    put(18, static_cast<uint32_t>(constants_at));
    put(22, static_cast<uint64_t>(constants_.size()));
    std::memcpy(blob.data() + 32, fbb.GetBufferPointer(), graph);
    if (!constants_.empty()) std::memcpy(blob.data() + constants_at, constants_.data(), constants_.size());
    return blob;
  }

  std::vector<flatbuffers::Offset<fb_xnnpack::XNode>> nodes_;
  std::vector<flatbuffers::Offset<fb_xnnpack::XValue>> values_;
  std::vector<std::pair<size_t, size_t>> entries_;
  std::vector<std::byte> constants_;
  uint32_t externals_ = 0;
};

}  // namespace smelt::executorch::testing
