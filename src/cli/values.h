#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "smelt/model.h"

namespace smelt::cli {

/// Reads one value: FILE.npy, a folder N.seq (0.npy, 1.npy, ...) or N.map (keys.npy, values.npy), or "none".
Result<Datum> read_value(const std::string& path);

/// A tensor read from .npy in the element type that the port has: the same bits under another name.
Datum adapt(Datum d, const Port& port);

/// Inputs of a method from `FILE` and `NAME=FILE` arguments; random values when there are none. Values are brought into
/// the model's element type where .npy has no such type (bfloat16 as uint16, sub-byte types unpacked).
Result<std::vector<Datum>> gather_inputs(const Model& model, const std::string& method,
                                         const std::vector<std::string>& arguments, uint64_t seed);

/// Writes DIR/INDEX.npy, or the folder INDEX.seq or INDEX.map; nothing for an absent optional.
Status write_value(const std::filesystem::path& folder, size_t index, const Datum& value);

}  // namespace smelt::cli
