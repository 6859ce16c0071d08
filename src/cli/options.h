#pragma once

#include <string>
#include <vector>

#include "cli/parser.h"

namespace smelt::cli {

// Options that several commands have, spelled in one way.
Option add_model(Command command, std::string& model);
void add_threads(Command command, int& threads);
void add_data(Command command, std::vector<std::string>& files);
void add_tolerate(Command command, std::vector<std::string>& rules);
void add_custom_operators(Command command, std::vector<std::string>& libraries);
void add_seed(Command command, uint64_t& seed);

/// "run --input x.npy model.onnx": an --input takes all that follows it, so the model may be among them, as the last.
/// Without a model: wrong usage (see argument_is_required()).
void take_model(std::string& model, std::vector<std::string>& inputs);

}  // namespace smelt::cli
