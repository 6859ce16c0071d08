#pragma once

#include <string>

#include "smelt/result.h"
#include "smelt/tensor.h"

namespace smelt {

/// Reads an .npy file (versions 1-3; bool, integers, floats, complex, strings of kinds S and U; C or Fortran
/// order; either byte order). Strings become kString (UTF-8).
Result<Tensor> read_npy(const std::string& path);
/// Writes version 1.0 in C order. bfloat16 is written as uint16 bits, the 8-bit floats as uint8 bits, sub-byte integers
/// unpacked to int8/uint8, strings as kind U. The file appears whole or not at all.
Status write_npy(const std::string& path, const Tensor& tensor);

}  // namespace smelt
