#pragma once

#include <filesystem>
#include <string>

#include "smelt/model.h"

namespace smelt::cli {

/// Reads one value: FILE.npy, a folder N.seq (0.npy, 1.npy, ...) or N.map (keys.npy, values.npy), or "none".
Result<Datum> read_value(const std::string& path);

/// True if adapt() turns arrays of one element type into the other.
bool adapts(DType have, DType want);
/// A value read from .npy in the element type that the port has, where .npy has no such type: bfloat16 comes as uint16,
/// 8-bit floats as uint8, sub-byte types unpacked to int8 or uint8. Other values are returned as they are.
Datum adapt(Datum d, const Port& port);

/// Writes FOLDER/STEM.npy, or the folder STEM.seq or STEM.map; nothing for an absent optional.
Status write_value(const std::filesystem::path& folder, const std::string& stem, const Datum& value);

}  // namespace smelt::cli
