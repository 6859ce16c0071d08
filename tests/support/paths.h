#pragma once

#include <filesystem>

namespace smelt {

std::filesystem::path source_folder();  ///< the checkout
std::filesystem::path corpus_folder();  ///< unpacked tests/corpus; empty folder when the set-up has not run
std::filesystem::path command_path();   ///< the built smelt command

}  // namespace smelt
