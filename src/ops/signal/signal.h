#pragma once

#include "ops/common/enum_names.h"
#include "ops/common/enums.h"
#include "smelt/tensor.h"

namespace smelt {

struct DftAttrs : Attrs {
  bool inverse = false, onesided = false;
  int64_t axis = -2;           ///< used when the axis input is absent
  bool complex_dtype = false;  ///< complex tensors; else ONNX's last dimension of 1 or 2 reals
  int64_t dims = 1;            ///< 2: TFLite RFFT2D over the last two dimensions
  double scale = 1;            ///< factor on the result; 0: 1, or 1/n for the inverse
  SMELT_FIELDS(inverse, onesided, axis, complex_dtype, dims, scale)
};
struct StftAttrs : Attrs {
  bool onesided = true;
  SMELT_FIELDS(onesided)
};
struct WindowAttrs : Attrs {
  enum class Kind : uint8_t { kHann, kHamming, kBlackman } kind = Kind::kHann;
  friend SMELT_ENUM_NAMES(Kind, "hann", "hamming", "blackman");
  bool periodic = true;
  DType to = DType::kF32;
  SMELT_FIELDS(kind, periodic, to)
};
struct MelAttrs : Attrs {
  DType to = DType::kF32;
  SMELT_FIELDS(to)
};

/// TensorFlow's AudioSpectrogram: a periodic Hann window, padded with zeros to a power of two.
struct SpectrogramAttrs : Attrs {
  int64_t window = 0, stride = 0;  ///< samples, at least 2 and 1
  bool squared = false;            ///< squares of the magnitudes
  SMELT_FIELDS(window, stride, squared)
};
/// TensorFlow's Mfcc: mel-frequency cepstral coefficients of spectrograms of squared magnitudes.
struct MfccAttrs : Attrs {
  double lower = 20, upper = 4000;           ///< band in hertz
  int64_t channels = 40, coefficients = 13;  ///< mel filters; what is kept of their cosine transform
  SMELT_FIELDS(lower, upper, channels, coefficients)
};

struct ImageDecodeAttrs : Attrs {
  std::string pixel_format = "RGB";  ///< RGB, BGR, Grayscale
  SMELT_FIELDS(pixel_format)
};

}  // namespace smelt
