#include "formats/executorch/xnnpack/datatypes.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace smelt::executorch {
namespace {

using fb_xnnpack::XNNDatatype;
using fb_xnnpack::XNodeUnion;

/// A set of data types, a bit each.
using Types = uint32_t;

constexpr Types one(XNNDatatype t) { return Types{1} << static_cast<int>(t); }
constexpr Types kF32 = one(XNNDatatype::xnn_datatype_fp32), kF16 = one(XNNDatatype::xnn_datatype_fp16);
constexpr Types kBF16 = one(XNNDatatype::xnn_datatype_bf16), kI32 = one(XNNDatatype::xnn_datatype_int32);
constexpr Types kQ8 = one(XNNDatatype::xnn_datatype_qint8) | one(XNNDatatype::xnn_datatype_quint8);
constexpr Types kQC8 = one(XNNDatatype::xnn_datatype_qcint8), kQD8 = one(XNNDatatype::xnn_datatype_qdint8);
constexpr Types kQP8 = one(XNNDatatype::xnn_datatype_qpint8), kPF32 = one(XNNDatatype::xnn_datatype_pfp32);
constexpr Types kFourBit = one(XNNDatatype::xnn_datatype_qcint4) | one(XNNDatatype::xnn_datatype_qbint4);
constexpr Types kQ32 = one(XNNDatatype::xnn_datatype_qint32) | one(XNNDatatype::xnn_datatype_qcint32);
constexpr Types kFloats = kF32 | kF16 | kBF16;
constexpr Types kReal = kFloats | kQ8;
/// What a convolution takes and gives.
constexpr Types kSpatial = kF32 | kF16 | kQ8;

std::string names(Types set) {
  std::string text;
  for (XNNDatatype t : fb_xnnpack::EnumValuesXNNDatatype()) {
    if ((set & one(t)) == 0) continue;
    set &= ~one(t);
    text += text.empty() ? "" : set == 0 ? " or " : ", ";
    text += fb_xnnpack::EnumNameXNNDatatype(t);
  }
  return text;
}

class Checker {
 public:
  explicit Checker(const XnnGraph& graph) : g_(graph) {}

  Status is(uint32_t id, Types allowed) const {
    if (id == kXnnInvalidId || (one(datatype(id)) & allowed) != 0) return Ok();
    return InvalidModel("value ", id, " is ", fb_xnnpack::EnumNameXNNDatatype(datatype(id)), ", ", names(allowed),
                        " expected");
  }
  Status are(const std::vector<uint32_t>& ids, Types allowed) const {
    for (uint32_t id : ids) SMELT_TRY(is(id, allowed));
    return Ok();
  }
  /// Integers stay among themselves.
  Status unmixed(const XnnPorts& ports) const {
    const bool integers = datatype(ports.outputs.at(0)) == XNNDatatype::xnn_datatype_int32;
    return are(ports.inputs, integers ? kI32 : kReal);
  }

 private:
  XNNDatatype datatype(uint32_t id) const { return g_.values[g_.by_id.at(id)].datatype; }
  const XnnGraph& g_;
};

/// Nodes that also work on int32.
bool takes_integers(XNodeUnion type) {
  using enum XNodeUnion;
  static constexpr XNodeUnion kTypes[] = {
      XNNAdd,           XNNSubtract,    XNNMultiply,     XNNDiv,          XNNMinimum,      XNNMaximum,
      XNNAbs,           XNNNegate,      XNNSquare,       XNNClamp,        XNNCopy,         XNNStaticTranspose,
      XNNStaticReshape, XNNStaticSlice, XNNConcatenate2, XNNConcatenate3, XNNConcatenate4, XNNConcatenate5};
  return std::ranges::find(kTypes, type) != std::end(kTypes);
}

}  // namespace

Status check_datatypes(const XnnGraph& graph, const fb_xnnpack::XNode& node) {
  const Checker check(graph);
  const XNodeUnion type = node.xnode_union_type();
  switch (type) {
    case XNodeUnion::XNNConvert: {
      const auto& n = *node.xnode_union_as_XNNConvert();
      SMELT_TRY(check.is(n.input_id(), kReal | kI32));
      return check.is(n.output_id(), kReal | kI32 | kQD8 | kQP8 | kPF32);
    }
    case XNodeUnion::XNNConv2d:
    case XNodeUnion::XNNDepthwiseConv2d:
    case XNodeUnion::XNNConvTranspose2d: {
      const auto& n = *static_cast<const fb_xnnpack::_XNNNodeConv*>(node.xnode_union());
      SMELT_TRY(check.is(n.input1_id(), type == XNodeUnion::XNNDepthwiseConv2d ? kSpatial : kSpatial | kQD8));
      SMELT_TRY(check.is(n.filter_id(), kSpatial | kQC8));
      SMELT_TRY(check.is(n.bias_id(), kF32 | kF16 | kQ32));
      return check.is(n.output_id(), kSpatial);
    }
    case XNodeUnion::XNNFullyConnected: {
      const auto& n = *node.xnode_union_as_XNNFullyConnected();
      SMELT_TRY(check.is(n.input1_id(), kReal | kQD8 | kQP8 | kPF32));
      SMELT_TRY(check.is(n.filter_id(), kReal | kQC8 | kFourBit));
      SMELT_TRY(check.is(n.bias_id(), kFloats | kQ32));
      return check.is(n.output_id(), kReal);
    }
    case XNodeUnion::XNNBatchMatrixMultiply: {
      const auto& n = *node.xnode_union_as_XNNBatchMatrixMultiply();
      SMELT_TRY(check.is(n.input1_id(), kReal | kQD8 | kQP8 | kPF32));
      SMELT_TRY(check.is(n.input2_id(), kReal | kQC8));
      return check.is(n.output_id(), kReal);
    }
    case XNodeUnion::XNNArgMaxPooling2d: {
      const auto& n = *node.xnode_union_as_XNNArgMaxPooling2d();
      SMELT_TRY(check.are({n.input_id(), n.output_value_id()}, kReal));
      return check.is(n.output_index_id(), kI32 | kF32);
    }
    default:
      break;
  }
  SMELT_ASSIGN(const XnnPorts ports, ports_of(node));
  const bool attention = type == XNodeUnion::XNNScaledDotProductAttention;
  SMELT_TRY(check.are(ports.outputs, attention ? kFloats : takes_integers(type) ? kReal | kI32 : kReal));
  return attention ? check.are(ports.inputs, kFloats) : check.unmixed(ports);
}

}  // namespace smelt::executorch
