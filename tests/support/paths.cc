#include "tests/support/paths.h"

namespace smelt {

std::filesystem::path source_folder() { return SMELT_SOURCE_DIR; }
std::filesystem::path corpus_folder() { return std::filesystem::path(SMELT_BINARY_DIR) / "corpus"; }
std::filesystem::path command_path() { return std::filesystem::path(SMELT_BINARY_DIR) / "bin/smelt"; }

}  // namespace smelt
