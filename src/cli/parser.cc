#include "cli/parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <utility>

#include "cli/help.h"
#include "cli/output.h"

namespace smelt::cli {
namespace {

/// Breaks at spaces so that no line is longer than `width`, except for a long word.
std::string wrap(const std::string& text, size_t width) {
  std::string out;
  size_t line = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const size_t word = end - at;
    if (line > 0 && line + 1 + word > width) {
      out += '\n';
      line = 0;
    } else if (line > 0) {
      out += ' ';
      ++line;
    }
    out += text.substr(at, word);
    line += word;
    at = end + 1;
  }
  return out;
}

}  // namespace

std::string Help::make_option_opts(const CLI::Option* option) const {
  if (option->get_type_size() == 0) return "";
  const bool many = option->get_expected_max() == CLI::detail::expected_max_vector_size;
  return " " + option->get_type_name() + (many ? "..." : "");
}

std::string Help::make_option_desc(const CLI::Option* option) const {
  std::string text = option->get_description();
  if (!option->get_default_str().empty()) text += " (default " + option->get_default_str() + ")";
  const size_t terminal = terminal_width();
  const size_t line = std::clamp<size_t>(terminal == 0 ? 120 : terminal, 60, 120);
  return wrap(text, line - get_column_width());
}

std::string Help::make_option_usage(const CLI::Option* option) const {
  const bool many = option->get_expected_max() == CLI::detail::expected_max_vector_size;
  return option->get_name(true) + (many ? "..." : "");
}

namespace {

constexpr std::string_view kChoices = "one of ";  // the validator's name lists them

Check check_of(CLI::Validator validator, bool replaces = false) {
  return {std::make_shared<const CLI::Validator>(std::move(validator.description(""))), replaces};
}

}  // namespace

Check between(int64_t low, int64_t high) { return check_of(CLI::Range(low, high)); }

Check one_of(const std::vector<std::string>& names) {
  return check_of(CLI::IsMember(names).name(std::string(kChoices) + joined(names, " ")));
}

std::vector<std::string> choices(const CLI::Option& option) {
  // An option has its validators by index, and no count of them.
  auto& o = const_cast<CLI::Option&>(option);
  for (int i = 0;; ++i) try {
      const std::string& name = o.get_validator(i)->get_name();
      if (name.starts_with(kChoices)) return CLI::detail::split(name.substr(kChoices.size()), ' ');
    } catch (const CLI::OptionNotFound&) {
      return {};
    }
}

namespace {
Check number(bool (*good)(double), const char* wanted) {
  return check_of(CLI::Validator(
      [good, wanted](std::string& text) {
        double value = 0;
        const bool fine = parse_number(text, value) && good(value);
        return fine ? std::string() : text + " is not a number " + wanted;
      },
      ""));
}
}  // namespace

Check at_least_zero() {
  return number([](double v) { return v >= 0; }, "of at least 0");
}

Check above_zero() {
  return number([](double v) { return v > 0; }, "above 0");
}

namespace {

/// A number with a unit becomes the number of base units; "" is a unit, too.
Check quantity(std::map<std::string, double> units, const char* wanted, bool whole) {
  return check_of(CLI::Validator(
                      [units = std::move(units), wanted, whole](std::string& text) {
                        const size_t digits = text.find_last_of("0123456789.") + 1;
                        size_t start = digits;
                        while (start < text.size() && text[start] == ' ') ++start;
                        const auto unit = units.find(CLI::detail::to_lower(text.substr(start)));
                        double value = 0;
                        if (unit == units.end() || !parse_number(text.substr(0, digits), value) || !(value >= 0) ||
                            value * unit->second > 9e15)
                          return text + " is not " + wanted;
                        text =
                            whole ? formatted("{:.0f}", value * unit->second) : formatted("{}", value * unit->second);
                        return std::string();
                      },
                      ""),
                  true);
}

}  // namespace

Check duration() {
  return quantity({{"", 1}, {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}},
                  "a time of at least 0, as 2, 500ms or 1m", false);
}

Check byte_size() {
  constexpr double k = 1000, ki = 1024;
  return quantity({{"", 1},
                   {"b", 1},
                   {"k", k},
                   {"kb", k},
                   {"kib", ki},
                   {"m", k * k},
                   {"mb", k * k},
                   {"mib", ki * ki},
                   {"g", k * k * k},
                   {"gb", k * k * k},
                   {"gib", ki * ki * ki},
                   {"t", k * k * k * k},
                   {"tb", k * k * k * k},
                   {"tib", ki * ki * ki * ki}},
                  "a size of at least 0, as 1000000, 10MB or 1GiB", true);
}

Check text_that(std::function<bool(const std::string&)> good, const char* wanted) {
  return check_of(CLI::Validator([good = std::move(good), wanted](
                                     std::string& text) { return good(text) ? std::string() : text + " is " + wanted; },
                                 ""));
}

bool parse_number(const std::string& text, double& value) { return CLI::detail::lexical_cast(text, value); }

Option Option::type_name(const char* name) const { return Option(option_->type_name(name)); }
Option Option::description(const char* text) const { return Option(option_->description(text)); }
Option Option::required() const { return Option(option_->required()); }
Option Option::default_shown() const { return Option(option_->capture_default_str()); }
Option Option::delimiter(char between) const { return Option(option_->delimiter(between)); }
Option Option::one_value() const { return Option(option_->allow_extra_args(false)); }
Option Option::take_all() const { return Option(option_->take_all()); }
Option Option::check(const Check& check) const {
  return Option(check.replaces ? option_->transform(*check.validator) : option_->check(*check.validator));
}
Option Option::needs(Option other) const { return Option(option_->needs(other.option_)); }
Option Option::excludes(Option other) const { return Option(option_->excludes(other.option_)); }
bool Option::given() const { return option_->count() > 0; }
std::string Option::name() const { return option_->get_name(); }

Command Command::add_subcommand(const char* name, const char* description) const {
  return Command(app_->add_subcommand(name, description));
}

#define SMELT_ADD_OPTION(Type)                                                                        \
  Option Command::add_option(const char* names, Type& variable, std::string_view description) const { \
    return Option(app_->add_option(names, variable, std::string(description)));                       \
  }
SMELT_ADD_OPTION(std::string)
SMELT_ADD_OPTION(int)
SMELT_ADD_OPTION(int64_t)
SMELT_ADD_OPTION(uint64_t)
SMELT_ADD_OPTION(double)
SMELT_ADD_OPTION(std::vector<std::string>)
SMELT_ADD_OPTION(std::vector<float>)
#undef SMELT_ADD_OPTION

Option Command::add_flag(const char* names, bool& variable, const char* description) const {
  return Option(app_->add_flag(names, variable, description));
}
Option Command::option(const char* name) const {
  // Not CLI::App::get_option(), which ends the program where memory is out.
  for (CLI::Option* option : app_->get_options())
    if (option->check_name(name)) return Option(option);
  throw CLI::OptionNotFound(name);
}
void Command::footer(const char* text) const { app_->footer(text); }
void Command::callback(std::function<void()> run) const { app_->callback(std::move(run)); }
void Command::when_parsed(std::function<void()> run) const { app_->parse_complete_callback(std::move(run)); }

void argument_is_required(const char* name) { throw CLI::RequiredError(name); }
void option_requires(const std::string& name, const char* other) { throw CLI::RequiresError(name, other); }

}  // namespace smelt::cli
