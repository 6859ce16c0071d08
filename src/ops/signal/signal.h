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

struct ImageDecodeAttrs : Attrs {
  std::string pixel_format = "RGB";  ///< RGB, BGR, Grayscale
  SMELT_FIELDS(pixel_format)
};

}  // namespace smelt
