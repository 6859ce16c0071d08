#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace smelt::cli {

/// Help texts: descriptions wrapped to the terminal's width, defaults behind them.
class Help final : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_option_usage(const CLI::Option* option) const override;
};

/// Checks of option values. They add nothing to the help: an option's description says what it takes.
CLI::Validator between(int64_t low, int64_t high);
CLI::Validator one_of(const std::vector<std::string>& names);
/// The names that one_of() allows for an option; empty without such a check.
std::vector<std::string> choices(const CLI::Option& option);
CLI::Validator at_least_zero();  ///< a number, not negative, not NaN
CLI::Validator above_zero();
CLI::Validator duration();   ///< "1.5", "200ms", "2s", "5m", "1h": becomes seconds
CLI::Validator byte_size();  ///< "1000", "64kB", "10MB", "1GiB": becomes bytes

// Options that several commands have, spelled in one way.
CLI::Option* add_model(CLI::App& command, std::string& model);
void add_threads(CLI::App& command, int& threads);
void add_data(CLI::App& command, std::vector<std::string>& files);
void add_tolerate(CLI::App& command, std::vector<std::string>& rules);
void add_custom_operators(CLI::App& command, std::vector<std::string>& libraries);
void add_seed(CLI::App& command, uint64_t& seed);

/// "run --input x.npy model.onnx": an --input takes all that follows it, so the model may be among them, as the last.
/// Without a model: wrong usage (throws CLI::RequiredError).
void take_model(std::string& model, std::vector<std::string>& inputs);

}  // namespace smelt::cli
