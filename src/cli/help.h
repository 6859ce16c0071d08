// What the command's definitions tell its help texts, completion scripts and manual page.
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

/// The names that one_of() allows for an option; empty without such a check.
std::vector<std::string> choices(const CLI::Option& option);

}  // namespace smelt::cli
