// Custom operators: the well-known ones that smelt has itself, and those that the caller registered.
#include <flatbuffers/flexbuffers.h>

#include "formats/tflite/lowering.h"
#include "ops/control/control.h"
#include "ops/detection/detection.h"
#include "smelt/custom_operator.h"

namespace smelt::tflite {
namespace {

/// Custom options as bytes, inside the flatbuffer or behind it.
Result<std::span<const uint8_t>> custom_bytes(OperatorContext& c) {
  const auto* inside = c.op().custom_options();
  if (inside && inside->size() > 0) return std::span<const uint8_t>(inside->data(), inside->size());
  if (c.op().large_custom_options_offset() > 1)
    return c.reader().file_bytes(c.op().large_custom_options_offset(), c.op().large_custom_options_size(),
                                 "custom options");
  return std::span<const uint8_t>();
}

/// A FlexBuffer map after verification.
Result<flexbuffers::Map> options_map(std::span<const uint8_t> bytes) {
  if (bytes.size() < 3 || !flexbuffers::VerifyBuffer(bytes.data(), bytes.size()))
    return InvalidModel("the custom options are no FlexBuffer");
  const auto root = flexbuffers::GetRoot(bytes.data(), bytes.size());
  if (!root.IsMap()) return InvalidModel("the custom options are no map");
  return root.AsMap();
}

double number(const flexbuffers::Map& map, const char* key, double otherwise) {
  const auto value = map[key];
  if (value.IsNull()) return otherwise;
  return value.IsFloat() ? value.AsDouble() : static_cast<double>(value.AsInt64());
}

Status lower_detection_postprocess(OperatorContext& c) {
  if (c.inputs() != 3 || c.outputs() != 4)
    return InvalidModel(c.inputs(), " inputs and ", c.outputs(), " outputs, 3 and 4 expected");
  for (int i = 0; i < 3; ++i)
    if (!c.has(i)) return InvalidModel("input ", i, " is absent, but required");
  SMELT_ASSIGN(const auto bytes, custom_bytes(c));
  SMELT_ASSIGN(const auto map, options_map(bytes));
  const auto whole = [&](const char* key, int64_t otherwise) {
    return static_cast<int64_t>(number(map, key, static_cast<double>(otherwise)));
  };
  DetectionAttrs a;
  a.max_detections = whole("max_detections", a.max_detections);
  a.max_classes_per_detection = whole("max_classes_per_detection", a.max_classes_per_detection);
  a.detections_per_class = whole("detections_per_class", a.detections_per_class);
  a.classes = whole("num_classes", a.classes);
  a.regular_nms = map["use_regular_nms"].IsNull() ? false : map["use_regular_nms"].AsBool();
  a.score_threshold = number(map, "nms_score_threshold", a.score_threshold);
  a.iou_threshold = number(map, "nms_iou_threshold", a.iou_threshold);
  a.y_scale = number(map, "y_scale", a.y_scale);
  a.x_scale = number(map, "x_scale", a.x_scale);
  a.h_scale = number(map, "h_scale", a.h_scale);
  a.w_scale = number(map, "w_scale", a.w_scale);
  if (a.max_detections < 1 || a.max_detections > 1'000'000 || a.max_classes_per_detection < 1 ||
      a.max_classes_per_detection > 1'000'000 || a.classes < 1 || a.classes > 1'000'000 || a.detections_per_class < 1)
    return InvalidModel("max_detections ", a.max_detections, ", max_classes_per_detection ",
                        a.max_classes_per_detection, ", num_classes ", a.classes);
  return c.emit_all(Op::kDetectionPostprocess, a, c.ins());
}

Status lower_registered(OperatorContext& c, const std::shared_ptr<CustomOperator>& op, const std::string& code) {
  SMELT_ASSIGN(const auto bytes, custom_bytes(c));
  std::vector<CustomOperator::TensorType> in, out;
  const auto add = [](std::vector<CustomOperator::TensorType>& to, const ValueType& t) {
    to.push_back({t.dtype, t.ranked, t.shape, t.quant});
  };
  for (int i = 0; i < c.inputs(); ++i) add(in, c.has(i) ? c.in_type(i) : ValueType{});
  for (int i = 0; i < c.outputs(); ++i) add(out, c.out_type(i));
  auto attrs = std::make_shared<CustomAttrs>();
  attrs->op = op;
  attrs->name = code;
  SMELT_ASSIGN(attrs->prepared, op->prepare(std::as_bytes(bytes), in, out));
  return c.emit_all(Op::kCustom, std::move(attrs), c.ins());
}

}  // namespace

Status lower_custom(OperatorContext& c, const std::string& code) {
  if (const auto* options = c.reader().source().options)
    for (const auto& op : options->custom_operators)
      if (op && op->name() == code) return lower_registered(c, op, code);
  if (code == "TFLite_Detection_PostProcess") return lower_detection_postprocess(c);
  return Unsupported("custom operator '", code, "' is not known: register it with LoadOptions::custom_operators");
}

}  // namespace smelt::tflite
