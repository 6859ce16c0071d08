#pragma once

#include <flatbuffers/flexbuffers.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/common/file_attributes.h"
#include "formats/tflite/lowering.h"

namespace smelt::tflite {

/// Custom options as bytes, inside the flatbuffer or behind it; empty: none.
Result<std::span<const uint8_t>> custom_bytes(OperatorContext& c);

/// The operator's options as the file states them: builtin ones, or the entries of custom ones that are a FlexBuffer
/// map.
StatedAttributes stated_attributes(OperatorContext& c);

/// Custom options that are a FlexBuffer map, verified. Views the bytes of the file.
class CustomOptions {
 public:
  static Result<CustomOptions> of(OperatorContext& c);
  double real(const char* key, double otherwise) const;
  int64_t whole(const char* key, int64_t otherwise) const;
  bool flag(const char* key) const;                    ///< false when absent
  std::string text(const char* key) const;             ///< empty when absent
  std::vector<int64_t> wholes(const char* key) const;  ///< empty when absent

 private:
  explicit CustomOptions(flexbuffers::Map map) : map_(map) {}
  flexbuffers::Map map_;
};

// MediaPipe's operators.
Status lower_transpose_conv_bias(OperatorContext& c);
Status lower_max_pool_argmax(OperatorContext& c);
Status lower_max_unpool(OperatorContext& c);
Status lower_resampler(OperatorContext& c);
Status lower_transform_tensor(OperatorContext& c);
Status lower_transform_landmarks(OperatorContext& c);
Status lower_landmarks_matrix(OperatorContext& c);
// TensorFlow's tensor lists, which programs reach through the Flex delegate.
Status lower_list_reserve(OperatorContext& c);
Status lower_list_from_tensor(OperatorContext& c);
Status lower_list_set_item(OperatorContext& c);
Status lower_list_get_item(OperatorContext& c);
Status lower_list_stack(OperatorContext& c);
Status lower_list_length(OperatorContext& c);
// TensorFlow's audio operators.
Status lower_audio_spectrogram(OperatorContext& c);
Status lower_mfcc(OperatorContext& c);

}  // namespace smelt::tflite
