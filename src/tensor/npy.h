#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "smelt/result.h"
#include "smelt/tensor.h"

namespace smelt {

/// Element type and shape of an .npy file. Strings are kString.
struct NpyType {
  DType dtype = DType::kInvalid;
  Shape shape;
};

/// True if the bytes begin as an .npy file does.
bool is_npy(std::span<const std::byte> bytes);
/// Type of an .npy file, from its header. The elements are not read, but must be there. `name` begins messages.
Result<NpyType> npy_type(std::span<const std::byte> bytes, const std::string& name);
/// A copy of the array in an .npy file (versions 1-3; bool, integers, floats, complex, strings of kinds S and U; C or
/// Fortran order; either byte order). Strings become kString (UTF-8). `name` begins messages.
Result<Tensor> read_npy(std::span<const std::byte> bytes, const std::string& name);
Result<Tensor> read_npy(const std::string& path);

/// A tensor as an .npy file of version 1.0 in C order. bfloat16 is written as uint16 bits, the 8-bit floats as uint8
/// bits, sub-byte integers unpacked to int8/uint8, strings as kind U.
struct NpyFile {
  std::string header;
  std::optional<std::string> converted;  ///< the elements, if they are written in another form than the tensor's
  std::string_view own;                  ///< the tensor's bytes otherwise, which must live as long
  std::string_view elements() const { return converted ? std::string_view(*converted) : own; }
};
/// Precondition: the tensor is defined.
NpyFile npy_file(const Tensor& tensor);
/// Writes npy_file(). The file appears whole or not at all.
Status write_npy(const std::string& path, const Tensor& tensor);

}  // namespace smelt
