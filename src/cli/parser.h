// Declares commands and their options: what the command's sources see of CLI11, whose headers take seconds to compile.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace smelt::cli {

/// A check of an option's value, which may put another text in its place. It adds nothing to the help: an option's
/// description says what it takes.
struct Check {
  std::shared_ptr<const CLI::Validator> validator;
  bool replaces;
};
Check between(int64_t low, int64_t high);
Check one_of(const std::vector<std::string>& names);
Check at_least_zero();  ///< a number, not negative, not NaN
Check above_zero();
Check duration();   ///< "1.5", "200ms", "2s", "5m", "1h": becomes seconds
Check byte_size();  ///< "1000", "64kB", "10MB", "1GiB": becomes bytes
/// Texts that `good` takes; of others it is said that they are `wanted`: "x is no list".
Check text_that(std::function<bool(const std::string&)> good, const char* wanted);

/// The number that all of a text is; false if it is none.
bool parse_number(const std::string& text, double& value);

/// An option or a positional of a command. Each function returns the option.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  CLI::Option* raw() const { return option_; }

  Option type_name(const char* name) const;
  Option description(const char* text) const;
  Option required() const;
  Option default_shown() const;  ///< the help shows the value that the variable has now
  Option delimiter(char between) const;
  Option one_value() const;  ///< takes one value each time it is given, though the variable is a list
  Option take_all() const;   ///< takes all values that follow
  Option check(const Check& check) const;
  Option needs(Option other) const;
  Option excludes(Option other) const;

  bool given() const;
  std::string name() const;

 private:
  CLI::Option* option_;
};

/// A command. Variables of options, and what callbacks refer to, live until all is parsed.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}
  CLI::App* raw() const { return app_; }

  Command add_subcommand(const char* name, const char* description) const;
  Option add_option(const char* names, std::string& variable, std::string_view description) const;
  Option add_option(const char* names, int& variable, std::string_view description) const;
  Option add_option(const char* names, int64_t& variable, std::string_view description) const;
  Option add_option(const char* names, uint64_t& variable, std::string_view description) const;
  Option add_option(const char* names, double& variable, std::string_view description) const;
  Option add_option(const char* names, std::vector<std::string>& variable, std::string_view description) const;
  Option add_option(const char* names, std::vector<float>& variable, std::string_view description) const;
  Option add_flag(const char* names, bool& variable, const char* description) const;
  Option option(const char* name) const;  ///< one that was added
  void footer(const char* text) const;
  /// Runs when all is parsed and checked.
  void callback(std::function<void()> run) const;
  /// Runs when the command's own arguments are parsed.
  void when_parsed(std::function<void()> run) const;

 private:
  CLI::App* app_;
};

// Wrong usage, as the parser itself says it; both throw.
[[noreturn]] void argument_is_required(const char* name);
[[noreturn]] void option_requires(const std::string& name, const char* other);

}  // namespace smelt::cli
