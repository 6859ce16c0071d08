// Custom operators: the well-known ones that smelt has itself, and those that the caller registered.
#include "formats/rules.h"
#include "formats/tflite/custom.h"
#include "ops/control/control.h"
#include "ops/detection/detection.h"
#include "smelt/custom_operator.h"

namespace smelt::tflite {
namespace {

Status lower_detection_postprocess(OperatorContext& c) {
  if (c.inputs() != 3 || c.outputs() != 4)
    return InvalidModel(c.inputs(), " inputs and ", c.outputs(), " outputs, 3 and 4 expected");
  for (int i = 0; i < 3; ++i)
    if (!c.has(i)) return InvalidModel("input ", i, " is absent, but required");
  SMELT_ASSIGN(const auto options, CustomOptions::of(c));
  DetectionAttrs a;
  a.max_detections = options.whole("max_detections", a.max_detections);
  a.max_classes_per_detection = options.whole("max_classes_per_detection", a.max_classes_per_detection);
  a.detections_per_class = options.whole("detections_per_class", a.detections_per_class);
  a.classes = options.whole("num_classes", a.classes);
  a.regular_nms = options.flag("use_regular_nms");
  a.score_threshold = options.real("nms_score_threshold", a.score_threshold);
  a.iou_threshold = options.real("nms_iou_threshold", a.iou_threshold);
  a.y_scale = options.real("y_scale", a.y_scale);
  a.x_scale = options.real("x_scale", a.x_scale);
  a.h_scale = options.real("h_scale", a.h_scale);
  a.w_scale = options.real("w_scale", a.w_scale);
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

constexpr struct {
  const char* name;
  LowerFn lower;
} kOperators[] = {
    {"TFLite_Detection_PostProcess", lower_detection_postprocess},
    {"AudioSpectrogram", lower_audio_spectrogram},
    {"Mfcc", lower_mfcc},
    {"Convolution2DTransposeBias", lower_transpose_conv_bias},
    {"MaxPoolingWithArgmax2D", lower_max_pool_argmax},
    {"MaxUnpooling2D", lower_max_unpool},
    {"Resampler", lower_resampler},
    {"TransformTensor", lower_transform_tensor},
    {"TransformTensorBilinear", lower_transform_tensor},
    {"TransformLandmarks", lower_transform_landmarks},
    {"Landmarks2TransformMatrix", lower_landmarks_matrix},
    {"FlexTensorListReserve", lower_list_reserve},
    {"FlexTensorListFromTensor", lower_list_from_tensor},
    {"FlexTensorListSetItem", lower_list_set_item},
    {"FlexTensorListGetItem", lower_list_get_item},
    {"FlexTensorListStack", lower_list_stack},
    {"FlexTensorListLength", lower_list_length},
};

}  // namespace

Result<std::span<const uint8_t>> custom_bytes(OperatorContext& c) {
  const auto* inside = c.op().custom_options();
  if (inside && inside->size() > 0) return std::span<const uint8_t>(inside->data(), inside->size());
  if (c.op().large_custom_options_offset() > 1)
    return c.reader().file_bytes(c.op().large_custom_options_offset(), c.op().large_custom_options_size(),
                                 "custom options");
  return std::span<const uint8_t>();
}

Result<CustomOptions> CustomOptions::of(OperatorContext& c) {
  SMELT_ASSIGN(const auto bytes, custom_bytes(c));
  if (bytes.size() < 3 || !flexbuffers::VerifyBuffer(bytes.data(), bytes.size()))
    return InvalidModel("the custom options are no FlexBuffer");
  const auto root = flexbuffers::GetRoot(bytes.data(), bytes.size());
  if (!root.IsMap()) return InvalidModel("the custom options are no map");
  return CustomOptions(root.AsMap());
}

double CustomOptions::real(const char* key, double otherwise) const {
  const auto value = map_[key];
  if (value.IsNull()) return otherwise;
  return value.IsFloat() ? value.AsDouble() : static_cast<double>(value.AsInt64());
}

int64_t CustomOptions::whole(const char* key, int64_t otherwise) const {
  const auto value = map_[key];
  return value.IsNull() ? otherwise : value.AsInt64();
}

bool CustomOptions::flag(const char* key) const { return !map_[key].IsNull() && map_[key].AsBool(); }

std::string CustomOptions::text(const char* key) const {
  return map_[key].IsString() ? map_[key].AsString().str() : std::string();
}

std::vector<int64_t> CustomOptions::wholes(const char* key) const {
  std::vector<int64_t> out;
  const auto add = [&](const auto& list) {
    for (size_t i = 0; i < list.size(); ++i) out.push_back(list[i].AsInt64());
  };
  const auto value = map_[key];
  if (value.IsTypedVector())
    add(value.AsTypedVector());
  else if (value.IsFixedTypedVector())
    add(value.AsFixedTypedVector());
  else if (value.IsVector())
    add(value.AsVector());
  return out;
}

Status lower_custom(OperatorContext& c, const std::string& code) {
  const auto* options = c.reader().source().options;
  if (options)
    for (const auto& op : options->custom_operators)
      if (op && op->name() == code) return lower_registered(c, op, code);
  for (const auto& entry : kOperators)
    if (code == entry.name) return entry.lower(c);
  if (tolerates(c.reader().source(), Rule::kUnknownOperator)) {
    CustomAttrs unknown;
    unknown.name = code;
    return c.emit_all(Op::kCustom, std::move(unknown), c.ins());
  }
  return Unsupported("custom operator '", code, "' is not known: register it with LoadOptions::custom_operators");
}

}  // namespace smelt::tflite
